"""What a run's judges say of each shard: asked once, for all criteria together."""

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.judging.opinions.rows import TOLD_SCHEMA, Told, escalated_places, place_keys, table_keys
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
from gradebook.tasks.workspace.folder import RunFolder

BATCH_ROWS = 2_000


class JudgedShards:
    """What the judges said of each shard: whichever criterion comes first asks for all, the others wait for it.

    So an output's questions follow one another, and the endpoint reads the long part of their prompts once. What was
    said of a shard is held until its verdicts are put together.
    """

    def __init__(
        self,
        folder: RunFolder,
        rubric: Rubric,
        judge: Judge,
        sessions: tuple[Session, ...],
        folders: tuple[Path, ...] | None = None,
    ) -> None:
        """sessions: of the judge's members, in their order. folders: as for `plan_run`."""
        self.judge = judge
        self._folder, self._rubric, self._sessions, self._folders = folder, rubric, sessions, folders
        self._lock = threading.Lock()
        self._told: dict[int, Future[Told]] = {}
        self._collected_before: dict[int, int | None] = {}  # when an earlier command put a shard's verdicts together
        self._fault: BaseException | None = None  # of one of several members, or between two: it ends all asking

    def is_recorded(self, judge_index: int) -> bool:
        """Whether the replies of a member were recorded, so that nobody pays for any."""
        return isinstance(self._sessions[judge_index], ReplaySession)

    def told(self, shard: str, shard_index: int) -> Told:
        """What was asked about a shard and answered; in no order. Blocks until all of it is.

        Raises `BudgetReached` or `EndpointUnavailable`; what was judged until then is in the journal.
        """
        with self._lock:
            coming = self._told.get(shard_index)
            is_first = coming is None
            if coming is None:
                self._let_go()
                self._collected_before[shard_index] = self._collected_at(shard_index)
                coming = self._told[shard_index] = Future()
        if is_first:
            try:
                coming.set_result(self._ask(shard, shard_index))
            except BaseException as error:
                coming.set_exception(error)
                raise
        return coming.result()

    def _let_go(self) -> None:
        """Forget what was said of shards whose verdicts are put together: nobody asks for it again."""
        for index, before in list(self._collected_before.items()):
            if self._collected_at(index) != before:
                del self._told[index], self._collected_before[index]

    def _collected_at(self, shard_index: int) -> int | None:
        try:
            return self._folder.collected_file(shard_index).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _ask(self, shard: str, shard_index: int) -> Told:
        if not isinstance(self.judge, CascadeSettings):
            return self._ask_members(shard, shard_index, range(len(self._sessions)))
        told = self._ask_members(shard, shard_index, [FIRST])
        try:
            plans = [pq.read_table(file) for file in shard_plan_files(self._folder, self._rubric, shard_index)]
            chosen = {place for planned in plans for place in escalated_places(self.judge, planned, told)}
            self._acquire_leases(plans, chosen)
        except BaseException as error:
            self._fault = self._fault or error
            raise
        return told | self._ask_members(shard, shard_index, [THEN], chosen)

    def _acquire_leases(self, plans: Sequence[pa.Table], chosen: Collection[tuple[str, str]]) -> None:
        """Claim what the second judge of a cascade is going to be asked, which nobody could know before."""
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
        """Ask some members at the same time. The fault of one ends the asking of all."""
        if len(self._sessions) == 1:
            return self._ask_member(shard, shard_index, 0, chosen)
        with ThreadPoolExecutor(len(indices), thread_name_prefix="asking") as threads:
            asked = [threads.submit(self._ask_or_stop, shard, shard_index, index, chosen) for index in indices]
        told: dict[Opinion, pa.Table] = {}
        for one in asked:
            told |= one.result()
        if self._fault is not None:  # of another shard: this one was not asked to its end
            raise self._fault
        return told

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
        told = {opinion: _Told() for opinion in wanted_opinions(self.judge) if opinion.judge_index == judge_index}
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
                told[Opinion(judge_index, question.replicate, question.style != style)].keep(answer)

        with _shard_slot(settings):
            session.ask(self._until_stopped(questions), keep)
        return {opinion: each.table() for opinion, each in told.items()}

    def _until_stopped(self, questions: Iterable[Any]) -> Iterator[Any]:
        for question in questions:
            if self._fault is not None:
                return
            yield question


class _Told:
    """Answers in the order of their coming, made columns every now and then: objects take many times the space."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []

    def keep(self, answer: Answer) -> None:
        """Keep what is said, and let go of the question."""
        self._rows.append(
            {
                "output_id": answer.question.output_id,
                "criterion_id": answer.question.criterion.id,
                "level_id": answer.level_id,
                "evidence": answer.evidence,
                "rationale": answer.rationale,
                "reason": answer.reason,
                "distribution": answer.distribution,
                "paid_by": answer.paid_by,  # by a run beside this one; what this one paid is not saved
                "saved_usd": answer.cost_usd if answer.paid_by is not None else 0.0,
            }
        )
        if len(self._rows) >= BATCH_ROWS:
            self._flush()
        reporter().advance("judge", 1)

    def table(self) -> pa.Table:
        """All that was kept, as `TOLD_SCHEMA`."""
        self._flush()
        return pa.Table.from_batches(self._batches, TOLD_SCHEMA)

    def _flush(self) -> None:
        self._batches.append(pa.RecordBatch.from_pylist(self._rows, TOLD_SCHEMA))
        self._rows = []


def _shard_slot(settings: object) -> AbstractContextManager[Any]:
    """A place under the judge's Prefect limit, where it names one: other processes take theirs from the same."""
    if not isinstance(settings, JudgeSettings) or settings.concurrency_limit is None:
        return nullcontext()
    return limited(settings.concurrency_limit)
