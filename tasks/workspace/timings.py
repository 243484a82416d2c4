"""Timings of a run's pieces of work, appended as each one ends, so that they add up over resumed runs."""

import json
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass

import pyarrow as pa

from gradebook.tasks.system.events import Piece, piece_span
from gradebook.tasks.system.files import append_lines
from gradebook.tasks.workspace.folder import RunFolder

TIMING_SCHEMA = pa.schema(
    [
        pa.field("stage", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string()),
        pa.field("wall_s", pa.float64(), nullable=False),
        pa.field("cpu_s", pa.float64(), nullable=False),
        pa.field("row_count", pa.int64(), nullable=False),
        pa.field("replayed_count", pa.int64(), nullable=False),
        pa.field("saved_usd", pa.float64()),
    ]
)


@dataclass(slots=True)
class Timing:
    """Timing of a piece of work; counts are filled in while it runs. saved_usd: None if a price is unknown."""

    stage: str
    criterion_id: str | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    row_count: int = 0
    replayed_count: int = 0
    saved_usd: float | None = 0.0


@contextmanager
def timed(
    folder: RunFolder, stage: str, criterion_id: str | None = None, shard_index: int | None = None
) -> Iterator[Timing]:
    """Measure and log a block: wall time, and CPU time of its thread (in the main thread: of the process)."""
    timing = Timing(stage, criterion_id)
    # Tasks in worker threads share the process; a stage in the main thread runs while no task does.
    clock = process_cpu_s if threading.current_thread() is threading.main_thread() else time.thread_time
    wall, cpu = time.perf_counter(), clock()
    is_done = False
    with piece_span(Piece(folder.run_id, stage, criterion_id, shard_index)) as piece:
        try:
            yield timing
            is_done = True
        finally:
            timing.wall_s += time.perf_counter() - wall
            timing.cpu_s += clock() - cpu
            with nullcontext() if is_done else suppress(OSError):  # the error that ended the work is the one to report
                keep_timing(folder, timing)
            piece.counts |= {"row_count": timing.row_count, "replayed_count": timing.replayed_count}


def read_timings(folder: RunFolder) -> pa.Table:
    """Timings of all pieces of work of the run so far, as `TIMING_SCHEMA`."""
    if not folder.timings_file.exists():
        return TIMING_SCHEMA.empty_table()
    lines = folder.timings_file.read_text(encoding="utf-8").splitlines()
    return pa.Table.from_pylist([json.loads(line) for line in lines], schema=TIMING_SCHEMA)


def process_cpu_s() -> float:
    """CPU seconds of this process, all threads, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def keep_timing(folder: RunFolder, timing: Timing) -> None:
    """Append the timing of a finished piece of work."""
    append_lines(folder.timings_file, json.dumps(asdict(timing)).encode() + b"\n")
