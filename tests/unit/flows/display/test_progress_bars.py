"""Progress bars: one for each stage."""

import io
import sys
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.progress import Progress

from gradebook.flows.display import progress_bars
from gradebook.flows.display.progress_bars import TerminalReporter, shown_activity


@pytest.fixture
def bars() -> Progress:
    return Progress(console=Console(file=io.StringIO()))


def test_a_stage_started_by_several_threads_has_one_bar(bars: Progress):
    reporter = TerminalReporter(bars)
    for _ in range(3):
        reporter.begin("answers of another run", None)
        reporter.advance("answers of another run", 2)
    assert [task.completed for task in bars.tasks] == [6]


def test_a_restarted_stage_has_another_bar(bars: Progress):
    reporter = TerminalReporter(bars)
    for _ in range(2):
        reporter.begin("batch", 5)
        reporter.end("batch")
    assert len(bars.tasks) == 2


class AtOnce:
    """Timer whose time is up when it starts."""

    def __init__(self, _after_s: float, call: Callable[[], None]) -> None:
        self.start = call

    def cancel(self) -> None:
        pass

    join = cancel


@pytest.mark.parametrize(("is_terminal", "is_slow"), [(True, True), (True, False), (False, True)])
def test_a_slow_command_says_what_it_is_at_in_a_terminal_alone(monkeypatch, is_terminal, is_slow):
    file = io.StringIO()
    monkeypatch.setattr(progress_bars, "stderr", Console(file=file, force_terminal=True))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    if is_slow:
        monkeypatch.setattr(progress_bars.threading, "Timer", AtOnce)
    with shown_activity("comparing"):
        pass
    assert ("comparing" in file.getvalue()) == (is_terminal and is_slow)
