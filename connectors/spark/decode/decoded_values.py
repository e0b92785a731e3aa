"""The decoded values of some records of one schema, before their keys and offsets are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connectors.spark.decode.arrow_types import ColumnConversion
from connectors.spark.decode.change_batch import DELETE, TOMBSTONE, table_of_struct
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


def tombstones(positions: Sequence[int]) -> DecodedValues:
    """The values of records without one."""
    empty = table_of_struct(pa.array([], pa.struct([])))
    return DecodedValues(positions, pa.array([TOMBSTONE] * len(positions)), None, empty)


def plain_rows(positions: Sequence[int], rows: pa.Array) -> DecodedValues:
    """The values of plain records, whose fields are the row."""
    return DecodedValues(positions, pa.nulls(len(positions), pa.string()), None, table_of_struct(rows))


def rows_of_envelopes(
    raw: RawBuffer, positions: Sequence[int], table: pa.Table, row: ColumnConversion, source: SourceBlock
) -> DecodedValues:
    """The values of change events that Arrow's reader has parsed. Raises DataError for an event without an operation."""
    operations = table["op"].combine_chunks()
    require_operations(operations, raw, positions)
    image = row.from_json(_image(table, operations))
    return DecodedValues(positions, operations, source.columns(table["source"].combine_chunks()), table_of_struct(image))


def require_operations(operations: pa.Array, raw: RawBuffer, positions: Sequence[int]) -> None:
    """Raises DataError for a change event without an operation."""
    if operations.null_count:
        at = pc.index(operations.is_null(), True).as_py()
        raise DataError(f"{raw.describe(positions[at])}: no op field; change events and other records share the topic")


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
