"""Scoring of a run's shards: each criterion over each shard, by any method, and the collected verdicts of a shard.

Resources and sessions with the judges are opened before the first shard and closed after the last. Checks and
schemas may run on a cluster's workers, which receive paths and settings and write the verdict files.
"""

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA, OwnCriterion, own_criteria
from gradebook.tasks.judging.session.session import (
    JudgingSession,
    Money,
    Session,
    open_sessions,
    probe_members,
    writer_session,
)
from gradebook.tasks.judging.settings.judge import FIRST, Judge
from gradebook.tasks.ledger.ledger import held_judgments, settle_run
from gradebook.tasks.methods.judge_shard import JudgedShards, has_missing_scores
from gradebook.tasks.methods.method import ScoringMethod, ScoringSetup, ShardCache
from gradebook.tasks.methods.table import METHODS, is_computed, score_criterion
from gradebook.tasks.planning.plan import RunPlan
from gradebook.tasks.planning.shard_plan import open_keys
from gradebook.tasks.runs.run import Run, code_version
from gradebook.tasks.system.files import PARQUET_SETTINGS, replaced_file, write_parquet
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing, append_timing, timed


def score_shard(setup: ScoringSetup, criterion: Criterion, shard: str, shard_index: int) -> Path:
    """Write the verdicts of one criterion over one shard and return the file's path.

    A file written by an earlier, interrupted command is kept, unless one of its verdicts waits for a judge.
    """
    slot = nullcontext() if criterion.method.is_asked else COMPUTING
    path = setup.folder.verdict_file(criterion.id, shard_index)
    with slot:
        if not _skip_finished(setup, path):
            with _timed_scoring(setup, criterion.id, shard_index) as timing:
                verdicts = score_criterion(setup, criterion, shard, shard_index, timing)
                timing.row_count = write_counted(path, verdicts)
    return path


def score_criteria(setup: ScoringSetup, criteria: Sequence[Criterion], shard: str, shard_index: int) -> None:
    """Write the verdicts of several criteria over one shard, each as `score_shard` does."""
    for criterion in criteria:
        score_shard(setup, criterion, shard, shard_index)


def score_own_criteria(setup: ScoringSetup, shard: str, shard_index: int) -> Path:
    """Write the verdicts on a shard's per-case criteria and return the file's path."""
    path = setup.folder.verdict_file(CASE_CRITERIA, shard_index)
    if not _skip_finished(setup, path):
        with _timed_scoring(setup, CASE_CRITERIA, shard_index) as timing:
            timing.row_count = write_counted(path, score_case_criteria(setup, shard, shard_index, timing))
    return path


def _skip_finished(setup: ScoringSetup, path: Path) -> bool:
    """Count an earlier command's verdict file as progress; False if there is none, or a verdict waits for a judge."""
    is_finished = path.exists() and not (setup.session and has_missing_scores(path))
    if is_finished:
        reporter().advance("score", pq.read_metadata(path).num_rows)
    return is_finished


@contextmanager
def _timed_scoring(setup: ScoringSetup, name: str, shard_index: int) -> Iterator[Timing]:
    """Measure and report the scoring of one verdict file; the block sets row_count."""
    with timed(setup.folder, "score", name, shard_index) as timing:
        yield timing
    pa.default_memory_pool().release_unused()  # otherwise each thread keeps the memory of its largest shard
    reporter().advance("score", timing.row_count)


def collect_shard(folder: RunFolder, rubric: Rubric, shard_index: int) -> int:
    """Merge the verdicts of all criteria over one shard into one file; returns their number."""
    files = [folder.verdict_file(criterion.id, shard_index) for criterion in rubric.criteria]
    if folder.case_criteria_file(shard_index).exists():
        files.append(folder.verdict_file(CASE_CRITERIA, shard_index))
    count = 0
    with (
        replaced_file(folder.collected_file(shard_index)) as partial_path,
        pq.ParquetWriter(partial_path, VERDICT_SCHEMA, compression_level=1, **PARQUET_SETTINGS) as writer,
    ):
        for file in files:
            verdicts = pq.read_table(file, schema=VERDICT_SCHEMA)
            writer.write_table(verdicts)
            count += verdicts.num_rows
    return count


