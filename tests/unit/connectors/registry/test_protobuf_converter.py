"""ProtobufConverter: values round-trip, .proto files are parsed, and malformed messages are rejected."""

from __future__ import annotations

import contextlib
import datetime as dt
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.logical import date_of, date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Field, Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.registry.client import Reference, RegisteredSchema
from connectors.registry.protobuf.converter import ProtobufConverter

Make = Callable[..., ProtobufConverter]
_INNER = SchemaBuilder.struct().name("Inner").field("n", Schema.OPTIONAL_INT32).field("s", Schema.OPTIONAL_STRING).build()
_WHEN = dt.datetime(1969, 2, 28, 12, 30, 15, 123000, tzinfo=dt.UTC)
_OPTIONAL = {"optional.for.nullables": "true"}
_WRAPPED = {"wrapper.for.nullables": "true"}

FIELDS: list[tuple[Schema, Any]] = [
    (Schema.INT8, -128),
    (Schema.INT16, 32767),
    (Schema.INT32, -(2**31)),
    (Schema.INT64, 2**63 - 1),
    (Schema.FLOAT32, 1.5),
    (Schema.FLOAT64, -0.1),
    (Schema.BOOLEAN, True),
    (Schema.STRING, "ä𝄞"),
    (Schema.BYTES, b"\x00\xff"),
    (decimal_schema(3), Decimal("-12345678901234567890.120")),
    (date_schema(), dt.date(2024, 2, 29)),
    (time_schema(), dt.time(23, 59, 59, 999000)),
    (timestamp_schema(), _WHEN),
    (SchemaBuilder.array(Schema.INT64).build(), [1, -3]),
    (SchemaBuilder.array(_INNER).build(), [Struct(_INNER, [1, "x"])]),
    (SchemaBuilder.array(decimal_schema(1)).build(), [Decimal("1.5")]),
    (SchemaBuilder.map(Schema.STRING, Schema.INT32).name("counts").build(), {"a": 1, "b": 2}),
    (SchemaBuilder.map(Schema.INT32, _INNER).name("inners").build(), {7: Struct(_INNER, [7, "seven"])}),
    (SchemaBuilder.map(Schema.STRING, decimal_schema(0)).name("sums").build(), {"a": Decimal("3")}),
    (_INNER, Struct(_INNER, [-5, "text"])),
]


def _plain(value: Any) -> Any:
    """The value without the schemas of its structs, which gain tags on their way."""
    if isinstance(value, Struct):
        return {f.name: _plain(v) for f, v in zip(value.schema.fields or (), value.values, strict=True)}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _fields(schema: Schema | None) -> tuple[Field, ...]:
    assert schema is not None
    assert schema.fields is not None
    return schema.fields


@pytest.mark.parametrize("configs", [{}, _OPTIONAL, _WRAPPED])
def test_every_type_round_trips_as_a_field(configured: Make, configs: dict[str, str]) -> None:
    schema = Schema(Type.STRUCT, name="shop.All", fields=[(f"f{i}", s) for i, (s, _) in enumerate(FIELDS)])
    value = Struct(schema, [v for _, v in FIELDS])
    converter = configured(ProtobufConverter, **configs)
    back = converter.to_connect_data("t", converter.from_connect_data("t", schema, value))
    assert _plain(back.value) == _plain(value)
    assert [(f.name, f.schema.type, f.schema.name) for f in _fields(back.schema)] == [
        (f.name, f.schema.type, f.schema.name) for f in _fields(schema)
    ]
    # What was read can be written again, and then means the same.
    again = converter.to_connect_data("u", converter.from_connect_data("u", back.schema, back.value))
    assert _plain(again.value) == _plain(value)
    assert again.schema == back.schema


@pytest.mark.parametrize("configs", [_OPTIONAL, _WRAPPED])
def test_nulls_of_optional_fields_round_trip(configured: Make, configs: dict[str, str]) -> None:
    schema = Schema(Type.STRUCT, name="All", fields=[(f"f{i}", s.as_optional()) for i, (s, _) in enumerate(FIELDS[:13])])
    value = Struct(schema, [None] * 13)
    converter = configured(ProtobufConverter, **configs)
    back = converter.to_connect_data("t", converter.from_connect_data("t", schema, value))
    assert back.value.values == value.values
    assert [f.schema.optional for f in _fields(back.schema)] == [True] * 13


def test_without_presence_a_null_is_the_types_zero(configured: Make) -> None:
    converter = configured(ProtobufConverter)
    data = converter.from_connect_data("t", _INNER, Struct(_INNER, [None, None]))
    assert converter.to_connect_data("t", data).value.values == [0, ""]


