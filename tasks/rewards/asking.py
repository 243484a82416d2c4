"""Judged criteria of a few outputs, asked with the prompts and request keys that runs use."""

import asyncio
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.rubrics.model.outputs import Output
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.distributions import VerdictRule, verdict_of
from gradebook.rubrics.prompts.prompt import Case, View, audio_and_view, case_digest, request_key
from gradebook.rubrics.prompts.trajectory import trajectory_of
from gradebook.tasks.datasets.media import MediaFiles, audio_of
from gradebook.tasks.judging.opinions.rows import (
    Answers,
    combined_verdicts,
    escalated_pairs,
    find_escalated,
    opinion_rows,
    pair_keys,
    rows_of,
)
from gradebook.tasks.judging.replies.batched_criteria import (
    DecisionQuestions,
    PackedAnswers,
    PackedQuestion,
    asked_digest,
    packs_of,
    typed_requests,
)
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import JudgingSession, Session
from gradebook.tasks.judging.settings.judge import (
    ALONE,
    FIRST,
    ONLY,
    THEN,
    Judge,
    Opinion,
)
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.methods.judge_shard import AnswerTable
from gradebook.tasks.rewards.computing import NO_RUN, Verdicts, verdicts_by_index
from gradebook.tasks.rewards.outputs import ReadOutput, Verdict
from gradebook.tasks.rewards.sessions import JudgeSessions, OpenedSessions

NOT_ASKED = "not_asked"
_PLANNED_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("output_id", "criterion_id", "request_key")),
        pa.field("judge_index", pa.int32()),
        pa.field("replicate", pa.int32()),
        pa.field("is_swapped", pa.bool_()),
        # Columns that a plan file takes from the ledger; empty here, as sessions look up stored answers themselves.
        *(pa.field(name, pa.string()) for name in ("status", "level_id", "evidence", "rationale", "distribution")),
        pa.field("paid_by", pa.string()),
        pa.field("cost_usd", pa.float64()),
    ]
)
Several = PackedQuestion | DecisionQuestions
Askables = list[Question | Several]


@dataclass(slots=True)
class Batch:
    """Outputs with their questions, and the answers that have come so far."""

    outputs: Sequence[ReadOutput]
    planned: pa.Table  # empty for a judge with one vote
    questions: dict[int, Askables]  # by the judge's index among the members
    answers: dict[Opinion, list[Answer]]
    done: Future[None] = field(default_factory=Future)

    @property
    def count(self) -> int:
        """Questions in total."""
        return sum(map(len, self.questions.values()))

    @property
    def asked(self) -> Iterator[Question]:
        """Questions that were answered, one for each output, criterion and vote."""
        return (answer.question for answers in self.answers.values() for answer in answers)

    def tables(self) -> Answers:
        """Answers so far, by vote."""
        tables = {}
        for opinion, answers in self.answers.items():
            table = AnswerTable()
            for answer in list(answers):  # a copy: answers may be added meanwhile
                table.append(answer)
            tables[opinion] = table.table()
        return tables


_View = tuple[bool, View]  # (whether a criterion's judge hears the row's sound, its view of the case)


def _cases(output: Output, views: Collection[_View]) -> dict[_View, tuple[Case, str]]:
    """Case of an output and its digest, by `_View`."""
    steps = trajectory_of(output.steps, output.output)
    case = Case(output.prompt, output.output, output.reference, tuple(output.context or ()), trajectory=steps)
    by_sound = {False: case}
    if any(hears for hears, _ in views):
        files = MediaFiles((Path.cwd(),))
        by_sound[True] = files.hear(files.show(replace(case, audio=audio_of(output.metadata))))
    seen = {(hears, view): by_sound[hears].seen(view) for hears, view in views}
    return {view: (seen_case, case_digest(seen_case)) for view, seen_case in seen.items()}


