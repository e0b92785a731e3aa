"""Classifies record values: change event, flat record (a plain row), or schema change event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connect.data.schema import Schema, Type
from connect.record import SinkRecord
from connectors.jdbc.debezium_sink.config import DebeziumPlannerConfig

_SCHEMA_CHANGE = "SchemaChangeValue"


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """A change event. ``code`` is the Python expression of the list of its values; the others are field indexes."""

    code: str
    schema: Schema
    op: int
    after: int
    before: int | None

    def ops(self, records: Sequence[SinkRecord]) -> list[Any]:
        """Returns the operation of each record."""
        if self.code == "r.value.values":
            op = self.op
            return [record.value.values[op] for record in records]
        found: list[Any] = eval(f"[{self.code}[{self.op}] for r in records]", {"records": records})
        return found

    @property
    def row_schema(self) -> Schema:
        assert self.schema.fields is not None
        return self.schema.fields[self.after].schema


@dataclass(frozen=True, slots=True)
class FlatRecord:
    """A plain row without an envelope."""

    row: str
    """Python expression of the list of its values."""
    schema: Schema


@dataclass(frozen=True, slots=True)
class SchemaChangeEvent:
    """An event about the schema of a table, not about rows."""


RecordKind = ChangeEvent | FlatRecord | SchemaChangeEvent


def classify_values(config: DebeziumPlannerConfig, schema: Schema | None) -> RecordKind | str:
    """Returns the kind of values with this schema, or why they cannot be written."""
    if schema is None:
        return (
            "its value has no schema, which columns need: use a value.converter that provides one (JsonConverter with "
            "value.converter.schemas.enable=true for messages that carry theirs, AvroConverter, ProtobufConverter, "
            "JsonSchemaConverter)"
        )
    if schema.type is not Type.STRUCT:
        return f"its value is {schema.type.name}, and only a struct has columns"
    if _SCHEMA_CHANGE in (schema.name or ""):
        return SchemaChangeEvent()
    values = "r.value.values"
    if schema.name is not None and config.cloud_events.fullmatch(schema.name):
        data = schema.field("data")
        if data is None or data.schema.type is not Type.STRUCT:
            return "it is a CloudEvent whose data is no struct"
        values, schema = f"{values}[{data.index}].values", data.schema
    return _find_change_event(values, schema) or FlatRecord(values, schema)


def _find_change_event(values: str, schema: Schema) -> ChangeEvent | None:
    op, after, before = schema.field("op"), schema.field("after"), schema.field("before")
    named = schema.name is not None and schema.name.endswith(".Envelope")
    if not (named or schema.name is None) or op is None:
        return None
    if after is None or after.schema.type is not Type.STRUCT:
        # Debezium's logical messages have no rows; only their op identifies them.
        return ChangeEvent(values, schema, op.index, -1, None) if named else None
    return ChangeEvent(values, schema, op.index, after.index, before.index if before is not None else None)
