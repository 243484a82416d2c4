"""Judged criteria of a few outputs, asked by the sessions, in the prompts and under the keys of a run."""

import asyncio
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.rubrics.model.methods import Sees
from gradebook.rubrics.model.outputs import Output
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.prompt import Case, case_digest, request_key, view_of
from gradebook.rubrics.prompts.token_probabilities import expected_score
from gradebook.rubrics.prompts.trajectory import trajectory_of
from gradebook.tasks.datasets.media import MediaFiles, audio_of
from gradebook.tasks.judging.opinions.rows import (
    Answers,
    combined_verdicts,
    escalated_places,
    first_judge_unsure,
    opinion_rows,
    place_keys,
    rows_of,
)
from gradebook.tasks.judging.replies.batched_criteria import (
    PackedAnswers,
    PackedQuestion,
    asked_digest,
    packing_of,
    packs_of,
)
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.session.session import JudgingSession
from gradebook.tasks.judging.settings.panels import (
    FIRST,
    ONLY,
    THEN,
    CascadeSettings,
    Judge,
    Opinion,
    asked_as,
    drawn_rows,
    has_several,
    style_of,
    wanted_opinions,
)
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.rewards.computing import PLACE, Verdicts, verdicts_by_place
from gradebook.tasks.rewards.rows import ReadOutput
from gradebook.tasks.rewards.scored import Verdict
from gradebook.tasks.rewards.sessions import JudgeSessions, OpenedSessions
from gradebook.tasks.scoring.judge_shard import AnswerTable

NOT_ASKED = "not_asked"
_PLANNED_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("output_id", "criterion_id", "request_key")),
        pa.field("judge_index", pa.int32()),
        pa.field("replicate", pa.int32()),
        pa.field("is_swapped", pa.bool_()),
        # Columns of the ledger in a plan file: sessions look answers up by themselves.
        *(pa.field(name, pa.string()) for name in ("status", "level_id", "evidence", "rationale", "distribution")),
        pa.field("paid_by", pa.string()),
        pa.field("cost_usd", pa.float64()),
    ]
)
Askables = list[Question | PackedQuestion]


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
            for answer in list(answers):  # later ones may come while this is read
                table.append(answer)
            tables[opinion] = table.table()
        return tables


_View = tuple[bool, Sees]  # whether a criterion's judge hears the row's sound, and what it is shown


def _cases(output: Output, views: Collection[_View]) -> dict[_View, tuple[Case, str]]:
    """Case of an output with its digest, by what a criterion hears and sees."""
    steps = trajectory_of(output.steps, output.output)
    case = Case(output.prompt, output.output, output.reference, tuple(output.context or ()), trajectory=steps)
    by_sound = {False: case}
    if any(hears for hears, _ in views):
        files = MediaFiles((Path.cwd(),))
        by_sound[True] = files.hear(files.show(replace(case, audio=audio_of(output.metadata))))
    seen = {(hears, sees): by_sound[hears].seen(sees) for hears, sees in views}
    return {view: (each, case_digest(each)) for view, each in seen.items()}


