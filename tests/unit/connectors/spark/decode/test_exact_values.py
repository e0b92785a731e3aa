"""A table equals its database to the bit, or the record is refused (promise 8): in every path that a value can take."""

from __future__ import annotations

import decimal
import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.java.number_text import double_text, float_text
from connect.record import SinkRecord
from connectors.spark.decode import long_numbers
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.json import NotBatchable, parse
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.table_fields import TableFields
from connectors.spark.decode.topic_decoder import DECODE_ERRORS, TopicDecoder

TYPES = ["int8", "int16", "int32", "int64", "float", "double", "boolean", "string"]
BARE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def decoder(
    *, schemas: bool, fill_defaults: bool = False, needs_position: bool = False, needs_keys: bool = False
) -> TopicDecoder:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    return TopicDecoder(
        "t", converter, converter, key_schemas=schemas, value_schemas=schemas, fill_defaults=fill_defaults,
        key_name="key" if needs_keys else None,
        needs_names=False, needs_keys=needs_keys, needs_position=needs_position,
    )  # fmt: skip


def message(type_: str | dict[str, Any], payload: str, *, usual: bool = True) -> bytes:
    """A record with one field, whose value is this JSON text; in the bytes of JsonConverter, or with other white space."""
    field = {"type": type_} if isinstance(type_, str) else type_
    members: dict[str, Any] = {"field": "f", "optional": True}
    schema = {"type": "struct", "optional": False, "fields": [members | field]}
    text = json.dumps(schema, separators=(",", ":"))
    between = "" if usual else " "
    return f'{{"schema":{between}{text},"payload":{between}{{"f":{payload}}}}}'.encode()


def envelope(payload: str) -> bytes:
    row = {"type": "struct", "optional": True, "fields": [{"field": "f", "type": "double", "optional": True}]}
    source = {"type": "struct", "optional": True, "fields": [{"field": "ts_us", "type": "int64", "optional": True}]}
    members: dict[str, Any] = {"before": row, "after": row, "op": {"type": "string"}, "source": source}
    schema = {"type": "struct", "name": "t.Envelope", "fields": [{"field": n, **s} for n, s in members.items()]}
    text = json.dumps(schema, separators=(",", ":"))
    event = f'{{"before":null,"after":{{"f":{payload}}},"op":"c","source":{{"ts_us":1700000000000000001}}}}'
    return f'{{"schema":{text},"payload":{event}}}'.encode()


def buffer(values: Sequence[bytes]) -> RawBuffer:
    return RawBuffer("t", [0] * len(values), list(range(len(values))), [None] * len(values), list(values))


def column(batches: Sequence[ChangeBatch]) -> list[Any]:
    return [value for batch in batches for value in batch.image["f"].to_pylist()]


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


def same(found: float, wanted: float) -> bool:
    return bits(found) == bits(wanted) or (math.isnan(found) and math.isnan(wanted))


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("usual", [True, False])
@pytest.mark.parametrize(
    "text",
    ['"NaN"', '"Infinity"', '"-Infinity"', "NaN", "-0.0", "-0", "0.1", "1e-5", "null", "16777216"],
)
def test_floating_numbers_with_a_schema_keep_their_bits(type_: str, usual: bool, text: str) -> None:
    found = column(decoder(schemas=True).decode_raw(buffer([message(type_, text, usual=usual)]), 0))[0]
    if text == "null":
        assert found is None
        return
    wanted = BARE[text.strip('"')] if text.strip('"') in BARE else float(text)
    if type_ == "float":
        wanted = struct.unpack("<f", struct.pack("<f", wanted))[0]
    assert same(found, wanted)


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("power", [-44, -30, 0, 60, 83, 126])
def test_texts_of_powers_of_two_by_java_are_kept(type_: str, power: int) -> None:
    number = 2.0**power
    texts = [float_text(number), str(np.float32(number))] if type_ == "float" else [double_text(number), repr(number)]
    raw = buffer([message(type_, text.replace("e+", "E")) for text in texts])
    assert column(decoder(schemas=True).decode_raw(raw, 0)) == [number] * 2


