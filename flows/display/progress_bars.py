"""Progress of an evaluation's stages on stderr: a bar each in a terminal, a line each elsewhere."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from gradebook.flows.display.terminal import stderr
from gradebook.tasks.system import progress
from gradebook.tasks.system.logs import wanted_form
from gradebook.tasks.workspace.timings import stage_label

SILENT_S = 1.0  # a shorter command needs no word


class RateColumn(TextColumn):
    """Units of work per second."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Any) -> Text:
        """The rate of the task so far."""
        rate = task.finished_speed or task.speed
        return Text("" if rate is None else f"{rate:,.0f}/s", style="progress.data.speed")


class TerminalReporter:
    """Reporter that shows each stage as a progress bar with its count, rate and time left."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def begin(self, stage: str, total: int | None) -> None:
        """Show the stage's bar; callers in several threads share one bar."""
        task = self._tasks.get(stage)
        if task is not None and not self._bars.tasks[self._bars.task_ids.index(task)].finished:
            return
        self._tasks[stage] = self._bars.add_task(stage_label(stage), total=total)

    def advance(self, stage: str, count: int) -> None:
        """Move the stage's bar."""
        if stage in self._tasks:
            self._bars.advance(self._tasks[stage], count)

    def wait(self, words: str) -> None:
        """Print what is waited for above the bars."""
        stderr.print(words, markup=False)

    def end(self, stage: str) -> None:
        """Leave the stage's bar full."""
        task = self._tasks.get(stage)
        if task is not None:
            done = self._bars.tasks[self._bars.task_ids.index(task)].completed
            self._bars.update(task, total=done or 1, completed=done or 1)


class LineReporter:
    """Reporter that prints a line when a stage begins; threads that begin it together print one."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, stage: str, total: int | None) -> None:
        """Print the stage and its units of work, if known."""
        with self._lock:
            is_new = stage not in self._begun
            self._begun.add(stage)
        if is_new:
            text = stage_label(stage)
            stderr.print(text if total is None else f"{text}: {total:,}", markup=False)

    def advance(self, stage: str, count: int) -> None:
        pass

    def wait(self, words: str) -> None:
        """Print what is waited for."""
        stderr.print(words, markup=False)

    def end(self, stage: str) -> None:
        """Let the stage be printed when it begins again, as in the next suite of a night."""
        with self._lock:
            self._begun.discard(stage)


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show each stage while the block runs, unless a log is written to stderr, which would break up the bars."""
    if wanted_form() is not None:
        yield
        return
    if not sys.stderr.isatty():
        stderr.print("starting")
        progress.watch(LineReporter())
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), RateColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=stderr, transient=True) as bars:
        starting = bars.add_task("starting", total=None)
        watcher = TerminalReporter(bars)
        progress.watch(_AfterStart(watcher, bars, starting))
        yield


@contextmanager
def shown_activity(words: str) -> Iterator[None]:
    """Show the activity of a command in a terminal if the block takes longer than `SILENT_S`; then remove the line."""
    if not sys.stderr.isatty():
        yield
        return
    bars = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=stderr, transient=True
    )
    bars.add_task(words, total=None)
    timer = threading.Timer(SILENT_S, bars.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bars.stop()


class _AfterStart:
    """Reporter that removes the `starting` bar when the first stage begins."""

    def __init__(self, watcher: TerminalReporter, bars: Progress, starting: TaskID) -> None:
        self._watcher, self._bars, self._starting = watcher, bars, starting
        self.advance, self.wait, self.end = watcher.advance, watcher.wait, watcher.end

    def begin(self, stage: str, total: int | None) -> None:
        self._bars.update(self._starting, visible=False)
        self._watcher.begin(stage, total)