@pytest.mark.parametrize(
    ("schema", "value", "index"),
    [(Schema.INT32, 5, 4), (Schema.INT64, 2**40, 2), (Schema.STRING, "x", 7), (Schema.BYTES, b"x", 8), (Schema.BOOLEAN, True, 6),
     (Schema.FLOAT64, 0.5, 0), (Schema.FLOAT32, 0.5, 1)],
)  # fmt: skip
def test_a_primitive_becomes_a_wrapper_message(configured: Make, schema: Schema, value: Any, index: int) -> None:
    converter = configured(ProtobufConverter)
    data = converter.from_connect_data("t", schema, value)
    assert data is not None
    assert data[5:7] == (bytes([2, 2 * index]) if index else b"\0" + data[6:7])
    back = converter.to_connect_data("t", data)
    assert back == (Schema(schema.type, version=1), value)


def test_schema_and_payload_are_confluents(configured: Make, registry: Any) -> None:
    schema = (
        SchemaBuilder.struct()
        .name("shop.Order")
        .field("id", Schema.INT64)
        .field("size", Schema.INT8)
        .field("at", timestamp_schema())
        .build()
    )
    data = configured(ProtobufConverter).from_connect_data("t", schema, Struct(schema, [1, 2, _WHEN]))
    assert data is not None
    assert data[:6] == b"\0\0\0\0\1\0"
    assert registry.schema(1).text == (
        'syntax = "proto3";\n\npackage shop;\n\nimport "confluent/meta.proto";\nimport "google/protobuf/timestamp.proto";\n\n'
        'message Order {\n  int64 id = 1;\n  int32 size = 2 [(confluent.field_meta) = { params: [{ key: "connect.type", value: '
        '"int8" }] }];\n  google.protobuf.Timestamp at = 3;\n}\n'
    )


_PROTO = """
// An order.
syntax = "proto3";
package shop;
import "google/protobuf/wrappers.proto";
option java_package = "x.y";
message Order {
  message Line { string sku = 1; uint32 count = 2 [deprecated = true]; }
  enum State { option allow_alias = true; NEW = 0; PAID = 1; SETTLED = 1; }
  reserved 9, 20 to 30;
  int64 id = 1; /* the key */
  repeated Line lines = 2;
  map<string, double> prices = 3;
  State state = 4;
  oneof payer { string card = 5; Line voucher = 6; }
  optional string note = 7;
  google.protobuf.StringValue name = 8;
  uint64 big = 10;
}
message Other { bool x = 1; }
service Shop { rpc Buy (Order) returns (Other) { option (a).b = "c"; } }
"""
_ORDER = (
    b"\x08\x05" b"\x12\x05\x0a\x01a\x10\x02" b"\x1a\x0c\x0a\x01p\x11\x00\x00\x00\x00\x00\x00\xf8\x3f" b"\x20\x01" b"\x2a\x01c"
    b"\x3a\x00" b"\x42\x03\x0a\x01n" b"\x50\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
)  # fmt: skip


def _read(make: Make, registry: Any, text: str, data: bytes, **configs: str) -> Any:
    number = registry.add(RegisteredSchema(-1, text, "PROTOBUF"))
    return make(ProtobufConverter, **configs).to_connect_data("t", b"\0" + struct.pack(">i", number) + data)


def test_a_proto_file_is_parsed(configured: Make, registry: Any) -> None:
    schema, value = _read(configured, registry, _PROTO, b"\0" + _ORDER)
    assert _plain(value) == {
        "payer_0": {"card": "c", "voucher": None},
        "id": 5,
        "lines": [{"sku": "a", "count": 2}],
        "prices": {"p": 1.5},
        "state": "PAID",
        "note": "",
        "name": {"value": "n"},
        "big": -1,
    }
    prefix = "io.confluent.connect.protobuf."
    assert schema.name == "Order"
    assert schema.field("id").schema == Schema(Type.INT64, optional=True, parameters={f"{prefix}Tag": "1"})
    assert schema.field("payer_0").schema.name == f"{prefix}Union.payer"
    assert schema.field("state").schema.parameters[f"{prefix}Enum"] == "State"
    assert schema.field("big").schema.parameters[f"{prefix}Type"] == "uint64"
    assert _read(configured, registry, _PROTO, b"\x02\x02\x08\x01").value.as_dict() == {"x": True}
    assert _read(configured, registry, _PROTO, b"\x04\x00\x00\x0a\x01z").value.as_dict() == {"sku": "z", "count": 0}


