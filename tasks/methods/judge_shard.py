"""The judges' answers about each shard, asked once for all criteria together.

Open questions are asked output by output: all judged criteria of one output, then the next.
"""

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.prompt import DEFAULT_STYLE, PromptStyle, audio_and_view, view_of
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA, own_criteria
from gradebook.tasks.judging.opinions.rows import ANSWER_SCHEMA, Answers, escalated_pairs, pair_keys, table_keys
from gradebook.tasks.judging.prices import total_usd
from gradebook.tasks.judging.replies.batched_criteria import (
    NO_CEILINGS,
    DecisionQuestions,
    PackedAnswers,
    PackedQuestion,
    packs_of,
    typed_requests,
)
from gradebook.tasks.judging.replies.question import Answer, Question
from gradebook.tasks.judging.replies.recorded_judge import ReplaySession
from gradebook.tasks.judging.session.session import JudgingSession, Session
from gradebook.tasks.judging.settings.judge import (
    ALONE,
    FIRST,
    THEN,
    Judge,
    JudgeSettings,
    Opinion,
    Packing,
    PlainJudge,
)
from gradebook.tasks.planning.cases import PlannedMedia, read_stored_cases
from gradebook.tasks.planning.shard_plan import asked_keys, shard_plan_files
from gradebook.tasks.system.prefect_settings import limited
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import DETAIL_TABLES, RunFolder
from gradebook.tasks.workspace.timings import Timing

BATCH_ROWS = 2_000


class SavedCosts:
    """Earlier costs of a run's replayed judgments; a judgment counts once, even if several verdicts use it."""

    def __init__(self, folder: RunFolder, rubric: Rubric) -> None:
        """folder: of the run. Judgments behind verdicts of an earlier, interrupted command are not counted again."""
        self._lock = threading.Lock()
        # hashes of request keys: a run may replay millions of judgments
        self._counted = set(map(hash, _finished_keys(folder, rubric)))

    def count(self, timing: Timing, replayed_count: int, costs: Mapping[str, float | None]) -> None:
        """Count uses of replayed judgments. costs: in USD by request key; None: unknown."""
        with self._lock:
            new_costs = {key: cost for key, cost in costs.items() if hash(key) not in self._counted}
            self._counted.update(map(hash, new_costs))
            timing.replayed_count += replayed_count
            timing.saved_usd = total_usd([timing.saved_usd, *new_costs.values()])


def has_missing_scores(verdicts: Path) -> bool:
    """Whether a verdict of the file waits for a judge."""
    statuses = pq.read_table(verdicts, columns=["status", "request_key"]).to_pydict()
    return "unscored" in statuses["status"] and any(statuses["request_key"])


def _finished_keys(folder: RunFolder, rubric: Rubric) -> Iterator[str]:
    """Request keys of verdicts that are not scored again."""
    names = [criterion.id for criterion in rubric.asked_criteria]
    for path in (path for name in (*names, CASE_CRITERIA) for path in folder.verdict_files(name)):
        if not has_missing_scores(path):
            details = (folder.path / table / path.parent.name / path.name for table in DETAIL_TABLES)
            for file in (path, *(file for file in details if file.exists())):
                if "request_key" in pq.read_schema(file).names:
                    yield from filter(None, pq.read_table(file, columns=["request_key"]).column(0).to_pylist())


