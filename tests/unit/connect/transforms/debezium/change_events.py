"""Change events for these tests, as the PostgreSQL source makes them."""

from __future__ import annotations

from typing import Any

from connect.data.headers import Headers
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.cdc.schema import envelope
from connectors.postgres.schema.source_block import SOURCE, source_values

TOPIC = "shop.public.customers"
FIELDS = [
    ("id", Schema.INT64),
    ("name", Schema.OPTIONAL_STRING),
    ("level", Schema(Type.INT32, default=7)),
    ("note", Schema(Type.STRING, optional=True, default="none")),
]
SCHEMAS = envelope.row_schemas(TOPIC, SOURCE, FIELDS, [("id", Schema.INT64)])


def row(*values: Any, schema: Schema = SCHEMAS.value) -> Struct:
    return Struct(schema, list(values))


def source_block(table: str = "customers", **members: Any) -> Struct:
    block = Struct(SOURCE, source_values("1.0", "shop", "shopdb", "public", table))
    for name, value in {"ts_ms": 1_000, "lsn": 24_023_128, **members}.items():
        block.put(name, value)
    return block


def event(
    op: str,
    before: Struct | None = None,
    after: Struct | None = None,
    *,
    schemas: envelope.RowSchemas = SCHEMAS,
    topic: str = TOPIC,
    headers: Headers | None = None,
    source: Struct | None = None,
) -> SourceRecord:
    """One change event; its key is the first value of the row."""
    rows = [one for one in (after, before) if one is not None]
    key = Struct(schemas.key, [rows[0].values[0]]) if rows and schemas.key is not None else None
    value = Struct(schemas.envelope, [before, after, source or source_block(), None, op, 2_000, 2_000_000, 2_000_000_000])
    return SourceRecord({"server": "shop"}, {"lsn": 1}, topic, None, schemas.key, key, schemas.envelope, value, 5, headers)


def tombstone(topic: str = TOPIC) -> SourceRecord:
    return SourceRecord({}, {}, topic, None, SCHEMAS.key, Struct(SCHEMAS.key or SCHEMAS.value, [1]), None, None)


def headers_of(record: Any) -> dict[str, Any]:
    return {header.key: header.value for header in record.headers or ()}