def test_keys_change_how_a_proto_file_is_read(configured: Make, registry: Any) -> None:
    configs = {
        "enhanced.protobuf.schema.support": "true",
        "int.for.enums": "true",
        "wrapper.for.nullables": "true",
        "generate.index.for.unions": "false",
    }
    schema, value = _read(configured, registry, _PROTO, b"\0" + _ORDER, **configs)
    assert schema.name == "shop.Order"
    assert (value["state"], value["name"], value["payer"]["card"]) == (1, "n", "c")
    flat = _read(configured, registry, _PROTO, b"\0" + _ORDER, **{"flatten.unions": "true"}).value
    assert (flat["card"], flat["voucher"]) == ("c", None)
    empty = _read(configured, registry, _PROTO, b"\0", **{"generate.struct.for.nulls": "true"}).value
    assert _plain(empty)["name"] == {"value": ""}
    with pytest.raises(DataError, match="field big: 18446744073709551615 does not fit into 64 bits with a sign"):
        _read(configured, registry, _PROTO, b"\0" + _ORDER, **{"conversion.strict": "true"})


def test_schemas_read_from_a_proto_file_can_be_written(configured: Make, registry: Any) -> None:
    schema, value = _read(configured, registry, _PROTO, b"\0" + _ORDER)
    converter = configured(ProtobufConverter)
    data = converter.from_connect_data("u", schema, value)
    assert _plain(converter.to_connect_data("u", data).value) == _plain(value)


def test_the_latest_version_is_written_by_field_names(configured: Make, registry: Any) -> None:
    text = 'syntax = "proto3"; message Other {bool a = 1;} message Inner { string s = 4; int64 n = 9; string more = 1; }'
    registry.register("t-value", RegisteredSchema(-1, text, "PROTOBUF"))
    old = {"auto.register.schemas": "false", "use.latest.version": "true"}
    data = configured(ProtobufConverter, **old).from_connect_data("t", _INNER, Struct(_INNER, [3, "x"]))
    assert data == b"\0\0\0\0\1\x02\x02\x22\x01x\x48\x03"
    wider = SchemaBuilder.struct().name("Inner").field("z", Schema.INT32).build()
    with pytest.raises(DataError, match="does not fit schema 1 of subject t-value: field z: the message Inner has no field z"):
        configured(ProtobufConverter, **old).from_connect_data("t", wider, Struct(wider, [3]))


def test_imports_are_followed(configured: Make, registry: Any) -> None:
    registry.register("e", RegisteredSchema(-1, 'syntax = "proto3"; package p; enum E { A = 0; B = 1; }', "PROTOBUF"))
    text = (
        'syntax = "proto3"; import "e.proto"; import "google/type/date.proto"; message M { p.E e = 1; google.type.Date d = 2; }'
    )
    number = registry.add(RegisteredSchema(-1, text, "PROTOBUF", (Reference("e.proto", "e", 1),)))
    data = b"\0" + struct.pack(">i", number) + b"\0\x08\x01\x12\x07\x08\xe8\x0f\x10\x02\x18\x1d"
    value = configured(ProtobufConverter).to_connect_data("t", data).value
    assert value.as_dict() == {"e": "B", "d": dt.date(2024, 2, 29)}


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


def _message_of(*numbers: int) -> bytes:
    """The bytes, behind the index of its type, of a message whose field 1 is one of these numbers."""
    inner = b"".join(bytes([tag << 3]) + _varint(n % 2**64) for tag, n in enumerate(numbers, 1) if n)
    return b"\0\x0a" + bytes([len(inner)]) + inner


_DATES = 'syntax = "proto3"; import "google/type/date.proto"; message M { google.type.Date d = 1; }'


@pytest.mark.parametrize(
    ("date", "day"),
    [
        ((1, 1, 1), -719_164),
        ((1500, 2, 29), -171_596),
        ((1582, 10, 4), -141_428),
        ((1582, 10, 15), -141_427),
        ((10_000, 1, 1), 2_932_897),
        ((5_881_580, 7, 11), 2**31 - 1),
    ],
)
def test_dates_use_the_calendar_of_the_original(configured: Make, registry: Any, date: tuple[int, int, int], day: int) -> None:
    data = _message_of(*date)
    schema, value = _read(configured, registry, _DATES, data)
    assert value.values == [date_of(day)]
    written = configured(ProtobufConverter).from_connect_data("t", schema, value)
    assert written is not None
    assert written[5:] == data


@pytest.mark.parametrize(
    "date", [(0, 1, 1), (-1, 1, 1), (1582, 10, 10), (2023, 2, 29), (2023, 13, 1), (2023, 0, 1), (5_881_580, 7, 12)]
)
def test_invalid_dates_are_rejected(configured: Make, registry: Any, date: tuple[int, int, int]) -> None:
    with pytest.raises(DataError, match=f"field d: {date[0]}-{date[1]}-{date[2]} is no date"):
        _read(configured, registry, _DATES, _message_of(*date))


