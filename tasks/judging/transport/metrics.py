"""Logs and traces of requests, retries, rate limits and circuit changes; without any prompt text."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.money.prices import Price, cost_usd
from gradebook.tasks.judging.replies.completion import Reply
from gradebook.tasks.judging.transport.circuit_breaker import CircuitBreaker
from gradebook.tasks.judging.transport.endpoint import Failure
from gradebook.tasks.system.events import count_request, tell
from gradebook.tasks.system.logs import LOGGER
from gradebook.tasks.system.tracing import FinishedRequest, tracing

JUDGE = logging.getLogger(f"{LOGGER}.judge")


def report_request(
    run_id: str,
    model: str,
    base_url: str,
    price: Price | None,
    asked_ns: int,
    came: Reply | Failure | EndpointUnavailable,
) -> None:
    """Count and trace an answered request with its tokens, dollars and time. asked_ns: time of sending."""
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


def report_retry(run_id: str, base_url: str, failure: Failure, wait_s: float) -> None:
    """Log that a request is retried, and when: after a failure or a rate limit."""
    event, kind = "judge.limited" if failure.is_rate_limit else "judge.retry", failure_kind(failure)
    fields = {"run_id": run_id, "server": base_url, "error_type": kind, "wait_seconds": round(wait_s, 3)}
    tell(JUDGE, logging.INFO, event, f"{base_url}: {kind}; asked again in {wait_s:.1f} s", **fields)


@contextmanager
def report_circuit_change(run_id: str, base_url: str, breaker: CircuitBreaker) -> Iterator[None]:
    """Log if the endpoint turns out to be gone or back in the block."""
    was_gone = breaker.is_gone
    yield
    if breaker.is_gone != was_gone:
        event, words, level = ("back", "answers again", logging.INFO)
        if breaker.is_gone:
            event, words, level = ("gone", "does not answer; one request a time looks for it", logging.WARNING)
        tell(JUDGE, level, f"judge.{event}", f"{base_url} {words}", run_id=run_id, server=base_url)


def report_route_left(run_id: str, base_url: str) -> None:
    """Log that an address of a judge was abandoned for the next one."""
    words = f"{base_url} is given up; the next address is asked"
    tell(JUDGE, logging.WARNING, "judge.left", words, run_id=run_id, server=base_url)


def failure_kind(came: Failure | EndpointUnavailable) -> str:
    """Kind of a failure, as `HTTP 429`, without the endpoint's text, which may repeat the prompt."""
    return came.reason.partition(":")[0] if isinstance(came, Failure) else type(came).__name__
