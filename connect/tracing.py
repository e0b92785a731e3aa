"""Spans for the work of a connector, in the OpenTelemetry traces of its worker (``tracing.enabled``).

Without traces, :func:`current_trace` returns None and :func:`traced` does nothing, so a connector needs no extra and pays
nothing.
Create spans per batch or commit, not per record::

    self._trace = current_trace()  # in start(), on the task's thread
    with traced(self._trace, "load file", {"file.rows": rows}):
        ...  # on any thread
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import NamedTuple, Protocol

Attributes = Mapping[str, str | int | float | bool]

MAX_LINKS = 32
"""The most links of one span. A batch may have records of any number of traces."""


class SpanLink(NamedTuple):
    """The identity of a span, for other spans that refer to it."""

    trace_id: int
    span_id: int
    flags: int = 1
    """W3C trace flags: 1 means sampled."""


class SpanRole(Enum):
    """What a span does with messages (``SpanKind`` of OpenTelemetry)."""

    INTERNAL = "internal"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Span(Protocol):
    """A span that is active."""

    def set_attribute(self, name: str, value: str | float | bool) -> None: ...

    def fail(self, error: BaseException | str) -> None:
        """Marks the span as failed. An exception that leaves the span's block does that, too. Secrets that the worker knows are
        masked."""


class Trace(Protocol):
    """Creates the spans of one task. Usable from any thread."""

    def span(
        self,
        name: str,
        attributes: Attributes | None = None,
        links: Sequence[SpanLink] = (),
        *,
        is_root: bool = False,
        role: SpanRole = SpanRole.INTERNAL,
    ) -> AbstractContextManager[Span]:
        """Returns a span that is active inside its block: a child of this thread's active span, or the first one of its trace if
        there is none or with ``is_root``. Links beyond :data:`MAX_LINKS` are dropped."""

    def active(self) -> SpanLink | None:
        """Returns this thread's active span if it is sampled."""

    def record_error(self, error: BaseException) -> None:
        """Adds an error to this thread's active span, which does not fail: its cause was skipped or will be retried. Secrets that
        the worker knows are masked."""


class _Current(threading.local):
    trace: Trace | None = None


_current = _Current()
_NOTHING: AbstractContextManager[None] = nullcontext()


def current_trace() -> Trace | None:
    """Returns what creates spans for the task that runs on this thread; None without traces, and on a connector's own threads."""
    return _current.trace


def traced(
    trace: Trace | None,
    name: str,
    attributes: Attributes | None = None,
    links: Sequence[SpanLink] = (),
    *,
    is_root: bool = False,
    role: SpanRole = SpanRole.INTERNAL,
) -> AbstractContextManager[Span | None]:
    """Returns :meth:`Trace.span`, or without a trace a block that does nothing and yields None."""
    return _NOTHING if trace is None else trace.span(name, attributes, links, is_root=is_root, role=role)


def active_links() -> tuple[SpanLink, ...]:
    """Returns the active span of this thread, which must be the task's, for a later span that continues its work."""
    if (trace := _current.trace) is None or (link := trace.active()) is None:
        return ()
    return (link,)


def join_links(first: tuple[SpanLink, ...], second: tuple[SpanLink, ...]) -> tuple[SpanLink, ...]:
    """Returns the links of both without duplicates, at most :data:`MAX_LINKS`; the first ones stay."""
    if not second or first == second or len(first) >= MAX_LINKS:
        return first
    return tuple(dict.fromkeys((*first, *second)))[:MAX_LINKS]


@contextmanager
def trace_of_thread(trace: Trace | None) -> Iterator[None]:
    """Makes ``trace`` that of this thread inside the block. For the worker."""
    before, _current.trace = _current.trace, trace
    try:
        yield
    finally:
        _current.trace = before
