"""How many requests are out at once, and how fast they follow each other: as much as the endpoint bears.

The number out grows until the endpoint objects (additive increase, multiplicative decrease), beside token buckets for
the requests and tokens a minute. Whoever waits here holds nothing, and goes in the order of coming.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType

from gradebook.tasks.judging.transport.retry_policy import MOST_RETRY_AFTER_S, RateLimit, read_rate_limit
from gradebook.tasks.judging.transport.token_bucket import BURST_S, Bucket

START = 20
GROWTH = 0.05
SHRINK = 0.8
USED_RATE = 0.8  # a limit that was not used says nothing about a higher one
COOLDOWN_S = 15.0
FIRST_RESET_S = 5.0  # where a limit is told to be reset in a minute, it often lets requests through long before
SILENT_HOLD_S = 0.25  # where the refusal does not say
MOST_SPREAD_S = 0.5
LEAST_TIMER_S = 0.0005
LEARNING_S = (1.0, 60.0)  # between two refusals, for a pace to be learned from what came through

Waiter = tuple[asyncio.Future[int], float]


class _Slot:
    """One request's place among those that are out."""

    __slots__ = ("_limiter", "_round", "_tokens")

    def __init__(self, limiter: "Limiter", tokens: float) -> None:
        self._limiter = limiter
        self._tokens = tokens

    async def __aenter__(self) -> None:
        self._round = await self._limiter._enter(self._tokens)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter._leave(self._round)


