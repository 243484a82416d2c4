"""Progress of runs, reported by stages to one watcher such as the command line."""

from typing import Protocol


class Reporter(Protocol):
    """Watcher of a run's progress. Called from many threads."""

    def begin(self, stage: str, total: int | None) -> None:
        """Report the start of a stage. total: units of work; None if unknown."""

    def advance(self, stage: str, count: int) -> None:
        """Report that `count` more units are done."""

    def wait(self, words: str) -> None:
        """Report what a stage is waiting for."""

    def end(self, stage: str) -> None:
        """Report the end of a stage."""


class _Silent:
    """Reporter that discards all events."""

    def begin(self, stage: str, total: int | None) -> None:
        pass

    def advance(self, stage: str, count: int) -> None:
        pass

    def wait(self, words: str) -> None:
        pass

    def end(self, stage: str) -> None:
        pass


_reporter: Reporter = _Silent()


def watch(reporter: Reporter) -> None:
    """Send the progress of this process's runs to `reporter` from now on."""
    global _reporter  # noqa: PLW0603 - one terminal, one watcher a process
    _reporter = reporter


def reporter() -> Reporter:
    """Current watcher."""
    return _reporter


def silence() -> None:
    """Discard progress from now on."""
    watch(_Silent())
