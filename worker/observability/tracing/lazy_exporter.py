"""Creates an exporter for the first spans, because its libraries need memory that a worker without records can save."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


class LazyExporter(SpanExporter):
    """Passes spans to the exporter that it creates when the first ones arrive. Usable from any thread."""

    def __init__(self, create: Callable[[], SpanExporter]) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._exporter: SpanExporter | None = None
        self._has_ended = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._lock:
            if self._exporter is None:
                if self._has_ended:
                    return SpanExportResult.FAILURE
                self._exporter = self._create()
            exporter = self._exporter
        return exporter.export(spans)

    def shutdown(self) -> None:
        with self._lock:
            self._has_ended = True
            exporter = self._exporter
        if exporter is not None:
            exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        with self._lock:
            exporter = self._exporter
        return exporter is None or exporter.force_flush(timeout_millis)
