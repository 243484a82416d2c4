"""An event loop whose clock jumps to the next timer instead of waiting for it: minutes of asyncio.sleep in no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class _JumpingSelector(selectors.SelectSelector):
    """Never waits; hands the time it would have waited to the loop's clock."""

    clock_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits for another one, and no timer is set")
        self.clock_s += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Timers and tasks alone: no sockets, no threads."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.clock_s

    def jump(self, seconds: float) -> None:
        """Let the clock jump, as if the process had slept."""
        self._jumping.clock_s += seconds


def run_virtually(steps: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine on a virtual clock that begins at 0."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(steps)


def virtual_now() -> float:
    """Seconds on the clock of the running loop."""
    return asyncio.get_running_loop().time()
