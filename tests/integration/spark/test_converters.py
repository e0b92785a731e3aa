"""Every converter into an append and an upsert table: all types, boundary values, and nulls are equal as Spark reads them."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import uuid
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import fastavro
import pytest

import connectors.registry.converter as registry_converter
from connect.config.definition import ConfigDef
from connect.converters.api import Converter
from connect.converters.boolean import BooleanConverter
from connect.converters.byte_array import ByteArrayConverter
from connect.converters.json.converter import JsonConverter
from connect.converters.number import (
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from connect.converters.string import StringConverter
from connect.data.headers import Headers
from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError, RetriableError
from connect.record import SchemaAndValue
from connectors.registry.avro.converter import AvroConverter
from connectors.registry.client import RegisteredSchema
from connectors.registry.json_schema.converter import JsonSchemaConverter
from connectors.registry.protobuf.converter import ProtobufConverter
from connectors.spark import session
from connectors.spark.config import parse_config
from tests.integration.spark.table_access import catalog_props
from tests.support.cases import first_fast
from tests.unit.connectors.registry.conftest import MemoryRegistry

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

D = Decimal
UTC = dt.UTC
_INNER = SchemaBuilder.struct().name("Inner").field("n", Schema.OPTIONAL_INT32).field("s", Schema.OPTIONAL_STRING).build()
_KEY = SchemaBuilder.struct().name("Key").field("id", Schema.INT32).build()


_OPTIONAL_INNER = _INNER.as_optional()


def _inner(n: int | None, s: str | None) -> Struct:
    return Struct(_INNER, [n, s])


def _optional_inner(n: int | None, s: str | None) -> Struct:
    return Struct(_OPTIONAL_INNER, [n, s])


_LONG_TEXT = 'ä𝄞\n"\\\t' + "x" * 100
_AMOUNTS = [D("-1" + "0" * 34 + ".999"), D("0.000")]
_MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)]

# Field, schema, two values (boundaries where a type has them), type of the column, and the values in the table where they differ.
Field = tuple[str, Schema, list[Any], str, list[Any] | None]
FIELDS: list[Field] = [
    ("i8", Schema.INT8, [-128, 127], "tinyint", None),
    ("i16", Schema.INT16, [-32768, 32767], "smallint", None),
    ("i32", Schema.INT32, [-(2**31), 2**31 - 1], "int", None),
    ("i64", Schema.INT64, [-(2**63), 2**63 - 1], "bigint", None),
    ("f32", Schema.FLOAT32, [-3.4028234663852886e38, 1.401298464324817e-45], "float", None),
    ("f64", Schema.FLOAT64, [1.7976931348623157e308, 5e-324], "double", None),
    ("special", Schema.FLOAT64, [-math.inf, -0.0], "double", None),
    ("flag", Schema.BOOLEAN, [True, False], "boolean", None),
    ("text", Schema.STRING, ["", _LONG_TEXT], "string", None),
    ("data", Schema.BYTES, [b"", b"\x00\xff"], "binary", None),
    ("amount", decimal_schema(3), _AMOUNTS, "decimal(38,3)", None),
    ("day", date_schema(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)], "date", None),
    ("clock", time_schema(), [dt.time(0), dt.time(23, 59, 59, 999000)], "string", ["00:00:00.000000", "23:59:59.999000"]),
    ("moment", timestamp_schema(), _MOMENTS, "timestamp", None),
    ("list", SchemaBuilder.array(Schema.INT64).build(), [[], [2**53 + 1, -1]], "array<bigint>", None),
    (
        "structs", SchemaBuilder.array(_INNER).build(), [[_inner(1, None)], []],
        "array<struct<n:int,s:string>>", [[{"n": 1, "s": None}], []],
    ),
    (
        "by_text", SchemaBuilder.map(Schema.STRING, Schema.INT32).name("ByText").build(), [{}, {"": 1, "ä": -5}],
        "map<string,int>", [[], [("", 1), ("ä", -5)]],
    ),
    (
        "by_number", SchemaBuilder.map(Schema.INT32, _INNER).name("ByNumber").build(), [{7: _inner(7, "x")}, {}],
        "map<int,struct<n:int,s:string>>", [[(7, {"n": 7, "s": "x"})], []],
    ),
    (
        "inner", _INNER, [_optional_inner(None, None), _optional_inner(-5, "t")],
        "struct<n:int,s:string>", [{"n": None, "s": None}, {"n": -5, "s": "t"}],
    ),
]  # fmt: skip
_ICEBERG_TYPES = {"tinyint": "int", "smallint": "int"}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> MemoryRegistry:
    found = MemoryRegistry()
    monkeypatch.setattr(registry_converter, "SchemaRegistry", lambda settings: found)
    return found


def pair(kind: type[Any], configs: Mapping[str, str] | None = None, *, is_producer: bool = False) -> tuple[Converter, Converter]:
    """Converters of keys and values: those of a producer, or as the worker configures them for this sink."""
    made = []
    for is_key in (True, False):
        converter = kind()
        strict = str(not is_producer).lower()
        own = {"schema.registry.url": "http://localhost:1", "conversion.strict": strict}
        converter.configure({**(configs or {}), **own}, is_key)
        made.append(converter)
    return made[0], made[1]


class ByTopic(Converter):
    """Reads each topic with its own converter, so that one task can do for several."""

    def __init__(self, converters: Mapping[str, Converter]) -> None:
        self._converters = converters

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, Any], is_key: bool | None = None) -> None: ...

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None) -> bytes | None:
        return self._converters[topic].from_connect_data(topic, schema, value)

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        return self._converters[topic].to_connect_data(topic, value)


Records = list[tuple[bytes | None, bytes | None]]


class Tables:
    """The tables of a task: for each topic, upserts and their changelog."""

    def __init__(self, props: Mapping[str, str], run: Any, topic: Any, spark: Any) -> None:
        self.props = {**props, "write.mode": "both", "metadata.columns": "none"}
        self._run = run
        self._topic = topic
        self._spark = spark

    def write(self, records: Mapping[str, tuple[tuple[Converter, Converter], Records]], **more: str) -> None:
        """Writes the records of topics with the converters of their keys and values."""
        topics = []
        for name, (_, messages) in records.items():
            topics.append(self._topic(name, schemas=True))
            for k, v in messages:
                topics[-1].add(k, v)
        pairs = {name: converters for name, (converters, _) in records.items()}
        if len(pairs) == 1:
            topics[0].converters = next(iter(pairs.values()))
        else:
            topics[0].converters = ByTopic({n: c[0] for n, c in pairs.items()}), ByTopic({n: c[1] for n, c in pairs.items()})
        raw = all(type(c) is JsonConverter for c in topics[0].converters)
        task_run = self._run({**self.props, "topics": ",".join(pairs), **more}, topics, raw=raw, group={})
        for one in topics:
            # One after the other, because tables of one location are created one after the other.
            task_run.deliver_partition(one, 0, len(one.logs[0]))
            commit(task_run)
        task_run.close()

    def read(self, name: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
        location = self.props["table.location"]
        if self.props.get("table.format") == "iceberg":
            for key, value in catalog_props(location).items():
                self._spark.conf.set(key, value)
            frame = self._spark.table(f"lake.`{name}`")
        else:
            frame = self._spark.read.format("delta").load(f"{location}/{name}")
        return dict(frame.dtypes), frame.toArrow().to_pylist()

    def check(
        self,
        topic: str,
        types: Mapping[str, str],
        rows: list[dict[str, Any]],
        suffixes: tuple[str, ...] = ("", "_changelog"),
    ) -> None:
        """The tables have these rows, of which none changes another one."""
        for suffix in suffixes:
            name = topic + suffix
            found_types, found = self.read(name)
            assert found_types == types, name
            assert sorted(map(exactly, found)) == sorted(map(exactly, rows)), name


def commit(task_run: Any) -> None:
    """Commits like a worker, which repeats after a RetriableError: a table waits only so long for another one's creation."""
    for _ in range(5):
        try:
            task_run.commit()
        except RetriableError:
            continue
        return
    task_run.commit()


