"""Circuit breaker of an endpoint: while it is gone, one request at a time probes it and the others wait."""

import asyncio
import time
from collections.abc import Callable
from types import TracebackType

import numpy as np

FAILURES_UNTIL_GONE = 3  # consecutive, without an answer in between
FIRST_WAIT_S = 1.0
MOST_WAIT_S = 10.0
JITTER = 0.2  # of a wait
MOST_STEP_S = 30.0  # a longer step means that the process slept
TICK_S = 10.0


class _Attempt:
    """One request while it is sent; the half-open probe, if the endpoint is gone."""

    __slots__ = ("_breaker", "_is_probe")

    def __init__(self, breaker: "CircuitBreaker") -> None:
        self._breaker = breaker
        self._is_probe = False

    async def __aenter__(self) -> None:
        if self._breaker.is_gone:
            self._is_probe = await self._breaker._wait_while_gone()
        self._breaker._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._breaker._end(self._is_probe)


class CircuitBreaker:
    """Circuit breaker of one endpoint, in one event loop.

    patience_s: maximum time without any answer. A span in which the process slept, or sent nothing, counts 30 s at
    most.
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
        self._is_stopped = False
        self._out = 0  # attempts in progress
        self._failures = 0  # consecutive
        self._gone_s = 0.0  # since the first of these failures
        self._counted_until = now()
        self._ticker: asyncio.TimerHandle | None = None
        self._is_probing = False
        self._probe_count = 0
        self._probe_due = 0.0
        self._changed = asyncio.Event()

    def attempt(self) -> _Attempt:
        """Context of one request, entered with `async with`; its result is to be noted inside.

        Entering returns at once while the endpoint answers. While it is gone, one caller at a time enters as the probe,
        after a wait that grows from 1 s to 10 s; leaving, cancelled or not, makes room for the next.
        """
        return _Attempt(self)

    def note_answer(self) -> None:
        """Note any answer but a 5xx: the endpoint is there, and all waiters continue."""
        self._failures = self._probe_count = 0
        if self.is_gone:
            self.is_gone = False
            self._wake()

    def note_failure(self) -> bool:
        """Note a failed connection, a timeout or a 5xx; returns whether patience is over."""
        self._count_time()
        if not self._failures:
            self._gone_s = 0.0
        self._failures += 1
        if not self.is_gone and self._failures >= FAILURES_UNTIL_GONE:
            self.is_gone = True
            self._schedule_probe()
        self._keep_ticking()
        return self.is_gone and self._gone_s >= self._patience_s

    def stop(self) -> None:
        """Release every waiter; callers check the stop flag themselves."""
        self._is_stopped = True
        self._wake()

    # -------- waiting
    async def _wait_while_gone(self) -> bool:
        """Wait until the endpoint is back or a probe is due; returns whether this caller is the probe."""
        while self.is_gone and not self._is_stopped:
            if self._is_probing:
                await self._changed.wait()
                continue
            self._is_probing = True
            try:
                is_probe = await self._wait_for_probe()
            except BaseException:
                self._end_probe()
                raise
            if is_probe:
                return True
            self._end_probe()
        return False

    async def _wait_for_probe(self) -> bool:
        """Wait until the probe is due; returns False if none is needed any more."""
        while self.is_gone and not self._is_stopped:
            wait_s = self._probe_due - self._now()
            if wait_s <= 0:
                return True
            self._keep_ticking()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                return True
        return False

    def _schedule_probe(self) -> None:
        is_over = self._gone_s >= self._patience_s  # each caller then has one attempt left, without a wait
        wait_s = 0.0 if is_over else min(FIRST_WAIT_S * 2**self._probe_count, MOST_WAIT_S)
        self._probe_count = min(self._probe_count + 1, 10)
        self._probe_due = self._now() + wait_s * self._rng.uniform(1 - JITTER, 1)

    def _end_probe(self) -> None:
        self._is_probing = False
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed.clear()

    # -------- attempts
    def _begin(self) -> None:
        self._out += 1
        self._keep_ticking()

    def _end(self, is_probe: bool) -> None:
        self._out -= 1
        if is_probe:
            self._schedule_probe()
            self._end_probe()

    def _count_time(self) -> None:
        now_s = self._now()
        self._gone_s += min(now_s - self._counted_until, MOST_STEP_S)
        self._counted_until = now_s

    def _keep_ticking(self) -> None:
        """Count time in small steps while a request may hang for minutes: one long step would be capped."""
        if self._ticker is None and self._failures and (self._out or self._is_probing) and not self._is_stopped:
            self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticker = None
        self._count_time()
        self._keep_ticking()
