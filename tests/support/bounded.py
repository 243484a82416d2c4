"""A bound on work that would else go on for ever, or for hours: of CPU time, which a busy machine does not use up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

MOST_CPU_S = 30.0  # many times what any of it takes


@contextmanager
def bounded_work() -> Iterator[None]:
    """Raise `TimeoutError` in the block once this process has spent `MOST_CPU_S` in it; pytest's main thread alone."""

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"still at work after {MOST_CPU_S:.0f} s of CPU")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
