"""The exporters of OpenTelemetry: OTLP over HTTP. Imported only where one is configured."""

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from gradebook.tasks.tracing import EXPORT_TIMEOUT_S, NAME

if TYPE_CHECKING:
    from gradebook.tasks.tracing import Receiver


class _Spans(SpanExporter):
    """Sends spans while somebody takes them."""

    def __init__(self, receiver: "Receiver") -> None:
        self._receiver = receiver
        self._exporter = OTLPSpanExporter(timeout=_timeout_s("TRACES"))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send some; at once where nobody takes them."""
        if self._receiver.is_gone:
            return SpanExportResult.FAILURE
        sent = self._exporter.export(spans)
        self._receiver.note(sent is SpanExportResult.SUCCESS)
        return sent

    def shutdown(self) -> None:
        """Let go of the connection."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _Metrics(OTLPMetricExporter):
    """Sends metrics while somebody takes them."""

    def __init__(self, receiver: "Receiver") -> None:
        super().__init__(timeout=_timeout_s("METRICS"))
        self._receiver = receiver

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **more: Any
    ) -> MetricExportResult:
        """Send some; at once where nobody takes them."""
        if self._receiver.is_gone:
            return MetricExportResult.FAILURE
        sent = super().export(metrics_data, timeout_millis, **more)
        self._receiver.note(sent is MetricExportResult.SUCCESS)
        return sent


def open_providers(receiver: "Receiver") -> tuple[TracerProvider, MeterProvider]:
    """What spans and metrics are made with: of our own, so that nobody else's are sent."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a receiver that is gone is told once, by us
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": NAME}
    resource = Resource.create(named)
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    traces.add_span_processor(BatchSpanProcessor(_Spans(receiver)))
    reader = PeriodicExportingMetricReader(_Metrics(receiver))
    return traces, MeterProvider([reader], resource, shutdown_on_exit=False)


def _timeout_s(signal: str) -> float:
    """How long an export may take: as the environment says, in seconds, but no longer than a run may wait."""
    told = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT") or os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT")
    try:
        return min(float(told), EXPORT_TIMEOUT_S) if told else EXPORT_TIMEOUT_S
    except ValueError:
        return EXPORT_TIMEOUT_S