class JudgedShards:
    """Answers of the judges by shard. The first criterion asks the questions of all, and the others wait.

    Thus the questions about an output follow one another, and the endpoint can cache the long prefix of their prompts.
    The answers stay in memory until the shard's verdicts are collected.
    """

    def __init__(
        self,
        folder: RunFolder,
        rubric: Rubric,
        judge: Judge,
        sessions: tuple[Session, ...],
        folders: tuple[Path, ...] | None = None,
    ) -> None:
        """sessions: of the judge's members, in order. folders: as for `plan_run`."""
        self.judge = judge
        self.saved = SavedCosts(folder, rubric)
        self._folder, self._rubric, self._sessions, self._folders = folder, rubric, sessions, folders
        self._lock = threading.Lock()
        self._answers: dict[int, Future[Answers]] = {}
        self._collected_before: dict[int, int | None] = {}  # mtime of an earlier command's collected file
        self._fault: BaseException | None = None  # first fault of a member, which stops all members

    @property
    def criteria(self) -> Sequence[Criterion]:
        """The rubric's criteria that a judge scores."""
        return self._rubric.judged_criteria

    def is_recorded(self, judge_index: int) -> bool:
        """Whether the replies of a member were recorded, at no cost."""
        return isinstance(self._sessions[judge_index], ReplaySession)

    def answers(self, shard: str, shard_index: int) -> Answers:
        """Answers to a shard's questions, in any order. Blocks until all have arrived.

        Raises `BudgetReached` or `EndpointUnavailable`; the judgments until then are in the journal.
        """
        with self._lock:
            pending = self._answers.get(shard_index)
            is_first = pending is None
            if pending is None:
                self._drop_collected()
                self._collected_before[shard_index] = self._collected_at(shard_index)
                pending = self._answers[shard_index] = Future()
        if is_first:
            try:
                pending.set_result(self._ask(shard, shard_index))
            except BaseException as error:
                pending.set_exception(error)
                raise
        return pending.result()

    def _drop_collected(self) -> None:
        """Drop the answers about collected shards, which are no longer needed."""
        for index, before in list(self._collected_before.items()):
            if self._collected_at(index) != before:
                del self._answers[index], self._collected_before[index]

    def _collected_at(self, shard_index: int) -> int | None:
        try:
            return self._folder.collected_file(shard_index).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _ask(self, shard: str, shard_index: int) -> Answers:
        when = self.judge.when
        if len(self._sessions) == 1:
            return self._ask_member(shard, shard_index, 0, None)
        if when is None:
            return self._ask_members(shard, shard_index, range(len(self._sessions)))
        answers = self._ask_members(shard, shard_index, [FIRST])
        try:
            plans = [pq.read_table(file) for file in shard_plan_files(self._folder, self._rubric, shard_index)]
            escalated = (escalated_pairs(when, planned, answers, self.criteria) for planned in plans)
            escalated_questions = {question for questions in escalated for question in questions}
            self._acquire_leases(plans, escalated_questions)
        except BaseException as error:
            self._fault = self._fault or error
            raise
        return answers | self._ask_members(shard, shard_index, [THEN], escalated_questions)

    def _acquire_leases(self, plans: Sequence[pa.Table], chosen: Collection[tuple[str, str]]) -> None:
        """Lease the questions to a cascade's second judge; the first judge's replies decide which these are."""
        session = self._sessions[THEN]
        if not isinstance(session, JudgingSession) or not chosen:
            return
        output_ids, criterion_ids = zip(*chosen, strict=True)
        wanted_keys = pair_keys(pa.chunked_array([pa.array(output_ids)]), pa.array(criterion_ids))
        second_plan = pa.concat_tables(
            planned.filter(pc.equal(planned.column("judge_index"), THEN)) for planned in plans
        )
        is_open = pc.and_(pc.is_null(second_plan.column("status")), pc.is_in(table_keys(second_plan), wanted_keys))
        session.lease_also(asked_keys(second_plan, is_open, self._rubric, session.settings.packing_rule))

    def _ask_members(
        self,
        shard: str,
        shard_index: int,
        indices: Collection[int],
        chosen: Collection[tuple[str, str]] | None = None,
    ) -> dict[Opinion, pa.Table]:
        """Ask several members concurrently; a fault of one stops all."""
        with ThreadPoolExecutor(len(indices), thread_name_prefix="asking") as threads:
            futures = [threads.submit(self._ask_or_stop, shard, shard_index, index, chosen) for index in indices]
        answers: dict[Opinion, pa.Table] = {}
        for future in futures:
            answers |= future.result()
        if self._fault is not None:  # of another shard, which stopped this one
            raise self._fault
        return answers

    def _ask_or_stop(
        self, shard: str, shard_index: int, judge_index: int, chosen: Collection[tuple[str, str]] | None
    ) -> dict[Opinion, pa.Table]:
        try:
            return self._ask_member(shard, shard_index, judge_index, chosen)
        except BaseException as error:
            self._fault = self._fault or error
            raise

    def _ask_member(
        self, shard: str, shard_index: int, judge_index: int, chosen: Collection[tuple[str, str]] | None
    ) -> dict[Opinion, pa.Table]:
        session = self._sessions[judge_index]
        settings, style = session.settings, self.judge.style_of(Opinion(judge_index))
        answers = {opinion: AnswerTable() for opinion in self.judge.votes() if opinion.judge_index == judge_index}
        questions = shard_questions(
            self._folder,
            self._rubric,
            shard,
            shard_index,
            style,
            self._folders,
            judge_index,
            chosen,
            settings,
        )

        def keep(reply: Any) -> None:
            for answer in reply.answers if isinstance(reply, PackedAnswers) else (reply,):
                question = answer.question
                answers[Opinion(judge_index, question.replicate, question.style != style)].append(answer)

        with judge_slot(settings):
            session.ask(self._until_stopped(questions), keep)
        return {opinion: opinion_answers.table() for opinion, opinion_answers in answers.items()}

    def _until_stopped(self, questions: Iterable[Any]) -> Iterator[Any]:
        for question in questions:
            if self._fault is not None:
                return
            yield question


