"""OpenTelemetry spans and metrics of runs, if an exporter is configured and the extra `otel` is installed.

Names follow the GenAI semantic conventions. An unreachable receiver costs a run two seconds at most, once.
"""

import atexit
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from opentelemetry.trace import Span


ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP_{part}ENDPOINT" for part in ("", "TRACES_", "METRICS_"))
NAME = "gradebook"
# Buckets recommended by the GenAI conventions.
TOKEN_BUCKETS = [4.0**power for power in range(14)]
SECOND_BUCKETS = [0.01 * 2**power for power in range(14)]


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """Finished request to a judge. cost_usd and tokens: None if unknown."""

    model: str
    base_url: str
    started_ns: int
    ended_ns: int
    model_returned: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None


class Tracing:
    """Spans and metrics of this process, sent by threads of their own."""

    def __init__(self) -> None:
        from gradebook.tasks.system.exporters import EXPORT_TIMEOUT_S, Receiver, open_providers

        self.receiver, self._timeout_s = Receiver(), EXPORT_TIMEOUT_S
        self._traces, self._metrics = open_providers(self.receiver)
        self._tracer = self._traces.get_tracer(NAME)
        meter = self._metrics.get_meter(NAME)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=TOKEN_BUCKETS
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", explicit_bucket_boundaries_advisory=SECOND_BUCKETS
        )
        self._cost = meter.create_counter("gradebook.cost_usd", "{USD}", "Dollars that replies of judges cost")
        self._open: dict[tuple[str, object], Span] = {}  # runs, and their stages
        atexit.register(self._end)

    @contextmanager
    def span(self, fields: Mapping[str, Any], counts: Mapping[str, int]) -> Iterator[None]:
        """Span of a run, a stage, or a criterion and a shard; its counts are read at its end."""
        run_id, stage = fields["run_id"], fields.get("stage")
        is_whole = not fields.keys() & {"criterion_id", "shard"}
        name = " ".join(str(fields[key]) for key in ("stage", "criterion_id") if key in fields) or "run"
        span = self._start(name, run_id, None if is_whole else stage, _attributes(fields))
        if is_whole:
            self._open[run_id, stage] = span
        try:
            yield
        except BaseException as error:
            from opentelemetry.trace import StatusCode

            span.set_attribute("error.type", type(error).__name__)
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            span.set_attributes(_attributes(counts))
            span.end()
            if is_whole:
                self._open.pop((run_id, stage), None)

    def request(self, run_id: str, finished: FinishedRequest, error_type: str | None) -> None:
        """Record a request to a judge: span, tokens, duration and cost. error_type: None if a reply came."""
        from opentelemetry.trace import SpanKind, StatusCode

        address = urlsplit(finished.base_url)
        shared: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",  # the protocol, whatever the provider
            "gen_ai.request.model": finished.model,
            "server.address": address.hostname or "",
            "server.port": address.port or (443 if address.scheme == "https" else 80),
            "gen_ai.response.model": finished.model_returned,
            "error.type": error_type,
        }
        shared = {name: value for name, value in shared.items() if value is not None}
        tokens = {"input": finished.prompt_tokens, "output": finished.completion_tokens}
        used = {f"gen_ai.usage.{kind}_tokens": count for kind, count in tokens.items() if count is not None}
        more = _attributes({"run_id": run_id, "cost_usd": finished.cost_usd})
        span = self._start(
            f"chat {finished.model}",
            run_id,
            "score",
            shared | used | more,
            kind=SpanKind.CLIENT,
            start_time=finished.started_ns,
        )
        if error_type is not None:
            span.set_status(StatusCode.ERROR, error_type)
        span.end(finished.ended_ns)
        self._seconds.record((finished.ended_ns - finished.started_ns) / 1e9, shared)
        for kind, count in tokens.items():
            if count is not None:
                self._tokens.record(count, shared | {"gen_ai.token.type": kind})
        if finished.cost_usd:
            self._cost.add(finished.cost_usd, {"gen_ai.request.model": finished.model})

    def flush(self) -> bool:
        """Send pending data within two seconds. Returns whether the receiver took it."""
        return self._bounded(self._traces.force_flush, self._metrics.force_flush)

    def _start(self, name: str, run_id: str, stage: object, attributes: Mapping[str, Any], **more: Any) -> "Span":
        """Start a span below that of its stage or run; a root span if this process has neither."""
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        above = self._open.get((run_id, stage)) or self._open.get((run_id, None))
        parent = set_span_in_context(above, Context()) if above is not None else Context()
        return self._tracer.start_span(name, parent, attributes=dict(attributes), **more)

    def _end(self) -> None:
        self._bounded(self._traces.shutdown, self._metrics.shutdown)

    def _bounded(self, *sends: Any) -> bool:
        """Call functions in a thread, waiting two seconds at most."""
        thread = threading.Thread(target=lambda: [send() for send in sends], name="otel flush", daemon=True)
        thread.start()
        thread.join(self._timeout_s)
        return not (thread.is_alive() or self.receiver.is_gone)


@cache
def tracing() -> Tracing | None:
    """Tracing of this process; None, without importing OpenTelemetry, if no exporter is configured."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    try:
        return Tracing()
    except ImportError:
        words = "%s is set, but OpenTelemetry is not installed; expected it: pip install '.[otel]' in gradebook's clone"
        logging.getLogger(NAME).warning(words, next(name for name in ENDPOINTS if os.environ.get(name)))
        return None


def _attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes prefixed with gradebook's name, without None."""
    return {f"{NAME}.{name}": value for name, value in fields.items() if value is not None}
