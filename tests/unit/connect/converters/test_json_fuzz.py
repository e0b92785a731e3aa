"""Whatever bytes JsonConverter is given, it answers with a value or a DataError, soon, and within bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.errors import DataError

pytestmark = pytest.mark.slow

FORMS = [
    {"schemas.enable": "true"},
    {"schemas.enable": "false"},
    {"schemas.enable": "true", "conversion.strict": "true"},
    {"schemas.enable": "false", "conversion.strict": "true"},
    {"schemas.enable": "true", "schema.content": '{"type":"struct","fields":[{"field":"a","type":"int32"}]}'},
]
CONVERTERS = []
for form in FORMS:
    made = JsonConverter()
    made.configure(form, False)
    CONVERTERS.append(made)

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
NODES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=12,
)
TYPE_NAMES = ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes", "array", "map", "struct", "no")
LOGICAL = tuple(f"org.apache.kafka.connect.data.{name}" for name in ("Decimal", "Date", "Time", "Timestamp"))
# Schemas that are nearly right: every member may be missing or of another type.
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(TYPE_NAMES)},
        optional={
            "optional": st.one_of(st.booleans(), st.integers()),
            "name": st.one_of(st.sampled_from(LOGICAL), SCALARS),
            "version": SCALARS,
            "default": NODES,
            "parameters": st.one_of(SCALARS, st.dictionaries(st.sampled_from(["scale", "x"]), st.text(max_size=3), max_size=2)),
            "field": st.text(max_size=3),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["array", "map", "struct"])},
        optional={
            "items": inner,
            "keys": inner,
            "values": inner,
            "fields": st.lists(inner, max_size=3),
            "field": st.text(max_size=2),
        },
    ),
    max_leaves=5,
)


def alone(converter: JsonConverter, data: bytes) -> list[Any]:
    return [converter.to_connect_data("t", data)]


def in_batch(converter: JsonConverter, data: bytes) -> list[Any]:
    return list(converter.decode_batch("t", [data]))


def answers(data: bytes) -> None:
    """Each converter reads it alone and in a batch, with one result; both may refuse it."""
    for converter in CONVERTERS:
        assert outcome(alone, converter, data) == outcome(in_batch, converter, data)


def outcome(read: Callable[[JsonConverter, bytes], list[Any]], converter: JsonConverter, data: bytes) -> str:
    try:
        return repr(read(converter, data))
    except DataError as e:
        return f"DataError {e.message}"


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    answers(data)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(NODES, st.data())
def test_json_with_bytes_changed(node: Any, data: st.DataObject) -> None:
    text = bytearray(json.dumps(node).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    answers(bytes(text[: data.draw(st.integers(0, len(text)))]) if data.draw(st.booleans()) else bytes(text))


@settings(max_examples=250, deadline=None, derandomize=True)
@given(SCHEMAS, NODES)
def test_envelopes_that_are_nearly_right(schema: Any, node: Any) -> None:
    answers(json.dumps({"schema": schema, "payload": node}).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"[" * 900 + b"]" * 900,
        b"9" * 1_000_000,
        b"1e" + b"9" * 50,
        b"1e2147483647",
        b"-1e-2147483648",
        b"0." + b"0" * 900 + b"1",
        b'"' + b"\\" * 99_999,
        b'"\\ud800"',
        b'"\xff\xfe"',
        b"\xef\xbb\xbf1",
        b"\xff\xfe1\x00",
        b"\x00" * 1000,
        b'{"schema":' + b'{"type":"array","items":' * 50_000,
        b'{"schema":{"type":"int8","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"99999999"}},"payload":"AQ=="}',
        b'{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2147483647"}},"payload":"AQ=="}',
        b'{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}},"payload":1e400}',
        b'{"schema":{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"},"payload":' + b"9" * 999 + b"}",
        b'{"schema":{"type":"float"},"payload":1e-999999999}',
        b'{"schema":{"type":"int64"},"payload":1e999999999}',
    ],
    ids=lambda data: f"{len(data)}-{data[:24]!r}",
)
def test_hostile_bytes(data: bytes) -> None:
    answers(data)
