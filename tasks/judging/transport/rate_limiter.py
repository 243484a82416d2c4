"""Adaptive limit of concurrent requests and of their pace.

The number of requests in flight grows until the endpoint refuses one (additive increase, multiplicative decrease), or
until replies take longer in proportion: then more requests only wait in a queue of the endpoint.
Token buckets limit the requests and tokens per minute. Waiters hold no resource and proceed in the order of arrival.
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
START_ON_THIS_MACHINE = 4  # as many as a model on a CPU can work at
QUEUEING = 0.85  # growth of the replies' time, as a share of the growth in flight, that means a queue
LEAST_QUEUE_S = 1.0  # mean time of replies below which a queue harms nobody
LEAST_COMPARED = 1.25  # growth in flight below which a difference in time is noise
HELD_ROUNDS = 5  # without growth after a queue was found; then the number may have changed
GROWTH = 0.05
SHRINK = 0.8
USED_RATE = 0.8  # a limit that was not reached is no evidence for a higher one
COOLDOWN_S = 15.0
FIRST_RESET_S = 5.0  # a limit announced to reset in a minute often admits requests much earlier
SILENT_HOLD_S = 0.25  # if the refusal names no time
MOST_SPREAD_S = 0.5
LEAST_TIMER_S = 0.0005
STORM_REFUSALS = 3  # in a row, each after its hold: no pace avoids them
STORM_LIMIT = 8  # requests in flight in a storm
CALM_REPLIES = 5  # in a row, which end it
LEARNING_S = (1.0, 60.0)  # span between two refusals from which a pace is learned

Waiter = tuple[asyncio.Future[int], float]


class _Slot:
    """Slot of one request in flight."""

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
    """Limiter of requests to one endpoint, in one event loop.

    ceiling: maximum number of requests in flight. start: their number at first. limit: current number.
    requests_per_minute and tokens_per_minute are the user's own limits; without them the endpoint's announced limits
    apply.
    """

    def __init__(
        self,
        ceiling: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        now: Callable[[], float] = time.monotonic,
        start: int = START,
    ) -> None:
        self._ceiling = ceiling
        self._now = now
        self.limit = min(start, ceiling)
        self.in_flight = self.waiting = 0
        self._waiters: deque[Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._requests = Bucket(requests_per_minute, now())
        self._tokens = Bucket(tokens_per_minute, now())
        self._last_limits: tuple[str | None, str | None] = (None, None)
        self._has_been_refused = False
        self._left_of_round = self.limit  # replies until the limit may grow
        self._most_used = 0  # maximum in flight in this round
        self._times_s: list[float] = []  # of the replies in the second half of this round: all were sent within it
        # Limit of an earlier round, and the mean and the least time of its replies: a queue raises both.
        self._compared: tuple[int, float, float] | None = None
        self._held_rounds = 0  # left without growth
        self._refusals = 0  # counted refusals; a slot stores their number at its start
        self._old_out = 0  # requests in flight at the last counted refusal and still in flight
        self._cooldown_ends = self._hold_ends = self._spread_ends = self._last_out = -math.inf
        self._spread_gap_s = 0.0
        self._refused_in_a_row = 0  # counted refusals since the last reply
        # In a storm the endpoint refuses at any pace: each caller waits for its own Retry-After alone.
        self._is_storm = False
        self._replied_in_a_row = 0
        self._answered = 0  # replies since `_counted_since`
        self._counted_since = -math.inf

    def slot(self, tokens: float) -> _Slot:
        """Slot for one request, entered with `async with`. tokens: expected usage."""
        return _Slot(self, tokens if math.isfinite(tokens) and tokens > 0 else 0.0)

    def stop(self) -> None:
        """Release every waiter and admit all later callers; callers check the stop flag themselves."""
        self._is_stopped = True
        self._wake()

    # -------- replies
    def note_reply(self, headers: Mapping[str, str], took_s: float = 0.0) -> None:
        """Note a reply; its headers may announce the current limits. took_s: from sending it."""
        if self._left_of_round <= (self.limit + 1) // 2:
            self._times_s.append(took_s)
        self._answered += 1
        self._refused_in_a_row = 0
        self._replied_in_a_row += 1
        self._is_storm = self._is_storm and self._replied_in_a_row < CALM_REPLIES
        limits = (headers.get("x-ratelimit-limit-requests"), headers.get("x-ratelimit-limit-tokens"))
        if limits != self._last_limits:
            self._last_limits = limits
            self._follow(headers)
        self._end_round()
        now_s = self._now()
        self._requests.probe(now_s)
        self._tokens.probe(now_s)
        self._wake()

    def note_tokens(self, expected: float, used: int) -> None:
        """Replace the expected tokens of a request by the tokens used."""
        if math.isfinite(expected):
            self._tokens.settle(max(expected, 0.0) - used)
            self._wake()

    def note_rate_limit(self, headers: Mapping[str, str], retry_after_s: float | None) -> None:
        """Note an HTTP 429. Of requests in flight together, only the first refusal counts."""
        now_s = self._now()
        requests, tokens = read_rate_limit(headers, "requests"), read_rate_limit(headers, "tokens")
        self._replied_in_a_row = 0
        if self._is_storm and requests is tokens is None:
            return
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
            if requests is tokens is None and hold_s > 0 and self._refused_in_a_row >= STORM_REFUSALS:
                self._begin_storm()
            self._old_out = self.in_flight
            self._begin_round()
        self._wake()

    def note_timeout(self) -> None:
        """Note a request without a reply in time: half as many go out. Of requests in flight together, one counts."""
        if self._old_out:
            return
        self.limit = max(1, self.limit // 2)
        self._held_rounds = HELD_ROUNDS
        self._refusals += 1
        self._old_out = self.in_flight
        self._begin_round()

    def _follow(self, headers: Mapping[str, str]) -> None:
        for bucket, unit in ((self._requests, "requests"), (self._tokens, "tokens")):
            announced = read_rate_limit(headers, unit)
            if announced is not None:
                bucket.follow(announced.per_minute, announced.remaining, self._now())

    def _slow_down(self, requests: RateLimit | None, tokens: RateLimit | None, pause_s: float, now_s: float) -> None:
        """Reduce the pace if the minute's requests or tokens are used up, otherwise the number in flight."""
        is_named = False
        for bucket, announced, needed in (
            (self._requests, requests, 1.0),
            (self._tokens, tokens, self._tokens.last_amount),
        ):
            if announced is not None and (announced.remaining is None or announced.remaining < needed):
                bucket.refuse(announced.per_minute, now_s, pause_s, is_pace_tried=not self._refused_in_a_row)
                is_named = True
        if not is_named and self.limit == 1:
            self._learn_pace(pause_s, now_s)
        elif not is_named:
            self.limit = max(1, int(self.limit * SHRINK))
            self._answered, self._counted_since = 0, now_s

    def _learn_pace(self, pause_s: float, now_s: float) -> None:
        """Learn a pace once a single request in flight is too much: the replies since an earlier refusal."""
        counted_s = now_s - self._counted_since
        if counted_s < LEARNING_S[0]:
            return
        if counted_s <= LEARNING_S[1]:
            self._requests.refuse(max(self._answered, 1) * 60 / counted_s, now_s, pause_s)
        self._answered, self._counted_since = 0, now_s

    def _begin_storm(self) -> None:
        """Stop slowing down, as that avoids no refusal, and forget a pace that was learned from refusals."""
        self._is_storm = True
        self.limit = max(self.limit, min(STORM_LIMIT, self._ceiling))
        self._requests.forget()
        self._hold_ends = self._spread_ends = -math.inf

    def _hold(self, hold_s: float, now_s: float) -> None:
        """Send nothing for a while, then one request after the other."""
        if hold_s > 0 and now_s + hold_s > self._hold_ends:
            spread_s = min(hold_s, MOST_SPREAD_S)
            self._hold_ends = now_s + hold_s
            self._spread_ends = self._hold_ends + spread_s
            self._spread_gap_s = spread_s / self.limit

    def _begin_round(self) -> None:
        self._left_of_round = self.limit
        self._times_s.clear()
        self._most_used = self.in_flight

    def _end_round(self) -> None:
        """Raise the limit after as many replies as it allows: doubled until the first refusal, then in small steps."""
        self._left_of_round -= 1
        if self._left_of_round > 0:
            return
        is_queueing = self._is_queueing()
        self._held_rounds = max(0, self._held_rounds - 1)
        if is_queueing or self._held_rounds:
            pass
        elif self._most_used >= USED_RATE * self.limit and self._now() >= self._cooldown_ends:
            step = max(1, int(GROWTH * self.limit)) if self._has_been_refused else self.limit
            self.limit = min(self._ceiling, self.limit + step)
        self._begin_round()

    def _is_queueing(self) -> bool:
        """Whether the replies of this round only waited longer than those of one with fewer in flight; if so, the limit
        goes back to that number.
        """
        mean_s, least_s = sum(self._times_s) / max(1, len(self._times_s)), min(self._times_s, default=0.0)
        if self._compared is not None and mean_s >= LEAST_QUEUE_S:
            earlier, earlier_mean_s, earlier_least_s = self._compared
            growth = self.limit / earlier
            is_longer = mean_s >= QUEUEING * growth * earlier_mean_s and least_s >= (1 + growth) / 2 * earlier_least_s
            if growth >= LEAST_COMPARED and is_longer:
                self.limit, self._held_rounds = earlier, HELD_ROUNDS
                return True
        self._compared = (self.limit, mean_s, least_s)
        return False

    # -------- sending
    async def _enter(self, tokens: float) -> int:
        """Wait for a slot; returns the number of counted refusals at its start."""
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
        """Undo a cancelled wait, which may have received its slot at the same moment."""
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
        """Seconds until time alone admits a request of that size."""
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
        """Admit waiters in order of arrival, until the first that has to wait on."""
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
                return  # rings early and is set again then
            self._timer.cancel()
        self._timer = loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._wake()


def _hold_s(retry_after_s: float | None, refused_in_a_row: int, *announced: RateLimit | None) -> float:
    """Seconds for which a refusal holds back later requests."""
    if retry_after_s is not None and math.isfinite(retry_after_s):
        return min(max(retry_after_s, 0.0), MOST_RETRY_AFTER_S)
    resets = [
        each.reset_s for each in announced if each is not None and each.remaining == 0 and each.reset_s is not None
    ]
    most_s = min(FIRST_RESET_S * 2.0 ** min(refused_in_a_row, 8), MOST_RETRY_AFTER_S)
    return min(max(resets, default=SILENT_HOLD_S), most_s)
