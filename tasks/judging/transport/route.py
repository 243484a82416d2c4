"""A line to a judge: one address of it, its price, how fast it may be asked, and whether it still answers."""

import asyncio
from collections.abc import Iterator, Mapping

from gradebook.tasks.judging.money.prices import Price, find_price
from gradebook.tasks.judging.replies.completion import Reply
from gradebook.tasks.judging.settings.judge import Address, JudgeSettings
from gradebook.tasks.judging.transport.circuit_breaker import Outage
from gradebook.tasks.judging.transport.endpoint import Endpoint, Failure
from gradebook.tasks.judging.transport.rate_limiter import Limiter


class Line:
    """An endpoint with its price, limiter and outage; what comes back is told to the latter two.

    has_logprobs: whether it ever gave log-probabilities. Until then whoever needs them asks it alone, with
    `first_turn` held: an endpoint that has none is paid for one reply, not for all that are out.
    """

    def __init__(self, settings: JudgeSettings, address: Address, key: str, price: Price | None) -> None:
        self.base_url = address.base_url
        self.price = price
        self.has_logprobs = False
        self.first_turn = asyncio.Lock()
        self.endpoint = Endpoint(settings, address, key)
        self.limiter = Limiter(settings.max_in_flight, settings.requests_per_minute, settings.tokens_per_minute)
        self.outage = Outage(settings.patience_s)

    def note_reply(self, reply: Reply, expected_tokens: float) -> None:
        """Learn from an HTTP 200."""
        self.has_logprobs |= reply.choices is not None
        self.outage.note_answer()
        self.limiter.note_reply(reply.headers or {})
        if reply.usage is not None:
            self.limiter.note_tokens(expected_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens)

    def note_failure(self, failure: Failure) -> bool:
        """Learn from anything else. Returns whether the endpoint has been gone for too long to wait any more."""
        if failure.is_rate_limit:
            self.limiter.note_rate_limit(failure.headers or {}, failure.retry_after_s)
        if failure.is_outage:
            return self.outage.note_failure(failure.reason)
        self.outage.note_answer()
        return False

    def stop(self) -> None:
        """Let all who wait go on; they know themselves why nothing is to be sent."""
        self.limiter.stop()
        self.outage.stop()


def lines_of(settings: JudgeSettings, keys: Mapping[str, str], price: Price | None) -> Iterator[Line]:
    """A line to each address of a judge. price: at its own; the others have theirs."""
    for address in settings.addresses:
        at_address = price if address is settings else find_price(settings, address)
        yield Line(settings, address, keys[address.key], at_address)
