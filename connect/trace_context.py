"""The W3C trace context in record headers: one line of text that identifies a span (https://www.w3.org/TR/trace-context/)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from connect.tracing import MAX_LINKS, SpanLink

TRACEPARENT = "traceparent"
"""The name of the header."""

# Searched for, not matched: a header converter such as JsonConverter encloses the text.
_CONTEXT = re.compile(rb"(?<![0-9a-f])(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?![0-9a-f])")

RawHeaders = Iterable[tuple[str, bytes | str | None]]


def format_traceparent(link: SpanLink) -> str:
    """Returns the header's value."""
    return f"00-{link.trace_id:032x}-{link.span_id:016x}-{link.flags:02x}"


def parse_traceparent(data: bytes) -> SpanLink | None:
    """Returns the span that a header names; None if it is invalid."""
    found = _CONTEXT.search(data)
    if found is None:
        return None
    link = SpanLink(*(int(part, 16) for part in found.groups()))
    return link if link.trace_id and link.span_id else None


def find_links(headers: Iterable[RawHeaders | None]) -> tuple[SpanLink, ...]:
    """Returns the spans that the headers of records name, each once, at most :data:`connect.tracing.MAX_LINKS`."""
    found: dict[SpanLink, None] = {}
    seen: set[bytes] = set()  # most records of a batch name the same span
    for of_record in headers:
        for name, value in of_record or ():
            if name != TRACEPARENT or value is None:
                continue
            data = value.encode("utf-8", "replace") if isinstance(value, str) else value
            if data in seen:
                continue
            seen.add(data)
            if (link := parse_traceparent(data)) is not None:
                found[link] = None
                if len(found) >= MAX_LINKS:
                    return tuple(found)
    return tuple(found)
