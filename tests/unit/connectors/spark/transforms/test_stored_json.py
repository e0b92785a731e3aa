"""Messages are read as columns only if JsonConverter reads exactly the same."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.spark.decode.json import find_prefix
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.stored_json import StoredJsonReader, fits
from connectors.spark.transforms.stored_types import arrow_type, connect_value

INNER = Schema(Type.STRUCT, optional=True, fields=[("n", Schema.INT32), ("t", Schema.OPTIONAL_STRING)])
ROW = Schema(
    Type.STRUCT,
    name="shop.Row",
    fields=[
        ("id", Schema.INT64),
        ("small", Schema(Type.INT8, optional=True)),
        ("text", Schema.OPTIONAL_STRING),
        ("data", Schema(Type.BYTES, optional=True)),
        ("price", Schema.OPTIONAL_FLOAT64),
        ("ratio", Schema(Type.FLOAT32, optional=True)),
        ("flag", Schema(Type.BOOLEAN, optional=True)),
        ("money", decimal_schema(2, optional=True)),
        ("day", date_schema(optional=True)),
        ("time", time_schema(optional=True)),
        ("at", timestamp_schema(optional=True)),
        ("inner", INNER),
        ("list", Schema(Type.ARRAY, optional=True, value_schema=Schema.INT32)),
        ("level", Schema(Type.INT32, default=7)),
    ],
)


def converter(**settings: str) -> JsonConverter:
    found = JsonConverter()
    found.configure({"schemas.enable": "true", "conversion.strict": "true", **settings}, False)
    return found


def prefix_of(schema: Schema) -> bytes:
    value = None if schema.optional else {Type.STRUCT: None, Type.INT64: 1}[schema.type]
    if schema.type is Type.STRUCT:
        schema = schema.replace(optional=True)
    message = converter().from_connect_data("t", schema, value)
    assert message is not None
    return find_prefix(message).text


PREFIX = prefix_of(ROW).replace(b'"optional":true,"name":"shop.Row"', b'"optional":false,"name":"shop.Row"')


def read(payloads: list[bytes], *, fills_defaults: bool = True) -> tuple[list[Any], list[bool]]:
    """The Connect values of payloads, and which are read."""
    found = StoredJsonReader(PREFIX, ROW, fills_defaults=fills_defaults).read(payloads)
    values = [connect_value(ROW, one) if one is not None else None for one in found.array.to_pylist()]
    return values, found.is_read.tolist()


def by_converter(payload: bytes, **settings: str) -> Any:
    return converter(**settings).to_connect_data("t", PREFIX + payload + b"}").value


@pytest.mark.parametrize(
    "payload",
    [
        b'{"id":1}',
        b'{"id":-0,"level":null}',
        b'{"id":2,"small":-128,"text":"\\u00e9\\ud83d\\ude00\\u0000","data":"AP8=","price":0.1,"ratio":0.5,"flag":true}',
        b'{"id":3,"money":"AN0=","day":20000,"time":86400000,"at":1700000000123,"level":8}',
        b'{"id":4,"inner":{"n":1},"list":[1,2]}',
        b'{"id":5,"inner":null,"list":[],"price":12}',
    ],
)
def test_values_are_those_of_the_converter(payload: bytes) -> None:
    assert read([payload]) == ([by_converter(payload)], [True])


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b'{"id":null}',
        b'{"id":1,"unknown":2}',
        b'{"id":1,"inner":{"n":1,"unknown":2}}',
        b'{"id":1,"inner":{"t":"x"}}',
        b'{"id":1,"small":128}',
        b'{"id":1.0}',
        b'{"id":1,"text":5}',
        b'{"id":1,"price":-0}',
        b'{"id":1,"price":"NaN"}',
        b'{"id":1,"price":0.1234567890123456789}',
        b'{"id":1,"data":"QUJD="}',
        b'{"id":1,"money":""}',
        b'{"id":1,"time":86400001}',
        b'{"id":1,"day":3000000}',
        b'{"id":1,"at":9000000000000000}',
        b'{"id":1,"list":[1,null]}',
        b'{"id":1,"id":2}',
        b'{"id":1}{"id":2}',
        b'{"id":1,\n"text":"x"}',
    ],
)
def test_other_values_are_left_to_the_converter_and_do_not_affect_their_neighbors(payload: bytes) -> None:
    values, is_read = read([b'{"id":7}'] * 40 + [payload] + [b'{"id":8}'] * 40)
    assert not is_read[40]
    assert values[40] is None
    good = [at for at, one in enumerate(is_read) if one]
    assert len(good) >= 81 - 16
    assert [values[at].get("id") for at in good] == [7 if at < 40 else 8 for at in good]


_SCALARS = st.one_of(
    st.none(), st.integers(-(1 << 65), 1 << 65), st.floats(), st.booleans(), st.text(max_size=3), st.sampled_from(["AP8=", "NaN"])
)
_NODES = st.one_of(_SCALARS, st.lists(_SCALARS, max_size=2), st.dictionaries(st.sampled_from(["n", "t", "x"]), _SCALARS))


@given(st.lists(st.dictionaries(st.sampled_from([*ROW.field_names, "x"]), _NODES, max_size=4), max_size=4), st.booleans())
def test_what_is_read_is_what_the_converter_reads(documents: list[dict[str, Any]], fills_defaults: bool) -> None:
    payloads = [json.dumps({"id": 1, **document}).encode() for document in documents]
    settings = {"replace.null.with.default": str(fills_defaults).lower()}
    for payload, value, is_read in zip(payloads, *read(payloads, fills_defaults=fills_defaults), strict=True):
        if is_read:
            assert value.values == by_converter(payload, **settings).values


def test_many_bad_records_end_the_search_for_good_ones() -> None:
    _, is_read = read([b"{}", b'{"id":"x"}'] * 5_000)
    assert not any(is_read)


def test_payload_needs_the_known_beginning_and_an_object() -> None:
    reader = StoredJsonReader(PREFIX, ROW, fills_defaults=True)
    assert reader.payload(PREFIX + b'{"id":1}}') == b'{"id":1}'
    assert reader.message(b'{"id":1}') == PREFIX + b'{"id":1}}'
    for message in (b'{"schema":null,"payload":{}}', PREFIX + b"null}", PREFIX + b'{"id":1}} ', PREFIX + b"}"):
        assert reader.payload(message) is None


def test_keys_may_be_single_values() -> None:
    prefix = prefix_of(Schema.INT64)
    reader = StoredJsonReader(prefix, Schema.INT64, fills_defaults=True)
    assert reader.payload(prefix + b"null}") is None
    found = reader.read([b"5", b'"x"', b"6"])
    assert not found.is_read.any()  # few records are read together or not at all
    assert reader.read([b"5", b"6"]).array.to_pylist() == [5, 6]


def test_maps_are_read_by_the_converter() -> None:
    schema = Schema(Type.STRUCT, fields=[("m", Schema(Type.MAP, key_schema=Schema.STRING, value_schema=Schema.INT64))])
    with pytest.raises(NotCompilable, match="maps"):
        StoredJsonReader(prefix_of(schema), schema, fills_defaults=True)


def test_required_fields_of_a_missing_struct_may_be_null() -> None:
    array = pa.array([{"f0": 1, "f1": None}, None, {"f0": None, "f1": "x"}], arrow_type(INNER))
    assert np.array_equal(fits(INNER, array), [True, True, False])


def test_dates_of_the_converter_begin_and_end_with_pythons() -> None:
    schema = date_schema(optional=True)
    days = [(one - dt.date(1970, 1, 1)).days for one in (dt.date.min, dt.date.max)]
    assert fits(schema, pa.array([*days, days[0] - 1, days[1] + 1], pa.int32())).tolist() == [True, True, False, False]


def test_errors_of_the_converter_are_never_read() -> None:
    with pytest.raises(DataError):
        by_converter(b'{"id":1,"unknown":2}')
