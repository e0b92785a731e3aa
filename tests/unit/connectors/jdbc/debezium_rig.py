"""Change events, and a started task of the Debezium JDBC sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.record import SinkRecord
from connect.sink import ErrantRecordReporter
from connectors.jdbc.debezium_sink.connector import DebeziumJdbcSinkTask
from tests.unit.connectors.jdbc.sink_rig import StartedSink, Topic

KEY = SchemaBuilder.struct().name("srv.sch.people.Key").field("id", Schema.INT32).build()
ROW = (
    SchemaBuilder.struct()
    .name("srv.sch.people.Value")
    .field("id", Schema.INT32)
    .field("name", Schema.OPTIONAL_STRING)
    .field("notes", Schema.OPTIONAL_STRING)
    .build()
)
SOURCE = (
    SchemaBuilder.struct()
    .name("io.debezium.connector.postgresql.Source")
    .field("db", Schema.STRING)
    .field("schema", Schema.STRING)
    .field("table", Schema.STRING)
    .build()
)
UNAVAILABLE = "__debezium_unavailable_value"


def envelope(row: Schema, name: str | None = "srv.sch.people.Envelope") -> Schema:
    builder = SchemaBuilder.struct()
    if name is not None:
        builder.name(name)
    builder.field("before", row.as_optional()).field("after", row.as_optional()).field("source", SOURCE)
    return builder.field("op", Schema.STRING).field("ts_ms", Schema.OPTIONAL_INT64).build()


ENVELOPE = envelope(ROW)


class Events(Topic):
    """Change events of rows."""

    def __init__(self, topic: str = "people", *, row: Schema = ROW, table: str = "people") -> None:
        super().__init__(topic)
        self.row = row
        self.schema = ENVELOPE if row is ROW else envelope(row)
        self.table = table

    def create(self, *values: Any) -> SinkRecord:
        return self.event("c", None, values)

    def read(self, *values: Any) -> SinkRecord:
        return self.event("r", None, values)

    def update(self, *values: Any) -> SinkRecord:
        return self.event("u", None, values)

    def delete(self, key: Any) -> SinkRecord:
        """As with the default replica identity: of the row as it was there is only the key."""
        assert self.row.fields is not None
        return self.event("d", (key, *[None] * (len(self.row.fields) - 1)), None)

    def truncate(self) -> SinkRecord:
        return self.record(None, None, self.schema, self._struct("t", None, None))

    def tombstone(self, key: Any) -> SinkRecord:
        return self.record(KEY, Struct(KEY, [key]), None, None)

    def flat(self, *values: Any, schema: Schema | None = None) -> SinkRecord:
        schema = schema or self.row
        return self.record(KEY, Struct(KEY, [values[0]]), schema, Struct(schema, list(values)))

    def event(self, op: str, before: Sequence[Any] | None, after: Sequence[Any] | None) -> SinkRecord:
        row = after or before or (None,)
        return self.record(KEY, Struct(KEY, [row[0]]), self.schema, self._struct(op, before, after))

    def _struct(self, op: str, before: Sequence[Any] | None, after: Sequence[Any] | None) -> Struct:
        rows = [None if row is None else Struct(self.row, list(row)) for row in (before, after)]
        return Struct(self.schema, [*rows, Struct(SOURCE, ["shop", "sch", self.table]), op, 1_700_000_000_000])


class DebeziumSink(StartedSink[DebeziumJdbcSinkTask]):
    def __init__(self, config: Mapping[str, str], *, reporter: ErrantRecordReporter | None = None) -> None:
        super().__init__(DebeziumJdbcSinkTask(), {"flush.retry.delay.ms": "5", **config}, reporter)


KEYED = {
    "insert.mode": "upsert", "primary.key.mode": "record_key", "schema.evolution": "basic", "delete.enabled": "true",
    "truncate.enabled": "true",
}  # fmt: skip
