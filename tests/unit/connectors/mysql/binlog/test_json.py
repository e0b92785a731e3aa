"""Binary JSON: the text that MySQL prints, changes of parts, damaged and hostile documents."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.binlog import JsonDiffs
from connectors.mysql.binlog.json_binary import double_text, json_text
from connectors.mysql.binlog.json_diff import apply_diffs, change_document, parse_path, read_diffs
from connectors.mysql.binlog.temporal import pack_datetime
from tests.support.binlog_encoder import decimal, json_diffs, json_document, opaque_time

_scalars = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=20)
_documents = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=6), inner, max_size=5), max_leaves=25
)


def ordered(value: Any) -> Any:
    """Keys in MySQL's order."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value, key=lambda key: (len(key.encode()), key.encode()))}
    return [ordered(one) for one in value] if isinstance(value, list) else value


@settings(deadline=None, max_examples=80)
@given(_documents, st.booleans())
def test_documents_print_as_json_in_both_formats(value: Any, large: bool) -> None:
    assert json_text(json_document(value, large=large)) == json.dumps(ordered(value), ensure_ascii=False)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-2.5, "-2.5"), (0.1, "0.1"), (1e14, "100000000000000.0"), (1e15, "1e15"),
        (123456789012345.0, "123456789012345.0"), (1e200, "1e200"), (1.5e-20, "1.5e-20"), (1e-5, "0.00001"),
        (1e-15, "0.000000000000001"), (1e-16, "1e-16"), (3.141592653589793, "3.141592653589793"), (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"), (1234567890123456.0, "1.234567890123456e15"),
    ],
)  # fmt: skip
def test_doubles_always_show_that_they_are_doubles(number: float, text: str) -> None:
    assert json_text(json_document([number])) == f"[{text}]"


@settings(deadline=None, max_examples=80)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_exact(number: float) -> None:
    assert float(double_text(number)) == number


def packed(code: int, *fields: int) -> tuple[int, bytes]:
    return code, pack_datetime(*fields).to_bytes(8, "little", signed=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((246, bytes([10, 2]) + decimal(-1250, 10, 2)), "-12.50"),
        ((246, bytes([30, 30]) + decimal(7, 30, 30)), "0." + "0" * 29 + "7"),
        (packed(10, 2024, 2, 29), '"2024-02-29"'),
        (packed(10, 0, 0, 0), '"0000-00-00"'),
        (packed(12, 9999, 12, 31, 23, 59, 59, 999999), '"9999-12-31 23:59:59.999999"'),
        (packed(7, 2024, 1, 2, 3, 4, 5), '"2024-01-02 03:04:05.000000"'),
        (opaque_time(-3020399_000001), '"-838:59:59.000001"'),
        (opaque_time(45_000_000), '"00:00:45.000000"'),
        ((15, b"\x55"), '"base64:type15:VQ=="'),
        ((252, bytes(60)), '"base64:type252:' + "A" * 76 + "\\n" + "AAAA" + '"'),
        ((253, b"text"), '"text"'),
    ],
)
def test_opaque_values(value: tuple[int, bytes], text: str) -> None:
    assert json_text(json_document(value)) == text
    assert json_text(json_document({"k": [value]})) == f'{{"k": [{text}]}}'


def test_document_of_no_bytes_is_null() -> None:
    assert json_text(b"") == "null"


def test_control_characters_are_escaped_as_in_mysql() -> None:
    assert json_text(json_document('a"\\/\b\f\n\r\t\x01\x7fü')) == '"a\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7fü"'


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_is_limited_as_in_mysql() -> None:
    assert json_text(json_document(nested(100))) == "[" * 100 + "]" * 100
    with pytest.raises(ValueError, match="more than 100 levels"):
        json_text(json_document(nested(101)))


def test_shared_offsets_cannot_multiply_the_text() -> None:
    """An array of 10,000 members that all are the same long text, and arrays that contain the same array."""
    text = b"\x80\x20" + b"x" * 4096
    head = struct.pack("<II", 10_000, 8 + 50_000 + len(text))
    with pytest.raises(ValueError, match="overlap"):
        json_text(b"\3" + head + b"".join(b"\x0c" + (8 + 50_000).to_bytes(4, "little") for _ in range(10_000)) + text)
    itself = b"\2" + struct.pack("<HH", 2, 10) + b"\2\0\0" * 2
    with pytest.raises(ValueError, match=r"overlap|levels"):
        json_text(itself)


_DAMAGED = json_document({"a": [1, -2.5, "text", None, {"b": 1 << 40}], "cc": (246, bytes([5, 2]) + decimal(123, 5, 2))})


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.integers(0, len(_DAMAGED) - 1), st.integers(0, 255)), max_size=5), st.integers(0, len(_DAMAGED)))
def test_damaged_documents_raise_expected_errors_only(changes: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(_DAMAGED)
    for at, value in changes:
        damaged[at] = value
    with suppress(IndexError, ValueError, struct.error):
        json_text(bytes(damaged[:cut]))


BEFORE = '{"a": [1, 2.50, {"b c": null}], "id": 123456789012345678901, "x\\"y": "base64:type15:VQ=="}'


@pytest.mark.parametrize(
    ("diffs", "after"),
    [
        ([(0, "$.a[0]", json_document("one"))], BEFORE.replace("[1,", '["one",')),
        ([(0, '$."a"[2]."b c"', json_document({"z": 1, "y": 2}))], BEFORE.replace("null", '{"y": 2, "z": 1}')),
        ([(0, '$."x\\"y"', json_document(True))], BEFORE.replace('"base64:type15:VQ=="', "true")),
        ([(1, "$.a[1]", json_document(7))], BEFORE.replace("2.50", "7, 2.50")),
        ([(1, "$.a[9]", json_document(7))], BEFORE.replace("}]", "}, 7]")),
        ([(1, "$.b", json_document(7))], BEFORE.replace('"id"', '"b": 7, "id"')),
        ([(2, "$.a", None), (2, "$.id", None)], '{"x\\"y": "base64:type15:VQ=="}'),
        ([], BEFORE),
    ],
)
def test_changes_of_parts_are_applied(diffs: list[tuple[int, str, bytes | None]], after: str) -> None:
    assert change_document(BEFORE, json_diffs(*diffs)) == after


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ((0, "$.missing", json_document(1)), "does not exist"),
        ((2, "$.a[3]", None), "does not exist"),
        ((1, "$.id", json_document(1)), "its path exists, or cannot exist"),
        ((1, "$.id[0]", json_document(1)), "its path exists, or cannot exist"),
        ((0, "$.a.b", json_document(1)), "does not exist"),
        ((0, "$", json_document(1)), "the whole document"),
        ((0, "$.a[*]", json_document(1)), "invalid at character"),
        ((3, "$.a", None), "3"),
    ],
)
def test_changes_that_do_not_fit_are_refused(diff: tuple[int, str, bytes | None], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        change_document(BEFORE, json_diffs(diff))


def test_changes_of_null_and_of_unknown_documents() -> None:
    raw = json_diffs((2, "$.a", None))
    with pytest.raises(ValueError, match="NULL"):
        change_document(None, raw)
    unknown = change_document(object(), raw)
    assert isinstance(unknown, JsonDiffs)
    assert apply_diffs('{"a": 1, "b": 2}', unknown.diffs) == '{"b": 2}'
    assert read_diffs(b"") == ()
    assert parse_path('$.a."b"[3]."[0]"') == ["a", "b", 3, "[0]"]