def score_case_criteria(setup: ScoringSetup, shard: str, shard_index: int, timing: Timing) -> pa.Table:
    """Score a shard's outputs by their per-case criteria: `VERDICT_SCHEMA`, one row per output and criterion."""
    by_kind: dict[str, list[OwnCriterion]] = {}
    for own_criterion in own_criteria(setup.folder, shard_index):
        by_kind.setdefault(own_criterion.criterion.method.kind, []).append(own_criterion)
    tables = []
    for kind, of_kind in by_kind.items():
        settings = of_kind[0].criterion.method
        method = METHODS[kind] if settings.is_for_rows else ScoringMethod()  # the base method scores nothing
        with nullcontext() if settings.is_asked else COMPUTING:
            tables.append(method.score_own(setup, of_kind, shard, shard_index, timing))
    return pa.concat_tables(tables or [VERDICT_SCHEMA.empty_table()])


@contextmanager
def opened_setup(run: Run, plan: RunPlan, shards: Sequence[str] = ()) -> Iterator[ScoringSetup]:
    """Setup of a run, open while the block runs. shards: of the run. Raises as `judging`."""
    kinds = {criterion.method.kind for criterion in run.rubric.criteria}
    with ExitStack() as stack:
        resources = {  # before the judge: requests for vectors share its budget, and their spend is settled
            kind: stack.enter_context(method.opened(run, plan, shards))
            for kind, method in METHODS.items()
            if kind in kinds
        }
        sessions = stack.enter_context(judging(run, plan))
        judged = session = None
        if run.judge is not None:
            session = writer_session(run.judge, sessions)
            judged = JudgedShards(run.folder, run.rubric, run.judge, sessions, run.folders)
        yield ScoringSetup(
            run.folder,
            run.rubric.schemas,
            run.folders,
            run.lake,
            session,
            sessions,
            judged,
            run.rubric.taxonomy,
            resources,
        )


@contextmanager
def judging(run: Run, plan: RunPlan) -> Iterator[tuple[Session, ...]]:
    """One session per judge of the run while the block runs; none without a judge.

    All replies are settled into the ledger afterwards, also after a failure. Raises `EndpointUnavailable` if a question
    is open and the endpoint does not answer or refuses the key.
    """
    if run.judge is None:
        yield ()
        return
    probe_members(run.judge, plan.asked_judges)
    money = Money(run.request.budget_usd, run.folder.path / "budget.jsonl", plan.cost_high_usd)
    try:
        deadline = run.request.deadline
        is_read = plan.replayed_count > 0
        with open_sessions(run.judge, money, run.lake.journal_folder, run.run_id, deadline, is_read) as sessions:
            _acquire_leases(run, run.judge, sessions)
            reporter().begin("judge", plan.open_count or None)  # one request may answer several
            try:
                yield sessions
            finally:  # a resuming command does not know these notes
                online = [session for session in sessions if isinstance(session, JudgingSession)]
                run.folder.add_notes(session.note for session in online)
                run.folder.add_notes(session.doubt(is_maybe_cut=False) for session in online)
                run.folder.add_warnings(session.doubt(is_maybe_cut=True) for session in online)
            reporter().end("judge")
            cpu_s = max(session.cpu_s for session in sessions)  # sessions of one run share a thread
        # One thread asks for all criteria, so its time belongs to none of them.
        append_timing(run.folder, Timing("score", cpu_s=cpu_s))
    finally:
        settle_run(run.lake, run.folder)


def _acquire_leases(run: Run, judge: Judge, sessions: tuple[Session, ...]) -> None:
    """Lease the run's questions, so that concurrent runs wait for its replies instead of paying for their own.

    Questions to a cascade's second judge are leased later, when they are known: other runs should not wait in vain.
    Judges under a Prefect limit are left out: a run with a slot must not wait for a run that needs one. All others are
    leased in one transaction, so that two runs with common members do not wait for each other.
    """
    find_held = partial(held_judgments, run.lake)
    leases = []
    for index, session in enumerate(sessions):
        is_later = judge.when is not None and index != FIRST
        if isinstance(session, JudgingSession) and session.settings.concurrency_limit is None:
            keys = () if is_later else open_keys(run.folder, run.rubric, index, session.settings.packing_rule)
            leases.append((session.open_leases(find_held), list(keys)))
    if leases:
        leases[0][0].acquire_together(leases)