class Asking:
    """A judge asked about single outputs, by one thread of this process.

    lake: its ledger is read and extended, so that no judgment is paid twice; None: replies live as long as this object.
    again: name of a repetition, such as `night:2026-11-22`: questions in the ledger are asked once more under this
    name. job: name under which the lake's folder records the spend, so that the budget holds over restarts; None: the
    budget counts only the spend of this object in this process. Raises `InputError` if another process has the job.
    """

    def __init__(  # two of them have defaults
        self,
        rubric: Rubric,
        judge: Judge,
        budget_usd: float | None,
        lake: Lake | None,
        *,
        name: str = "scorer",
        again: str = "",
        job: str | None = None,
    ) -> None:
        self._rubric, self.judge, self._again = rubric, judge, again
        self._sessions = JudgeSessions(judge, budget_usd, lake, name, job)
        weakref.finalize(self, self._sessions.end)
        self._opinions, self._has_several = judge.votes(), judge.has_several_votes
        self._digests = {opinion: judge.asked_as(opinion).judge_digest for opinion in self._opinions}
        self._styles = {opinion: judge.style_of(opinion) for opinion in self._opinions}
        self._packings = {opinion: judge.asked_as(opinion).packing_rule for opinion in self._opinions}
        self._votes = {criterion.id: judge.votes(criterion.id) for criterion in rubric.judged_criteria}

    @property
    def run_id(self) -> str:
        """Id under which the ledger has the replies."""
        return self._sessions.run_id

    def expected_s(self, count: int) -> float:
        """Seconds until further questions are answered; 0 if none is open, or nothing is known yet."""
        return self._sessions.pace.expected_s(count)

    def close(self) -> None:
        """Close the sessions and settle the replies; a later question opens them again."""
        self._sessions.close()

    @contextmanager
    def opened(self) -> Iterator[tuple[Session, ...]]:
        """Open sessions of the judge's members, for questions of other kinds. Raises `UnfinishedError`."""
        opening = self._sessions.opening()
        sessions = opening.result().sessions
        try:
            yield sessions
        except UnfinishedError:
            self._sessions.abandon(opening)
            raise

    # -------- asking
    def start(self, outputs: Sequence[ReadOutput]) -> Batch:
        """Start to ask about outputs; `done` of the batch ends with the last answer, or raises `UnfinishedError`."""
        batch = self._batch(outputs)
        if not batch.count:
            batch.done.set_result(None)
            return batch
        ended = self._sessions.pace.begin(batch.count)
        batch.done.add_done_callback(lambda done: ended(done.exception() is None))
        opening = self._sessions.opening()

        def begin(opened: Future[OpenedSessions]) -> None:
            if (error := opened.exception()) is not None:
                batch.done.set_exception(error)
                return
            asking = opened.result().thread.submit(self._ask(opened.result(), batch))
            asking.add_done_callback(partial(self._finish, opening, batch))

        opening.add_done_callback(begin)
        return batch

    def _finish(self, opening: Future[OpenedSessions], batch: Batch, asking: Future[None]) -> None:
        error = UnfinishedError("the judging was interrupted") if asking.cancelled() else asking.exception()
        if error is None:
            batch.done.set_result(None)
            return
        self._sessions.abandon(opening)
        batch.done.set_exception(error)

    async def _ask(self, opened: OpenedSessions, batch: Batch) -> None:
        if self.judge.when is None:
            await asyncio.gather(*(self._ask_member(opened, batch, index) for index in batch.questions))
            return
        await self._ask_member(opened, batch, FIRST)
        escalated = escalated_pairs(self.judge.when, batch.planned, batch.tables(), self._rubric.judged_criteria)
        await self._ask_member(opened, batch, THEN, escalated)

    async def _ask_member(
        self, opened: OpenedSessions, batch: Batch, index: int, chosen: set[tuple[str, str]] | None = None
    ) -> None:
        session, style = opened.sessions[index], self._styles[Opinion(index)]
        questions = [
            question
            for question in batch.questions.get(index, ())
            if chosen is None or not chosen.isdisjoint(_output_criteria(question))
        ]

        def keep(reply: Any) -> None:
            for answer in reply.answers if isinstance(reply, PackedAnswers) else (reply,):
                question = answer.question
                batch.answers[Opinion(index, question.replicate, question.style != style)].append(answer)

        if not questions:
            return
        if not isinstance(session, JudgingSession):
            session.ask([question for question in questions if isinstance(question, Question)], keep)
            return
        if self._sessions.lake is not None:
            await opened.leasing[index].lease({key for question in questions for key in _request_keys(question)})
        await session.ask_here(questions, keep)

    # -------- questions
    def _batch(self, outputs: Sequence[ReadOutput]) -> Batch:
        planned: dict[str, list[Any]] = {name: [] for name in _PLANNED_SCHEMA.names[:6]}
        questions: dict[int, Askables] = {}
        for output in {output.output_id: output for output in outputs}.values():
            for opinion, question in self.questions(output):
                for single in _single_questions(question) if self._has_several else ():
                    values = (single.output_id, single.criterion_id, single.request_key, *_opinion_values(opinion))
                    for name, value in zip(planned, values, strict=True):
                        planned[name].append(value)
                questions.setdefault(opinion.judge_index, []).append(question)
        count = len(planned["output_id"])
        nothing = {name: [None] * count for name in _PLANNED_SCHEMA.names[6:]}
        table = pa.table(planned | nothing, _PLANNED_SCHEMA) if count else _PLANNED_SCHEMA.empty_table()
        return Batch(outputs, table, questions, {opinion: [] for opinion in self._opinions})

    def questions(self, row: ReadOutput) -> Iterator[tuple[Opinion, Question | Several]]:
        """Votes wanted on an output, on the rubric's and on its own criteria; batched if the judge batches."""
        own_judged = [criterion for criterion in row.own if criterion.method.type == "judge"]
        cases = _cases(row.output, {*map(audio_and_view, judged_criteria(self._rubric, row))})
        for opinion in self._opinions:
            if not self.judge.drawn_rows(opinion, [row.output_id], [0]):
                continue
            ask = partial(self._question, row, cases, opinion)
            batchable = [
                criterion
                for criterion in self._rubric.judged_criteria
                if opinion in self._votes[criterion.id] and criterion.id not in row.unmet
            ]
            packing = self._packings[opinion]
            packs = [tuple(ask(criterion, pack) for criterion in pack) for pack in packs_of(batchable, packing)]
            own_criteria = [
                (ask(criterion, [criterion]),) for criterion in own_judged if opinion in self.judge.votes(criterion.id)
            ]
            model = self.judge.asked_as(opinion).as_model
            if model is not None and model.is_decision:
                groups = (
                    [*packs, tuple(chain.from_iterable(own_criteria))]
                    if not packing.is_whole
                    else [*packs, *own_criteria]
                )
                for pack in filter(None, groups):
                    yield from ((opinion, request) for request in typed_requests(pack, model))
            else:
                for group in (*packs, *own_criteria):
                    yield from (
                        (opinion, request) for request in (group if packing == ALONE else (PackedQuestion(group),))
                    )

    def _question(
        self,
        row: ReadOutput,
        cases: Mapping[_View, tuple[Case, str]],
        opinion: Opinion,
        criterion: Criterion,
        pack: Sequence[Criterion],
    ) -> Question:
        """Question to a judge. cases: (case, digest) by `_View`."""
        case, digest = cases[audio_and_view(criterion)]
        criteria_digest = asked_digest(criterion, pack, self._packings[opinion])
        output = row.output
        return Question(
            row.output_id,
            criterion,
            case,
            request_key(self._digests[opinion], criteria_digest, f"{digest}{self._again}", opinion.replicate),
            opinion.replicate,
            output.case_id,
            output.model,
            output.checkpoint,
            output.sample_index,
            style=self._styles[opinion],
        )

    # -------- verdicts
    def verdicts(self, batch: Batch, missing: str) -> Verdicts:
        """Verdicts on the judged criteria of a batch. missing: reason of verdicts without an answer."""
        verdicts = self._by_several_votes(batch) if self._has_several else self._by_one_vote(batch)
        return {position: _with_reason(verdict, missing) for position, verdict in verdicts.items()}

    def _by_one_vote(self, batch: Batch) -> Verdicts:
        """Verdicts of a judge with one vote on each criterion, without tables: most calls have few outputs."""
        rule = self.judge.verdict_rule_of(ONLY)
        answers = {
            (answer.question.output_id, answer.question.criterion.id): answer for answer in list(batch.answers[ONLY])
        }
        return {
            (index, criterion.id): _verdict(criterion, answers.get((row.output_id, criterion.id)), rule)
            for index, row in enumerate(batch.outputs)
            for criterion in judged_criteria(self._rubric, row)
        }

    def _by_several_votes(self, batch: Batch) -> Verdicts:
        """Verdicts combined from several votes."""
        answers, verdicts = batch.tables(), Verdicts()
        wanted_by_id: dict[str, list[tuple[int, Criterion]]] = {}
        for index, output in enumerate(batch.outputs):
            for criterion in judged_criteria(self._rubric, output):
                wanted_by_id.setdefault(criterion.id, []).append((index, criterion))
        for wanted_criteria in wanted_by_id.values():
            for criterion, indices in _by_criterion(wanted_criteria):
                ids = pa.chunked_array([pa.array([batch.outputs[index].output_id for index in indices])])
                table = self._verdict_table(criterion, ids, batch.planned, answers)
                by_row = verdicts_by_index(table.set_column(1, "output_id", pa.array(map(str, range(len(indices))))))
                verdicts |= {(indices[row], name): verdict for (row, name), verdict in by_row.items()}
        return verdicts

    def _verdict_table(
        self, criterion: Criterion, ids: pa.ChunkedArray, planned: pa.Table, answers: Answers
    ) -> pa.Table:
        keys = pair_keys(ids, pa.repeat(criterion.id, len(ids)))
        is_replayed = pa.repeat(False, len(ids))
        rows = {
            opinion: opinion_rows(keys, rows_of(planned, opinion), answers.get(opinion)).append_column(
                "is_replayed", is_replayed
            )
            for opinion in self._opinions
        }
        escalated = None
        if self.judge.when is not None:
            escalated = find_escalated(self.judge.when, keys, rows, self._rubric.judged_criteria)
        return combined_verdicts(NO_RUN, self.judge, criterion, ids, rows, escalated)[0]


