"""Limits of an endpoint: requests in flight, requests and tokens per minute, and a circuit breaker."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from gradebook.tasks.judging.transport.retry_policy import MOST_WAIT_S, RateLimit, read_rate_limit

START = 20  # requests in flight
START_ON_THIS_MACHINE = 4  # as many as a model on a CPU can work at
GROWTH = 0.05
SHRINK = 0.8
RARE = 25  # replies for each refusal, from which refusals do not shrink the number in flight
COOLDOWN_S = 15.0  # without growth after a refusal
QUEUEING = 0.85  # growth of the replies' time, as a share of the growth in flight, that means a queue
LEAST_QUEUE_S = 1.0  # time of replies below which a queue harms nobody
LEAST_COMPARED = 1.25  # growth in flight below which a difference in time is noise
HELD_ROUNDS = 5  # without growth after a queue was found; then the number may have changed

PACED_RATE = 0.96  # of a limit per minute, as clocks and networks are not exact
LEAST_PACED_RATE = 0.05
BURST_S = 0.5  # burst size, in seconds of flow; endpoints often allow one second
MOST_DEBT_S = 60.0
CLEAN_COUNT = 100  # requests until the pace rises, as a refused step costs at least one
LEARNED_REPLIES, LEARNING_S = 15, 60.0  # most between two refusals from which a pace is learned

SILENT_HOLD_S = 0.25  # if a refusal names no time; doubled by each one in a row
SPREAD_S = 0.5  # over which requests are spread after a hold
STORM_REFUSALS = 3  # in a row, each after its hold: no pace avoids them
STORM_LIMIT = 8  # requests in flight in a storm
CALM_REPLIES = 5  # in a row, which end it
VAIN_PACES = 3  # refusals in a row of a request alone in flight, each after few replies: they come by chance
MOST_CHANCE = 0.3  # share of refusals, above which they are a limit
CHANCE_COUNT = 50  # answers over which the share of such refusals is measured

FAILURES_UNTIL_GONE = 3  # consecutive, without an answer in between
FIRST_PROBE_WAIT_S, LONGEST_PROBE_WAIT_S = 1.0, 10.0


async def _wait(changed: asyncio.Event, at_most_s: float | None) -> None:
    """Wait until something changes, or for that long."""
    changed.clear()
    with suppress(TimeoutError):
        async with asyncio.timeout(None if at_most_s is None else max(at_most_s, 0.0005)):
            await changed.wait()


class Bucket:
    """Token bucket of one unit per minute, with the limit of the user, else of the endpoint; without one, no bucket.

    Refusals at an announced limit mean that other clients share it: the pace drops below it and recovers in small
    steps. A limit known from refusals alone may have been raised since: the pace rises until it is refused.
    """

    def __init__(self, own_limit: float | None, now_s: float) -> None:
        self._is_own = own_limit is not None
        self._announced = math.inf if own_limit is None else own_limit  # by the user, or in replies
        self._limit = self._announced  # or of a refusal
        self._rate = self._limit * PACED_RATE / 60  # per second
        self._level = self._burst
        self._filled_at = self._changed_at = now_s
        self._is_binding = False
        self.last_amount = 1.0

    @property
    def _burst(self) -> float:
        return max(self._rate * BURST_S, 1.0)

    def delay_s(self, amount: float, now_s: float) -> float:
        """Seconds until the amount is admitted; 0.0 is now. An amount larger than the bucket waits until it is full."""
        self._fill(now_s)
        lacking = min(amount, self._burst) - self._level
        if lacking <= 1e-6:
            return 0.0
        self._is_binding = True
        return max(0.0, self._filled_at - now_s) + lacking / self._rate

    def take(self, amount: float) -> None:
        self.last_amount = amount
        self.settle(-amount)

    def settle(self, amount: float) -> None:
        """Return an amount; a negative amount is taken."""
        self._level = max(min(self._level + amount, self._burst), -MOST_DEBT_S * self._rate)

    def announce(self, limit: float, now_s: float) -> None:
        """Adopt the limit of a reply. The user's limit takes precedence, as the two may count differently."""
        if not self._is_own and limit != self._announced:
            self._announced = limit
            self.forget_refusals(now_s)

    def forget_refusals(self, now_s: float) -> None:
        """Return to the announced limit, if any."""
        self._set_rate(self._announced, math.inf, now_s)

    def refuse(self, limit: float, now_s: float, pause_s: float, is_tried: bool) -> None:
        """Adopt the limit of a refusal.

        pause_s: seconds without inflow, a lead for the endpoint's own bucket. is_tried: whether a reply came since the
        previous refusal; if not, this one is no evidence about the pace.
        """
        limit = min(limit, self._announced) if self._is_own else limit
        rate, paced = self._rate, limit * PACED_RATE / 60
        if rate > paced or abs(limit - self._limit) > 0.01 * limit:
            rate = paced
        elif is_tried:
            rate = max(rate * SHRINK, LEAST_PACED_RATE * paced)
        self._set_rate(limit, rate, now_s)
        self._level = min(self._level, 0.0)
        self._filled_at = max(self._filled_at, now_s + pause_s)

    def grow(self, now_s: float) -> None:
        """Raise the pace one step, if it limits the requests and was not changed for a while."""
        clean_s = max(COOLDOWN_S, CLEAN_COUNT * self.last_amount / self._rate)
        if self._is_binding and now_s >= self._changed_at + clean_s:
            self._set_rate(self._limit, self._rate * (1 + GROWTH), now_s)

    def _set_rate(self, limit: float, rate: float, now_s: float) -> None:
        self._fill(now_s)
        self._limit, self._rate = limit, min(rate, self._announced * PACED_RATE / 60)
        self._level = min(self._level, self._burst)
        self._changed_at, self._is_binding = now_s, False

    def _fill(self, now_s: float) -> None:
        """Add the inflow since the last call, at most one burst."""
        if now_s > self._filled_at:
            self._level = min(self._burst, self._level + (now_s - self._filled_at) * self._rate)
            self._filled_at = now_s


