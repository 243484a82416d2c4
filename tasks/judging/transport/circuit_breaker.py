"""Whether the endpoint is there at all: while it is gone one request at a time looks for it, the others wait."""

import asyncio
import time
from collections.abc import Callable
from types import TracebackType

import numpy as np

FAILURES_UNTIL_GONE = 3  # in a row, without an answer to any request between them
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 10.0
JITTER = 0.2  # of a wait
MOST_STEP_S = 30.0  # a longer step was the process asleep, not the endpoint gone
TICK_S = 10.0


class _Attempt:
    """One request while it is out; the scout, where the endpoint is gone."""

    __slots__ = ("_is_scout", "_outage")

    def __init__(self, outage: "Outage") -> None:
        self._outage = outage
        self._is_scout = False

    async def __aenter__(self) -> None:
        if self._outage.is_gone:
            self._is_scout = await self._outage._wait_through()
        self._outage._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._outage._end(self._is_scout)


class Outage:
    """Follows one endpoint; lives in one event loop.

    patience_s: how long it may be gone, without a single answer to anything that was asked. A span in which the process
    slept, or asked nothing, counts 30 s at most. last_reason: of the last failure.
    """

    def __init__(
        self,
        patience_s: float,
        now: Callable[[], float] = time.monotonic,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._patience_s = patience_s
        self._now = now
        self._rng = np.random.default_rng() if rng is None else rng
        self.is_gone = False
        self.last_reason = ""
        self._is_stopped = False
        self._out = 0  # attempts
        self._failures = 0  # in a row
        self._gone_s = 0.0  # since the first of them
        self._counted_until = now()
        self._ticker: asyncio.TimerHandle | None = None
        self._is_scouting = False
        self._scouts = 0
        self._scout_due = 0.0
        self._news = asyncio.Event()

    def attempt(self) -> _Attempt:
        """A request's time on its way, to be entered with `async with`; what came is to be noted inside it.

        Entering returns at once while the endpoint answers. While it is gone one caller a time goes through, the scout,
        after a wait that grows from 1 s to 10 s; whoever leaves, cancelled or not, makes room for the next.
        """
        return _Attempt(self)

    def note_answer(self) -> None:
        """The endpoint answered, with anything but a 5xx: it lives, and all go on."""
        self._failures = self._scouts = 0
        if self.is_gone:
            self.is_gone = False
            self._tell()

    def note_failure(self, reason: str) -> bool:
        """No connection, no reply in time, or a 5xx. Returns whether it has been gone for longer than patience."""
        self._count_time()
        if not self._failures:
            self._gone_s = 0.0
        self._failures += 1
        self.last_reason = reason
        if not self.is_gone and self._failures >= FAILURES_UNTIL_GONE:
            self.is_gone = True
            self._plan_scout()
        self._keep_ticking()
        return self.is_gone and self._gone_s >= self._patience_s

    def stop(self) -> None:
        """Let all who wait go on; they know themselves why nothing is to be sent."""
        self._is_stopped = True
        self._tell()

    # -------- waiting
    async def _wait_through(self) -> bool:
        """Wait until the endpoint is back, or for the turn to look for it. Returns whether this is the scout."""
        while self.is_gone and not self._is_stopped:
            if self._is_scouting:
                await self._news.wait()
                continue
            self._is_scouting = True
            try:
                is_scout = await self._is_still_gone_when_due()
            except BaseException:
                self._free_scout()
                raise
            if is_scout:
                return True
            self._free_scout()
        return False

    async def _is_still_gone_when_due(self) -> bool:
        """Wait until the scout may go, or there is no need for one."""
        while self.is_gone and not self._is_stopped:
            wait_s = self._scout_due - self._now()
            if wait_s <= 0:
                return True
            self._keep_ticking()
            try:
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
            except TimeoutError:
                return True
        return False

    def _plan_scout(self) -> None:
        is_over = self._gone_s >= self._patience_s  # then each has one try left, and nothing to wait for
        wait_s = 0.0 if is_over else min(FIRST_WAIT_S * 2**self._scouts, MOST_WAIT_S)
        self._scouts = min(self._scouts + 1, 10)
        self._scout_due = self._now() + wait_s * self._rng.uniform(1 - JITTER, 1)

    def _free_scout(self) -> None:
        self._is_scouting = False
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news.clear()

    # -------- on the way
    def _begin(self) -> None:
        self._out += 1
        self._keep_ticking()

    def _end(self, is_scout: bool) -> None:
        self._out -= 1
        if is_scout:
            self._plan_scout()
            self._free_scout()

    def _count_time(self) -> None:
        now_s = self._now()
        self._gone_s += min(now_s - self._counted_until, MOST_STEP_S)
        self._counted_until = now_s

    def _keep_ticking(self) -> None:
        """Count in small steps while a request may hang for minutes, or the capped step would lose them."""
        if self._ticker is None and self._failures and (self._out or self._is_scouting) and not self._is_stopped:
            self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticker = None
        self._count_time()
        self._keep_ticking()
