"""A line to a judge: one address of it, how fast it may be asked, and whether it still answers."""

from tasks.judging.endpoint import Endpoint, Failure, Reply
from tasks.judging.limiter import Limiter
from tasks.judging.outage import Outage
from tasks.judging.settings import Address, JudgeSettings


class Line:
    """An endpoint with its limiter and its outage; what comes back is told to both."""

    def __init__(self, settings: JudgeSettings, address: Address, key: str) -> None:
        self.base_url = address.base_url
        self.endpoint = Endpoint(settings, address, key)
        self.limiter = Limiter(settings.max_in_flight, settings.requests_per_minute, settings.tokens_per_minute)
        self.outage = Outage(settings.patience_s)

    def note_reply(self, reply: Reply, expected_tokens: float) -> None:
        """Learn from an HTTP 200."""
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