def test_non_finite_numbers_stay_in_the_batch_path() -> None:
    values = [message("double", t) for t in ('"NaN"', "1.5", '"Infinity"', '"-Infinity"')]
    (batch,) = decoder(schemas=True).decode_batch(buffer(values), 0)
    assert all(same(a, b) for a, b in zip(column([batch]), [math.nan, 1.5, math.inf, -math.inf], strict=True))


def test_words_for_non_finite_numbers_remain_text_in_text_columns() -> None:
    values = [message("string", t) for t in ('"NaN"', '"Infinity"')]
    assert column(decoder(schemas=True).decode_raw(buffer(values), 0)) == ["NaN", "Infinity"]


@pytest.mark.parametrize("usual", [True, False])
@pytest.mark.parametrize(
    ("type_", "text"),
    [
        *[(t, '"a"') for t in TYPES[:7]],
        *[(t, '"1"') for t in TYPES[:7]],
        *[(t, "1.5") for t in TYPES[:4]],
        *[(t, "true") for t in TYPES if t != "boolean"],
        *[("boolean", t) for t in ("1", "0", "1.5", '"true"')],
        *[("string", t) for t in ("5", "1.5", "{}", "[]")],
        *[(f"int{b}", str(sign * (1 << b - 1) + (sign > 0 and 0) - (sign < 0))) for b in (8, 16, 32, 64) for sign in (1, -1)],
        ("int64", "1e400"),
        ("int64", "NaN"),
        *[
            ("double", t)
            for t in ("1e400", "-1e400", "1e-400", "12345678901234567.89", "18446744073709551615", "9007199254740993")
        ],
        *[("double", t) for t in ("0.1234567890123456789", "0.1000000000000000000001", "123456789012345678e-5", "1.5e-330")],
        *[("float", t) for t in ("1e39", "16777217", "0.123456789", "1e-50", "0.1000000001")],
        ({"type": "array", "items": {"type": "double"}}, "[1.5,12345678901234567.89]"),
        ({"type": "array", "items": {"type": "float"}}, "[1.5,16777217]"),
        ({"type": "array", "items": {"type": "int32"}}, "[1,1.5]"),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "double"}}, '{"a":9007199254740993}'),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int8"}}, '{"a":300}'),
        ({"type": "struct", "fields": [{"field": "g", "type": "double"}]}, '{"g":12345678901234567.89}'),
        ({"type": "struct", "fields": [{"field": "g", "type": "double"}]}, "5"),
        ({"type": "bytes"}, '"ä"'),
        ({"type": "bytes"}, "5"),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "1.5"),
        ({"type": "int32", "name": "org.apache.kafka.connect.data.Time"}, "86400001"),
        ({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}, "1.234"),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_refused_by_name(type_: Any, text: str, usual: bool) -> None:
    good = message(type_, "null", usual=usual)
    with pytest.raises(DataError, match=r"topic t, partition 0, offset 1: field f"):
        decoder(schemas=True).decode_raw(buffer([good, message(type_, text, usual=usual)]), 0)


@pytest.mark.parametrize("text", ["12345678901234567.89", "18446744073709551615", "9007199254740993"])
def test_numbers_in_change_events_are_checked_whatever_other_long_numbers_there_are(text: str) -> None:
    good = [envelope(t) for t in ("0.30000000000000004", "1e22", "5e-324")]
    batches = decoder(schemas=True).decode_batch(buffer(good), 0)
    assert column(batches) == [0.30000000000000004, 1e22, 5e-324]
    with pytest.raises(DataError, match=f"offset 3: field f: double cannot hold the number {text} exactly"):
        decoder(schemas=True).decode_raw(buffer([*good, envelope(text)]), 0)


