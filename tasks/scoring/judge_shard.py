"""The judges' answers about each shard, asked once for all criteria together."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.methods import ASKED_METHODS
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA
from gradebook.tasks.judging.money.prices import total_usd
from gradebook.tasks.judging.opinions.rows import ANSWER_SCHEMA, Answers, escalated_places, place_keys, table_keys
from gradebook.tasks.judging.replies.batched_criteria import PackedAnswers, packing_of
from gradebook.tasks.judging.replies.question import Answer
from gradebook.tasks.judging.replies.recorded_judge import ReplaySession
from gradebook.tasks.judging.session.session import JudgingSession, Session
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.panels import (
    FIRST,
    THEN,
    CascadeSettings,
    Judge,
    Opinion,
    style_of,
    wanted_opinions,
)
from gradebook.tasks.planning.shard_plan import asked_keys, shard_plan_files
from gradebook.tasks.scoring.shard_questions import shard_questions
from gradebook.tasks.system.prefect_blocks import limited
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import DETAIL_TABLES, RunFolder
from gradebook.tasks.workspace.timings import Timing

BATCH_ROWS = 2_000


class SavedCosts:
    """Earlier costs of a run's replayed judgments, each counted once however many verdicts use it."""

    def __init__(self, folder: RunFolder, rubric: Rubric) -> None:
        """folder: of the run; judgments behind the verdicts of an earlier, interrupted command are counted already."""
        self._lock = threading.Lock()
        # hashes of request keys, as a run may replay millions
        self._counted = set(map(hash, _finished_keys(folder, rubric)))

    def count(self, timing: Timing, replayed_count: int, costs: Mapping[str, float | None]) -> None:
        """Count uses of replayed judgments. costs: in USD by request key; None: unknown."""
        with self._lock:
            new = {key: cost for key, cost in costs.items() if hash(key) not in self._counted}
            self._counted.update(map(hash, new))
            timing.replayed_count += replayed_count
            timing.saved_usd = total_usd([timing.saved_usd, *new.values()])


def has_missing_scores(verdicts: Path) -> bool:
    """Whether a verdict of the file waits for a judge."""
    statuses = pq.read_table(verdicts, columns=["status", "request_key"]).to_pydict()
    return "unscored" in statuses["status"] and any(statuses["request_key"])


def _finished_keys(folder: RunFolder, rubric: Rubric) -> Iterator[str]:
    """Request keys of verdicts that are not scored again."""
    names = [criterion.id for criterion in rubric.criteria if criterion.method.type in ASKED_METHODS]
    for path in (path for name in (*names, CASE_CRITERIA) for path in folder.verdict_files(name)):
        if not has_missing_scores(path):
            details = (folder.path / table / path.parent.name / path.name for table in DETAIL_TABLES)
            for file in (path, *(file for file in details if file.exists())):
                if "request_key" in pq.read_schema(file).names:
                    yield from filter(None, pq.read_table(file, columns=["request_key"]).column(0).to_pylist())


class JudgedShards:
    """Answers of the judges by shard: the first criterion asks for all, and the others wait.

    Thus the questions about an output follow one another, and the endpoint can cache the long prefix of their prompts.
    The answers are in memory until the shard's verdicts are collected.
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
        self._fault: BaseException | None = None  # of any member: ends all asking

    def is_recorded(self, judge_index: int) -> bool:
        """Whether the replies of a member were recorded, at no cost."""
        return isinstance(self._sessions[judge_index], ReplaySession)

    def answers(self, shard: str, shard_index: int) -> Answers:
        """Answers to a shard's questions, in no order. Blocks until all have arrived.

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
        if not isinstance(self.judge, CascadeSettings):
            return self._ask_members(shard, shard_index, range(len(self._sessions)))
        answers = self._ask_members(shard, shard_index, [FIRST])
        try:
            plans = [pq.read_table(file) for file in shard_plan_files(self._folder, self._rubric, shard_index)]
            chosen = {place for planned in plans for place in escalated_places(self.judge, planned, answers)}
            self._acquire_leases(plans, chosen)
        except BaseException as error:
            self._fault = self._fault or error
            raise
        return answers | self._ask_members(shard, shard_index, [THEN], chosen)

    def _acquire_leases(self, plans: Sequence[pa.Table], chosen: Collection[tuple[str, str]]) -> None:
        """Lease the questions to a cascade's second judge, which were unknown before."""
        session = self._sessions[THEN]
        if not isinstance(session, JudgingSession) or not chosen:
            return
        output_ids, criterion_ids = zip(*chosen, strict=True)
        places = place_keys(pa.chunked_array([pa.array(output_ids)]), pa.array(criterion_ids))
        mine = pa.concat_tables(planned.filter(pc.equal(planned.column("judge_index"), THEN)) for planned in plans)
        is_open = pc.and_(pc.is_null(mine.column("status")), pc.is_in(table_keys(mine), places))
        session.lease_also(asked_keys(mine, is_open, self._rubric, packing_of(session.settings)))

    def _ask_members(
        self,
        shard: str,
        shard_index: int,
        indices: Collection[int],
        chosen: Collection[tuple[str, str]] | None = None,
    ) -> dict[Opinion, pa.Table]:
        """Ask several members concurrently; a fault of one stops all."""
        if len(self._sessions) == 1:
            return self._ask_member(shard, shard_index, 0, chosen)
        with ThreadPoolExecutor(len(indices), thread_name_prefix="asking") as threads:
            asked = [threads.submit(self._ask_or_stop, shard, shard_index, index, chosen) for index in indices]
        answers: dict[Opinion, pa.Table] = {}
        for one in asked:
            answers |= one.result()
        if self._fault is not None:  # from another shard: this one was not finished
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
        settings, style = session.settings, style_of(self.judge, Opinion(judge_index))
        answers = {
            opinion: AnswerTable() for opinion in wanted_opinions(self.judge) if opinion.judge_index == judge_index
        }
        questions = shard_questions(
            self._folder,
            self._rubric,
            shard,
            shard_index,
            style,
            self._folders,
            judge_index,
            chosen,
            packing_of(settings),
        )

        def keep(came: Any) -> None:
            for answer in came.answers if isinstance(came, PackedAnswers) else (came,):
                question = answer.question
                answers[Opinion(judge_index, question.replicate, question.style != style)].append(answer)

        with judge_slot(settings):
            session.ask(self._until_stopped(questions), keep)
        return {opinion: each.table() for opinion, each in answers.items()}

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


def judge_slot(settings: object) -> AbstractContextManager[Any]:
    """Slot under the judge's Prefect concurrency limit, if it has one; other processes share the limit."""
    if not isinstance(settings, JudgeSettings) or settings.concurrency_limit is None:
        return nullcontext()
    return limited(settings.concurrency_limit)
