"""Token buckets for requests and tokens per minute, by the user's and the endpoint's limits."""

import math

PACED_RATE = 0.96  # of a limit, as clocks and networks are not exact
BURST_S = 0.5  # burst size, in seconds of flow; endpoints often allow one second
CLEAN_S = 15.0
CLEAN_COUNT = 100  # a refused step costs at least one request
GROWTH = 1.05
SHRINK = 0.8
LEAST_FACTOR = 0.02
MOST_DEBT_S = 60.0


class Bucket:
    """Limit of one unit per minute; without a limit, everything is admitted.

    The limit is the user's, else the endpoint's. Refusals at a known limit mean that other clients share it: the pace
    drops below it and recovers in small steps. A limit known from refusals alone may have been raised since: the pace
    rises in small steps until it is refused.
    """

    def __init__(self, ceiling: float | None, now_s: float) -> None:
        self._ceiling = ceiling  # the user's, per minute
        self.limit = ceiling  # assumed, per minute
        self._factor = 1.0
        self._is_confirmed = ceiling is not None  # known from more than refusals
        self._rate = self._burst = math.inf  # per second; at once
        self._level = math.inf
        self._filled_at = self._clean_since = now_s
        self._is_binding = False
        self.last_amount = 1.0
        self._set_pace(now_s)

    def delay_s(self, amount: float, now_s: float) -> float:
        """Seconds until the amount is admitted; 0.0 is now. An amount larger than the bucket waits until it is full."""
        if self.limit is None:
            return 0.0
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
        if self.limit is not None:
            self._level = max(min(self._level + amount, self._burst), -MOST_DEBT_S * self._rate)

    def follow(self, limit: float, remaining: float | None, now_s: float) -> None:
        """Adopt the limit of a reply. The user's limit takes precedence, as the two may count differently."""
        if self._ceiling is not None or (limit == self.limit and self._is_confirmed):
            return
        is_first = self.limit is None
        self.limit, self._is_confirmed = limit, True
        self._factor = min(self._factor, 1.0)
        self._set_pace(now_s)
        if is_first and remaining is not None:
            self._level = min(self._level, remaining)

    def refuse(self, limit: float, now_s: float, pause_s: float, is_pace_tried: bool = True) -> None:
        """Adopt the limit of a refusal: the endpoint's own bucket is empty.

        pause_s: seconds without inflow, a lead for the endpoint's bucket. is_pace_tried: whether a reply came since the
        previous refusal; if not, the refusal is no evidence about the pace.
        """
        limit = limit if self._ceiling is None else min(limit, self._ceiling)
        if self.limit is None or abs(limit - self.limit) > 0.01 * self.limit:
            self.limit, self._factor, self._is_confirmed = limit, 1.0, False
        elif is_pace_tried:
            self._factor = 1.0 if self._factor > 1 else max(self._factor * SHRINK, LEAST_FACTOR)
        self._set_pace(now_s)
        self._level = min(self._level, 0.0)
        self._filled_at = max(self._filled_at, now_s + pause_s)
        self.stain(now_s)

    def forget(self) -> None:
        """Drop a limit known from refusals alone."""
        if not self._is_confirmed:
            self.limit, self._factor = None, 1.0
            self._rate = self._burst = self._level = math.inf

    def stain(self, now_s: float) -> None:
        """Note a refusal of any kind: the time without one restarts."""
        self._clean_since, self._is_binding = now_s, False

    def probe(self, now_s: float) -> None:
        """Raise the pace one step after a while without a refusal, if the pace limits the requests."""
        if self.limit is None or not self._is_binding:
            return
        if now_s - self._clean_since < max(CLEAN_S, CLEAN_COUNT * self.last_amount / self._rate):
            return
        self.stain(now_s)
        most = self._ceiling / self.limit if self._ceiling is not None else math.inf
        self._factor = min(self._factor * GROWTH, 1.0 if self._is_confirmed else most)
        self._set_pace(now_s)

    def _set_pace(self, now_s: float) -> None:
        if self.limit is None:
            return
        self._fill(now_s)
        self._rate = max(self.limit * self._factor, min(self.limit, 1.0)) * PACED_RATE / 60
        self._burst = max(self._rate * BURST_S, 1.0)
        self._level = min(self._level, self._burst)

    def _fill(self, now_s: float) -> None:
        """Add the inflow since the last call, at most one burst."""
        if now_s > self._filled_at and self._level < self._burst:
            self._level = min(self._burst, self._level + (now_s - self._filled_at) * self._rate)
        self._filled_at = max(self._filled_at, now_s)
