"""Trace contexts in record headers, and the links of spans to them."""

from __future__ import annotations

import pytest

from connect.trace_context import find_links, format_traceparent, parse_traceparent
from connect.tracing import MAX_LINKS, SpanLink, active_links, current_trace, join_links, traced

LINK = SpanLink(0x0AF7651916CD43DD8448EB211C80319C, 0x00F067AA0BA902B7)
TEXT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def test_context_is_written_and_read_in_the_format_of_w3c() -> None:
    assert format_traceparent(LINK) == TEXT
    assert parse_traceparent(TEXT.encode()) == LINK


def test_context_is_found_in_what_other_header_converters_write() -> None:
    # JsonConverter without and with schemas, and a later version of the format with more fields.
    assert parse_traceparent(f'"{TEXT}"'.encode()) == LINK
    assert parse_traceparent(f'{{"schema":{{"type":"string"}},"payload":"{TEXT}"}}'.encode()) == LINK
    assert parse_traceparent(f"01{TEXT[2:]}-more".encode()) == LINK


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"00",
        TEXT.upper().encode(),
        TEXT[:-1].encode(),
        f"ff{TEXT[2:]}".encode(),
        f"00-{'0' * 32}-00f067aa0ba902b7-01".encode(),
    ],
)
def test_invalid_context_is_ignored(data: bytes) -> None:
    assert parse_traceparent(data) is None


def test_links_of_a_batch_are_distinct_and_bounded() -> None:
    same = [("traceparent", TEXT.encode())]
    assert find_links([None, [], same, [("other", b"x"), ("traceparent", None)], same]) == (LINK,)
    assert find_links([[("traceparent", TEXT)]]) == (LINK,)
    many = [[("traceparent", format_traceparent(SpanLink(1, n)).encode())] for n in range(1, 100)]
    assert find_links(many) == tuple(SpanLink(1, n) for n in range(1, MAX_LINKS + 1))


def test_joined_links_are_distinct_and_bounded() -> None:
    first = tuple(SpanLink(1, n) for n in range(20))
    second = tuple(SpanLink(1, n) for n in range(10, 50))
    assert join_links(first, second) == tuple(SpanLink(1, n) for n in range(MAX_LINKS))
    assert join_links(first, ()) is first
    assert join_links((), second[:1]) == second[:1]


def test_connector_without_traces_gets_nothing() -> None:
    assert current_trace() is None
    assert active_links() == ()
    with traced(None, "load", {"rows": 1}) as span:
        assert span is None