def exactly(row: dict[str, Any]) -> str:
    """A text that tells -0.0 from 0.0, and numbers from truths."""
    found = {}
    for name, value in sorted(row.items()):
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC)
        found[name] = sorted(value) if name.startswith("by_") and value else value
    return repr(found)


@pytest.fixture
def tables(props: dict[str, str], run: Any, topic: Any) -> Iterator[Tables]:
    lease = session.lease(parse_config(props).spark)
    yield Tables(props, run, topic, lease.session())
    lease.release()


def everything(chosen: list[Field]) -> tuple[Schema, list[Struct], dict[str, str], list[dict[str, Any]]]:
    """A schema with these fields, two rows of boundary values and one of nulls, and the table's types and rows."""
    fields = [("id", Schema.INT32), *((name, s.as_optional()) for name, s, _, _, _ in chosen)]
    schema = Schema(Type.STRUCT, name="All", fields=fields)
    values = [Struct(schema, [at, *(given[at] for _, _, given, _, _ in chosen)]) for at in range(2)]
    values.append(Struct(schema, [2, *(None for _ in chosen)]))
    rows: list[dict[str, Any]] = [
        {"id": at, **{name: (found or given)[at] for name, _, given, _, found in chosen}} for at in range(2)
    ]
    rows.append({"id": 2, **{name: None for name, *_ in chosen}})
    return schema, values, {"id": "int", **{name: type_ for name, _, _, type_, _ in chosen}}, rows


