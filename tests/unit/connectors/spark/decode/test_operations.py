"""Operations of change events: every path takes those of Debezium only, with the row that they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SinkRecord
from connectors.cdc.schema.envelope import row_schemas
from connectors.postgres.schema.source_block import SOURCE, source_values
from connectors.spark.decode.arrow_types import column_for_schema
from connectors.spark.decode.change_batch import OPERATION, ChangeBatch
from connectors.spark.decode.column_decoder import ColumnRecords
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.topic_decoder import TopicDecoder

SCHEMAS = row_schemas("shop.public.t", SOURCE, [("id", Schema.INT64)], [])
EVENT = SCHEMAS.envelope
Decode = Callable[[Sequence[Struct]], list[ChangeBatch]]


def event(op: str, before: int | None = None, after: int | None = None) -> Struct:
    source = Struct(SOURCE, source_values("1", "shop", "shop", "public", "t"))
    rows = [None if id_ is None else Struct(SCHEMAS.value, [id_]) for id_ in (before, after)]
    values = {"before": rows[0], "after": rows[1], "source": source, "op": op, "ts_ms": 1}
    return Struct(EVENT, [values.get(name) for name in EVENT.field_names])


def decoder(*, schemas: bool) -> TopicDecoder:
    return TopicDecoder(
        "t", converter(schemas), converter(schemas), key_schemas=schemas, value_schemas=schemas, fill_defaults=False,
        key_name=None, needs_names=False, needs_keys=False,
    )  # fmt: skip


def converter(schemas: bool) -> JsonConverter:
    found = JsonConverter()
    found.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    return found


def raw(events: Sequence[Struct], *, schemas: bool) -> RawBuffer:
    lines = [converter(schemas).from_connect_data("t", EVENT, one) for one in events]
    return RawBuffer("t", [0] * len(lines), list(range(len(lines))), [None] * len(lines), lines)


def in_columns(events: Sequence[Struct]) -> list[ChangeBatch]:
    column = column_for_schema(EVENT)
    values = pa.array([column.prepare(one) for one in events], column.stored)
    offsets = pa.array(range(len(events)), pa.int64())
    return [decoder(schemas=True).decode_columns(ColumnRecords(0, offsets, None, None, EVENT, values))]


def as_records(events: Sequence[Struct]) -> list[ChangeBatch]:
    return decoder(schemas=True).decode_records([SinkRecord("t", 0, None, None, EVENT, one, at) for at, one in enumerate(events)])


def as_objects(events: Sequence[Struct]) -> list[ChangeBatch]:
    records = [SinkRecord("t", 0, None, None, None, one.as_dict(), at) for at, one in enumerate(events)]
    return decoder(schemas=False).decode_records(records)


PATHS: dict[str, Decode] = {
    "JSON": lambda events: decoder(schemas=True).decode_batch(raw(events, schemas=True), 0),
    "JSON, exactly": lambda events: decoder(schemas=True).decode_exactly(raw(events, schemas=True), 0),
    "JSON without schemas": lambda events: decoder(schemas=False).decode_batch(raw(events, schemas=False), 0),
    "JSON without schemas, exactly": lambda events: decoder(schemas=False).decode_exactly(raw(events, schemas=False), 0),
    "records": as_records,
    "records without schemas": as_objects,
    "columns": in_columns,
}
paths = pytest.mark.parametrize("decode", PATHS.values(), ids=PATHS)
GOOD = [event("c", None, 1), event("u", 1, 2), event("r", None, 3), event("d", 4), event("t"), event("m"), event("d")]


@paths
def test_every_operation_of_debezium_is_read(decode: Decode) -> None:
    (found,) = decode(GOOD)
    assert found.meta[OPERATION].to_pylist() == ["c", "u", "r", "d", "t", "m", "d"]
    assert found.image["id"].to_pylist() == [1, 2, 3, 4, None, None, None]


@paths
@pytest.mark.parametrize("op", ["ignored", "tombstone", "delete", "D", ""])
def test_other_operation_is_refused_by_name(decode: Decode, op: str) -> None:
    with pytest.raises(DataError, match=f"offset 2: op is '{op}', and that of a change event is c, u, r, d, t, or m"):
        decode([event("c", None, 1), event("d", 1), event(op, 1, 1)])


@paths
@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_change_without_a_row_is_refused_by_name(decode: Decode, op: str) -> None:
    with pytest.raises(DataError, match=f"offset 1: after is null, and op is '{op}'; only changes with op d, t, or m"):
        decode([event("c", None, 1), event(op, 1)])
