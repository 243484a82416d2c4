"""An endpoint with limits, on a virtual clock, and callers that ask it through a limiter."""

import asyncio
from dataclasses import dataclass, field

import numpy as np

from gradebook.tasks.judging.transport.limits import Limiter
from gradebook.tasks.judging.transport.retry_policy import wait_s
from tests.support.virtual_time import virtual_now


@dataclass
class SimulatedEndpoint:
    """Answers after a while, or refuses: more requests a minute than it has credit for, or too many at once.

    refuse_rate: refusals by chance. tells: whether it names its limit "always", in "refusals" alone, or "never".
    """

    per_minute: float = 1e9
    latency_s: float = 0.2
    jitter_s: float = 0.0
    tells: str = "refusals"
    retry_after_s: float | None = 1.0
    most_out: int = 1_000_000
    burst_s: float = 1.0
    refuse_rate: float = 0.0  # of requests, whatever the pace
    out: int = 0
    statuses: list[int] = field(default_factory=list)
    answered_at: list[float] = field(default_factory=list)
    refused_at: list[float] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    _credit: float | None = None
    _filled_at: float = 0.0

    def _is_within_limits(self) -> bool:
        rate = self.per_minute / 60
        burst = max(1.0, rate * self.burst_s)
        gathered = (virtual_now() - self._filled_at) * rate
        credit = burst if self._credit is None else min(burst, self._credit + gathered)
        self._filled_at = virtual_now()
        is_within = credit >= 1 and self.out < self.most_out
        self._credit = credit - is_within
        return is_within

    def _told(self) -> dict[str, str]:
        remaining = int(self._credit or 0)
        return {
            "x-ratelimit-limit-requests": f"{self.per_minute:.0f}",
            "x-ratelimit-remaining-requests": str(remaining),
        }

    async def ask(self) -> tuple[int, dict[str, str]]:
        """One request: the status and the headers."""
        way_s = self.rng.uniform(0.001, 0.001 + self.jitter_s)
        await asyncio.sleep(way_s)
        if not self._is_within_limits() or (self.refuse_rate and self.rng.random() < self.refuse_rate):
            self.statuses.append(429)
            self.refused_at.append(virtual_now())
            headers = self._told() if self.tells != "never" else {}
            await asyncio.sleep(way_s)
            return 429, headers
        self.out += 1
        headers = self._told() if self.tells == "always" else {}
        await asyncio.sleep(self.latency_s)
        self.out -= 1
        self.statuses.append(200)
        self.answered_at.append(virtual_now())
        return 200, headers

    @property
    def refused_rate(self) -> float:
        return self.statuses.count(429) / len(self.statuses)

    def used_rate(self, since_s: float, until_s: float) -> float:
        """Replies in a span, as a share of what the limit allows in it."""
        count = sum(since_s <= at < until_s for at in self.answered_at)
        return count / (self.per_minute / 60 * (until_s - since_s))


async def ask_through(limiter: Limiter, endpoint: SimulatedEndpoint, count: int, caller_count: int = 200) -> float:
    """Ask until so many replies came; returns the seconds that took."""
    rng = np.random.default_rng(7)
    left = count

    async def call() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            failure_count = 0
            while True:
                async with limiter.slot(100.0):
                    sent_s = virtual_now()
                    status, headers = await endpoint.ask()
                    took_s = virtual_now() - sent_s
                    if status == 200:
                        limiter.note_reply(headers, took_s)
                        break
                    limiter.note_rate_limit(headers, endpoint.retry_after_s, took_s)
                failure_count += 1
                await asyncio.sleep(wait_s(failure_count - 1, endpoint.retry_after_s, rng))

    began_s = virtual_now()
    await asyncio.gather(*(call() for _ in range(caller_count)))
    return virtual_now() - began_s
