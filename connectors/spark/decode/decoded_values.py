"""The decoded values of some records of one schema, before their keys and offsets are added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connectors.spark.decode.arrow_types import ColumnConversion
from connectors.spark.decode.change_batch import DELETE, OPERATIONS, TOMBSTONE, WITH_ROW, table_of_struct
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.source_block import SourceBlock, SourceColumns


@dataclass(frozen=True, slots=True)
class DecodedValues:
    """Values of the records at ``positions`` of a batch. Plain records have null ``operations`` and no ``source``."""

    positions: Sequence[int]
    operations: pa.Array
    source: SourceColumns | None
    image: pa.Table
    fields: pa.Array | None = None
    """By record, the fields of its row (:mod:`connectors.spark.decode.present_fields`); None if the image's columns tell."""
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    has_schema: bool = True

    def take(self, rows: Sequence[int]) -> DecodedValues:
        """Only these values."""
        at = pa.array(rows, pa.int64())
        return replace(
            self,
            positions=[self.positions[row] for row in rows],
            operations=self.operations.take(at),
            source=None if self.source is None else self.source.take(at),
            image=self.image.take(at) if self.image.num_columns else self.image,
            fields=None if self.fields is None else self.fields.take(at),
        )


def tombstones(positions: Sequence[int]) -> DecodedValues:
    """The values of records without one."""
    empty = table_of_struct(pa.array([], pa.struct([])))
    return DecodedValues(positions, pa.array([TOMBSTONE] * len(positions)), None, empty)


def plain_rows(positions: Sequence[int], rows: pa.Array) -> DecodedValues:
    """The values of plain records, whose fields are the row."""
    return DecodedValues(positions, pa.nulls(len(positions), pa.string()), None, table_of_struct(rows))


def change_events(
    positions: Sequence[int],
    operations: pa.Array,
    source: SourceColumns | None,
    rows: pa.Array,
    describe: Callable[[int], str],
) -> DecodedValues:
    """The values of change events: their operations, and rows as structs, null where there is none. ``describe`` names the record
    at an index. Raises DataError for an event without an operation of Debezium, or without the row that its operation needs."""
    is_known = pc.is_in(operations, OPERATIONS)
    wrong = pc.or_(pc.invert(is_known), pc.and_(rows.is_null(), pc.is_in(operations, WITH_ROW)))
    at = pc.index(wrong, True).as_py()
    if at < 0:
        return DecodedValues(positions, operations, source, table_of_struct(rows))
    operation = operations[at].as_py()
    if operation is None:
        raise DataError(f"{describe(at)}: no op field; change events and other records share the topic")
    if not is_known[at].as_py():
        raise DataError(f"{describe(at)}: op is {operation!r}, and that of a change event is c, u, r, d, t, or m")
    raise DataError(f"{describe(at)}: after is null, and op is {operation!r}; only changes with op d, t, or m have no row there")


def rows_of_envelopes(
    raw: RawBuffer, positions: Sequence[int], table: pa.Table, row: ColumnConversion, source: SourceBlock
) -> DecodedValues:
    """The values of change events that Arrow's reader has parsed. Raises DataError as :func:`change_events` does."""
    operations = table["op"].combine_chunks()
    rows = row.from_json(_image(table, operations))
    of_source = source.columns(table["source"].combine_chunks())
    return change_events(positions, operations, of_source, rows, lambda at: raw.describe(positions[at]))


def _image(table: pa.Table, operations: pa.Array) -> pa.Array:
    after = table["after"].combine_chunks()
    deletes = pc.equal(operations, DELETE)
    if not pc.any(deletes).as_py():
        return after
    return pc.if_else(deletes, table["before"].combine_chunks(), after)


def struct_of(table: pa.Table) -> pa.Array:
    """The table's rows as structs."""
    struct = table.to_struct_array()
    return struct.combine_chunks() if isinstance(struct, pa.ChunkedArray) else struct


def row_of_plain(record: Any) -> Any:
    """The row of a plain record."""
    return record


def image_of(event: Any) -> Any:
    """The row that a change event describes: before for a delete, after for all others."""
    return event.get("before") if event.get("op") == DELETE else event.get("after")