@pytest.mark.parametrize(
    "text", ["12345678901234567.89", "18446744073709551615", "0.1234567890123456789", "1.5e-330", "1e400", "-9007199254740993.5"]
)
@pytest.mark.parametrize(
    "form", ['{"f":%s}', '{"f": %s}', '{"f":{"g":%s}}', '{"f":[1.5,%s]}', '{"f":[{"g":%s}]}', '{"f":[[%s]]}']
)
def test_without_a_schema_a_number_that_a_double_changes_is_refused(text: str, form: str) -> None:
    good = (form % "1.5").encode()
    with pytest.raises(DataError, match=r"topic t, partition 0, offset 1: field f.*exactly"):
        decoder(schemas=False).decode_raw(buffer([good, (form % text).encode()]), 0)


def test_ordinary_numbers_without_a_schema_stay_in_the_batch_path() -> None:
    texts = ["0.1", "1.5", "-0.0", "12.25", "1e-7", "0.30000000000000004", "123456789.12345679", "-1.7976931348623157e308", "7"]
    values = [b'{"f":%s,"id":1700000000000000001}' % t.encode() for t in texts]
    found = column(decoder(schemas=False).decode_batch(buffer(values), 0))
    assert [bits(v) for v in found] == [bits(float(t)) for t in texts]


def test_non_finite_numbers_without_a_schema_are_read_by_columns_of_numbers() -> None:
    values = [b'{"f":1.5}', b'{"f":"NaN"}', b'{"f":"-Infinity"}', b'{"f":Infinity}']
    found = column(decoder(schemas=False).decode_raw(buffer(values), 0))
    assert all(same(a, b) for a, b in zip(found, [1.5, math.nan, -math.inf, math.inf], strict=True))


def test_a_new_field_inside_a_list_of_objects_is_kept() -> None:
    reader = decoder(schemas=False)
    reader.decode_raw(buffer([b'{"f":[{"a":1}]}']), 0)
    assert column(reader.decode_raw(buffer([b'{"f":[{"a":1,"b":"x"}]}']), 0)) == [[{"a": 1, "b": "x"}]]


def test_an_integer_beyond_64_bits_never_wraps() -> None:
    reader = decoder(schemas=False)
    reader.decode_raw(buffer([b'{"f":1}']), 0)
    with pytest.raises(DataError, match=r"offset 0: field f: 18446744073709551615 is not between"):
        reader.decode_raw(buffer([b'{"f":18446744073709551615}']), 0)


def test_a_field_that_occurs_twice_is_refused() -> None:
    with pytest.raises(DataError, match=r"offset 0: .*field f occurs twice"):
        decoder(schemas=False).decode_raw(buffer([b'{"f":1,"f":2}']), 0)


def test_an_unusual_layout_of_the_text_gives_the_same_rows() -> None:
    text = '{"f": 1.5,\n "g": ["x", null], "h": {"i": -0.0}}'
    for data in (text.encode(), text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode()):
        (batch,) = decoder(schemas=False).decode_raw(buffer([data]), 0)
        assert batch.image.to_pylist() == [{"f": 1.5, "g": ["x", None], "h": {"i": -0.0}}]


def record(schema: Schema | None, value: Any) -> SinkRecord:
    return SinkRecord("t", 0, None, None, schema, value, 0)


def test_floating_numbers_of_records_keep_their_bits() -> None:
    schema = SchemaBuilder.struct().field("f", Schema.FLOAT64).field("g", Schema.FLOAT32).build()
    for value in (math.nan, math.inf, -math.inf, -0.0, 0.1):
        single = struct.unpack("<f", struct.pack("<f", value))[0]
        (batch,) = decoder(schemas=True).decode_records([record(schema, Struct(schema, [value, single]))])
        assert same(batch.image["f"][0].as_py(), value)
        assert same(batch.image["g"][0].as_py(), single)
        found = column(decoder(schemas=False).decode_records([record(None, {"f": value})]))
        assert same(found[0], value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [(Type.INT64, 1.5), (Type.INT64, True), (Type.INT8, 300), (Type.FLOAT64, True), (Type.FLOAT64, (1 << 53) + 1),
     (Type.FLOAT32, 1e39), (Type.FLOAT32, 1.23456789012), (Type.STRING, b"x"), (Type.BOOLEAN, 1)],
)  # fmt: skip
def test_a_wrong_value_of_a_record_is_refused_by_name(type_: Type, value: Any) -> None:
    schema = SchemaBuilder.struct().field("f", Schema(type_)).build()
    wrong = Struct(schema, [value])
    with pytest.raises(DataError, match=r"topic t, partition 0, offset 0: field f"):
        decoder(schemas=True).decode_records([record(schema, wrong)])


