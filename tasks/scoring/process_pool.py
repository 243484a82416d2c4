"""Checks and schemas in processes, one a core: most of them hold Python's lock, so threads of one process wait in line.

A process is a gain and never a condition: what none can do is done by the caller, as in a run without any.
"""

import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.tasks.scoring.computed import Computation, needed_columns, score_rows
from gradebook.tasks.scoring.process_worker import Answer
from gradebook.tasks.system.processes import ProcessPool, core_count, end_process, start_python
from gradebook.tasks.workspace.timings import Timing

WORKER = "gradebook.tasks.scoring.process_worker"
MOST_LOST = 3  # processes that a run may lose, for want of memory as like as not, before it goes on without
LEAST_WORK_S = 10.0  # a process takes a second to start
MOST_SAMPLE_ROWS = 64
SAMPLE_RATE = 0.01  # of the rows: what is lost to the sample, at most


class CheckProcess:
    """One process under way."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process: subprocess.Popen[bytes] = start_python(WORKER, theirs.fileno())

    def compute(self, computation: Computation) -> Answer:
        """Let it write the verdict file. Raises `EOFError` or `OSError` where it ended before it answered."""
        self._connection.send(computation)
        answer: Answer = self._connection.recv()
        return answer

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill it."""
        end_process(self._process)
        self._connection.close()


class CheckPool:
    """Processes for checks and schemas: one for each call under way; callers are as many as cores (`COMPUTING`)."""

    def __init__(self) -> None:
        self.processes = ProcessPool(CheckProcess)
        self.lost_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.processes.close()

    def compute(self, computation: Computation, timing: Timing) -> int | None:
        """Let a process write the verdict file; returns how many verdicts it holds, and adds to timing what it took.

        None where the process raised or ended: the caller is to do it. Raises `RuntimeError` once the pool is closed.
        """
        if self.lost_count >= MOST_LOST:
            return None
        try:
            process = self.processes.take()
        except OSError:  # no memory for one more, or no file
            self.lost_count += 1
            return None
        try:
            answer = process.compute(computation)
        except (EOFError, OSError):
            self.processes.drop(process)
            self.lost_count += 1
            return None
        self.processes.give_back(process)
        if answer is None:
            return None
        verdict_count, cpu_s = answer
        timing.cpu_s += cpu_s
        return verdict_count


@contextmanager
def opened_checks(computations: Sequence[Computation], *, is_wanted: bool = False) -> Iterator[CheckPool | None]:
    """A pool for the computations while the block runs; None where there is nothing to do.

    is_wanted: else none either where there is one core, or too little to do to be worth it.
    """
    has_many = core_count() > 1 and len(computations) > 1
    if not computations or not (is_wanted or (has_many and is_worth_processes(computations))):
        yield None
        return
    with CheckPool() as pool:
        yield pool


def is_worth_processes(computations: Iterable[Computation]) -> bool:
    """Whether the computations take one core `LEAST_WORK_S` or more, as far as a sample of rows tells.

    Checks differ a thousandfold, and by their settings and the outputs too, so a table of costs would not tell.
    """
    counts: dict[str, int] = {}  # of the rows, by shard
    costs_s: dict[str, float] = {}  # of a row, by criterion
    work_s = 0.0
    for computation in computations:
        shard, criterion_id = computation.shard, computation.criterion.id
        if shard not in counts:
            counts[shard] = pq.read_metadata(shard).num_rows
        if criterion_id not in costs_s:
            costs_s[criterion_id] = _row_cost_s(computation, int(counts[shard] * SAMPLE_RATE))
        work_s += costs_s[criterion_id] * counts[shard]
        if work_s >= LEAST_WORK_S:
            return True
    return False


def _row_cost_s(computation: Computation, row_count: int) -> float:
    """CPU seconds that one more row takes, by the first of the shard; 0 for a shard that is too small for a sample."""
    if row_count < 2:
        return 0.0
    with pq.ParquetFile(computation.shard) as file:
        columns = list(needed_columns(computation.criterion))
        batch = next(file.iter_batches(min(row_count, MOST_SAMPLE_ROWS), columns=columns))
    rows = pa.Table.from_batches([batch])
    first = rows.slice(0, 1)
    score_rows(computation, first)  # what the first call loads is no row's cost, nor what each call takes
    more_s = _cpu_s(computation, rows) - _cpu_s(computation, first)
    cost_s: float = max(more_s, 0.0) / (rows.num_rows - 1)
    return cost_s


def _cpu_s(computation: Computation, rows: pa.Table) -> float:
    begin = time.thread_time()  # others on the machine, and the run's other threads, are not in it
    score_rows(computation, rows)
    return time.thread_time() - begin
