"""docs/compatibility.md, section Transformations: what each row says is lost is lost, and is an error under conversion.strict."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from connect.data.logical import decimal_schema, timestamp_schema
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.plugins import Plugins
from connect.record import ConnectRecord, SourceRecord

PAGE = (Path(__file__).parents[3] / "docs" / "compatibility.md").read_text("utf-8")
_TABLE = PAGE.split("<!-- transformation:")[1].split("\n\n")[0].splitlines()[3:]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in _TABLE]
_SCHEMAS = {type_.value: Schema(type_) for type_ in Type if type_.is_primitive}
_SCHEMAS |= {"timestamp": timestamp_schema(), "decimal": decimal_schema(2)}
_NAMES = {
    "Decimal": Decimal,
    "datetime": dt.datetime,
    "date": dt.date,
    "time": dt.time,
    "UTC": dt.UTC,
    "nan": float("nan"),
    "inf": float("inf"),
}


def _code(cell: str) -> str:
    return cell[cell.index("`") + 1 : cell.rindex("`")] if "`" in cell else ""


def _schema(text: str) -> Schema | None:
    if text == "-" or text in _SCHEMAS:
        return _SCHEMAS.get(text)
    builder = SchemaBuilder.struct()
    for member in text.split(", "):
        name, type_name = member.split(" ")
        builder.field(name, _SCHEMAS[type_name])
    return builder.build()


def _records(schema_text: str, datum_text: str, count: int) -> list[SourceRecord]:
    schema = _schema(schema_text)
    records = []
    for _ in range(count):
        datum = eval(datum_text, dict(_NAMES))
        if schema is not None and schema.fields is not None:
            datum = Struct.of(schema, **datum)
        records.append(SourceRecord({}, {}, "t", value_schema=schema, value=datum))
    return records


def _settings(text: str) -> dict[str, str]:
    return dict(setting.split("=", 1) for setting in text.split("; ") if setting)


def _shown(record: ConnectRecord, where: str) -> Any:
    if where.startswith("header"):
        header = None if record.headers is None else record.headers.last_with_name("h")
        assert header is not None
        return header.value
    datum = record.key if where.startswith("key") else record.value
    return datum.as_dict() if isinstance(datum, Struct) else datum


def _applied(name: str, settings: dict[str, str], records: list[SourceRecord]) -> list[ConnectRecord | None]:
    transformation = Plugins.discover().new_transformation(f"org.apache.kafka.connect.transforms.{name}")
    transformation.configure(settings)
    return transformation.apply_batch(records)


each_row = pytest.mark.parametrize(("name", "settings", "schema", "datum", "becomes"), ROWS, ids=[" ".join(r[:4]) for r in ROWS])
each_way = pytest.mark.parametrize("count", [1, 5], ids=["record", "batch"])


@each_way
@each_row
def test_listed_values_are_changed(name: str, settings: str, schema: str, datum: str, becomes: str, count: int) -> None:
    expected = eval(_code(becomes), dict(_NAMES))
    for changed in _applied(name, _settings(_code(settings)), _records(_code(schema), _code(datum), count)):
        assert changed is not None
        assert repr(_shown(changed, becomes)) == repr(expected)


@each_way
@each_row
def test_strict_conversion_rejects_lossy_values(
    name: str, settings: str, schema: str, datum: str, becomes: str, count: int
) -> None:
    strict = {**_settings(_code(settings)), "conversion.strict": "true"}
    with pytest.raises((DataError, ConfigError), match=r"conversion\.strict is on") as raised:
        _applied(name, strict, _records(_code(schema), _code(datum), count))
    fields = [f'"{field}"' for field in ("id", "a", "b", "n", "a.b")]
    named = any(field in raised.value.message for field in fields)
    assert named or not _code(datum).startswith("{"), "the error names no field"


KEPT = [
    ("Cast$Value", {"spec": "int8"}, "int64", 127, 127),
    ("Cast$Value", {"spec": "int32"}, "double", -2.0, -2),
    ("Cast$Value", {"spec": "float32"}, "double", 0.5, 0.5),
    ("Cast$Value", {"spec": "float64"}, "string", " 0.1d", 0.1),
    ("Cast$Value", {"spec": "float64"}, "string", "-Infinity", float("-inf")),
    ("Cast$Value", {"spec": "float64"}, "decimal", Decimal("1.10"), 1.1),
    ("Cast$Value", {"spec": "boolean"}, "string", "TRUE", True),
    ("Cast$Value", {"spec": "boolean"}, "int8", 0, False),
    ("Cast$Value", {"spec": "string"}, "double", 0.1, "0.1"),
    ("Cast$Value", {"spec": "int32"}, "string", None, None),
    ("TimestampConverter$Value", {"target.type": "unix", "format": "yyyy-MM-dd"}, "string", "2024-1-31", 1_706_659_200_000),
    ("TimestampConverter$Value", {"target.type": "Date"}, "int64", 1_706_659_200_000, dt.date(2024, 1, 31)),
    ("TimestampConverter$Value", {"target.type": "unix"}, "timestamp", None, None),
    ("ExtractField$Value", {"field": "a"}, "-", {"a": None}, None),
    ("Flatten$Value", {}, "-", {"a": {"b": 1}, "c": None}, {"a.b": 1, "c": None}),
    ("Flatten$Value", {}, "-", {"a.b": 1, "a": {"b": {"c": 2}}}, {"a.b": 1, "a.b.c": 2}),
    ("InsertField$Value", {"static.field": "n", "static.value": "42"}, "-", {"a": 1}, {"a": 1, "n": "42"}),
    ("MaskField$Value", {"fields": "a", "replacement": "0.1"}, "-", {"a": 1.5}, {"a": 0.1}),
    ("ReplaceField$Value", {"renames": "a:b,b:a"}, "-", {"a": 1, "b": 2}, {"b": 1, "a": 2}),
]


@pytest.mark.parametrize(("name", "settings", "schema", "datum", "becomes"), KEPT)
def test_strict_conversion_accepts_lossless_values(
    name: str, settings: dict[str, str], schema: str, datum: object, becomes: object
) -> None:
    shown_schema = _schema(schema)
    record = SourceRecord({}, {}, "t", value_schema=None if shown_schema is None else shown_schema.as_optional(), value=datum)
    for changed in _applied(name, {**settings, "conversion.strict": "true"}, [record] * 5):
        assert changed is not None
        assert repr(_shown(changed, "")) == repr(becomes)


def test_table_is_in_the_page() -> None:
    assert len(ROWS) > 30
    classes = {row[0].partition("$")[0] for row in ROWS}
    assert classes >= {"Cast", "ExtractField", "Flatten", "InsertField", "MaskField", "ReplaceField", "TimestampConverter"}


def test_mask_field_writes_a_decimal_with_scale_0() -> None:
    schema = SchemaBuilder.struct().field("d", decimal_schema(2)).build()
    record = SourceRecord({}, {}, "t", value_schema=schema, value=Struct(schema, [Decimal("1.25")]))
    masked = _applied("MaskField$Value", {"fields": "d"}, [record])[0]
    assert masked is not None
    assert masked.value.get("d").as_tuple().exponent == 0
