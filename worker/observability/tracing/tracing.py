"""The traces of one process: where spans go, and what creates the spans of each task."""

from __future__ import annotations

import os
import threading
from urllib.parse import unquote

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider, set_tracer_provider

from connect.version import sluice_version
from worker.config.secrets import SecretMask
from worker.model import TaskId
from worker.observability.tracing.lazy_exporter import LazyExporter
from worker.observability.tracing.masking import MaskingSpanExporter
from worker.observability.tracing.task_trace import TaskTrace

_SERVICE = "sluice"
_UNKNOWN_SERVICE = "unknown_service"
_HEADER_VARIABLES = "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
_INTERRUPT_WAIT_S = 0.5


def create_exporter(name: str, mask: SecretMask) -> SpanExporter | None:
    """Creates the exporter ``otlp`` or ``console``; None for ``none``. ``mask`` learns the values of its request headers.

    Libraries for OTLP are imported with the first spans.
    """
    if name == "none":
        return None
    if name == "console":
        return ConsoleSpanExporter()
    values = [
        pair.partition("=")[2].strip() for variable in _HEADER_VARIABLES for pair in os.environ.get(variable, "").split(",")
    ]
    mask.learn({text for value in values for text in (value, unquote(value)) if text})
    return LazyExporter(_create_otlp_exporter)


def _create_otlp_exporter() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


class Tracing:
    """Owns the thread that exports spans in the background. Usable from any thread."""

    def __init__(self, worker_id: str, mask: SecretMask, exporter: SpanExporter | None) -> None:
        """Without an exporter, spans are only created: their context is in record headers and log lines."""
        self._mask = mask
        self._exporter = exporter
        self._processor: SpanProcessor | None = None
        if exporter is not None:
            self._processor = BatchSpanProcessor(MaskingSpanExporter(exporter, mask))
        detected = Resource.create()
        name = str(detected.attributes[SERVICE_NAME])
        own = {SERVICE_NAME: _SERVICE if name.startswith(_UNKNOWN_SERVICE) else name, SERVICE_VERSION: sluice_version()}
        self._resource = detected.merge(Resource({**own, "sluice.worker": worker_id, "process.pid": os.getpid()}))
        self._lock = threading.Lock()
        self._traces: dict[TaskId, TaskTrace] = {}

    def trace(self, task: TaskId) -> TaskTrace:
        """Returns what creates the spans of a task, always the same for one task."""
        with self._lock:
            found = self._traces.get(task)
            if found is None:
                found = self._traces[task] = TaskTrace(
                    self._provider({"sluice.connector": task.connector, "sluice.task": task.task}).get_tracer(
                        "sluice", sluice_version()
                    ),
                    self._mask,
                )
            return found

    def install(self) -> None:
        """Makes this process export the spans that libraries of connectors create, unless something else does already. They name
        no connector and no task."""
        if isinstance(get_tracer_provider(), ProxyTracerProvider):
            set_tracer_provider(self._provider({}))

    def _provider(self, attributes: dict[str, str | int]) -> TracerProvider:
        # A provider per task has connector and task as resource attributes; they share the processor and its thread.
        provider = TracerProvider(resource=self._resource.merge(Resource(attributes)), shutdown_on_exit=False)
        if self._processor is not None:
            provider.add_span_processor(self._processor)
        return provider

    def close(self, timeout_s: float) -> None:
        """Exports what is left, at most for this long."""
        processor, exporter = self._processor, self._exporter
        if processor is None or exporter is None:
            return
        # On a thread: the processor waits as long as the exporter repeats its requests.
        closing = threading.Thread(target=processor.shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(timeout_s)
        if closing.is_alive():
            exporter.shutdown()  # ends the repetitions
            closing.join(_INTERRUPT_WAIT_S)
