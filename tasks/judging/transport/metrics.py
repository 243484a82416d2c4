"""What a judge's client tells those outside: requests, retries, limits, outages; no word of what was asked."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.money.prices import Price, cost_usd
from gradebook.tasks.judging.replies.completion import Reply
from gradebook.tasks.judging.transport.circuit_breaker import Outage
from gradebook.tasks.judging.transport.endpoint import Failure
from gradebook.tasks.system.events import count_request, tell
from gradebook.tasks.system.logs import LOGGER
from gradebook.tasks.system.tracing import FinishedRequest, tracing

JUDGE = logging.getLogger(f"{LOGGER}.judge")


def tell_request(
    run_id: str,
    model: str,
    base_url: str,
    price: Price | None,
    asked_ns: int,
    came: Reply | Failure | EndpointUnavailable,
) -> None:
    """Tell a request that is back, with its tokens, dollars and time. asked_ns: when it was sent."""
    reply = came if isinstance(came, Reply) else None
    usage = reply.usage if reply else None
    paid_usd = cost_usd(price, usage, tier=reply.service_tier) if reply and usage else None
    count_request(run_id, is_paid=reply is not None, cost_usd=paid_usd)
    traced = tracing()
    if traced is not None:
        request = FinishedRequest(
            model,
            base_url,
            asked_ns,
            time.time_ns(),
            reply.model_returned if reply else None,
            usage.prompt_tokens if usage else None,
            usage.completion_tokens if usage else None,
            paid_usd,
        )
        traced.request(run_id, request, None if isinstance(came, Reply) else failure_kind(came))


def tell_retry(run_id: str, base_url: str, failure: Failure, wait_s: float) -> None:
    """Tell that a request is asked again, and when: a failure, or the endpoint's limit."""
    event, kind = "judge.limited" if failure.is_rate_limit else "judge.retry", failure_kind(failure)
    told = {"run_id": run_id, "server": base_url, "error_type": kind, "wait_seconds": round(wait_s, 3)}
    tell(JUDGE, logging.INFO, event, f"{base_url}: {kind}; asked again in {wait_s:.1f} s", **told)


@contextmanager
def outage_told(run_id: str, base_url: str, outage: Outage) -> Iterator[None]:
    """Tell where the endpoint turns out to be gone, or back, in the block."""
    was_gone = outage.is_gone
    yield
    if outage.is_gone != was_gone:
        event, words, level = ("back", "answers again", logging.INFO)
        if outage.is_gone:
            event, words, level = ("gone", "does not answer; one request a time looks for it", logging.WARNING)
        tell(JUDGE, level, f"judge.{event}", f"{base_url} {words}", run_id=run_id, server=base_url)


def tell_left(run_id: str, base_url: str) -> None:
    """Tell that an address of a judge was given up for the next one."""
    words = f"{base_url} is given up; the next address is asked"
    tell(JUDGE, logging.WARNING, "judge.left", words, run_id=run_id, server=base_url)


def failure_kind(came: Failure | EndpointUnavailable) -> str:
    """The kind of a failure, without what the endpoint says, which may repeat what it was asked: `HTTP 429`."""
    return came.reason.partition(":")[0] if isinstance(came, Failure) else type(came).__name__