def _verdict(criterion: Criterion, answer: Answer | None, rule: VerdictRule) -> Verdict:
    """Verdict of one vote: the score of its level, or by a rule that of its distribution."""
    if answer is None:
        return Verdict(None, None, NOT_ASKED, None)
    level_id = answer.level_id
    score = next((level.score for level in criterion.ranked_levels if level.id == level_id), None)
    if answer.distribution:
        level_id, score = verdict_of(orjson.loads(answer.distribution), criterion, rule)
    return Verdict(score, level_id, answer.reason, answer.evidence, answer.rationale)


def _opinion_values(opinion: Opinion) -> tuple[int, int, bool]:
    return opinion.judge_index, opinion.replicate, opinion.is_swapped


def _single_questions(question: Question | Several) -> Sequence[Question]:
    return (question,) if isinstance(question, Question) else question.questions


def _request_keys(question: Question | Several) -> Iterable[str]:
    return (question.request_key,) if isinstance(question, Question) else question.part_keys


def _output_criteria(question: Question | Several) -> list[tuple[str, str]]:
    return [(single.output_id, single.criterion_id) for single in _single_questions(question)]


def _by_criterion(wanted: Sequence[tuple[int, Criterion]]) -> Iterator[tuple[Criterion, list[int]]]:
    """Pairs (criterion, output indices); rows may have different criteria with the same id."""
    groups: list[tuple[Criterion, list[int]]] = []
    for index, criterion in wanted:
        indices_of_same = next((indices for known, indices in groups if known is criterion or known == criterion), None)
        if indices_of_same is None:
            groups.append((criterion, [index]))
        else:
            indices_of_same.append(index)
    return iter(groups)


def _with_reason(verdict: Verdict, missing: str) -> Verdict:
    return verdict._replace(reason=missing) if verdict.score is None and verdict.reason == NOT_ASKED else verdict


def unjudged(rubric: Rubric, outputs: Sequence[ReadOutput], reason: str) -> Mapping[tuple[int, str], Verdict]:
    """Verdicts on the judged criteria where there is no judge."""
    return {
        (index, criterion.id): Verdict(None, None, reason, None)
        for index, output in enumerate(outputs)
        for criterion in judged_criteria(rubric, output)
    }


def judged_criteria(rubric: Rubric, row: ReadOutput) -> tuple[Criterion, ...]:
    """Criteria of a rubric and of an output that a judge scores."""
    of_rubric = (criterion for criterion in rubric.judged_criteria if criterion.id not in row.unmet)
    return (*of_rubric, *(criterion for criterion in row.own if criterion.method.type == "judge"))
