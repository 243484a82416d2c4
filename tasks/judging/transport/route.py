"""Route to a judge: one address with its price, rate limiter and circuit breaker."""

import asyncio
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from gradebook.tasks.judging.money.prices import Price, find_price
from gradebook.tasks.judging.replies.completion import Reply
from gradebook.tasks.judging.settings.judge import Address, JudgeSettings
from gradebook.tasks.judging.transport.circuit_breaker import CircuitBreaker
from gradebook.tasks.judging.transport.endpoint import Endpoint, Failure
from gradebook.tasks.judging.transport.rate_limiter import START, START_ON_THIS_MACHINE, Limiter
from gradebook.tasks.system.operator_settings import is_loopback


class Route:
    """Endpoint with its price, limiter and circuit breaker; replies and failures are noted in both.

    has_reply: whether it ever answered with HTTP 200; has_logprobs: with log-probabilities. Until then a request under
    a budget, or one that needs them, runs alone, with `first_turn` locked: an endpoint that breaks the budget's bound,
    or has no log-probabilities, costs one reply, not all in flight.
    """

    def __init__(self, settings: JudgeSettings, address: Address, key: str, price: Price | None) -> None:
        self.base_url = address.base_url
        self.price = price
        self.has_reply = self.has_logprobs = False
        self.first_turn = asyncio.Lock()
        self.endpoint = Endpoint(settings, address, key)
        is_near = is_loopback(urlsplit(address.base_url).hostname or "")
        self.limiter = Limiter(
            settings.max_in_flight,
            settings.requests_per_minute,
            settings.tokens_per_minute,
            start=START_ON_THIS_MACHINE if is_near else START,
        )
        self.breaker = CircuitBreaker(settings.patience_s)

    def note_reply(self, reply: Reply, expected_tokens: float) -> None:
        """Learn from an HTTP 200."""
        self.has_reply = True
        self.has_logprobs |= reply.choices is not None
        self.breaker.note_answer()
        self.limiter.note_reply(reply.headers or {}, reply.latency_ms / 1000)
        if reply.usage is not None:
            self.limiter.note_tokens(expected_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens)

    def note_failure(self, failure: Failure) -> bool:
        """Learn from any other result. Returns whether the endpoint has been gone for longer than patience."""
        if failure.is_rate_limit:
            self.limiter.note_rate_limit(failure.headers or {}, failure.retry_after_s)
        if failure.is_timeout:
            self.limiter.note_timeout()
        if failure.is_outage:
            return self.breaker.note_failure()
        self.breaker.note_answer()
        return False

    def stop(self) -> None:
        """Release every waiter; callers check the stop flag themselves."""
        self.limiter.stop()
        self.breaker.stop()


def routes_of(settings: JudgeSettings, keys: Sequence[str], price: Price | None) -> Iterator[Route]:
    """Routes to the addresses of a judge, in order. price: at its own address; the others have their own.

    keys: as `read_keys` returns them.
    """
    for address, key in zip(settings.addresses, keys, strict=True):
        at_address = price if address is settings else find_price(settings, address)
        yield Route(settings, address, key, at_address)