def test_a_number_of_a_record_without_a_schema_keeps_its_digits() -> None:
    reader = decoder(schemas=False)
    assert column(reader.decode_records([record(None, {"f": 1.5})])) == [1.5]
    with pytest.raises(DataError, match="field f: double cannot hold the number 9007199254740993 exactly"):
        reader.decode_records([record(None, {"f": (1 << 53) + 1})])


def test_a_fixed_schema_of_the_converter_applies() -> None:
    converter = JsonConverter()
    content = '{"type":"struct","fields":[{"field":"f","type":"double","optional":true,"default":"Infinity"}]}'
    content = content.replace('"Infinity"', "2.5")
    converter.configure({"schemas.enable": "true", "schema.content": content}, is_key=False)
    reader = TopicDecoder(
        "t", converter, converter, key_schemas=True, value_schemas=True, fill_defaults=True, key_name=None,
        needs_names=False, needs_keys=False,
    )  # fmt: skip
    found = column(reader.decode_raw(buffer([b'{"f":"NaN"}', b'{"f":1.5}', b"{}"]), 0))
    assert math.isnan(found[0])
    assert found[1:] == [1.5, 2.5]


def test_the_default_of_a_field_replaces_null_in_both_paths() -> None:
    field = {"type": "int8", "default": 7}
    for usual in (True, False):
        found = decoder(schemas=True, fill_defaults=True).decode_raw(buffer([message(field, "null", usual=usual)]), 0)
        assert column(found) == [7]
        assert found[0].image.schema.field("f").type == pa.int8()


INT = {"type": "int32", "optional": True, "default": 7}
TEXT = {"type": "string", "optional": False}


@pytest.mark.parametrize(
    ("field", "payload", "wanted"),
    [
        ({"type": "array", "optional": False, "items": INT}, "[null,1]", [7, 1]),
        ({"type": "map", "optional": False, "keys": TEXT, "values": INT}, '{"k":null}', [("k", 7)]),
        ({"type": "array", "optional": False, "items": {"type": "array", "items": INT}}, "[[null]]", [[7]]),
    ],
    ids=["array", "map", "nested"],
)
def test_the_default_of_an_element_replaces_null_in_all_paths(field: dict[str, Any], payload: str, wanted: list[Any]) -> None:
    for usual in (True, False):
        messages = [message(field, payload, usual=usual)]
        assert column(decoder(schemas=True, fill_defaults=True).decode_raw(buffer(messages), 0)) == [wanted]
        assert column(decoder(schemas=True).decode_raw(buffer(messages), 0)) != [wanted]
    connect = JsonConverter().to_connect_data("t", message(field, payload, usual=True))
    assert column(decoder(schemas=True).decode_records([record(connect.schema, connect.value)])) == [wanted]


def test_a_null_value_is_the_default_of_its_schema_and_no_tombstone() -> None:
    data = b'{"schema":{"type":"int32","optional":true,"default":7},"payload":null}'
    (found,) = decoder(schemas=True, fill_defaults=True).decode_raw(buffer([data]), 0)
    assert found.meta["op"].to_pylist() == [None]
    assert found.image.to_pylist() == [{"value": 7}]
    (found,) = decoder(schemas=True).decode_raw(buffer([data]), 0)
    assert found.meta["op"].to_pylist() == ["tombstone"]


@pytest.mark.parametrize("texts", [["null", '{"id":1}'], ['{"id":1}', "null"], ["null"], [" null ", '{"id":1}'], ["null"] * 3])
def test_the_document_null_is_a_tombstone_in_all_paths(texts: list[str]) -> None:
    """As for JsonConverter. Arrow's reader takes it for a row of nulls, and a first one ends the process."""
    known = decoder(schemas=False)
    known.decode_raw(buffer([b'{"id":0}']), 0)
    found = known.decode_raw(buffer([text.encode() for text in texts]), 0)
    pairs = [pair for one in found for pair in zip(one.meta["offset"].to_pylist(), one.meta["op"].to_pylist(), strict=True)]
    assert sorted(pairs) == [(offset, "tombstone" if "null" in text else None) for offset, text in enumerate(texts)]


