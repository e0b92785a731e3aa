"""Changes: decoded records of one topic, as Arrow columns, whatever way they were decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connect.record import TopicPartition
from connectors.sink_support.errant_records import describe_location

TOMBSTONE = "tombstone"
DELETE = "d"
TRUNCATE = "t"
MESSAGE = "m"

SEQUENCE = "sequence"
OPERATION = "op"
SOURCE_MS = "source_ms"
PARTITION_ID = "partition"
OFFSET_ID = "offset"
DATABASE, SCHEMA, TABLE = "database", "schema", "table"
META = pa.schema(
    [
        (SEQUENCE, pa.int64()),
        (OPERATION, pa.string()),
        (SOURCE_MS, pa.int64()),
        (PARTITION_ID, pa.int32()),
        (OFFSET_ID, pa.int64()),
        (DATABASE, pa.string()),
        (SCHEMA, pa.string()),
        (TABLE, pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Changes:
    """Records of one topic and one schema.

    ``meta`` has the columns of META: sequence is the order of arrival over the whole task, op is null for a plain record and
    ``tombstone`` for one without a value. ``image`` has the row's columns: after, or before for a delete; all null where there
    is no image. ``keys`` has the fields of the record key, and is None when keys were not asked for or no record has one;
    its row is null where a record has no key.
    """

    topic: str
    meta: pa.Table
    image: pa.Table
    keys: pa.Table | None

    @property
    def num_rows(self) -> int:
        return int(self.meta.num_rows)

    def filter(self, mask: pa.ChunkedArray | pa.Array) -> Changes:
        """Those for which the mask is true."""
        keys = None if self.keys is None else self.keys.filter(mask)
        return Changes(self.topic, self.meta.filter(mask), self.image.filter(mask), keys)

    def slice(self, part: range) -> Changes:
        """Those at these places, without copying."""
        start, count = part.start, len(part)
        keys = None if self.keys is None else self.keys.slice(start, count)
        return Changes(self.topic, self.meta.slice(start, count), self.image.slice(start, count), keys)

    def without_empty_columns(self) -> Changes:
        """Without columns of image and keys that have no value here: others brought them, which were decoded with these."""
        image = self.image.select([n for n in self.image.column_names if self.image[n].null_count < self.num_rows])
        keys = self.keys
        if keys is not None:
            names = [n for n in keys.column_names if keys[n].null_count < self.num_rows]
            keys = keys.select(names) if names else None
        if not image.num_columns:
            image = no_columns(self.num_rows)
        return Changes(self.topic, self.meta, image, keys)

    def partitions(self) -> list[int]:
        return sorted(pc.unique(self.meta[PARTITION_ID]).to_pylist())

    def without_those_below(self, ends: dict[TopicPartition, int]) -> Changes:
        """Those at or after each partition's end in the table: the others are in it already (promise 6)."""
        result = self
        for partition in self.partitions():
            end = ends.get(TopicPartition(self.topic, partition))
            if end is None:
                continue
            kept = pc.or_(pc.not_equal(result.meta[PARTITION_ID], partition), pc.greater_equal(result.meta[OFFSET_ID], end))
            if not pc.all(kept).as_py():
                result = result.filter(kept)
        return result

    def key_as(self, name: str, type_: pa.DataType) -> pa.ChunkedArray:
        """A field of the record keys in the type that it has in the rows. Raises DataError that names the record."""
        assert self.keys is not None
        column = self.keys[name]
        if column.type == type_:
            return column
        try:
            return pc.cast(column, type_)
        except pa.ArrowException as e:
            raise DataError(f"{self.locate(0)}: field {name} of the record key is not as in the row: {e}") from e

    def place(self, index: int) -> tuple[TopicPartition, int]:
        """Where the record lay: its partition and offset."""
        return TopicPartition(self.topic, self.meta[PARTITION_ID][index].as_py()), self.meta[OFFSET_ID][index].as_py()

    def locate(self, index: int) -> str:
        """The record in a message."""
        return describe_location(*self.place(index))


def no_columns(count: int) -> pa.Table:
    """So many rows of nothing: a table cannot have rows and no columns, so this one has a column that no table gets."""
    return pa.table({"": pa.nulls(count)})


def make_meta(
    sequences: pa.Array,
    operations: pa.Array,
    source_ms: pa.Array,
    partitions: pa.Array,
    offsets: pa.Array,
    names: Sequence[pa.Array] | None = None,
) -> pa.Table:
    """A meta table; ``names`` are database, schema and table, None when no table name needs them."""
    count = len(sequences)
    sources = list(names) if names is not None else [pa.nulls(count, pa.string())] * 3
    return pa.table([sequences, operations, source_ms, partitions, offsets, *sources], schema=META)


def table_of_struct(array: pa.Array) -> pa.Table:
    """A struct's fields as a table's columns; a null struct gives nulls."""
    names = [f.name for f in array.type]
    if not names:
        return pa.table({"": pa.nulls(len(array))}).select([])
    return pa.table(array.flatten(), names=names)


def scatter(parts: Sequence[tuple[Sequence[int], pa.Table]], count: int) -> pa.Table | None:
    """One table of ``count`` rows with each part's rows at its positions, null rows elsewhere; None without parts."""
    if not parts:
        return None
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    stacked = pa.concat_tables([table for _, table in parts], promote_options="default")
    where: list[int | None] = [None] * count
    row = 0
    for positions, _ in parts:
        for position in positions:
            where[position] = row
            row += 1
    return stacked.take(pa.array(where, pa.int64()))