def encode(kind: type[Any], configs: Mapping[str, str], schema: Schema, values: list[Struct], topic: str = "t") -> Records:
    key, value = pair(kind, configs, is_producer=True)
    keys = [key.from_connect_data(topic, _KEY, Struct(_KEY, [v.get("id")])) for v in values]
    return list(zip(keys, [value.from_connect_data(topic, schema, v) for v in values], strict=True))


@pytest.mark.long
@pytest.mark.parametrize("table_format", first_fast(["delta", "iceberg"]))
def test_all_types_of_connect_in_json_are_equal_in_the_table(tables: Tables, table_format: str) -> None:
    tables.props["table.format"] = table_format
    schema, values, types, rows = everything(FIELDS)
    configs = {"schemas.enable": "true"}
    tables.write({"t": (pair(JsonConverter, configs), encode(JsonConverter, configs, schema, values))})
    if table_format == "iceberg":
        types = {name: _ICEBERG_TYPES.get(type_, type_) for name, type_ in types.items()}
    tables.check("t", types, rows)


KINDS: dict[str, tuple[type[Any], dict[str, str]]] = {
    "avro": (AvroConverter, {}),
    "json_numeric": (JsonConverter, {"schemas.enable": "true", "decimal.format": "NUMERIC"}),
    "json_schema": (JsonSchemaConverter, {}),
    "protobuf": (ProtobufConverter, {"optional.for.nullables": "true"}),
}


@pytest.mark.parametrize("name", first_fast(KINDS))
def test_all_types_of_connect_are_equal_in_the_table_with_every_converter(
    tables: Tables, registry: MemoryRegistry, name: str
) -> None:
    kind, configs = KINDS[name]
    schema, values, types, rows = everything(FIELDS)
    records = encode(kind, configs, schema, values, name)
    subjects = dict(registry.subjects)
    tables.write({name: (pair(kind, configs), records)}, **{"write.mode": "upsert"})
    assert registry.subjects == subjects  # a sink registers no schema
    # In Protobuf, an empty list or map is the same as none.
    empty: dict[str, Any] = {n: [] for n in ("list", "structs", "by_text", "by_number")} if name == "protobuf" else {}
    found = [{**row, **{n: v for n, v in empty.items() if row[n] is None}} for row in rows]
    tables.check(name, types, found, ("",))


@pytest.mark.long
def test_json_without_schemas_has_the_types_of_json(tables: Tables) -> None:
    row = {
        "id": 1, "n": 2**63 - 1, "f": 0.1, "flag": True, "text": "2026-01-01", "list": [1, None], "none": None,
        "nested": {"a": [{"b": "ä"}], "c": {"d": -1}},
    }  # fmt: skip
    other: dict[str, Any] = {
        "id": 2,
        "n": None,
        "f": 1e300,
        "flag": False,
        "text": "",
        "list": [],
        "nested": {"a": None, "c": {"d": None}},
    }
    converters = pair(JsonConverter, {"schemas.enable": "false"})
    messages: Records = [(json.dumps({"id": r["id"]}).encode(), json.dumps(r).encode()) for r in (row, other)]
    tables.write({"t": (converters, messages)})
    types = {
        "id": "bigint", "n": "bigint", "f": "double", "flag": "boolean", "text": "string", "list": "array<bigint>",
        "nested": "struct<a:array<struct<b:string>>,c:struct<d:bigint>>",
    }  # fmt: skip
    tables.check("t", types, [{n: v for n, v in r.items() if n != "none"} for r in (row, other)])


