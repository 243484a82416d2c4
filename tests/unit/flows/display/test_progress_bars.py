"""Progress bars: one for each stage."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from gradebook.flows.display.progress_bars import TerminalReporter


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
