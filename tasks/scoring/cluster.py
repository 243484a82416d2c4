"""Checks and schemas on a cluster's workers, which receive paths and settings and write the verdict files."""

import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path

from gradebook.rubrics.model.errors import UnfinishedError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.runs.run import code_version
from gradebook.tasks.scoring.computed import Computation, LastShards, compute_verdicts, is_computed
from gradebook.tasks.scoring.setup import ScoringSetup
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing, append_timing

_SHARED = "expected the run's folder under the same path on each worker (docs/scaling.md)"


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
    computations = (setup.computation(each, shard, shard_index) for each in rubric.criteria if is_computed(each))
    return ShardWork(tuple(each for each in computations if not each.target.exists()), code_version(), shard_index)


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
    shards = LastShards()
    try:
        return tuple(_compute(computation, shards) for computation in work.computations)
    except OSError as error:
        fault = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        raise UnfinishedError(f"worker {socket.gethostname()}: found {fault}; {_SHARED}") from error


def keep_work(folder: RunFolder, shard_index: int, timings: tuple[Timing, ...]) -> None:
    """Add the workers' results to the run's timings and progress. Raises `UnfinishedError` if a file is not visible."""
    for timing in timings:
        path = folder.verdict_file(str(timing.criterion_id), shard_index)
        if not _is_visible(path):
            raise UnfinishedError(f"{path}: found no such file, though a worker wrote it; {_SHARED}")
        append_timing(folder, replace(timing, shard_index=shard_index))
        reporter().advance("score", timing.row_count)


def _compute(computation: Computation, shards: LastShards) -> Timing:
    timing = Timing("score", computation.criterion.id)
    wall, cpu = time.perf_counter(), time.thread_time()
    timing.row_count = compute_verdicts(computation, shards)
    timing.wall_s, timing.cpu_s = time.perf_counter() - wall, time.thread_time() - cpu
    return timing


def _is_visible(path: Path) -> bool:
    """Whether the file is visible; network file systems may cache its absence for a while."""
    return path.exists() or path.name in {each.name for each in path.parent.glob("*")}