class Limiter:
    """Lets requests out to one endpoint; lives in one event loop.

    ceiling: requests out at once, never more. limit: how many may be out now. requests_per_minute and
    tokens_per_minute are the user's own limits; without them what the endpoint tells counts.
    """

    def __init__(
        self,
        ceiling: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ceiling = ceiling
        self._now = now
        self.limit = min(START, ceiling)
        self.in_flight = self.waiting = 0
        self._waiters: deque[Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._requests = Bucket(requests_per_minute, now())
        self._tokens = Bucket(tokens_per_minute, now())
        self._last_told: tuple[str | None, str | None] = (None, None)
        self._has_been_refused = False
        self._left_of_round = self.limit  # replies until the limit may grow
        self._most_used = 0  # in this round
        self._refusals = 0  # that counted; a slot remembers how many there were when it was given
        self._old_out = 0  # requests that were out at the last of them, and still are
        self._cooldown_ends = self._hold_ends = self._spread_ends = self._last_out = -math.inf
        self._spread_gap_s = 0.0
        self._refused_in_a_row = 0  # refusals that counted, since the last reply
        self._answered = 0  # replies since then:
        self._counted_since = -math.inf

    def slot(self, tokens: float) -> _Slot:
        """A place for one request, to be entered with `async with`. tokens: what it is expected to use."""
        return _Slot(self, tokens if math.isfinite(tokens) and tokens > 0 else 0.0)

    def stop(self) -> None:
        """Let all go at once, those who wait and those who come; they know themselves why nothing is to be sent."""
        self._is_stopped = True
        self._wake()

    # -------- what came back
    def note_reply(self, headers: Mapping[str, str]) -> None:
        """A reply came. Its headers may tell the limits of now."""
        self._answered += 1
        self._refused_in_a_row = 0
        told = (headers.get("x-ratelimit-limit-requests"), headers.get("x-ratelimit-limit-tokens"))
        if told != self._last_told:
            self._last_told = told
            self._follow(headers)
        self._end_round()
        now_s = self._now()
        self._requests.probe(now_s)
        self._tokens.probe(now_s)
        self._wake()

    def note_tokens(self, expected: float, used: int) -> None:
        """Settle what a request was expected to use on what it used."""
        if math.isfinite(expected):
            self._tokens.settle(max(expected, 0.0) - used)
            self._wake()

    def note_rate_limit(self, headers: Mapping[str, str], retry_after_s: float | None) -> None:
        """A request was refused with HTTP 429. Of those that were out together only the first counts as a refusal."""
        now_s = self._now()
        requests, tokens = read_rate_limit(headers, "requests"), read_rate_limit(headers, "tokens")
        hold_s = _hold_s(retry_after_s, self._refused_in_a_row, requests, tokens)
        self._hold(hold_s, now_s)
        self._requests.stain(now_s)
        self._tokens.stain(now_s)
        self._has_been_refused = True
        if not self._old_out or now_s >= self._cooldown_ends:
            self._slow_down(requests, tokens, max(hold_s, BURST_S), now_s)
            self._cooldown_ends = now_s + COOLDOWN_S
            self._refusals += 1
            self._refused_in_a_row += 1
            self._old_out = self.in_flight
            self._begin_round()
        self._wake()

    def _follow(self, headers: Mapping[str, str]) -> None:
        for bucket, unit in ((self._requests, "requests"), (self._tokens, "tokens")):
            told = read_rate_limit(headers, unit)
            if told is not None:
                bucket.follow(told.per_minute, told.remaining, self._now())

    def _slow_down(self, requests: RateLimit | None, tokens: RateLimit | None, pause_s: float, now_s: float) -> None:
        """Slow the pace where the minute's requests or tokens are used up; else have fewer requests out."""
        is_named = False
        for bucket, told, needed in ((self._requests, requests, 1.0), (self._tokens, tokens, self._tokens.last_amount)):
            if told is not None and (told.remaining is None or told.remaining < needed):
                bucket.refuse(told.per_minute, now_s, pause_s, is_pace_tried=not self._refused_in_a_row)
                is_named = True
        if not is_named and self.limit == 1:
            self._learn_pace(pause_s, now_s)
        elif not is_named:
            self.limit = max(1, int(self.limit * SHRINK))
            self._answered, self._counted_since = 0, now_s

    def _learn_pace(self, pause_s: float, now_s: float) -> None:
        """One at a time is too much, so it is a matter of pace: as many as came through since an earlier refusal."""
        counted_s = now_s - self._counted_since
        if counted_s < LEARNING_S[0]:
            return
        if counted_s <= LEARNING_S[1]:
            self._requests.refuse(max(self._answered, 1) * 60 / counted_s, now_s, pause_s)
        self._answered, self._counted_since = 0, now_s

    def _hold(self, hold_s: float, now_s: float) -> None:
        """Let nothing out for a while, and then one after the other."""
        if hold_s > 0 and now_s + hold_s > self._hold_ends:
            spread_s = min(hold_s, MOST_SPREAD_S)
            self._hold_ends = now_s + hold_s
            self._spread_ends = self._hold_ends + spread_s
            self._spread_gap_s = spread_s / self.limit

    def _begin_round(self) -> None:
        self._left_of_round = self.limit
        self._most_used = self.in_flight

    def _end_round(self) -> None:
        """After as many replies as may be out, allow more: twice as many until the first refusal, then a little."""
        self._left_of_round -= 1
        if self._left_of_round > 0:
            return
        if self._most_used >= USED_RATE * self.limit and self._now() >= self._cooldown_ends:
            step = max(1, int(GROWTH * self.limit)) if self._has_been_refused else self.limit
            self.limit = min(self._ceiling, self.limit + step)
        self._begin_round()

    # -------- going out
    async def _enter(self, tokens: float) -> int:
        """Wait for a place; returns how many refusals there had been when it was given."""
        if not self.waiting and self._is_free(tokens):
            self._let_out(tokens)
            return self._refusals
        place: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiters.append((place, tokens))
        self.waiting += 1
        self._wake()
        try:
            return await place
        except asyncio.CancelledError:
            self._give_up(place, tokens)
            raise

    def _leave(self, refusals: int) -> None:
        self.in_flight -= 1
        if refusals < self._refusals and self._old_out:
            self._old_out -= 1
        self._wake()

    def _give_up(self, place: asyncio.Future[int], tokens: float) -> None:
        """A waiter was cancelled, perhaps in the very moment in which it got its place."""
        if place.cancelled():
            self.waiting -= 1
            self._wake()
            return
        self._requests.settle(1.0)
        self._tokens.settle(tokens)
        self._leave(place.result())

    def _is_free(self, tokens: float) -> bool:
        return self._is_stopped or (self.in_flight < self.limit and self._delay_s(tokens) <= 0)

    def _delay_s(self, tokens: float) -> float:
        """How long until time alone lets a request of that size out."""
        now_s = self._now()
        if now_s < self._hold_ends:
            return self._hold_ends - now_s
        gap_s = self._last_out + self._spread_gap_s - now_s if now_s < self._spread_ends else 0.0
        return max(gap_s, self._requests.delay_s(1.0, now_s), self._tokens.delay_s(tokens, now_s))

    def _let_out(self, tokens: float) -> None:
        self._last_out = self._now()
        self._requests.take(1.0)
        self._tokens.take(tokens)
        self.in_flight += 1
        self._most_used = max(self._most_used, self.in_flight)

    def _wake(self) -> None:
        """Let out all who may go, the first come first; the first who may not holds the others back."""
        while self._waiters:
            place, tokens = self._waiters[0]
            if not place.done():
                if not self._is_free(tokens):
                    break
                self.waiting -= 1
                self._let_out(tokens)
                place.set_result(self._refusals)
            self._waiters.popleft()
        if self._waiters and self.in_flight < self.limit:
            self._set_timer(self._delay_s(self._waiters[0][1]))

    def _set_timer(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + max(delay_s, LEAST_TIMER_S)
        if self._timer is not None:
            if self._timer.when() <= due:
                return  # it comes early, and is set again then
            self._timer.cancel()
        self._timer = loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._wake()


def _hold_s(retry_after_s: float | None, refused_in_a_row: int, *told: RateLimit | None) -> float:
    """How long a refusal holds back those that come after it."""
    if retry_after_s is not None and math.isfinite(retry_after_s):
        return min(max(retry_after_s, 0.0), MOST_RETRY_AFTER_S)
    resets = [each.reset_s for each in told if each is not None and each.remaining == 0 and each.reset_s is not None]
    most_s = min(FIRST_RESET_S * 2.0 ** min(refused_in_a_row, 8), MOST_RETRY_AFTER_S)
    return min(max(resets, default=SILENT_HOLD_S), most_s)