SINGLE: dict[str, tuple[type[Any], list[tuple[Any, bytes]], str]] = {
    "texts": (StringConverter, [("", b""), ("ä", "ä".encode()), ("{}", b"{}")], "string"),
    "bytes": (ByteArrayConverter, [(b"", b""), (b"\x00\xff", b"\x00\xff")], "binary"),
    "shorts": (ShortConverter, [(-32768, b"\x80\x00"), (32767, b"\x7f\xff")], "smallint"),
    "ints": (IntegerConverter, [(-(2**31), b"\x80\0\0\0"), (1, b"\0\0\0\x01")], "int"),
    "longs": (LongConverter, [(-(2**63), b"\x80" + b"\0" * 7), (2**63 - 1, b"\x7f" + b"\xff" * 7)], "bigint"),
    "floats": (FloatConverter, [(-0.0, b"\x80\0\0\0"), (math.inf, b"\x7f\x80\0\0")], "float"),
    "doubles": (DoubleConverter, [(-0.0, b"\x80" + b"\0" * 7), (0.1, b"\x3f\xb9\x99\x99\x99\x99\x99\x9a")], "double"),
    "truths": (BooleanConverter, [(True, b"\x01"), (False, b"\x00")], "boolean"),
}


@pytest.mark.parametrize(
    ("mode", "chosen"),
    first_fast(
        [("append", ["texts"]), ("append", ["ints", "doubles", "truths"]), ("upsert", ["bytes", "shorts", "longs", "floats"])]
    ),
    ids=["append text", "append", "upsert"],
)
def test_single_values_are_in_the_column_value(tables: Tables, mode: str, chosen: list[str]) -> None:
    records: dict[str, tuple[tuple[Converter, Converter], Records]] = {}
    for name in chosen:
        kind, values, _ = SINGLE[name]
        messages: Records = [(f"k{at}".encode(), data) for at, (_, data) in enumerate(values)]
        # A null is a tombstone, which deletes the row.
        messages += [(b"gone", values[0][1]), (b"gone", None)]
        records[name] = (pair(StringConverter)[0], pair(kind)[1]), messages
    tables.write(records, **{"write.mode": mode, "key.columns": "k", "append.tombstones": "ignore"})
    for name in chosen:
        _, values, type_ = SINGLE[name]
        types, rows = tables.read(name)
        expected: list[dict[str, Any]] = [{"value": v} for v, _ in values]
        if mode == "append":
            assert types == {"value": type_}
            expected.append({"value": values[0][0]})
        else:
            assert types == {"value": type_, "k": "string"}
            expected = [{**row, "k": f"k{at}"} for at, row in enumerate(expected)]
        assert sorted(map(exactly, rows)) == sorted(map(exactly, expected)), name


AVRO = {
    "type": "record",
    "name": "Odd",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "either", "type": ["null", "string", "long"]},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
        {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "code", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "maybe", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    ],
}


@pytest.mark.long
def test_types_of_avro_that_connect_lacks_are_exact(tables: Tables, registry: MemoryRegistry) -> None:
    value = pair(AvroConverter)[1]
    number = registry.add(RegisteredSchema(0, json.dumps(AVRO), "AVRO"))
    parsed = fastavro.parse_schema(AVRO)
    code = uuid.UUID(int=5)
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    base: dict[str, Any] = {
        "color": "BLUE", "hash": b"\x00\x01\x02", "micros": moment, "local": dt.datetime(2026, 1, 1),
        "clock": dt.time(1, 2, 3, 4), "code": code, "price": D("-12345678.90"),
    }  # fmt: skip
    records: Records = []
    for at, either in enumerate([None, "text", 2**60]):
        data = io.BytesIO()
        fastavro.schemaless_writer(
            data, parsed, {**base, "id": at, "either": either, "maybe": None if at else dt.date(2026, 1, 2)}
        )
        records.append((None, b"\0" + number.to_bytes(4, "big") + data.getvalue()))
    tables.write({"t": ((pair(StringConverter)[0], value), records)}, **{"key.columns": "id"})
    micros = int(moment.timestamp()) * 1_000_000 + 678901
    types = {
        "id": "int", "either": "struct<string:string,long:bigint>", "color": "string", "hash": "binary", "micros": "bigint",
        "local": "bigint", "clock": "bigint", "code": "string", "price": "decimal(38,2)", "maybe": "date",
    }  # fmt: skip
    same = {
        "color": "BLUE", "hash": b"\x00\x01\x02", "micros": micros, "local": 1767225600000, "clock": 3723000004,
        "code": str(code), "price": D("-12345678.90"),
    }  # fmt: skip
    days = [dt.date(2026, 1, 2), None, None]
    unions = [None, {"string": "text", "long": None}, {"string": None, "long": 2**60}]
    tables.check("t", types, [{**same, "id": at, "either": unions[at], "maybe": days[at]} for at in range(3)])


PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/duration.proto";
message Odd {
  int32 id = 1;
  uint32 u32 = 2;
  uint64 u64 = 3;
  fixed32 f32 = 4;
  sint64 s64 = 5;
  Color color = 6;
  oneof which { string name = 7; int64 number = 8; }
  google.protobuf.Timestamp at = 9;
  google.protobuf.StringValue wrapped = 10;
  google.protobuf.Duration took = 11;
  optional int32 maybe = 12;
  repeated Color colors = 13;
  enum Color { RED = 0; BLUE = 1; }
}
"""


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def proto_field(tag: int, value: int | bytes, kind: int | None = None) -> bytes:
    if isinstance(value, int):
        return varint(tag << 3) + varint(value)
    if kind == 5:
        return varint(tag << 3 | 5) + value
    return varint(tag << 3 | 2) + varint(len(value)) + value


def proto_message(number: int, *fields: bytes) -> tuple[None, bytes]:
    return None, b"\0" + number.to_bytes(4, "big") + b"\0" + b"".join(fields)


@pytest.mark.long
def test_types_of_protobuf_that_connect_lacks_are_exact(tables: Tables, registry: MemoryRegistry) -> None:
    converters = pair(StringConverter)[0], pair(ProtobufConverter)[1]
    number = registry.add(RegisteredSchema(0, PROTO, "PROTOBUF"))
    big = proto_message(
        number,
        proto_field(1, 1),
        proto_field(2, 2**32 - 1),
        proto_field(3, 2**63 - 1),
        proto_field(4, b"\xff\xff\xff\xff", 5),
        proto_field(5, 2**64 - 1),
        proto_field(6, 1),
        proto_field(8, 2**60),
        proto_field(9, proto_field(1, 1767323045) + proto_field(2, 678_000_000)),
        proto_field(10, proto_field(1, b"w")),
        proto_field(11, proto_field(1, 5) + proto_field(2, 999)),
        proto_field(12, 0),
        proto_field(13, b"\1\0"),
    )
    small = proto_message(number, proto_field(1, 2), proto_field(7, b"n"))
    tables.write({"t": (converters, [big, small])}, **{"key.columns": "id"})
    types = {
        "which_0": "struct<name:string,number:bigint>", "id": "int", "u32": "bigint", "u64": "bigint", "f32": "bigint",
        "s64": "bigint", "color": "string", "at": "timestamp", "wrapped": "struct<value:string>",
        "took": "struct<seconds:bigint,nanos:int>", "maybe": "int", "colors": "array<string>",
    }  # fmt: skip
    tables.check("t", types, [
        {
            "which_0": {"name": None, "number": 2**60}, "id": 1, "u32": 2**32 - 1, "u64": 2**63 - 1, "f32": 2**32 - 1,
            "s64": -(2**63), "color": "BLUE", "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC), "wrapped": {"value": "w"},
            "took": {"seconds": 5, "nanos": 999}, "maybe": 0, "colors": ["BLUE", "RED"],
        },
        {
            "which_0": {"name": "n", "number": None}, "id": 2, "u32": 0, "u64": 0, "f32": 0, "s64": 0, "color": "RED", "at": None,
            "wrapped": None, "took": None, "maybe": None, "colors": [],
        },
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("field", "error"),
    [
        (proto_field(3, 2**64 - 1), "u64"),
        (proto_field(9, proto_field(1, 5) + proto_field(2, 1)), "at"),
    ],
    ids=["uint64", "nanoseconds"],
)
def test_value_of_protobuf_that_no_type_holds_is_refused_by_its_field(registry: MemoryRegistry, field: bytes, error: str) -> None:
    converter = pair(ProtobufConverter)[1]
    number = registry.add(RegisteredSchema(0, PROTO, "PROTOBUF"))
    with pytest.raises(DataError) as raised:
        converter.to_connect_data("t", proto_message(number, proto_field(1, 1), field)[1])
    assert raised.value.field == error or error in raised.value.message
