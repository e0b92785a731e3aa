"""Random chains, schemas, and records, for comparing SQL with the transformations."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

from connect.data.headers import Header, Headers
from connect.data.logical import END_OF_DAY, date_of, date_schema, decimal_schema, instant_of, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.java.sized_numbers import round_to_float32
from connect.record import SinkRecord
from tests.support import randomness

NAMES = ("a", "b", "c", "A", "with space", "dot.ted", "q`'\\$é")
_BITS = {Type.INT8: 7, Type.INT16: 15, Type.INT32: 31, Type.INT64: 63}
_PRIMITIVES = [kind for kind in Type if kind.is_primitive]
_TEXTS = ["", "x", "TRUE", "false", "12", "-7", "+5", "300", "40000", "9223372036854775807", "9223372036854775808", " 1", "1\n",
          "0.1", "1e3", "-.5", "1.", "NaN", "0x10", "1d", "٣", "2024-01-02", "${x}", "'\\u0041\x00😀"]  # fmt: skip
_MILLIS = [0, -1, 1, 999, -86_400_001, 1_700_000_000_123, 253_402_300_799_999, 253_402_300_800_000, -2_208_988_800_001]
_FLOATS = [0.0, -0.0, 0.5, -0.9, 1.5, 127.9, -128.9, 128.0, 2.0**31, -(2.0**63), 2.0**63, 1e300, 5e-324, math.nan, math.inf,
           -math.inf]  # fmt: skip
_APACHE = "org.apache.kafka.connect.transforms."
_PREDICATES = {
    "predicates": "p0,p1,p2",
    "predicates.p0.type": f"{_APACHE}predicates.RecordIsTombstone",
    "predicates.p1.type": f"{_APACHE}predicates.HasHeaderKey",
    "predicates.p1.name": "h1",
    "predicates.p2.type": f"{_APACHE}predicates.TopicNameMatches",
    "predicates.p2.pattern": "x-.*",
}


class RandomChains:
    """Draws cases; in a run, equal numbers give equal ones."""

    def __init__(self, number: int) -> None:
        self._random = randomness.chance(f"chains-{number}")

    def case(self) -> tuple[dict[str, str], list[SinkRecord]]:
        """A chain, and records of one schema."""
        value_schema = self._struct_schema(2)
        key_schema = self._choose(Schema.STRING, Schema.OPTIONAL_INT64, Schema(Type.STRUCT, fields=[("a", Schema.INT32)]))
        records = []
        for offset in range(self._random.randint(1, 4)):
            key = None if self._one_in(6) else self._value(key_schema)
            value = None if self._one_in(6) else self._value(value_schema)
            headers = Headers([Header("h1", Schema.STRING, "v")]) if self._one_in(2) else None
            timestamp = self._choose(None, 1_700_000_000_123, 0, 1)
            records.append(SinkRecord("t", 3, key_schema, key, value_schema, value, offset, timestamp, headers=headers))
        return self._chain(), records

    def _one_in(self, count: int) -> bool:
        return self._random.randrange(count) == 0

    def _choose(self, *options: Any) -> Any:
        return self._random.choice(options)

    # -- schemas and values

    def _struct_schema(self, depth: int) -> Schema:
        names = self._random.sample(NAMES, self._random.randint(1, 4))
        return Schema(Type.STRUCT, fields=[(name, self._schema(depth)) for name in names], name=self._choose(None, "shop.Row"))

    def _schema(self, depth: int) -> Schema:
        optional = self._one_in(2)
        kind = self._random.randrange(12)
        if kind == 0:
            logical: Schema = self._choose(date_schema, time_schema, timestamp_schema)(optional=optional)
            return logical
        if kind == 1:
            return decimal_schema(2, optional=optional)
        if kind == 2 and depth:
            return self._struct_schema(depth - 1).replace(optional=optional)
        if kind == 3:
            return Schema(Type.ARRAY, optional=optional, value_schema=self._choose(Schema.INT32, Schema.STRING))
        if kind == 4:
            return Schema(Type.MAP, optional=optional, key_schema=Schema.STRING, value_schema=Schema.INT64)
        plain = Schema(self._choose(*_PRIMITIVES), optional=optional, doc=self._choose(None, "doc"))
        return plain.replace(default=self._value(plain)) if self._one_in(4) else plain

    def _value(self, schema: Schema) -> Any:
        """A value that is not null; nulls inside of structs may not fit the schema."""
        match (schema.name or "").rpartition(".")[2]:
            case "Decimal":
                return self._choose(decimal.Decimal("0.00"), decimal.Decimal("-12.34"), decimal.Decimal("9" * 40 + ".99"))
            case "Date":
                return date_of(self._choose(0, -1, 20_000, 3_000_000, -2_000_000))
            case "Timestamp":
                return instant_of(self._choose(*_MILLIS, 9_000_000_000_000_000))
            case "Time":
                return self._choose(dt.time(0), dt.time(23, 59, 59, 999_000), END_OF_DAY)
        return self._plain_value(schema)

    def _plain_value(self, schema: Schema) -> Any:
        match schema.type:
            case kind if kind in _BITS:
                low, high = -(1 << _BITS[kind]), (1 << _BITS[kind]) - 1
                numbers = [low, low + 1, -129, -1, 0, 1, 127, 128, 32768, high, *_MILLIS]
                return self._choose(*(v for v in numbers if low <= v <= high))
            case Type.FLOAT32:
                return round_to_float32(self._choose(*_FLOATS))
            case Type.FLOAT64:
                return self._choose(*_FLOATS)
            case Type.BOOLEAN:
                return self._one_in(2)
            case Type.BYTES:
                return self._choose(b"", b"\x00\xff", b"x" * 100)
            case Type.ARRAY:
                assert schema.value_schema is not None
                return [self._value(schema.value_schema) for _ in range(self._random.randrange(3))]
            case Type.MAP:
                assert schema.value_schema is not None
                return {key: self._value(schema.value_schema) for key in _TEXTS[: self._random.randrange(3)]}
            case Type.STRUCT:
                return Struct(schema, [self._field_value(f.schema) for f in schema.fields or ()])
        return self._choose(*_TEXTS)

    def _field_value(self, schema: Schema) -> Any:
        is_null = self._one_in(3) if schema.optional or schema.default is not None else self._one_in(12)
        return None if is_null else self._value(schema)

    # -- chains

    def _chain(self) -> dict[str, str]:
        config = dict(_PREDICATES)
        chosen = [self._step() for _ in range(self._random.randint(1, 4))]
        config["transforms"] = ",".join(f"t{i}" for i in range(len(chosen)))
        for i, settings in enumerate(chosen):
            config |= {f"transforms.t{i}.{name}": value for name, value in settings.items()}
        if self._one_in(4):
            config["conversion.strict"] = "true"
        return config

    def _field(self) -> str:
        return str(self._choose(*NAMES[:4]))

    def _fields(self) -> str:
        return ",".join(self._random.sample(NAMES[:4], self._random.randint(1, 3)))

    def _step(self) -> dict[str, str]:
        part = self._choose("$Key", "$Value", "$Value", "$Value")
        kind_of_cast = self._choose("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
        instants = {
            "target.type": self._choose("unix", "Date", "Time", "Timestamp", "string"),
            "format": self._choose("yyyy-MM-dd HH:mm:ss.SSS", "yyyyMMdd'T'HHmmss"),
            "unix.precision": self._choose("seconds", "milliseconds", "microseconds", "nanoseconds"),
        }
        operation = self._choose("move", "copy")
        kind, own = self._choose(
            ("Cast" + part, {"spec": f"{self._field()}:{kind_of_cast}"}),
            ("Cast" + part, {"spec": f"{self._field()}:{kind_of_cast},b:int8"}),
            ("Cast" + part, {"spec": kind_of_cast}),
            ("ReplaceField" + part, {"exclude": self._fields()}),
            ("ReplaceField" + part, {"renames": f"{self._field()}:{self._field()},b:z"}),
            ("InsertField" + part, {"static.field": "s", "static.value": "it's", "timestamp.field": "ts!", "offset.field": "o"}),
            ("InsertField" + part, {"topic.field": self._field(), "partition.field": "p?"}),
            ("HoistField" + part, {"field": "h"}),
            ("ExtractField" + part, {"field": self._field()}),
            ("ExtractField" + part, {"field": f"{self._field()}.{self._field()}", "field.syntax.version": "V2"}),
            ("Flatten" + part, {"delimiter": "_"}),
            ("MaskField" + part, {"fields": self._fields()}),
            ("MaskField" + part, {"fields": self._field(), "replacement": "42"}),
            ("SetSchemaMetadata" + part, {"schema.name": "n", "schema.version": "2"}),
            ("TimestampConverter" + part, {"field": self._field(), **instants}),
            ("HeaderFrom" + part, {"fields": self._field(), "headers": "h1", "operation": operation}),
            ("ValueToKey", {"fields": self._fields()}),
            ("RegexRouter", {"regex": "(.*)", "replacement": "x-$1"}),
            ("TimestampRouter", {"topic.format": "${topic}-${timestamp}", "timestamp.format": "yyyyMMdd"}),
            ("InsertHeader", {"header": "h2", "value.literal": "7"}),
            ("DropHeaders", {"headers": "h1"}),
            ("Filter", {}),
        )
        settings = {"type": _APACHE + kind, **own}
        if "$" in kind and not kind.startswith(("Flatten", "HoistField")) and self._one_in(3):
            settings["replace.null.with.default"] = "false"
        predicate = self._random.randrange(3 if kind == "Filter" else 12)
        if predicate < 3:
            settings |= {"predicate": f"p{predicate}", "negate": self._choose("true", "false")}
        return settings
