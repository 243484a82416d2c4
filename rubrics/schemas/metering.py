"""Bound on the work of a validation, in steps rather than time, so that a verdict never depends on speed."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST_STEPS = 200_000  # a step takes about 3 microseconds on an idle core


class TooManySteps(Exception):
    """The validation exceeded its number of steps."""

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
    """Count the steps within the block, from zero; `spend` raises `TooManySteps` above the limit."""
    token = _METER.set(_Meter(most))
    try:
        yield
    finally:
        _METER.reset(token)


def spend(step_count: int) -> None:
    """Count steps. Raises `TooManySteps`."""
    meter = _METER.get()
    meter.left -= step_count
    if meter.left < 0:
        raise TooManySteps(meter.most)
