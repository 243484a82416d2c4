"""OpenTelemetry's exporters behind a circuit breaker. The import needs the extra `otel`."""

import logging
import os
import time
from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

NAME = "gradebook"
EXPORT_TIMEOUT_S = 2.0
GONE_S = 60.0  # pause before the next attempt to reach a receiver that did not answer


class Receiver:
    """Circuit breaker of the exporters: after a failure nothing is sent for a while, so that nothing waits again."""

    def __init__(self) -> None:
        self._gone_until = 0.0

    @property
    def is_gone(self) -> bool:
        """Whether sending is suspended."""
        return time.monotonic() < self._gone_until

    def note(self, is_taken: bool) -> None:
        """Record the outcome of an export."""
        self._gone_until = 0.0 if is_taken else time.monotonic() + GONE_S


class _Spans(SpanExporter):
    """Span exporter behind the circuit breaker."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._exporter = OTLPSpanExporter(timeout=_timeout_s("TRACES"))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; fail at once while sending is suspended."""
        if self._receiver.is_gone:
            return SpanExportResult.FAILURE
        outcome = self._exporter.export(spans)
        self._receiver.note(outcome is SpanExportResult.SUCCESS)
        return outcome

    def shutdown(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _Metrics(OTLPMetricExporter):
    """Metric exporter behind the circuit breaker."""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(timeout=_timeout_s("METRICS"))
        self._receiver = receiver

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **more: Any
    ) -> MetricExportResult:
        """Send metrics; fail at once while sending is suspended."""
        if self._receiver.is_gone:
            return MetricExportResult.FAILURE
        outcome = super().export(metrics_data, timeout_millis, **more)
        self._receiver.note(outcome is MetricExportResult.SUCCESS)
        return outcome


def open_providers(receiver: Receiver) -> tuple[TracerProvider, MeterProvider]:
    """Private providers of spans and metrics, so that other libraries' data is not sent."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # an unreachable receiver is logged once, by us
    attributes = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": NAME}
    resource = Resource.create(attributes)
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    traces.add_span_processor(BatchSpanProcessor(_Spans(receiver)))
    reader = PeriodicExportingMetricReader(_Metrics(receiver))
    return traces, MeterProvider([reader], resource, shutdown_on_exit=False)


def _timeout_s(signal: str) -> float:
    """Timeout of an export: the environment's, in seconds, but at most `EXPORT_TIMEOUT_S`."""
    timeout = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT") or os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT")
    try:
        return min(float(timeout), EXPORT_TIMEOUT_S) if timeout else EXPORT_TIMEOUT_S
    except ValueError:
        return EXPORT_TIMEOUT_S
