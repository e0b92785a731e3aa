"""What a record is: a change event with its row before and after, a plain row, or something that is no change of a row."""

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
    """A change event. Places are those of fields in the event; ``event`` is Python for the list of its values."""

    event: str
    schema: Schema
    op: int
    after: int
    before: int | None

    def ops(self, records: Sequence[SinkRecord]) -> list[Any]:
        """The operation of each record."""
        if self.event == "r.value.values":
            place = self.op
            return [record.value.values[place] for record in records]
        found: list[Any] = eval(f"[{self.event}[{self.op}] for r in records]", {"records": records})
        return found

    @property
    def row_schema(self) -> Schema:
        assert self.schema.fields is not None
        return self.schema.fields[self.after].schema


@dataclass(frozen=True, slots=True)
class FlatRecord:
    """A row as it is."""

    row: str
    """Python for the list of its values."""
    schema: Schema


@dataclass(frozen=True, slots=True)
class SchemaChangeEvent:
    """An event about a table, not its rows."""


RecordKind = ChangeEvent | FlatRecord | SchemaChangeEvent


def classify_values(config: DebeziumPlannerConfig, schema: Schema | None) -> RecordKind | str:
    """The form of values of a schema, or why there is none."""
    if schema is None:
        return (
            "its value has no schema, which columns need: take a value.converter that gives one (JsonConverter with "
            "value.converter.schemas.enable=true for messages that carry theirs, AvroConverter, ProtobufConverter, "
            "JsonSchemaConverter)"
        )
    if schema.type is not Type.STRUCT:
        return f"its value is {schema.type.name}, and columns need a struct"
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
        # Debezium's logical messages have neither row; their op tells.
        return ChangeEvent(values, schema, op.index, -1, None) if named else None
    return ChangeEvent(values, schema, op.index, after.index, before.index if before is not None else None)
