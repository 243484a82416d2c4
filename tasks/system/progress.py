"""How far a run is: stages say it here, and whoever watches (the command line) listens."""

from typing import Protocol


class Reporter(Protocol):
    """Somebody who watches a run. Called from many threads."""

    def begin(self, stage: str, total: int | None) -> None:
        """A stage begins; total: units of work, None where it can't be known."""

    def advance(self, stage: str, count: int) -> None:
        """So many more units are done."""

    def end(self, stage: str) -> None:
        """The stage is done."""


class _Silent:
    def begin(self, stage: str, total: int | None) -> None:
        """Nobody watches."""

    def advance(self, stage: str, count: int) -> None:
        """Nobody watches."""

    def end(self, stage: str) -> None:
        """Nobody watches."""


_reporter: Reporter = _Silent()


def watch(reporter: Reporter) -> None:
    """From now on tell `reporter` how far the runs of this process are."""
    global _reporter  # noqa: PLW0603 - one terminal, one watcher a process
    _reporter = reporter


def reporter() -> Reporter:
    """Who is watching now."""
    return _reporter
