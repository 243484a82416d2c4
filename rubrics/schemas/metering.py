"""A bound on the work of one validation, counted in steps and not in time, so that a verdict never depends on speed."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST_STEPS = 200_000  # a step is some 3 microseconds of a quiet core


class TooManySteps(Exception):
    """The validation took more steps than it may; its text says so."""

    def __init__(self, most: int) -> None:
        super().__init__(most)

    def __str__(self) -> str:
        return f"validation took more than {self.args[0]:,} steps"


class _Meter:
    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most


_METER: ContextVar[_Meter] = ContextVar("steps")


@contextmanager
def metered(most: int = MOST_STEPS) -> Iterator[None]:
    """Count the steps taken within the block, from none; `spend` raises `TooManySteps` beyond the most."""
    token = _METER.set(_Meter(most))
    try:
        yield
    finally:
        _METER.reset(token)


def spend(step_count: int) -> None:
    """Count that many steps. Raises `TooManySteps`."""
    meter = _METER.get()
    meter.left -= step_count
    if meter.left < 0:
        raise TooManySteps(meter.most)
