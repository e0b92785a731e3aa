"""Creates the spans of one task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
    use_span,
)
from opentelemetry.trace import Span as OtelSpan

from connect.tracing import MAX_LINKS, Attributes, SpanLink, SpanRole
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.trace import trace_of
from worker.kafka.record_producer import ProduceCancelled
from worker.kafka.sink_consumer import ConsumerClosed
from worker.model import TaskStopped

_INTERRUPTIONS = ProduceCancelled, ConsumerClosed, TaskStopped
"""How a task leaves its work because it must stop. Not errors."""
_MAX_STACK_CHARACTERS = 16_384
_KINDS = {SpanRole.INTERNAL: SpanKind.INTERNAL, SpanRole.PRODUCER: SpanKind.PRODUCER, SpanRole.CONSUMER: SpanKind.CONSUMER}


class TaskSpan:
    """An active or open span (:class:`connect.tracing.Span`)."""

    def __init__(self, span: OtelSpan, mask: SecretMask) -> None:
        self._span = span
        self._mask = mask

    def set_attribute(self, name: str, value: str | float | bool) -> None:
        self._span.set_attribute(name, value)

    def fail(self, error: BaseException | str) -> None:
        # Promise 9: masked here already, because the SDK may shorten texts, and a part of a secret would not be recognized.
        text = self._mask.mask(error if isinstance(error, str) else describe(error))
        if isinstance(error, BaseException):
            self.record_error(error)
        self._span.set_status(Status(StatusCode.ERROR, text))

    def record_error(self, error: BaseException) -> None:
        """Adds an event for an error."""
        if not self._span.is_recording():
            return
        kind = type(error)
        attributes = {
            "exception.type": f"{kind.__module__}.{kind.__qualname__}",
            "exception.message": self._mask.mask(describe(error)),
            "exception.stacktrace": trace_of(error, self._mask)[:_MAX_STACK_CHARACTERS],
        }
        self._span.add_event("exception", attributes)

    def end(self) -> None:
        """Ends a span of :meth:`TaskTrace.open`. Later calls do nothing."""
        if self._span.is_recording():
            self._span.end()


class TaskTrace:
    """Implements :class:`connect.tracing.Trace`. Usable from any thread."""

    def __init__(self, tracer: Tracer, mask: SecretMask) -> None:
        self._tracer = tracer
        self._mask = mask

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Attributes | None = None,
        links: Sequence[SpanLink] = (),
        *,
        is_root: bool = False,
        role: SpanRole = SpanRole.INTERNAL,
    ) -> Iterator[TaskSpan]:
        span = self._start(name, attributes, links, is_root=is_root, role=role)
        with self._active(span) as active:
            yield active

    @contextmanager
    def batch(self, name: str, first: str, records: int, started_ns: int) -> Iterator[TaskSpan]:
        """A span for a batch, the first of its trace, which began at ``started_ns`` with ``first``: a call that just ended and
        returned so many records."""
        attributes = {"messaging.batch.message_count": records}
        span = self._start(name, attributes, is_root=True, started_ns=started_ns)
        parent = set_span_in_context(span, Context())
        self._tracer.start_span(first, parent, attributes=attributes, start_time=started_ns).end()
        with self._active(span) as active:
            yield active

    def failed(self, name: str, started_ns: int, error: BaseException) -> None:
        """Records a call that raised, as a trace of its own."""
        span = self._start(name, is_root=True, started_ns=started_ns)
        TaskSpan(span, self._mask).fail(error)
        span.end()

    def open(self, name: str, links: Sequence[SpanLink] = ()) -> TaskSpan:
        """Starts a span, the first of its trace, that is not active: whoever waits for its end ends it."""
        return TaskSpan(self._start(name, links=links, is_root=True), self._mask)

    @contextmanager
    def within(self, span: TaskSpan, name: str) -> Iterator[TaskSpan]:
        """A span below an open one."""
        parent = set_span_in_context(span._span, Context())
        with self._active(self._tracer.start_span(name, parent)) as active:
            yield active

    def active(self) -> SpanLink | None:
        context = get_current_span().get_span_context()
        if not context.is_valid or not context.trace_flags.sampled:
            return None
        return SpanLink(context.trace_id, context.span_id, int(context.trace_flags))

    def record_error(self, error: BaseException) -> None:
        TaskSpan(get_current_span(), self._mask).record_error(error)

    def _start(
        self,
        name: str,
        attributes: Attributes | None = None,
        links: Sequence[SpanLink] = (),
        *,
        is_root: bool,
        role: SpanRole = SpanRole.INTERNAL,
        started_ns: int | None = None,
    ) -> OtelSpan:
        return self._tracer.start_span(
            name,
            Context() if is_root else None,
            _KINDS[role],
            attributes,
            [_to_link(one) for one in links[:MAX_LINKS]],
            time.time_ns() if started_ns is None else started_ns,
        )

    @contextmanager
    def _active(self, span: OtelSpan) -> Iterator[TaskSpan]:
        active = TaskSpan(span, self._mask)
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield active
        except BaseException as e:
            if not isinstance(e, _INTERRUPTIONS):
                active.fail(e)
            raise
        finally:
            span.end()


def _to_link(link: SpanLink) -> Link:
    return Link(SpanContext(link.trace_id, link.span_id, is_remote=True, trace_flags=TraceFlags(link.flags)))


def active_span_ids() -> tuple[str, str] | None:
    """Returns trace and span ID of this thread's active span in hexadecimal; None if there is none."""
    span = get_current_span()
    context = span.get_span_context()
    if not context.is_valid or isinstance(span, NonRecordingSpan):
        return None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"