class AnswerTable:
    """Answers in the order of arrival, converted to columns in batches, as objects take many times the space."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []

    def append(self, answer: Answer) -> None:
        """Append an answer without its question."""
        self._rows.append(
            {
                "output_id": answer.question.output_id,
                "criterion_id": answer.question.criterion.id,
                "level_id": answer.level_id,
                "evidence": answer.evidence,
                "rationale": answer.rationale,
                "reason": answer.reason,
                "distribution": answer.distribution,
                "paid_by": answer.paid_by,  # by a concurrent run; this run's own cost is not saved
                "saved_usd": answer.cost_usd if answer.paid_by is not None else 0.0,
            }
        )
        if len(self._rows) >= BATCH_ROWS:
            self._flush()
        reporter().advance("judge", 1)

    def table(self) -> pa.Table:
        """All answers, as `ANSWER_SCHEMA`."""
        self._flush()
        return pa.Table.from_batches(self._batches, ANSWER_SCHEMA)

    def _flush(self) -> None:
        self._batches.append(pa.RecordBatch.from_pylist(self._rows, ANSWER_SCHEMA))
        self._rows = []


def judge_slot(judge: PlainJudge) -> AbstractContextManager[Any]:
    """Slot under the judge's Prefect concurrency limit, if it has one; other processes share the limit."""
    model = judge.as_model
    if model is None or model.concurrency_limit is None:
        return nullcontext()
    return limited(model.concurrency_limit)


_Key = tuple[str, int, bool, bool]  # request key, replicate, is_swapped, is_open
_KEY_COLUMNS = ("output_id", "criterion_id", "request_key", "replicate", "is_swapped")
SLOT_COLUMNS = ("case_id", "model", "checkpoint", "sample_index")


def shard_questions(  # noqa: PLR0913 - the judge, the plan and the shard
    folder: RunFolder,
    rubric: Rubric,
    shard: str,
    shard_index: int,
    style: PromptStyle = DEFAULT_STYLE,
    folders: tuple[Path, ...] | None = None,
    judge_index: int = 0,
    chosen: Collection[tuple[str, str]] | None = None,
    settings: PlainJudge | None = None,
    includes_stored: bool = False,
) -> Iterator[Question | PackedQuestion | DecisionQuestions]:
    """Yield the open questions of a shard, output by output in the shard's order.

    The questions about an output follow one another, as they share the longest part of their prompts. folders: as for
    `plan_run`; a question whose images or sounds cannot be shown raises `UnreadableMedia` when its request is rendered.
    judge_index: index among the judge's members; style: form of that member's prompts. chosen: outputs and criteria to
    ask about; None: all. settings: of the member; None: one criterion per request. Batched criteria are asked
    whole if one of them is open; typed questions share a request. includes_stored: include questions answered in the
    ledger, for replies that arrive after another run's.
    """
    decision = None if settings is None or not settings.is_decision else settings.as_model
    packing = ALONE if settings is None else settings.packing_rule
    keys = _judge_keys(folder, rubric, shard_index, judge_index, chosen, is_whole=packing.is_packed or includes_stored)
    styles = {False: style, True: style.swapped}
    case_criteria = _case_criteria_by_output(folder, shard, shard_index)
    judged = rubric.judged_criteria
    if not keys:
        return
    views = {*map(audio_and_view, chain(judged, *case_criteria.values()))}
    with_audio, with_steps = any(hears for hears, _ in views), any(view.sees != "answer" for _, view in views)
    media, sounds = (PlannedMedia(shard_index, folder, folders, is_heard=is_heard) for is_heard in (False, True))
    slots = zip(*(pq.read_table(shard, columns=[name]).column(0).to_pylist() for name in SLOT_COLUMNS), strict=True)
    for (output_id, case), (case_id, model, checkpoint, sample_index) in zip(
        read_stored_cases(shard, with_audio=with_audio, with_steps=with_steps), slots, strict=True
    ):
        criterion_keys = [
            (criterion, keys.get((output_id, criterion.id), ()))
            for criterion in (*judged, *case_criteria.get(output_id, ()))
        ]
        if not includes_stored and not any(is_open for _, keys_of_one in criterion_keys for *_, is_open in keys_of_one):
            continue
        shown_cases = {False: media.show(output_id, case)}
        if with_audio:
            shown_cases[True] = sounds.show(output_id, case)
        slot = (case_id, model, checkpoint, sample_index)
        questions = [
            (
                Question(
                    output_id,
                    criterion,
                    shown_cases[criterion.hears_audio].seen(view_of(criterion)),
                    key,
                    replicate,
                    *slot,
                    style=styles[is_swapped],
                ),
                is_open,
            )
            for criterion, keys_of_one in sorted(criterion_keys, key=lambda pair: audio_and_view(pair[0]))
            for key, replicate, is_swapped, is_open in keys_of_one
        ]
        if decision is not None:
            yield from _typed(questions, judged, decision)
        elif packing.size == 1:
            yield from (question for question, is_open in questions if is_open or includes_stored)
        else:
            yield from _packed(questions, judged, packing)


