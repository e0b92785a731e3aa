"""Traces what a source task sends: spans, and their context in the headers of records."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from connect.converters.api import HeaderConverter
from connect.data.schema import SchemaBuilder
from connect.trace_context import TRACEPARENT, format_traceparent
from connect.tracing import Span, SpanLink, SpanRole, Trace, join_links
from worker.error_text import describe
from worker.kafka.record_producer import HeaderBytes, ProducerRun

log = logging.getLogger(__name__)

_STRING = SchemaBuilder.string().build()


class SourceTracing:
    """Used on its task's thread only."""

    def __init__(self, trace: Trace, converter: HeaderConverter) -> None:
        """``converter`` is that of the task's headers: whoever reads the records converts all headers alike."""
        self._trace = trace
        self._converter: HeaderConverter | None = converter
        self._headers: dict[str, tuple[str, bytes | None]] = {}  # by topic, of the active span
        self.links: tuple[SpanLink, ...] = ()
        """The spans that have sent records since the last offset flush."""

    @contextmanager
    def sending(self, records: int) -> Iterator[SourceTracing]:
        """A span in which the records of a batch are passed to the producer."""
        self._headers = {}
        with self._trace.span("send", {"messaging.batch.message_count": records}, role=SpanRole.PRODUCER):
            if (link := self._trace.active()) is not None:
                self.links = join_links(self.links, (link,))
            yield self

    def add_context(self, run: ProducerRun) -> ProducerRun:
        """Returns the run with the context of the active span in the headers of each record that has none, if it is sampled.

        After the transformation chain, so that no transformation can drop or rename the header.
        """
        link = self._trace.active()
        if link is None or run.columns is not None or (header := self._header(run.topic, link)) is None:
            return run
        if run.headers is None:
            shared: list[HeaderBytes | None] = [[header]] * len(run.values)
            return run._replace(headers=shared)
        return run._replace(headers=[_with_header(headers, header) for headers in run.headers])

    def storing_offsets(self, name: str) -> AbstractContextManager[Span]:
        """Returns a span, the first of its trace, that links to those which have sent the records whose offsets are stored."""
        return self._trace.span(name, links=self.links, is_root=True)

    def _header(self, topic: str, link: SpanLink) -> tuple[str, bytes | None] | None:
        if (found := self._headers.get(topic)) is None and self._converter is not None:
            try:
                data = self._converter.from_connect_header(topic, TRACEPARENT, _STRING, format_traceparent(link))
            except Exception as e:
                # A trace is not worth a failed task.
                self._converter = None
                log.warning("Records get no header %s, because the header converter failed: %s", TRACEPARENT, describe(e))
                return None
            found = self._headers[topic] = (TRACEPARENT, data)
        return found


def _with_header(headers: HeaderBytes | None, header: tuple[str, bytes | None]) -> HeaderBytes:
    if not headers:
        return [header]
    return headers if any(name == TRACEPARENT for name, _ in headers) else [*headers, header]
