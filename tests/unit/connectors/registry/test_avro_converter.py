"""AvroConverter: values round-trip in Confluent's wire format with Confluent's schemas."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from connect.data.headers import Headers
from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.java.sized_numbers import Float32, Int32
from connectors.registry.avro.converter import AvroConverter
from connectors.registry.client import Reference, RegisteredSchema

Make = Callable[..., AvroConverter]
_INNER = SchemaBuilder.struct().name("shop.Inner").field("n", Schema.INT32).field("s", Schema.OPTIONAL_STRING).build()
_WHEN = dt.datetime(2024, 2, 29, 12, 30, 15, 123000, tzinfo=dt.UTC)

CASES: list[tuple[Schema, Any]] = [
    *((schema, value) for schema in (Schema.INT8, Schema.OPTIONAL_INT8) for value in (-128, -1, 0, 127)),
    *((schema, value) for schema in (Schema.INT16, Schema.OPTIONAL_INT16) for value in (-32768, 64, 32767)),
    *((schema, value) for schema in (Schema.INT32, Schema.OPTIONAL_INT32) for value in (-(2**31), -65, -64, 63, 64, 2**31 - 1)),
    *((schema, value) for schema in (Schema.INT64, Schema.OPTIONAL_INT64) for value in (-(2**63), 0, 2**32, 2**63 - 1)),
    *((schema, value) for schema in (Schema.FLOAT32, Schema.OPTIONAL_FLOAT32) for value in (1.5, -0.0, math.inf)),
    *((schema, value) for schema in (Schema.FLOAT64, Schema.OPTIONAL_FLOAT64) for value in (0.1, 5e-324, -math.inf)),
    *((schema, value) for schema in (Schema.BOOLEAN, Schema.OPTIONAL_BOOLEAN) for value in (True, False)),
    *((schema, value) for schema in (Schema.STRING, Schema.OPTIONAL_STRING) for value in ("", "ä𝄞", "x" * 5000)),
    *((schema, value) for schema in (Schema.BYTES, Schema.OPTIONAL_BYTES) for value in (b"", b"\x00\xff" * 700)),
    *((decimal_schema(3), value) for value in (Decimal("0.000"), Decimal("-12345678901234567890.123"), Decimal("1.280"))),
    (decimal_schema(-2, optional=True), Decimal("1E2")),
    (date_schema(), dt.date(1, 1, 1)),
    (date_schema(optional=True), dt.date(9999, 12, 31)),
    (time_schema(), dt.time(23, 59, 59, 999000)),
    (timestamp_schema(), _WHEN),
    (SchemaBuilder.array(Schema.OPTIONAL_INT64).build(), [1, None, -3]),
    (SchemaBuilder.array(_INNER).optional().build(), [Struct(_INNER, [1, None]), Struct(_INNER, [2, "b"])]),
    (SchemaBuilder.array(SchemaBuilder.array(Schema.STRING).build()).build(), [[], ["a", "b"]]),
    (SchemaBuilder.map(Schema.STRING, Schema.OPTIONAL_INT32).build(), {"a": 1, "b": None}),
    (SchemaBuilder.map(Schema.INT32, _INNER).build(), {7: Struct(_INNER, [7, "seven"])}),
    (SchemaBuilder.map(Schema.OPTIONAL_STRING, Schema.INT32).name("m.O").optional().build(), {None: 1, "x": 2}),
    (SchemaBuilder.map(Schema.INT32, Schema.STRING).name("shop.Names").build(), {1: "one"}),
    (_INNER, Struct(_INNER, [-5, "text"])),
    (_INNER.as_optional(), Struct(_INNER.as_optional(), [-5, None])),
]


def _all_in_one() -> tuple[Schema, Struct]:
    """A struct with every case as a field."""
    builder = SchemaBuilder.struct().name("shop.Everything").doc("all").version(3).parameter("p", "q")
    for number, (schema, _) in enumerate(CASES):
        builder.field(f"f{number}", schema)
    schema = builder.build()
    return schema, Struct(schema, [value for _, value in CASES])


@pytest.mark.parametrize(("schema", "value"), CASES)
def test_values_round_trip(configured: Make, schema: Schema, value: Any) -> None:
    converter = configured(AvroConverter)
    data = converter.from_connect_data("t", schema, value)
    back = converter.to_connect_data("t", data)
    assert back.schema is not None
    assert back.value == (Struct(back.schema, value.values) if isinstance(value, Struct) else value)
    assert type(back.value) is type(value)
    # The registry's version is given to what has none, but not through a union.
    assert back.schema == (schema.replace(version=1) if schema.version is None and not schema.optional else schema)


def test_every_type_round_trips_as_a_field_with_its_schema(configured: Make) -> None:
    converter = configured(AvroConverter)
    schema, value = _all_in_one()
    back = converter.to_connect_data("t", converter.from_connect_data("t", schema, value))
    assert back.schema == schema
    assert back.value.values == value.values


def test_fastavro_reads_the_bytes(configured: Make, registry: Any) -> None:
    converter = configured(AvroConverter)
    schema, value = _all_in_one()
    data = converter.from_connect_data("t", schema, value)
    assert data is not None
    assert data[:5] == b"\0\0\0\0\1"
    # The one thing fastavro refuses to parse: a negative scale, which Connect has and Avro's specification has not.
    parsed = fastavro.parse_schema(json.loads(registry.schema(1).text.replace('"scale":-2', '"scale":2')))
    stream = io.BytesIO(data[5:])
    read = fastavro.schemaless_reader(stream, parsed, None)
    assert stream.read() == b""
    assert isinstance(read, dict)
    assert read["f0"] == -128
    assert read[f"f{len(CASES) - 2}"] == {"n": -5, "s": "text"}


def test_defaults_are_written_for_nulls_and_stay_in_the_schema(configured: Make) -> None:
    converter = configured(AvroConverter)
    members = {
        "i": Schema(Type.INT32, default=5),
        "s": Schema(Type.STRING, optional=True, default="d"),
        "b": Schema(Type.BYTES, default=b"\xff\x00"),
        "f": Schema(Type.FLOAT32, default=1.100000023841858),
        "d": decimal_schema(2, default=Decimal("1.25")),
        "t": timestamp_schema(default=_WHEN),
        "l": SchemaBuilder.array(Schema.INT32).default([1, 2]).build(),
        "m": SchemaBuilder.map(Schema.STRING, Schema.STRING).default({"a": "b"}).build(),
        "r": Schema(Type.STRUCT, name="shop.R", fields=[("n", Schema.INT32)], default=None),
    }
    schema = Schema(Type.STRUCT, name="shop.D", fields=list(members.items()))
    inner = members["r"]
    value = Struct(schema, [None] * 8 + [Struct(inner, [1])])
    back = converter.to_connect_data("t", converter.from_connect_data("t", schema, value))
    assert back.schema == schema.replace(version=1)
    assert back.value.values == [m.default for m in list(members.values())[:8]] + [Struct(inner, [1])]


def test_a_null_stays_null_with_ignore_default_for_nullables(configured: Make) -> None:
    converter = configured(AvroConverter, **{"ignore.default.for.nullables": "true"})
    schema = Schema(Type.STRUCT, name="D", fields=[("s", Schema(Type.STRING, optional=True, default="d"))])
    data = converter.from_connect_data("t", schema, Struct(schema, [None]))
    assert converter.to_connect_data("t", data).value.values == [None]


@pytest.mark.parametrize("value", [1, 1.5, True, "text", [1, ["a", None], {}], {"a": {"b": [2]}}, {1: "x", "y": None}, Int32(7)])
def test_data_without_a_schema_round_trips(configured: Make, value: Any) -> None:
    converter = configured(AvroConverter)
    back = converter.to_connect_data("t", converter.from_connect_data("t", None, value))
    assert back == (None, value)


def test_narrow_numbers_without_schema_keep_their_width(configured: Make) -> None:
    converter = configured(AvroConverter)
    back = converter.to_connect_data("t", converter.from_connect_data("t", None, [Int32(1), Float32(0.5), 1]))
    assert [type(v) for v in back.value] == [Int32, Float32, int]


def test_null_becomes_a_tombstone_without_a_request(configured: Make, registry: Any) -> None:
    converter = configured(AvroConverter)
    assert converter.from_connect_data("t", None, None) is None
    assert converter.from_connect_data("t", Schema.OPTIONAL_STRING, None) is None
    assert converter.to_connect_data("t", None) == (None, None)
    assert registry.asked == 0
    with pytest.raises(DataError, match="Found null value for non-optional schema"):
        converter.from_connect_data("t", Schema.STRING, None)


def test_a_batch_keeps_its_order_and_its_nulls(configured: Make, registry: Any) -> None:
    converter = configured(AvroConverter)
    datas = converter.encode_batch("t", Schema.OPTIONAL_STRING, ["a", None, "b"])
    assert datas == [b"\0\0\0\0\1\x02\x02a", None, b"\0\0\0\0\1\x02\x02b"]
    assert [v for _, v in converter.decode_batch("t", datas)] == ["a", None, "b"]
    asked = registry.asked
    assert [v for _, v in converter.decode_batch("t", datas * 50)] == ["a", None, "b"] * 50
    assert converter.encode_batch("t", Schema(Type.STRING, optional=True), ["a"]) == datas[:1]
    assert registry.asked == asked


def test_bytes_as_the_whole_value_have_no_length_prefix(configured: Make) -> None:
    converter = configured(AvroConverter)
    assert converter.from_connect_data("t", Schema.BYTES, b"abc") == b"\0\0\0\0\1abc"
    assert converter.from_connect_data("t", Schema.OPTIONAL_BYTES, b"abc") == b"\0\0\0\0\2\x02\x06abc"


_UNION = (
    SchemaBuilder.struct()
    .name("io.confluent.connect.avro.Union")
    .optional()
    .field("int", Schema.OPTIONAL_INT32)
    .field("long", Schema.OPTIONAL_INT64)
    .field("string", Schema.OPTIONAL_STRING)
    .field("Inner", _INNER.as_optional())
    .build()
)


@pytest.mark.parametrize("position", range(4))
def test_a_union_becomes_a_struct_with_one_field_set(configured: Make, registry: Any, position: int) -> None:
    converter = configured(AvroConverter)
    values: list[Any] = [None] * 4
    values[position] = [1, 1, "s", Struct(_INNER.as_optional(), [1, "x"])][position]
    data = converter.from_connect_data("t", _UNION, Struct(_UNION, values))
    assert data is not None
    assert data[5] == 2 * (position + 1)
    assert json.loads(registry.schema(1).text)[:4] == ["null", "int", "long", "string"]
    assert converter.to_connect_data("t", data).value.values == values


def _read(make: Make, registry: Any, text: object, data: bytes, **configs: str) -> Any:
    converter = make(AvroConverter, **configs)
    number = registry.add(RegisteredSchema(-1, text if isinstance(text, str) else json.dumps(text), "AVRO"))
    return converter.to_connect_data("t", b"\0" + struct.pack(">i", number) + data)


def test_an_enum_becomes_a_string_with_its_symbols_as_parameters(configured: Make, registry: Any) -> None:
    enum = {"type": "enum", "name": "Color", "namespace": "a", "symbols": ["RED", "GREEN"], "default": "RED", "doc": "d"}
    schema, value = _read(configured, registry, enum, b"\x02")
    assert value == "GREEN"
    assert schema.name == "a.Color"
    assert schema.parameters == {
        "io.confluent.connect.avro.enum.doc.Color": "d",
        "io.confluent.connect.avro.enum.default.Color": "RED",
        "io.confluent.connect.avro.Enum": "a.Color",
        "io.confluent.connect.avro.Enum.RED": "RED",
        "io.confluent.connect.avro.Enum.GREEN": "GREEN",
    }
    plain = configured(AvroConverter)
    plain.from_connect_data("plain", schema, value)
    assert json.loads(registry.latest("plain-value").text)["type"] == "string"
    enhanced = configured(AvroConverter, **{"enhanced.avro.schema.support": "true"})
    data = enhanced.from_connect_data("kept", schema, value)
    written = json.loads(registry.latest("kept-value").text)
    assert {k: written[k] for k in enum} == enum
    assert data is not None
    assert data[5:] == b"\x02"
    with pytest.raises(DataError, match="'BLUE' is none of the enum's symbols RED, GREEN"):
        enhanced.from_connect_data("kept", schema, "BLUE")


def test_generalized_sum_types_number_their_symbols(configured: Make, registry: Any) -> None:
    enum = {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}
    schema, _ = _read(configured, registry, enum, b"\x02", **{"generalized.sum.type.support": "true"})
    prefix = "org.apache.kafka.connect.data.Enum"
    assert schema.parameters == {prefix: "Color", f"{prefix}.RED": "0", f"{prefix}.GREEN": "1"}


def test_docs_and_defaults_of_plain_avro_are_read_as_by_confluent(configured: Make, registry: Any) -> None:
    text = {
        "type": "record",
        "name": "R",
        "namespace": "n",
        "doc": "of r",
        "fields": [
            {"name": "a", "type": "int", "doc": "of a", "default": 7},
            {"name": "b", "type": ["null", "string"], "default": None},
            {"name": "c", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {
                "name": "d",
                "type": {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1},
            },
        ],
    }
    schema, value = _read(configured, registry, text, b"\x02\x00\x04\x00\x0f")
    prefix = "io.confluent.connect.avro."
    assert schema.name == "n.R"
    assert schema.parameters == {f"{prefix}record.doc": "of r", f"{prefix}field.doc.a": "of a"}
    assert schema.field("a").schema == Schema(Type.INT32, default=7, parameters={f"{prefix}field.default": "true"})
    assert schema.field("b").schema == Schema.OPTIONAL_STRING
    assert schema.field("c").schema == Schema.INT64
    expected = {"scale": "1", "connect.decimal.precision": "4", "connect.fixed.size": "2"}
    assert schema.field("d").schema.parameters == expected
    assert value.values == [1, None, 2, Decimal("1.5")]
    bare, _ = _read(configured, registry, text, b"\x02\x00\x04\x00\x0f", **{"connect.meta.data": "false"})
    assert bare.parameters is None
    only_fields, _ = _read(configured, registry, text, b"\x02\x00\x04\x00\x0f", **{"discard.type.doc.default": "true"})
    assert only_fields.field("a").schema.doc == "of a"


def test_a_singleton_union_is_flattened_by_default(configured: Make, registry: Any) -> None:
    assert _read(configured, registry, ["int"], b"\0\x04").value == 2
    assert _read(configured, registry, ["int"], b"\0\x04", **{"flatten.singleton.unions": "false"}).value.values == [2]


def test_optional_string_keys_become_a_map_only_when_allowed(configured: Make, registry: Any) -> None:
    schema = SchemaBuilder.map(Schema.OPTIONAL_STRING, Schema.INT32).build()
    configured(AvroConverter).from_connect_data("a", schema, {"x": 1})
    configured(AvroConverter, **{"allow.optional.map.keys": "true"}).from_connect_data("b", schema, {"x": 1})
    assert json.loads(registry.latest("a-value").text)["type"] == "array"
    assert json.loads(registry.latest("b-value").text)["type"] == "map"


def test_invalid_names_are_rejected_or_scrubbed(configured: Make, registry: Any) -> None:
    schema = SchemaBuilder.struct().name("my-ns.Re cord").field("a-b", Schema.INT32).field("9", Schema.INT32).build()
    value = Struct(schema, [1, 2])
    with pytest.raises(DataError, match=r"The schema name 'my-ns\.Re cord' is no name that Avro allows"):
        configured(AvroConverter).from_connect_data("t", schema, value)
    converter = configured(AvroConverter, **{"scrub.invalid.names": "true"})
    data = converter.from_connect_data("t", schema, value)
    written = json.loads(registry.latest("t-value").text)
    assert (written["namespace"], written["name"]) == ("my_ns", "Re_cord")
    assert [f["name"] for f in written["fields"]] == ["a_b", "x9"]
    assert converter.to_connect_data("t", data).value.values == [1, 2]


def test_two_schemas_with_the_same_name_are_rejected(configured: Make) -> None:
    one = SchemaBuilder.struct().name("n.X").field("a", Schema.INT32).build()
    other = SchemaBuilder.struct().name("n.X").field("a", Schema.STRING).build()
    both = SchemaBuilder.struct().name("n.Y").field("one", one).field("other", other).build()
    with pytest.raises(DataError, match=r"field other: Two different schemas have the name n\.X"):
        configured(AvroConverter).from_connect_data("t", both, Struct(both, [Struct(one, [1]), Struct(other, ["a"])]))


def test_before_and_after_of_one_schema_define_it_once(configured: Make, registry: Any) -> None:
    row = SchemaBuilder.struct().name("n.Value").optional().field("a", Schema.INT32).build()
    both = SchemaBuilder.struct().name("n.Envelope").field("before", row).field("after", row).build()
    converter = configured(AvroConverter)
    value = Struct(both, [None, Struct(row, [1])])
    assert converter.to_connect_data("t", converter.from_connect_data("t", both, value)).value.values == value.values
    assert json.loads(registry.latest("t-value").text)["fields"][1]["type"] == ["null", "Value"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["1", None], "field n: a whole number from -2147483648 to 2147483647 is needed, not str '1'"),
        ([2**31, None], "field n: a whole number from -2147483648 to 2147483647 is needed, not int 2147483648"),
        ([True, None], "field n: a whole number .* not bool True"),
        ([None, None], "field n: null used for a required value"),
        ([1, 5], "field s: text is needed, not int 5"),
        ([1, "\ud800"], "field s: the text contains an unpaired surrogate"),
    ],
)
def test_the_error_for_an_invalid_value_names_its_field(configured: Make, value: list[Any], message: str) -> None:
    outer = SchemaBuilder.struct().name("n.O").field("list", SchemaBuilder.array(_INNER).build()).build()
    with pytest.raises(DataError, match=message.replace("field ", r"field list\.")):
        configured(AvroConverter).from_connect_data("t", outer, Struct(outer, [[Struct(_INNER, value)]]))


def test_subject_names_follow_the_strategy(configured: Make, registry: Any) -> None:
    value = Struct(_INNER, [1, None])
    old, new = "io.confluent.kafka.serializers.subject.", "io.confluent.kafka.serializers.subject.strategy."
    for name, subject in (
        (f"{old}TopicNameStrategy", "t-value"),
        (f"{old}RecordNameStrategy", "shop.Inner"),
        ("TopicRecordNameStrategy", "t-shop.Inner"),
        (f"{new}TopicRecordNameStrategy", "t-shop.Inner"),
    ):
        registry.subjects.clear()
        configured(AvroConverter, **{"value.subject.name.strategy": name}).from_connect_data("t", _INNER, value)
        assert list(registry.subjects) == [subject]
    configured(AvroConverter, True).from_connect_data("t", _INNER, value)
    assert "t-key" in registry.subjects
    nameless = configured(AvroConverter, **{"value.subject.name.strategy": "RecordNameStrategy"})
    with pytest.raises(DataError, match="is RecordNameStrategy, but the schema of the value in topic t is no record"):
        nameless.from_connect_data("t", Schema.INT32, 1)


_OLD = {"auto.register.schemas": "false", "use.latest.version": "true"}


def _latest(registry: Any, fields: list[dict[str, Any]]) -> None:
    text = json.dumps({"type": "record", "name": "Inner", "namespace": "shop", "fields": fields})
    registry.register("t-value", RegisteredSchema(-1, text, "AVRO"))


def test_the_latest_version_is_written_by_field_names(configured: Make, registry: Any) -> None:
    more = {"name": "more", "type": ["null", "string"], "default": None}
    _latest(registry, [{"name": "s", "type": ["null", "string"]}, more, {"name": "n", "type": "long"}])
    converter = configured(AvroConverter, **_OLD)
    data = converter.from_connect_data("t", _INNER, Struct(_INNER, [3, "x"]))
    assert data == b"\0\0\0\0\1\x02\x02x\0\x06"
    assert converter.to_connect_data("t", data).value.as_dict() == {"s": "x", "more": None, "n": 3}


def test_the_latest_version_must_have_every_field_unless_lenient(configured: Make, registry: Any) -> None:
    _latest(registry, [{"name": "n", "type": "int"}])
    with pytest.raises(DataError, match=r"does not fit schema 1 of subject t-value: the Avro record shop.Inner has no field s"):
        configured(AvroConverter, **_OLD).from_connect_data("t", _INNER, Struct(_INNER, [3, "x"]))
    lenient = configured(AvroConverter, **_OLD, **{"latest.compatibility.strict": "false"})
    assert lenient.from_connect_data("t", _INNER, Struct(_INNER, [3, "x"])) == b"\0\0\0\0\1\x06"


def test_without_auto_register_the_schema_must_be_known(configured: Make, registry: Any) -> None:
    converter = configured(AvroConverter, **{"auto.register.schemas": "false"})
    with pytest.raises(DataError, match="the schema is not registered under subject t-value and auto"):
        converter.from_connect_data("t", Schema.INT32, 1)
    configured(AvroConverter).from_connect_data("t", Schema.INT32, 1)
    assert converter.from_connect_data("t", Schema.INT32, 1) == b"\0\0\0\0\1\x02"


def test_a_schema_id_can_be_configured(configured: Make, registry: Any) -> None:
    number = registry.add(RegisteredSchema(-1, '"long"', "AVRO"))
    converter = configured(AvroConverter, **{"auto.register.schemas": "false", "use.schema.id": str(number)})
    assert converter.from_connect_data("t", Schema.INT32, 1) == b"\0\0\0\0\1\x02"
    with pytest.raises(DataError, match="schema 1 of subject t-value: STRING cannot be written as the Avro type long"):
        converter.from_connect_data("t", Schema.STRING, "a")


def test_references_are_followed(configured: Make, registry: Any) -> None:
    base = RegisteredSchema(-1, '{"type":"enum","name":"E","namespace":"n","symbols":["A","B"]}', "AVRO")
    registry.register("e", base)
    text = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"e","type":"E"}]}'
    number = registry.add(RegisteredSchema(-1, text, "AVRO", (Reference("n.E", "e", 1),)))
    value = configured(AvroConverter).to_connect_data("t", b"\0" + struct.pack(">i", number) + b"\x02").value
    assert value.as_dict() == {"e": "B"}


def test_the_schema_may_be_named_in_a_header(configured: Make, registry: Any) -> None:
    number = registry.add(RegisteredSchema(-1, '"int"', "AVRO"))
    converter = configured(AvroConverter)
    by_id = Headers().add("__value_schema_id", b"\0" + struct.pack(">i", number))
    by_guid = Headers().add("__value_schema_id", b"\1" + number.to_bytes(16, "big"))
    assert converter.to_connect_data("t", b"\x04", by_id).value == 2
    assert converter.to_connect_data("t", b"\x04", by_guid).value == 2
    with pytest.raises(DataError, match="The header __value_schema_id holds no schema id"):
        converter.to_connect_data("t", b"\x04", Headers().add("__value_schema_id", b"\7"))


def test_rule_sets_and_other_formats_are_rejected(configured: Make, registry: Any) -> None:
    ruled = registry.add(RegisteredSchema(-1, '"int"', "AVRO", has_rules=True))
    other = registry.add(RegisteredSchema(-1, "{}", "JSON"))
    converter = configured(AvroConverter)
    with pytest.raises(DataError, match=f"schema id {ruled}.*has a rule set"):
        converter.to_connect_data("t", b"\0" + struct.pack(">i", ruled) + b"\x02")
    with pytest.raises(DataError, match=f"schema {other} is of type JSON; AvroConverter needs AVRO"):
        converter.to_connect_data("t", b"\0" + struct.pack(">i", other) + b"{}")


def test_recursive_schemas_are_rejected(configured: Make, registry: Any) -> None:
    text = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    with pytest.raises(DataError, match="The Avro schema of L refers to itself"):
        _read(configured, registry, text, b"\0")


def test_silent_losses_are_errors_when_strict(configured: Make, registry: Any) -> None:
    strict = {"conversion.strict": "true"}
    assert _read(configured, registry, '"string"', b"\x04\xff\xfe").value == "\ufffd\ufffd"
    with pytest.raises(DataError, match="the text is not UTF-8"):
        _read(configured, registry, '"string"', b"\x04\xff\xfe", **strict)
    narrow = {"type": "int", "connect.type": "int8"}
    assert _read(configured, registry, narrow, b"\xd8\x04").value == 44
    with pytest.raises(DataError, match="300 does not fit into 8 bits"):
        _read(configured, registry, narrow, b"\xd8\x04", **strict)
    assert _read(configured, registry, '"int"', b"\x02\x02").value == 1
    with pytest.raises(DataError, match="1 bytes are left after the value"):
        _read(configured, registry, '"int"', b"\x02\x02", **strict)