class Limiter:
    """Limiter of requests to one endpoint, in one event loop.

    The number in flight doubles until a request is refused, or until replies take longer in proportion: then more only
    wait in a queue of the endpoint. Later it grows in small steps. A refusal shrinks it, or slows the pace if a limit
    per minute is used up. Each change is judged by the requests that were sent after it.

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
        read_limit: Callable[[Mapping[str, str], str], RateLimit | None] = read_rate_limit,
    ) -> None:
        self._ceiling, self._now, self._read_limit = ceiling, now, read_limit
        self.limit = min(start, ceiling)
        self.in_flight = 0
        self._turn, self._changed = asyncio.Lock(), asyncio.Event()
        self._is_stopped = False
        self._requests, self._tokens = Bucket(requests_per_minute, now()), Bucket(tokens_per_minute, now())
        self._buckets = {"requests": self._requests, "tokens": self._tokens}
        self._last_sent = self._hold_ends = self._refused_at = self._round_began = -math.inf
        self._times_s: list[float] = []  # of replies to requests sent in this round
        self._is_reached = False  # the limit, in this round; otherwise it is no evidence for a higher one
        self._earlier: tuple[int, float] | None = None  # limit of an earlier round, and the time of its replies
        self._held_rounds = 0  # left without growth
        self._replies = 0  # since the last refusal
        self._counted_replies, self._counted_refusals = 0, 1  # since the last refusal that counted, itself included
        self._refused_in_a_row = 0
        self._vain_paces = self._vain_replies = 0
        self._by_chance: _ChanceRefusals | None = None

    @asynccontextmanager
    async def slot(self, tokens: float) -> AsyncIterator[None]:
        """Slot for one request, in the order of arrival. tokens: expected usage."""
        async with self._turn:
            while not self._is_stopped:
                is_full, delay_s = self.in_flight >= self.limit, self._delay_s(tokens)
                if not is_full and delay_s <= 0:
                    break
                await _wait(self._changed, None if is_full else delay_s)
            self._last_sent = self._now()
            self._requests.take(1.0)
            self._tokens.take(tokens)
            self.in_flight += 1
            self._is_reached |= self.in_flight >= self.limit
        try:
            yield
        finally:
            self.in_flight -= 1
            self._changed.set()

    def stop(self) -> None:
        """Release every waiter and admit all later callers; callers check the stop flag themselves."""
        self._is_stopped = True
        self._changed.set()

    def note_reply(self, headers: Mapping[str, str], took_s: float = 0.0) -> None:
        """Note a reply; its headers may announce the current limits. took_s: from sending the request."""
        now_s = self._now()
        for bucket, announced in self._announced(headers):
            bucket.announce(announced.per_minute, now_s)
        self._requests.grow(now_s)
        self._tokens.grow(now_s)
        self._replies += 1
        self._counted_replies += 1
        if self._by_chance is not None:
            self._by_chance.note(is_refused=False)
        if self._refused_in_a_row < STORM_REFUSALS or self._replies >= CALM_REPLIES:
            self._refused_in_a_row = 0
        if now_s - took_s >= self._round_began:
            self._times_s.append(took_s)
            if len(self._times_s) >= self.limit:
                self._end_round(now_s)
        self._changed.set()

    def note_tokens(self, expected: float, used: int) -> None:
        """Replace the expected tokens of a request by the tokens used."""
        self._tokens.settle(expected - used)
        self._changed.set()

    def note_timeout(self, took_s: float) -> None:
        """Note a request without a reply in time: half as many are sent. Of those in flight together, one counts."""
        if self._now() - took_s >= self._round_began:
            self._held_rounds = HELD_ROUNDS
            self._begin_round(max(1, self.limit // 2), self._now())

    def note_rate_limit(self, headers: Mapping[str, str], retry_after_s: float | None, took_s: float = 0.0) -> None:
        """Note an HTTP 429. took_s: from sending the request. Of those in flight together, the first one counts."""
        now_s = self._now()
        announced = self._announced(headers)
        if self._is_by_chance(announced):
            return
        replies, since_s = self._replies, now_s - self._refused_at
        self._replies, self._refused_at = 0, now_s
        if self._refused_in_a_row >= STORM_REFUSALS and not announced:
            return  # in a storm each caller waits for its own Retry-After alone
        silent_s = min(SILENT_HOLD_S * 2**self._refused_in_a_row, MOST_WAIT_S)
        hold_s = silent_s if retry_after_s is None else retry_after_s
        self._hold_ends = max(self._hold_ends, now_s + hold_s)
        if now_s - took_s < self._round_began:
            self._counted_refusals += 1
            return
        is_rare = self._counted_replies >= RARE * self._counted_refusals
        self._counted_replies, self._counted_refusals = 0, 1
        if hold_s > 0 and self.in_flight <= 1:  # others in flight may still be answered
            self._refused_in_a_row = min(self._refused_in_a_row + 1, 16)
        limit, pause_s, is_tried = self.limit, max(hold_s, BURST_S), replies > 0
        used_up = [(bucket, known) for bucket, known in announced if (known.remaining or 0) < bucket.last_amount]
        for bucket, known in used_up:
            bucket.refuse(known.per_minute, now_s, pause_s, is_tried)
        if self._refused_in_a_row >= STORM_REFUSALS and not announced:
            limit, self._hold_ends = max(limit, min(STORM_LIMIT, self._ceiling)), -math.inf
            self._requests.forget_refusals(now_s)
        elif not announced and limit == 1 and self._is_pace_vain(replies):  # alone in flight, if sent in this round
            limit, self._hold_ends = min(STORM_LIMIT, self._ceiling), -math.inf
            self._requests.forget_refusals(now_s)
            self._by_chance = _ChanceRefusals(self._vain_rate)
            self._vain_paces = self._vain_replies = 0
        elif not used_up and limit == 1 and 0 < replies < LEARNED_REPLIES and 0 < since_s <= LEARNING_S:
            self._requests.refuse(replies * 60 / since_s, now_s, pause_s, is_tried)
        elif not used_up and not is_rare:
            limit = max(1, int(limit * SHRINK))
        self._begin_round(limit, now_s)

    def _is_by_chance(self, announced: list[tuple[Bucket, RateLimit]]) -> bool:
        """Note a refusal where refusals come by chance; then each caller waits for its own Retry-After alone."""
        if self._by_chance is None:
            return False
        self._by_chance.note(is_refused=True)
        if announced or self._by_chance.is_over:
            self._by_chance = None
            self._counted_replies, self._counted_refusals = 0, 1  # those by chance are no evidence that it is rare
        return self._by_chance is not None

    def _is_pace_vain(self, replies: int) -> bool:
        """Whether one request at a time, paced as learned, was refused after few replies again and again."""
        is_refused_soon = 0 < replies < LEARNED_REPLIES
        self._vain_paces = self._vain_paces + 1 if is_refused_soon else 0
        self._vain_replies = self._vain_replies + replies if is_refused_soon else 0
        return self._vain_paces >= VAIN_PACES and self._vain_rate <= MOST_CHANCE

    @property
    def _vain_rate(self) -> float:
        return self._vain_paces / (self._vain_paces + self._vain_replies)

    def _announced(self, headers: Mapping[str, str]) -> list[tuple[Bucket, RateLimit]]:
        limits = ((bucket, self._read_limit(headers, unit)) for unit, bucket in self._buckets.items())
        return [(bucket, limit) for bucket, limit in limits if limit is not None]

    def _begin_round(self, limit: int, now_s: float) -> None:
        self.limit, self._round_began, self._is_reached = limit, now_s, False
        self._times_s.clear()

    def _end_round(self, now_s: float) -> None:
        """Raise the limit after as many replies as it allows."""
        limit, time_s = self.limit, sorted(self._times_s)[len(self._times_s) // 2]
        earlier, earlier_s = self._earlier or (limit, time_s)
        growth = limit / earlier
        if growth >= LEAST_COMPARED and time_s >= max(LEAST_QUEUE_S, QUEUEING * growth * earlier_s):
            self._held_rounds, limit = HELD_ROUNDS, earlier
        else:
            self._earlier = limit, time_s
            self._held_rounds = max(0, self._held_rounds - 1)
            if self._is_reached and not self._held_rounds and now_s >= self._refused_at + COOLDOWN_S:
                limit += limit if self._refused_at == -math.inf else max(1, int(GROWTH * limit))
        self._begin_round(min(limit, self._ceiling), now_s)

    def _delay_s(self, tokens: float) -> float:
        """Seconds until time alone admits a request of that size."""
        now_s = self._now()
        if now_s < self._hold_ends:
            return self._hold_ends - now_s
        gap_s = self._last_sent + SPREAD_S / self.limit - now_s if now_s < self._hold_ends + SPREAD_S else 0.0
        return max(gap_s, self._requests.delay_s(1.0, now_s), self._tokens.delay_s(tokens, now_s))


class _ChanceRefusals:
    """Refusals that come by chance: no pace avoids them. Over, when more than twice the first share is refused."""

    def __init__(self, refused_rate: float) -> None:
        self._most_rate = 2 * refused_rate
        self._count = self._refused_count = 0.0

    def note(self, *, is_refused: bool) -> None:
        """Note an answer; older ones fade."""
        if self._count >= CHANCE_COUNT:
            self._count, self._refused_count = self._count / 2, self._refused_count / 2
        self._count, self._refused_count = self._count + 1, self._refused_count + is_refused

    @property
    def is_over(self) -> bool:
        """Whether so many are refused that it is a limit after all."""
        return self._count >= CHANCE_COUNT / 2 and self._refused_count > self._most_rate * self._count


class CircuitBreaker:
    """Circuit breaker of one endpoint, in one event loop.

    patience_s: maximum time without any answer. most_step_s: maximum time between two failures that counts; more means
    that the process slept, or sent nothing.
    """

    def __init__(
        self, patience_s: float, most_step_s: float = math.inf, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience_s, self._most_step_s, self._now = patience_s, most_step_s, now
        self.is_gone = self._is_probing = self._is_stopped = False
        self._failures = 0  # consecutive
        self._failed_at = self._gone_s = 0.0  # gone: since the first of these failures
        self._probe_wait_s, self._probe_due = FIRST_PROBE_WAIT_S, 0.0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """Context of one request; its result is to be noted inside.

        Entering returns at once while the endpoint answers. While it is gone, one caller at a time enters as the probe,
        after a wait that grows from 1 s to 10 s; leaving, cancelled or not, makes room for the next.
        """
        is_probe = False
        while self.is_gone and not (is_probe or self._is_stopped):
            wait_s = self._probe_due - self._now()
            if self._is_probing or wait_s > 0:
                await _wait(self._changed, None if self._is_probing else wait_s)
            else:
                is_probe = self._is_probing = True
        try:
            yield
        finally:
            if is_probe:
                self._is_probing = False
                self._schedule_probe()

    def note_answer(self) -> None:
        """Note any answer but a 5xx: the endpoint is there, and all waiters continue."""
        self._failures, self._probe_wait_s = 0, FIRST_PROBE_WAIT_S
        self.is_gone = False
        self._changed.set()

    def note_failure(self) -> bool:
        """Note a failed connection, a timeout or a 5xx; returns whether patience is over."""
        now_s = self._now()
        step_s = min(now_s - self._failed_at, self._most_step_s)
        self._gone_s = self._gone_s + step_s if self._failures else 0.0
        self._failures, self._failed_at = self._failures + 1, now_s
        if not self.is_gone and self._failures >= FAILURES_UNTIL_GONE:
            self.is_gone = True
            self._schedule_probe()
        return self.is_gone and self._gone_s >= self._patience_s

    def stop(self) -> None:
        """Release every waiter; callers check the stop flag themselves."""
        self._is_stopped = True
        self._changed.set()

    def _schedule_probe(self) -> None:
        is_over = self._gone_s >= self._patience_s  # each caller then has one attempt left, without a wait
        self._probe_due = self._now() + (0.0 if is_over else self._probe_wait_s)
        self._probe_wait_s = min(2 * self._probe_wait_s, LONGEST_PROBE_WAIT_S)
        self._changed.set()
