"""Process pool for checks and schemas, one process per core: most of them hold the GIL, so threads would not help.

The pool is optional: work that no process can do is done by the caller, as in a run without processes.
"""

import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.tasks.scoring.computed import Computation, needed_columns, score_rows
from gradebook.tasks.scoring.process_worker import Answer
from gradebook.tasks.system.processes import ProcessPool, core_count, end_process, start_python
from gradebook.tasks.workspace.timings import Timing

WORKER = "gradebook.tasks.scoring.process_worker"
MOST_LOST = 3  # lost processes, probably for lack of memory, after which a run continues without
LEAST_WORK_S = 10.0  # a process takes a second to start
MOST_SAMPLE_ROWS = 64
SAMPLE_RATE = 0.01  # of the rows: maximum share spent on the sample


class CheckProcess:
    """One running process."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process: subprocess.Popen[bytes] = start_python(WORKER, theirs.fileno())

    def compute(self, computation: Computation) -> Answer:
        """Let the process write the verdict file. Raises `EOFError` or `OSError` if it ends before it answers."""
        self._connection.send(computation)
        answer: Answer = self._connection.recv()
        return answer

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        end_process(self._process)
        self._connection.close()


class CheckPool:
    """Pool of processes for checks and schemas: one per concurrent call, with one caller per core (`COMPUTING`)."""

    def __init__(self) -> None:
        self.processes = ProcessPool(CheckProcess)
        self.lost_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.close()

    def compute(self, computation: Computation, timing: Timing) -> int | None:
        """Let a process write the verdict file; returns the number of verdicts and adds the CPU time to timing.

        None if the process raised or ended: the caller computes it instead. Raises `RuntimeError` once the pool is
        closed.
        """
        if self.lost_count >= MOST_LOST:
            return None
        try:
            process = self.processes.take()
        except OSError:  # no memory or file descriptor for another process
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
    """Pool for the computations while the block runs; None if there is nothing to do.

    is_wanted: otherwise also None on one core, or if the work is too small to be worth it.
    """
    has_many = core_count() > 1 and len(computations) > 1
    if not computations or not (is_wanted or (has_many and is_worth_processes(computations))):
        yield None
        return
    with CheckPool() as pool:
        yield pool


def is_worth_processes(computations: Iterable[Computation]) -> bool:
    """Whether the computations take one core at least `LEAST_WORK_S`, estimated from a sample of rows.

    Costs of checks differ a thousandfold, also by settings and outputs, so a fixed table would not predict them.
    """
    counts: dict[str, int] = {}  # rows, by shard
    costs_s: dict[str, float] = {}  # per row, by criterion
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
    """CPU seconds per additional row, from the shard's first rows; 0 for a shard too small for a sample."""
    if row_count < 2:
        return 0.0
    with pq.ParquetFile(computation.shard) as file:
        columns = list(needed_columns(computation.criterion))
        batch = next(file.iter_batches(min(row_count, MOST_SAMPLE_ROWS), columns=columns))
    rows = pa.Table.from_batches([batch])
    first = rows.slice(0, 1)
    score_rows(computation, first)  # warm-up: loading, and the fixed cost of a call, are no row's cost
    more_s = _cpu_s(computation, rows) - _cpu_s(computation, first)
    cost_s: float = max(more_s, 0.0) / (rows.num_rows - 1)
    return cost_s


def _cpu_s(computation: Computation, rows: pa.Table) -> float:
    begin = time.thread_time()  # excludes other processes and the run's other threads
    score_rows(computation, rows)
    return time.thread_time() - begin