_SHARED = "expected the run's folder under the same path on each worker (docs/scaling.md)"


@dataclass(frozen=True, slots=True)
class Computation:
    """One code-decided criterion over one shard, with all inputs, so that it can be sent to a cluster's worker."""

    criterion: Criterion
    shard: str  # path of its file
    target: Path  # path of the verdict file
    folder: RunFolder
    folders: tuple[Path, ...]  # folders of the dataset's files, for outputs that name a sound file
    schemas: Mapping[str, dict[str, Any]]  # the rubric's, by name
    shard_index: int


@dataclass(frozen=True, slots=True)
class ShardWork:
    """All missing code-decided verdict files of one shard, as one task, so that the shard is read once."""

    computations: tuple[Computation, ...] = ()
    code_version: str = ""
    shard_index: int = 0

    @property
    def criterion_ids(self) -> frozenset[str]:
        """Criteria that this work decides."""
        return frozenset(computation.criterion.id for computation in self.computations)


def shard_work(setup: ScoringSetup, rubric: Rubric, shard: str, shard_index: int) -> ShardWork:
    """Work on one shard that a cluster may do."""
    computations = (
        Computation(
            criterion,
            shard,
            setup.folder.verdict_file(criterion.id, shard_index),
            setup.folder,
            setup.dataset_folders,
            setup.schemas,
            shard_index,
        )
        for criterion in rubric.criteria
        if is_computed(criterion)
    )
    return ShardWork(
        tuple(computation for computation in computations if not computation.target.exists()),
        code_version(),
        shard_index,
    )


def compute_work(work: ShardWork) -> tuple[Timing, ...]:
    """Write the verdict files atomically; returns the timings.

    A second worker with the same work writes the same bytes. Raises `UnfinishedError` if this worker cannot read or
    write the run's folder, or runs another version of gradebook.
    """
    if code_version() != work.code_version:
        raise UnfinishedError(
            f"worker {socket.gethostname()}: found gradebook {code_version()}, expected {work.code_version}, "
            "as where the run was started"
        )
    shards = ShardCache()
    try:
        return tuple(_compute(computation, shards) for computation in work.computations)
    except OSError as error:
        fault = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        raise UnfinishedError(f"worker {socket.gethostname()}: found {fault}; {_SHARED}") from error


def record_work(folder: RunFolder, shard_index: int, timings: tuple[Timing, ...]) -> None:
    """Add the workers' results to the run's timings and progress. Raises `UnfinishedError` if a file is not visible."""
    for timing in timings:
        path = folder.verdict_file(str(timing.criterion_id), shard_index)
        if not _is_visible(path):
            raise UnfinishedError(f"{path}: found no such file, though a worker wrote it; {_SHARED}")
        append_timing(folder, replace(timing, shard_index=shard_index))
        reporter().advance("score", timing.row_count)


def compute_verdicts(computation: Computation, shards: ShardCache) -> int:
    """Write the verdict file atomically; returns the number of verdicts."""
    setup = ScoringSetup(computation.folder, computation.schemas, computation.folders, shards=shards)
    criterion, shard_index = computation.criterion, computation.shard_index
    verdicts = score_criterion(setup, criterion, computation.shard, shard_index, Timing("score"))
    return write_counted(computation.target, verdicts)


def write_counted(path: Path, verdicts: pa.Table) -> int:
    """Write verdicts atomically; returns their number."""
    write_parquet(path, verdicts)
    verdict_count: int = verdicts.num_rows
    return verdict_count


def _compute(computation: Computation, shards: ShardCache) -> Timing:
    timing = Timing("score", computation.criterion.id)
    wall, cpu = time.perf_counter(), time.thread_time()
    timing.row_count = compute_verdicts(computation, shards)
    timing.wall_s, timing.cpu_s = time.perf_counter() - wall, time.thread_time() - cpu
    return timing


def _is_visible(path: Path) -> bool:
    """Whether the file is visible; network file systems may cache its absence for a while."""
    return path.exists() or path.name in {sibling.name for sibling in path.parent.glob("*")}