def test_a_date_before_year_1_is_rejected(configured: Make) -> None:
    struct = _of("d", date_schema())
    with pytest.raises(DataError, match=r"field d: google\.type\.Date has no years before the year 1, and 1 BC is one"):
        configured(ProtobufConverter).from_connect_data("t", struct, Struct(struct, [date_of(-719_165)]))


def test_a_timestamp_beyond_64_bits_of_milliseconds_is_rejected(configured: Make, registry: Any) -> None:
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp t = 1; }'
    with pytest.raises(DataError, match=r"field t: .* do not fit into 64 bits"):
        _read(configured, registry, text, _message_of(2**62))


def _of(name: str, schema: Schema) -> Schema:
    return Schema(Type.STRUCT, name="S", fields=[(name, schema)])


_NESTED = SchemaBuilder.array(SchemaBuilder.array(Schema.INT8).build()).build()


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (_INNER, ["x", None], "field n: a whole number from .* is needed, not str 'x'"),
        (_INNER, [None, 5], "field s: a str is needed, not int 5"),
        (_INNER, [None, "\ud800"], "field s: .*surrogate"),
        (
            SchemaBuilder.struct().field("l", SchemaBuilder.array(_INNER).build()).build(),
            [[None]],
            "field l: a null within a list",
        ),
        (
            SchemaBuilder.struct().field("a-b", Schema.INT32).build(),
            [1],
            "field a-b: The field name 'a-b' is no name that Protobuf",
        ),
        (
            SchemaBuilder.struct().field("l", SchemaBuilder.array(SchemaBuilder.array(Schema.INT8).build()).build()).build(),
            [[[1]]],
            "field l: an array directly within an array cannot be written as Protobuf",
        ),
    ],
)
def test_errors_for_invalid_values_name_the_field(configured: Make, schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        configured(ProtobufConverter).from_connect_data("t", schema, Struct(schema, value))


def test_unsupported_root_types_are_rejected(configured: Make) -> None:
    converter = configured(ProtobufConverter)
    assert converter.from_connect_data("t", None, None) is None
    with pytest.raises(DataError, match="Unsupported root schema of type ARRAY"):
        converter.from_connect_data("t", SchemaBuilder.array(Schema.INT8).build(), [1])
    with pytest.raises(DataError, match="data without a schema cannot be written as Protobuf"):
        converter.from_connect_data("t", None, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the schema has no message at"),
        ("message", "has 'its end' at line 1 where the name of a message should be"),
        ("message M {\n int32 = 1; }", "has '=' at line 2 where"),
        ("message M { int32 a = 0; }", "a field number from 1 to"),
        ("message M { int32 a = 1; string b = 1; }", "is not valid"),
        ("message M { Nowhere a = 1; }", "is not valid"),
        ("message M { M next = 1; }", "field next: The Protobuf message M contains itself"),
        ("message M { repeated group G = 1 { } }", "has a group"),
        ('edition = "2023"; message M {}', "uses editions"),
        ('import "a/b.proto"; message M {}', "imports a/b.proto, which is none of its references"),
        ("message M { \x00 }", "is not understood at line 1"),
        ("message M {" * 100, "nested more than 64 levels deep"),
    ],
)
def test_invalid_proto_files_are_rejected(configured: Make, registry: Any, text: str, message: str) -> None:
    syntax = "" if text.startswith("edition") else 'syntax = "proto3"; '
    with pytest.raises(DataError, match=message):
        _read(configured, registry, syntax + text, b"\0")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the data ends within the path to its message"),
        (b"\x02\x09", r"the schema has no message at \[-5\]"),
        (b"\xff\xff\xff\xff\x0f", "a path to the message of"),
        (b"\0\x0a\xff\xff\xff\xff\x0f", "the data is no message shop.Order"),
        (b"\0\x12" + b"\x0a\x80" * 1000, "the data is no message shop.Order"),
    ],
)
def test_malformed_messages_are_rejected(configured: Make, registry: Any, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _read(configured, registry, _PROTO, data)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(_ORDER) - 1), st.integers(0, 7), st.integers(0, len(_ORDER)), st.binary(max_size=30))
def test_any_payload_is_a_value_or_a_data_error(
    configured: Make, registry: Any, place: int, bit: int, end: int, random: bytes
) -> None:
    registry.add(RegisteredSchema(-1, _PROTO, "PROTOBUF"))
    converter = configured(ProtobufConverter)
    broken = bytearray(_ORDER)
    broken[place] ^= 1 << bit
    for data in (b"\0" + bytes(broken), b"\0" + bytes(broken[:end]), random, b"\0" + random):
        with contextlib.suppress(DataError):
            converter.to_connect_data("t", b"\0\0\0\0\1" + data)
