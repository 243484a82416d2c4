"""Timings of a run's pieces of work, appended as each one ends, so that they add up over resumed runs."""

import json
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.tasks.system.command_start import take_start
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

_STAGES = {  # names of stages and waits for people
    "start": "starting",
    "collect": "collecting outputs",
    "ingest": "reading outputs",
    "embed": "embedding texts",
    "plan": "planning judgments",
    "score": "scoring",
    "judge": "asking the judge",
    "quality": "checking quality",
    "aggregate": "building tables",
    "publish": "publishing",
}
_NO_COUNTS = {"row_count": 0, "replayed_count": 0, "saved_usd": 0.0}
Row = dict[str, Any]


def stage_label(stage: str) -> str:
    """Name of a stage or wait in progress, `status` and the page."""
    return _STAGES.get(stage, stage)


@dataclass(slots=True)
class _OpenRun:
    """Times of an open run in this process: since its opening, and within measured pieces of work."""

    wall_s: float  # clock readings when the run was opened
    cpu_s: float
    covered_s: float = 0.0  # wall time with at least one piece at work
    measured_cpu_s: float = 0.0
    busy_count: int = 0
    busy_since_s: float = 0.0

    def enter(self) -> None:
        """Count a piece that begins."""
        if self.busy_count == 0:
            self.busy_since_s = time.perf_counter()
        self.busy_count += 1

    def leave(self, cpu_s: float) -> None:
        """Count a piece that ends."""
        self.busy_count -= 1
        self.measured_cpu_s += cpu_s
        if self.busy_count == 0:
            self.covered_s += time.perf_counter() - self.busy_since_s


_open_runs: dict[Path, _OpenRun] = {}  # folder -> open run
_counting = threading.Lock()


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
    shard_index: int | None = None


@contextmanager
def timed(
    folder: RunFolder, stage: str, criterion_id: str | None = None, shard_index: int | None = None
) -> Iterator[Timing]:
    """Measure and log a block: wall time, and CPU time of its thread (in the main thread: of the process)."""
    timing = Timing(stage, criterion_id, shard_index=shard_index)
    # Tasks in worker threads share the process; a stage in the main thread runs while no task does.
    clock = process_cpu_s if threading.current_thread() is threading.main_thread() else time.thread_time
    open_run = _open_runs.get(folder.path, _OpenRun(0.0, 0.0))
    with _counting:
        open_run.enter()
    wall, cpu = time.perf_counter(), clock()
    is_done = False
    with piece_span(Piece(folder.run_id, stage, criterion_id, shard_index)) as piece:
        try:
            yield timing
            is_done = True
        finally:
            own_cpu_s = clock() - cpu
            timing.wall_s += time.perf_counter() - wall
            timing.cpu_s += own_cpu_s
            with _counting:
                open_run.leave(own_cpu_s)
            with nullcontext() if is_done else suppress(OSError):  # the error that ended the work is the one to report
                append_timing(folder, timing)
            piece.counts |= {"row_count": timing.row_count, "replayed_count": timing.replayed_count}


def append_start(folder: RunFolder) -> None:
    """Append the timing of the command's start, if no other run has it; time from now on belongs to this run."""
    if (began_at_s := take_start()) is not None:
        append_timing(folder, Timing("start", wall_s=time.perf_counter() - began_at_s, cpu_s=process_cpu_s()))
    _open_runs[folder.path] = _OpenRun(time.perf_counter(), process_cpu_s())


def append_other(folder: RunFolder) -> None:
    """Append the time since `append_start` that no piece of work has measured.

    This is the work of Prefect and of libraries' threads, and the time between the pieces.
    """
    open_run = _open_runs.pop(folder.path, None)
    if open_run is not None:
        wall_s = time.perf_counter() - open_run.wall_s - open_run.covered_s
        cpu_s = process_cpu_s() - open_run.cpu_s - open_run.measured_cpu_s
        append_timing(folder, Timing("other", wall_s=max(wall_s, 0.0), cpu_s=max(cpu_s, 0.0)))


def read_timings(folder: RunFolder) -> pa.Table:
    """Timings of all pieces of work of the run so far, as `TIMING_SCHEMA`.

    Times add up over the commands of a resumed run. If a later command did a piece again, only the last counts
    are given: the earlier counts are 0.
    """
    if not folder.timings_file.exists():
        return TIMING_SCHEMA.empty_table()
    lines = folder.timings_file.read_text(encoding="utf-8").splitlines()
    return pa.Table.from_pylist(_counted_once([json.loads(line) for line in lines]), schema=TIMING_SCHEMA)


def _counted_once(timings: list[Row]) -> list[Row]:
    """Timings with the counts of the last command that did each piece. Each command begins with its ingest."""
    command = 0
    commands: list[int] = []
    last_index: dict[tuple[Any, ...], int] = {}
    for timing in timings:
        command += timing["stage"] == "ingest"
        commands.append(command)
        last_index[_piece(timing)] = command
    return [
        timing if last_index[_piece(timing)] == command else timing | _NO_COUNTS
        for timing, command in zip(timings, commands, strict=True)
    ]


def _piece(timing: Row) -> tuple[Any, ...]:
    return timing["stage"], timing["criterion_id"], timing.get("shard_index")


def process_cpu_s() -> float:
    """CPU seconds of this process, all threads, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def append_timing(folder: RunFolder, timing: Timing) -> None:
    """Append the timing of a finished piece of work."""
    append_lines(folder.timings_file, json.dumps(asdict(timing)).encode() + b"\n")