def _typed(
    questions: Sequence[tuple[Question, bool]], judged: Sequence[Criterion], settings: JudgeSettings
) -> Iterator[DecisionQuestions]:
    """Typed questions about one output; per-case criteria are asked in a request of their own.

    For a model that reads all questions of a request together, a request has all questions of one pack if one is open.
    """
    if settings.reads_together:
        packs = _packed(questions, judged, settings.packing_rule)
        yield from (DecisionQuestions(pack.questions, settings.ceilings or NO_CEILINGS) for pack in packs)
        return
    of_rubric = {criterion.id for criterion in judged}
    by_request: dict[object, list[Question]] = defaultdict(list)
    for question, is_open in questions:
        if is_open:
            by_request[question.replicate, question.criterion.id in of_rubric].append(question)
    for of_request in by_request.values():
        yield from typed_requests(of_request, settings)


def _packed(
    questions: Sequence[tuple[Question, bool]], judged: Sequence[Criterion], packing: Packing
) -> Iterator[PackedQuestion]:
    """Questions about one output with batched criteria, if one of a batch is open; per-case criteria stay single."""
    of_rubric = {criterion.id for criterion in judged}
    opinions: dict[object, dict[str, tuple[Question, bool]]] = defaultdict(dict)
    for question, is_open in questions:
        opinions[question.replicate, question.style][question.criterion.id] = question, is_open
    for by_criterion in opinions.values():
        criteria = [question.criterion for question, _ in by_criterion.values()]
        batchable = [criterion for criterion in criteria if criterion.id in of_rubric]
        single_packs = [(criterion,) for criterion in criteria if criterion.id not in of_rubric]
        for pack in (*packs_of(batchable, packing), *single_packs):
            members = [by_criterion[criterion.id] for criterion in pack]
            if any(is_open for _, is_open in members):
                yield PackedQuestion(tuple(question for question, _ in members))


def _judge_keys(
    folder: RunFolder,
    rubric: Rubric,
    shard_index: int,
    judge_index: int,
    chosen: Collection[tuple[str, str]] | None,
    *,
    is_whole: bool,
) -> dict[tuple[str, str], tuple[_Key, ...]]:
    """Request keys of a judge, by output and criterion; includes answered keys only if is_whole."""
    keys: dict[tuple[str, str], tuple[_Key, ...]] = {}
    for file in shard_plan_files(folder, rubric, shard_index):
        planned = pq.read_table(file, columns=[*_KEY_COLUMNS, "judge_index", "status"])
        planned = planned.append_column("is_open", pc.is_null(planned.column("status")))
        is_of_judge = pc.equal(planned.column("judge_index"), judge_index)
        rows = planned.filter(is_of_judge if is_whole else pc.and_(is_of_judge, planned.column("is_open")))
        columns = (rows.column(name).to_pylist() for name in (*_KEY_COLUMNS, "is_open"))
        for output_id, criterion_id, key, replicate, is_swapped, is_open in zip(*columns, strict=True):
            cell = (output_id, criterion_id)
            is_chosen = chosen is None or cell in chosen
            if is_chosen or is_whole:
                keys[cell] = (*keys.get(cell, ()), (key, replicate, is_swapped, is_open and is_chosen))
    return keys


def _case_criteria_by_output(folder: RunFolder, shard: str, shard_index: int) -> dict[str, Sequence[Criterion]]:
    """Judged per-case criteria, by output."""
    if not folder.case_criteria_file(shard_index).exists():
        return {}
    output_ids: pa.ChunkedArray = pq.read_table(shard, columns=["output_id"]).column(0)
    criteria: dict[str, Any] = {}
    for own_criterion in own_criteria(folder, shard_index, "judge"):
        for output_id in output_ids.take(own_criterion.row_indices).to_pylist():
            criteria.setdefault(output_id, []).append(own_criterion.criterion)
    return criteria
