"""An OTLP/HTTP receiver on loopback that decodes what it is sent."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class OtlpReceiver:
    """The server and what it took: spans, and the last value of each metric; a context manager."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.traced: list[dict[str, Any]] = []  # requests as a collector writes them to a file
        self.judge: Any = None  # whose requests it is told of
        self.metrics: dict[str, Any] = {}
        self.resources: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def named(self, start: str) -> list[Any]:
        """The spans whose names start so."""
        return [span for span in self.spans if span.name.startswith(start)]

    def take(self, path: str, content: bytes) -> None:
        """Decode one request."""
        if path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(content)
            self.traced.append(MessageToDict(request))
            for traced in request.resource_spans:
                self.resources.append(attributes_of(traced.resource))
                self.spans += [span for scope in traced.scope_spans for span in scope.spans]
        if path == "/v1/metrics":
            for measured in ExportMetricsServiceRequest.FromString(content).resource_metrics:
                self.metrics |= {metric.name: metric for scope in measured.scope_metrics for metric in scope.metrics}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(self.path, self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                """A test's output is no log."""

        return Handler


def attributes_of(holder: Any) -> dict[str, Any]:
    """The attributes of a span, a resource or a data point."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in holder.attributes}