class Asking:
    """A judge asked about single outputs, by one thread of this process.

    lake: its ledger is read and extended, so that no judgment is paid twice; None: replies live as long as this object.
    again: a further asking of questions that the ledger has, such as `night:2026-11-22`; asked once under this name.
    job: name under which the lake's folder has the spend, so that the budget holds over restarts; None: the spend of
    this object and process alone. Raises `InputError` if another process has the job.
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
        self._opinions, self._has_several = wanted_opinions(judge), has_several(judge)
        self._digests = {one: asked_as(judge, one).judge_digest for one in self._opinions}
        self._styles = {one: style_of(judge, one) for one in self._opinions}
        self._packings = {one: packing_of(asked_as(judge, one)) for one in self._opinions}
        self._asked = {each.id: wanted_opinions(judge, each.id) for each in rubric.judged_criteria}

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
            asked = opened.result().thread.submit(self._ask(opened.result(), batch))
            asked.add_done_callback(partial(self._finish, opening, batch))

        opening.add_done_callback(begin)
        return batch

    def _finish(self, opening: Future[OpenedSessions], batch: Batch, asked: Future[None]) -> None:
        error = UnfinishedError("the judging was interrupted") if asked.cancelled() else asked.exception()
        if error is None:
            batch.done.set_result(None)
            return
        self._sessions.abandon(opening)
        batch.done.set_exception(error)

    async def _ask(self, opened: OpenedSessions, batch: Batch) -> None:
        if not isinstance(self.judge, CascadeSettings):
            await asyncio.gather(*(self._ask_member(opened, batch, index) for index in batch.questions))
            return
        await self._ask_member(opened, batch, FIRST)
        chosen = escalated_places(self.judge, batch.planned, batch.tables())
        await self._ask_member(opened, batch, THEN, chosen)

    async def _ask_member(
        self, opened: OpenedSessions, batch: Batch, index: int, chosen: set[tuple[str, str]] | None = None
    ) -> None:
        session, style = opened.sessions[index], self._styles[Opinion(index)]
        questions = [
            each for each in batch.questions.get(index, ()) if chosen is None or not chosen.isdisjoint(_places(each))
        ]

        def keep(came: Any) -> None:
            for answer in came.answers if isinstance(came, PackedAnswers) else (came,):
                question = answer.question
                batch.answers[Opinion(index, question.replicate, question.style != style)].append(answer)

        if not questions:
            return
        if not isinstance(session, JudgingSession):
            session.ask([each for each in questions if isinstance(each, Question)], keep)
            return
        if self._sessions.lake is not None:
            await opened.leasing[index].lease({key for each in questions for key in _keys(each)})
        await session.ask_here(questions, keep)

    # -------- questions
    def _batch(self, outputs: Sequence[ReadOutput]) -> Batch:
        planned: dict[str, list[Any]] = {name: [] for name in _PLANNED_SCHEMA.names[:6]}
        questions: dict[int, Askables] = {}
        for each in {one.output_id: one for one in outputs}.values():
            for opinion, question in self.questions(each):
                for part in _parts(question) if self._has_several else ():
                    values = (part.output_id, part.criterion_id, part.request_key, *_opinion_values(opinion))
                    for name, value in zip(planned, values, strict=True):
                        planned[name].append(value)
                questions.setdefault(opinion.judge_index, []).append(question)
        count = len(planned["output_id"])
        nothing = {name: [None] * count for name in _PLANNED_SCHEMA.names[6:]}
        table = pa.table(planned | nothing, _PLANNED_SCHEMA) if count else _PLANNED_SCHEMA.empty_table()
        return Batch(outputs, table, questions, {opinion: [] for opinion in self._opinions})

    def questions(self, read: ReadOutput) -> Iterator[tuple[Opinion, Question | PackedQuestion]]:
        """Votes wanted on an output: of the rubric's criteria, batched where the judge batches, and of its own."""
        own = [each for each in read.own if each.method.type == "judge"]
        cases = _cases(read.output, {*map(view_of, (*self._rubric.judged_criteria, *own))})
        for opinion in self._opinions:
            if not drawn_rows(self.judge, opinion, [read.output_id], [0]):
                continue
            ask = partial(self._question, read, cases, opinion)
            batchable = [each for each in self._rubric.judged_criteria if opinion in self._asked[each.id]]
            packing = self._packings[opinion]
            for pack in packs_of(batchable, packing):
                asked = tuple(ask(each, pack) for each in pack)
                yield from ((opinion, each) for each in (asked if packing == 1 else (PackedQuestion(asked),)))
            for each in own:
                if opinion in wanted_opinions(self.judge, each.id):
                    one = ask(each, [each])
                    yield opinion, one if packing == 1 else PackedQuestion((one,))

    def _question(
        self,
        read: ReadOutput,
        cases: Mapping[_View, tuple[Case, str]],
        opinion: Opinion,
        criterion: Criterion,
        pack: Sequence[Criterion],
    ) -> Question:
        """Question to a judge. cases: with their digests, by what the criterion hears and sees."""
        case, digest = cases[view_of(criterion)]
        asked = asked_digest(criterion, pack, is_packed=self._packings[opinion] > 1)
        output = read.output
        return Question(
            read.output_id,
            criterion,
            case,
            request_key(self._digests[opinion], asked, f"{digest}{self._again}", opinion.replicate),
            opinion.replicate,
            output.case_id,
            output.model,
            output.checkpoint,
            output.sample_index,
            style=self._styles[opinion],
        )

    # -------- verdicts
    def verdicts(self, batch: Batch, missing: str) -> Verdicts:
        """Verdicts on the judged criteria of a batch. missing: reason of those without an answer."""
        found = self._combined(batch) if self._has_several else self._by_one_vote(batch)
        return {place: _with_reason(verdict, missing) for place, verdict in found.items()}

    def _by_one_vote(self, batch: Batch) -> Verdicts:
        """Verdicts of a judge with one vote on each criterion, without tables: most calls have few outputs."""
        answers = {(one.question.output_id, one.question.criterion.id): one for one in list(batch.answers[ONLY])}
        return {
            (place, criterion.id): _verdict(criterion, answers.get((read.output_id, criterion.id)))
            for place, read in enumerate(batch.outputs)
            for criterion in judged_criteria(self._rubric, read)
        }

    def _combined(self, batch: Batch) -> Verdicts:
        """Verdicts combined from several votes."""
        answers, verdicts = batch.tables(), Verdicts()
        asked: dict[str, list[tuple[int, Criterion]]] = {}
        for place, each in enumerate(batch.outputs):
            for criterion in judged_criteria(self._rubric, each):
                asked.setdefault(criterion.id, []).append((place, criterion))
        for wanted in asked.values():
            for criterion, places in _by_criterion(wanted):
                ids = pa.chunked_array([pa.array([batch.outputs[place].output_id for place in places])])
                table = self._verdict_table(criterion, ids, batch.planned, answers)
                by_row = verdicts_by_place(table.set_column(1, "output_id", pa.array(map(str, range(len(places))))))
                verdicts |= {(places[row], name): verdict for (row, name), verdict in by_row.items()}
        return verdicts

    def _verdict_table(
        self, criterion: Criterion, ids: pa.ChunkedArray, planned: pa.Table, answers: Answers
    ) -> pa.Table:
        keys = place_keys(ids, pa.repeat(criterion.id, len(ids)))
        nothing = pa.repeat(False, len(ids))
        rows = {
            opinion: opinion_rows(keys, rows_of(planned, opinion), answers.get(opinion)).append_column(
                "is_replayed", nothing
            )
            for opinion in self._opinions
        }
        is_unsure = first_judge_unsure(self.judge, rows) if isinstance(self.judge, CascadeSettings) else None
        return combined_verdicts(PLACE, self.judge, criterion, ids, rows, is_unsure)[0]


