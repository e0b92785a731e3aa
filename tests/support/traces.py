"""Traces of a task whose spans end up in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.waiting import WAIT_S
from worker.config.secrets import SecretMask
from worker.model import TaskId
from worker.observability.tracing.task_trace import TaskTrace
from worker.observability.tracing.tracing import Tracing


class MemoryTraces:
    """The traces of the task ``c-0`` on the worker ``w:8083``."""

    def __init__(self, mask: SecretMask | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self._tracing = Tracing("w:8083", mask or SecretMask(), self._exporter)
        self.trace: TaskTrace = self._tracing.trace(TaskId("c", 0))

    def spans(self) -> list[ReadableSpan]:
        """Ends the traces, and returns their spans in the order in which they ended."""
        self._tracing.close(WAIT_S)
        return list(self._exporter.get_finished_spans())

    def named(self) -> dict[str, ReadableSpan]:
        """The same by name; of several, the last one."""
        return {span.name: span for span in self.spans()}


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def identity(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def attributes(events: Sequence[Any]) -> list[Mapping[str, Any]]:
    return [event.attributes for event in events]
