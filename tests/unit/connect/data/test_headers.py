"""Headers of a record."""

from __future__ import annotations

import pytest

from connect import Header, Headers, Schema


def headers() -> Headers:
    return Headers().add("a", 1, Schema.INT32).add("b", "x").add("a", 2, Schema.INT32).add("b", None).add("c", b"")


def shown(of: Headers) -> list[tuple[str, object]]:
    return [(header.key, header.value) for header in of]


def test_headers_keep_their_order_and_names_may_repeat() -> None:
    assert shown(headers()) == [("a", 1), ("b", "x"), ("a", 2), ("b", None), ("c", b"")]
    assert headers().all_with_name("a") == [Header("a", Schema.INT32, 1), Header("a", Schema.INT32, 2)]
    assert headers().last_with_name("b") == Header("b", None, None)
    assert headers().last_with_name("none") is None


def test_headers_are_removed_by_name_or_all() -> None:
    assert shown(headers().remove("a")) == [("b", "x"), ("b", None), ("c", b"")]
    assert len(headers().clear()) == 0


def test_latest_header_of_a_name_or_of_every_name_is_retained() -> None:
    assert shown(headers().retain_latest("a")) == [("b", "x"), ("a", 2), ("b", None), ("c", b"")]
    assert shown(headers().retain_latest()) == [("a", 2), ("b", None), ("c", b"")]


def test_function_changes_or_removes_headers() -> None:
    def odd_ones(header: Header) -> Header | None:
        return None if header.value == 2 else header.renamed("d").with_value(Schema.INT64, 5)

    assert shown(headers().apply(odd_ones, "a")) == [("d", 5), ("b", "x"), ("b", None), ("c", b"")]
    assert [h.key for h in headers().apply(odd_ones)] == ["d"] * 4


def test_failing_function_changes_no_header() -> None:
    made = headers()

    def fails(header: Header) -> Header | None:
        raise ValueError(header.key)

    with pytest.raises(ValueError, match="a"):
        made.apply(fails)
    assert made == headers()


def test_copy_is_independent() -> None:
    made = headers()
    copied = made.copy()
    copied.remove("a")
    assert made == headers()
    assert copied != made