def _verdict(criterion: Criterion, answer: Answer | None) -> Verdict:
    """Verdict of one vote: the score of its level, or the expected one under its distribution."""
    if answer is None:
        return Verdict(None, None, NOT_ASKED, None)
    score = next((each.score for each in criterion.ranked_levels if each.id == answer.level_id), None)
    if answer.distribution:
        score = expected_score(orjson.loads(answer.distribution), criterion)
    return Verdict(score, answer.level_id, answer.reason, answer.evidence, answer.rationale)


def _opinion_values(opinion: Opinion) -> tuple[int, int, bool]:
    return opinion.judge_index, opinion.replicate, opinion.is_swapped


def _parts(question: Question | PackedQuestion) -> Sequence[Question]:
    return question.questions if isinstance(question, PackedQuestion) else (question,)


def _keys(question: Question | PackedQuestion) -> Iterable[str]:
    return question.part_keys if isinstance(question, PackedQuestion) else (question.request_key,)


def _places(question: Question | PackedQuestion) -> list[tuple[str, str]]:
    return [(part.output_id, part.criterion_id) for part in _parts(question)]


def _by_criterion(wanted: Sequence[tuple[int, Criterion]]) -> Iterator[tuple[Criterion, list[int]]]:
    """Places of each criterion: rows may bring different ones under one id."""
    found: list[tuple[Criterion, list[int]]] = []
    for place, criterion in wanted:
        same = next((places for one, places in found if one is criterion or one == criterion), None)
        if same is None:
            found.append((criterion, [place]))
        else:
            same.append(place)
    return iter(found)


def _with_reason(verdict: Verdict, missing: str) -> Verdict:
    return verdict._replace(reason=missing) if verdict.score is None and verdict.reason == NOT_ASKED else verdict


def unjudged(rubric: Rubric, outputs: Sequence[ReadOutput], reason: str) -> Mapping[tuple[int, str], Verdict]:
    """Verdicts on the judged criteria where there is no judge."""
    return {
        (place, criterion.id): Verdict(None, None, reason, None)
        for place, each in enumerate(outputs)
        for criterion in judged_criteria(rubric, each)
    }


def judged_criteria(rubric: Rubric, read: ReadOutput) -> tuple[Criterion, ...]:
    """Criteria of a rubric and of an output that a judge scores."""
    return (*rubric.judged_criteria, *(own for own in read.own if own.method.type == "judge"))