@pytest.mark.parametrize("keys", [["null", '{"id":1}'], ['{"id":1}', "null"], ["null", "7"]], ids=" ".join)
def test_the_document_null_is_no_key(keys: list[str]) -> None:
    name = "key" if "7" in keys else "id"
    raw = RawBuffer("t", [0, 0], [0, 1], [key.encode() for key in keys], [b'{"n":1}', b'{"n":1}'])
    (found,) = decoder(schemas=False, needs_keys=True).decode_raw(raw, 0)
    assert found.keys is not None
    assert found.keys[name].to_pylist() == [None if key == "null" else json.loads(key) if name == "key" else 1 for key in keys]


DECIMAL = {"type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}


@pytest.mark.parametrize("others", [[], ['"AQ=="'], ["1.5"]], ids=["alone", "in a batch", "beside a number"])
def test_a_decimal_without_bytes_is_refused_in_all_paths(others: list[str]) -> None:
    messages = [message(DECIMAL, payload, usual=True) for payload in ['""', *others]]
    with pytest.raises(DataError, match="a Decimal without bytes"):
        decoder(schemas=True).decode_raw(buffer(messages), 0)


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("number", ["12345678901234567.89", "-9007199254740993", "0.12345678901234567890123456789", "1e-400"])
def test_a_number_that_changes_is_found_wherever_it_stands_in_the_text(
    type_: pa.DataType, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_numbers, "_WINDOW", 64)
    types = pa.schema([("f", type_)])
    for shift in range(70):
        other = b'{"o":"%s","f":0.5}' % (b"7" * shift)
        assert parse([other] * 3, types, infer=False).num_rows == 3
        with pytest.raises(NotBatchable):
            parse([other, b'{"f":%s}' % number.encode(), other], types, infer=False)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", "7"), ("+7", "7"), ("-.5", "-0.5"), ("5.", "5"), ("1e2", "100"), ("1E-2", "0.01"), ("007", "7"),
        ("1_000", None), (" 7 ", None), ("１２", None), ("1٠", None), ("7\n", None), ("", None), (".", None), ("1e", None),
        ("NaN", None), ("sNaN", None), ("Infinity", None), ("0x10", None), ("1e400", None), ("1e99999999999999999999", None),
    ],
)  # fmt: skip
def test_text_of_a_decimal_is_plain_digits_in_both_paths(text: str, number: str | None) -> None:
    def read(decode: Callable[[TopicDecoder, RawBuffer], Sequence[ChangeBatch]]) -> Any:
        reader = decoder(schemas=False)
        reader.inferred_value_schema.know_table(TableFields({"f": pa.decimal128(10, 2)}))
        return column(decode(reader, buffer([json.dumps({"f": text}).encode()])))

    paths = [lambda reader, raw: reader.decode_batch(raw, 0), lambda reader, raw: reader.decode_exactly(raw, 0)]
    for path in paths:
        if number is None:
            with pytest.raises(DECODE_ERRORS):
                read(path)
        else:
            assert read(path) == [decimal.Decimal(number)]


@pytest.mark.parametrize("schemas", [False, True], ids=["plain", "schemas"])
@pytest.mark.parametrize(
    "number", ["1e99999999999999999999", "-1.5E-99999999999999999999", "-12345678901234567890e99999999999999999999"]
)
def test_a_number_with_an_exponent_of_any_size_is_refused(number: str, schemas: bool) -> None:
    values = [message("double", number) if schemas else b'{"f":%s}' % number.encode()]
    values.append(values[0].replace(b'"f"', b'"f" '))
    for value in values:
        with pytest.raises(DataError, match=r"offset 0: .*the exponent of a number is too large"):
            decoder(schemas=schemas).decode_raw(buffer([value]), 0)
