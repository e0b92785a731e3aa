"""Schemas of change events: Debezium's envelope, source block, keys, and values, in its field order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connect.data.schema import Schema, SchemaBuilder, Type

SNAPSHOT_MARKERS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
_MARKER = Schema(
    Type.STRING, optional=True, default="false", name="io.debezium.data.Enum", version=1, parameters={"allowed": SNAPSHOT_MARKERS}
)


def source_schema(name: str, fields: Sequence[tuple[str, Schema]]) -> Schema:
    """The schema of a connector's source block: what all connectors have, then its own fields."""
    builder = (
        SchemaBuilder.struct()
        .name(name)
        .version(1)
        .field("version", Schema.STRING)
        .field("connector", Schema.STRING)
        .field("name", Schema.STRING)
        .field("ts_ms", Schema.INT64)
        .field("snapshot", _MARKER)
        .field("db", Schema.STRING)
        .field("sequence", Schema.OPTIONAL_STRING)
        .field("ts_us", Schema.OPTIONAL_INT64)
        .field("ts_ns", Schema.OPTIONAL_INT64)
    )
    for field, schema in fields:
        builder = builder.field(field, schema)
    return builder.build()


# Positions in the values of a source block.
TS_MS, SNAPSHOT, SEQUENCE, TS_US, TS_NS = 3, 4, 6, 7, 8
FIRST_OWN = 9
"""The position of the connector's first own field."""

TRANSACTION = (
    SchemaBuilder.struct()
    .name("event.block")
    .version(1)
    .field("id", Schema.STRING)
    .field("total_order", Schema.INT64)
    .field("data_collection_order", Schema.INT64)
    .optional()
    .build()
)

HEARTBEAT_KEY = (
    SchemaBuilder.struct()
    .name("io.debezium.connector.common.ServerNameKey")
    .version(1)
    .field("serverName", Schema.STRING)
    .build()
)
HEARTBEAT_VALUE = (
    SchemaBuilder.struct().name("io.debezium.connector.common.Heartbeat").version(1).field("ts_ms", Schema.INT64).build()
)


@dataclass(frozen=True, slots=True)
class RowSchemas:
    """Schemas of a table's events; ``key`` is None for a table without a key."""

    key: Schema | None
    value: Schema
    envelope: Schema


def row_schemas(
    topic: str,
    source: Schema,
    fields: list[tuple[str, Schema]],
    key_fields: list[tuple[str, Schema]],
    adjust: Callable[[str], str] = str,
) -> RowSchemas:
    """Builds the key, row, and envelope schema of a topic; ``adjust`` changes the names of schemas."""
    value = Schema(Type.STRUCT, name=adjust(f"{topic}.Value"), optional=True, fields=fields)
    key = Schema(Type.STRUCT, name=adjust(f"{topic}.Key"), fields=key_fields) if key_fields else None
    envelope = Schema(
        Type.STRUCT,
        name=adjust(f"{topic}.Envelope"),
        version=2,
        fields=[
            ("before", value),
            ("after", value),
            ("source", source),
            ("transaction", TRANSACTION),
            ("op", Schema.STRING),
            ("ts_ms", Schema.OPTIONAL_INT64),
            ("ts_us", Schema.OPTIONAL_INT64),
            ("ts_ns", Schema.OPTIONAL_INT64),
        ],
    )
    return RowSchemas(key, value, envelope)
