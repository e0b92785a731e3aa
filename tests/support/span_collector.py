"""Receives the spans of a worker, as an OpenTelemetry collector does over OTLP/HTTP."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class SpanCollector:
    """Receives spans on a free port of the loopback interface."""

    def __init__(self) -> None:
        self.spans: list[tuple[dict[str, Any], Any]] = []
        """Each with its resource attributes."""
        self.received = b""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="collector")
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, body: bytes) -> None:
        self.received += body
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {one.key: one.value.string_value or one.value.int_value for one in group.resource.attributes}
            self.spans += [(resource, span) for scope in group.scope_spans for span in scope.spans]

    def named(self, connector: str, name: str) -> list[Any]:
        return [span for resource, span in list(self.spans) if resource["sluice.connector"] == connector and span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
