"""Flattens records to named fields with type and value, and compares two records, for human-readable output."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP, FarInstant, decimal_scale
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.java.number_text import decimal_text
from connect.java.sized_numbers import Float32, Int8, Int16, Int32
from connect.record import ConnectRecord, SinkRecord
from connect.record_format import payload_to_json

_LOGICAL = {DATE: "date", TIME: "time", TIMESTAMP: "timestamp"}


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field of a record: its type, and its value as text. Structs and maps have no text."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A changed field. ``before`` is None for an added field, ``after`` for a removed one."""

    path: str
    before: FieldValue | None
    after: FieldValue | None

    @property
    def mark(self) -> str:
        """``+``, ``-`` or ``~``."""
        return "+" if self.before is None else "-" if self.after is None else "~"


def flatten_record(record: ConnectRecord) -> dict[str, FieldValue]:
    """Returns the fields of a record by path: topic, partition, timestamp, key, value, headers."""
    found = {"topic": FieldValue("", _quoted(record.topic))}
    if record.partition is not None:
        found["partition"] = FieldValue("", str(record.partition))
    if isinstance(record, SinkRecord):
        found["offset"] = FieldValue("", str(record.offset))
    if record.timestamp is not None:
        found["timestamp"] = FieldValue("", str(record.timestamp))
    _add("key", record.key_schema, record.key, found)
    _add("value", record.value_schema, record.value, found)
    for header in record.headers or ():
        path, count = f"headers.{header.key}", 1
        while path in found:
            count += 1
            path = f"headers.{header.key}[{count}]"
        _add(path, header.schema, header.value, found)
    return found


def diff_records(before: Mapping[str, FieldValue], after: Mapping[str, FieldValue]) -> list[FieldChange]:
    """Returns changed and removed fields in the order of ``before``, then added ones.

    If a container became a single value, the removal of its fields is not listed.
    """
    emptied = tuple(f"{path}." for path, field in before.items() if not field.text and path in after and after[path].text)
    changed = [
        FieldChange(path, field, after.get(path))
        for path, field in before.items()
        if after.get(path) != field and not (path not in after and emptied and path.startswith(emptied))
    ]
    added = [FieldChange(path, None, field) for path, field in after.items() if path not in before]
    return [*changed, *added]


def _add(path: str, schema: Schema | None, value: Any, found: dict[str, FieldValue]) -> None:
    if isinstance(value, Struct):
        found[path] = FieldValue(_kind(schema or value.schema, value), "")
        for f, member in zip(value.schema.fields or (), value.values, strict=True):
            _add(f"{path}.{f.name}", f.schema, member, found)
    elif isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
        found[path] = FieldValue(_kind(schema, value), "")
        for key, member in value.items():
            _add(f"{path}.{key}", schema.value_schema if schema is not None else None, member, found)
    else:
        found[path] = FieldValue(_kind(schema, value), format_value(schema, value))


def _kind(schema: Schema | None, value: Any) -> str:
    if schema is None:
        return _plain_kind(value)
    if schema.name == DECIMAL:
        shown = f"decimal({decimal_scale(schema)})"
    elif schema.name in _LOGICAL:
        shown = _LOGICAL[schema.name]
    else:
        shown = schema.type.value if schema.type not in (Type.FLOAT32, Type.FLOAT64) else schema.type.name.lower()
        shown += f" {schema.name}" if schema.name else ""
        shown += f" v{schema.version}" if schema.version is not None else ""
    return f"{shown}?" if schema.optional else shown


def _plain_kind(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "boolean"
        case Int8() | Int16() | Int32():
            return type(value).__name__.lower()
        case int():
            return "int64"
        case Float32():
            return "float32"
        case float():
            return "float64"
        case str():
            return "string"
        case bytes() | bytearray() | memoryview():
            return "bytes"
        case decimal.Decimal():
            return "decimal"
        case dt.date() | dt.time() | FarInstant():
            return "timestamp"
        case dict():
            return "map"
        case list() | tuple():
            return "array"
    return type(value).__name__


def format_value(schema: Schema | None, value: Any) -> str:
    """Formats a value for output: numbers in full, instants in ISO 8601, everything else as JSON."""
    match value:
        case decimal.Decimal():
            return decimal_text(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat().replace("+00:00", "Z")
        case Int8() | Int16() | Int32():
            return str(int(value))
        case Float32():
            return json.dumps(payload_to_json(Schema.FLOAT32, value))
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex(" ")
        case FarInstant():
            return str(value.millis)
    try:
        return json.dumps(payload_to_json(schema, value), ensure_ascii=False)
    except DataError:
        return repr(value)  # a user function may return any type


def _quoted(text: str | None) -> str:
    return "null" if text is None else text
