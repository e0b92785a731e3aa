"""Masks secrets in spans before they leave the process (promise 9).

All texts of a span are masked when it is exported, whoever has created it: a connector's libraries may have put a statement or a
URL into their own spans, and a secret may have become known after the span ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link
from opentelemetry.trace.status import Status

from connect.config.parsing import HIDDEN
from worker.config.secrets import SecretMask, is_secret_name

Attributes = dict[str, Any]


class MaskingSpanExporter(SpanExporter):
    """Passes masked copies of spans to another exporter."""

    def __init__(self, exporter: SpanExporter, mask: SecretMask) -> None:
        self._exporter = exporter
        self._mask = mask

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        resources: dict[int, Resource] = {}  # most spans of a batch share them, and exporters group by them
        return self._exporter.export([self._masked(span, resources) for span in spans])

    def _masked(self, span: ReadableSpan, resources: dict[int, Resource]) -> ReadableSpan:
        mask = self._mask.mask
        resource = resources.get(id(span.resource))
        if resource is None:
            resource = resources[id(span.resource)] = Resource(self._attributes(span.resource.attributes))
        description = span.status.description
        return ReadableSpan(
            mask(span.name),
            span.context,
            span.parent,
            resource,
            self._attributes(span.attributes),
            [Event(mask(one.name), self._attributes(one.attributes), one.timestamp) for one in span.events],
            [Link(one.context, self._attributes(one.attributes)) for one in span.links],
            span.kind,
            status=Status(span.status.status_code, None if description is None else mask(description)),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _attributes(self, attributes: Mapping[str, Any] | None) -> Attributes:
        return {name: HIDDEN if is_secret_name(name) else self._value(value) for name, value in (attributes or {}).items()}

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._mask.mask(value)
        if isinstance(value, bytes):
            return self._mask.mask(value.decode("utf-8", "replace"))
        if isinstance(value, Mapping):
            return {name: self._value(one) for name, one in value.items()}
        if isinstance(value, Sequence):
            return [self._value(one) for one in value]
        return value

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
