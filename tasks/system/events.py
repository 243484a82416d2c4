"""Events of a run in progress: log lines, and OpenTelemetry spans and metrics if an exporter is configured.

Events never quote an output, a prompt, a reply or a key: they have names, counts, times, costs and error types only.
Spans and metrics need the extra `otel`; names follow the GenAI semantic conventions. An unreachable receiver delays a
run once, by at most two seconds.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gradebook.rubrics.model.errors import BudgetReached, LakeUnavailable, UnfinishedError
from gradebook.tasks.system.logs import FIELDS, LOGGER, begin_logging

if TYPE_CHECKING:
    from opentelemetry.trace import Span

RUNS, STAGES, QUALITY = (logging.getLogger(f"{LOGGER}.{name}") for name in ("run", "stage", "quality"))


@dataclass(slots=True)
class Piece:
    """A run, stage, criterion or shard in progress; its counts are filled in meanwhile."""

    run_id: str
    stage: str | None = None  # None: the run itself
    criterion_id: str | None = None
    shard: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    names: Mapping[str, object] = field(default_factory=dict)  # rubric, judge and dataset of a run

    @property
    def fields(self) -> dict[str, object]:
        """Identifying fields, without absent ones."""
        labels = {"stage": self.stage, "criterion_id": self.criterion_id, "shard": self.shard}
        return {"run_id": self.run_id} | {name: value for name, value in labels.items() if value is not None}

    def __str__(self) -> str:
        shard = None if self.shard is None else f"shard {self.shard}"
        return " · ".join(part for part in (self.stage or "run", self.criterion_id, shard) if part)


@dataclass(slots=True)
class _Spent:
    """Spending on the judges of a run in this process. cost_usd: None from the first reply without a price."""

    request_count: int = 0
    cost_usd: float | None = 0.0


_spent: dict[str, _Spent] = {}


def count_request(run_id: str, *, is_paid: bool, cost_usd: float | None) -> None:
    """Count a request to a judge of a run, and the cost of its reply; None if unknown."""
    spent = _spent.get(run_id)
    if spent is None:
        return
    spent.request_count += 1
    if is_paid:
        is_known = spent.cost_usd is not None and cost_usd is not None
        spent.cost_usd = (spent.cost_usd or 0.0) + (cost_usd or 0.0) if is_known else None


@contextmanager
def run_span(run_id: str, names: Mapping[str, object]) -> Iterator[None]:
    """Log the beginning and the end of a run, and export its spans and metrics before continuing."""
    begin_logging()
    _spent[run_id] = _Spent()
    try:
        with piece_span(Piece(run_id, names=names)):
            yield
    finally:
        del _spent[run_id]
        traced = tracing()
        if traced is not None and not traced.flush():
            log_event(RUNS, logging.WARNING, "otel.gone", "no OpenTelemetry receiver answers; what it lacks is dropped")


@contextmanager
def piece_span(piece: Piece) -> Iterator[Piece]:
    """Log the beginning and the end of a piece of work, or the type of its failure."""
    logger, traced, started = RUNS if piece.stage is None else STAGES, tracing(), time.perf_counter()
    if traced is None and not logger.isEnabledFor(logging.ERROR):  # no listener
        yield piece
        return
    log_event(logger, logging.INFO, "begin", f"{piece} begins", **piece.fields, **piece.names)
    with nullcontext() if traced is None else traced.span({**piece.fields, **piece.names}, piece.counts):
        try:
            yield piece
        except BaseException as error:
            ended = _ended(piece, started) | {"error_type": type(error).__name__}
            log_event(logger, logging.ERROR, "failed", f"{piece} failed: {_message(error)}", **ended)
            raise
    log_event(logger, logging.INFO, "end", f"{piece} is done", **_ended(piece, started))


def log_finding(finding: Any) -> None:
    """Log a data-quality finding, at debug level if its expectation is met."""
    broken = logging.ERROR if finding.severity == "error" else logging.WARNING
    level, outcome = (logging.DEBUG, "is met") if finding.is_met else (broken, "is not met")
    fields = {"run_id": finding.run_id, "stage": finding.stage, "subject": finding.subject}
    fields |= {"expectation": finding.expectation, "unexpected_count": finding.unexpected_count}
    log_event(
        QUALITY, level, "finding", f"{finding.stage} · {finding.subject}: {finding.expectation} {outcome}", **fields
    )


def _message(error: BaseException) -> str:
    """Message of an error if gradebook wrote it, else the error's type: other messages may quote an output."""
    is_ours = isinstance(error, BudgetReached | LakeUnavailable) or type(error) is UnfinishedError
    return str(error) if is_ours else type(error).__name__


def _ended(piece: Piece, started: float) -> dict[str, object]:
    fields: dict[str, object] = piece.fields | piece.counts | {"seconds": round(time.perf_counter() - started, 3)}
    spent = _spent.get(piece.run_id)
    if spent is not None and piece.stage in {None, "score"}:
        fields |= {"run_request_count": spent.request_count}
        fields |= {"run_cost_usd": None if spent.cost_usd is None else round(spent.cost_usd, 9)}
    return fields


def log_event(logger: logging.Logger, level: int, event: str, message: str, **fields: object) -> None:
    """Log one record with its fields."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", message, extra={FIELDS: {"event": event} | fields})


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
    """Spans and metrics of this process, sent in the background."""

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
        token_counts = {f"gen_ai.usage.{kind}_tokens": count for kind, count in tokens.items() if count is not None}
        more = _attributes({"run_id": run_id, "cost_usd": finished.cost_usd})
        span = self._start(
            f"chat {finished.model}",
            run_id,
            "score",
            shared | token_counts | more,
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
        """Start a span below the span of its stage or run; a root span if this process has neither."""
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
        message = (
            "%s is set, but OpenTelemetry is not installed; expected it: pip install '.[otel]' in gradebook's clone"
        )
        logging.getLogger(NAME).warning(message, next(name for name in ENDPOINTS if os.environ.get(name)))
        return None


def _attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes prefixed with gradebook's name, without None."""
    return {f"{NAME}.{name}": value for name, value in fields.items() if value is not None}
