"""A batch of change events: decoded records of one topic as Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connect.record import TopicPartition
from connectors.sink_support.errant_records import describe_location
from connectors.spark.decode.present_fields import fields_text

TOMBSTONE = "tombstone"
DELETE = "d"
WITHOUT_ROW = pa.array([DELETE, TOMBSTONE])
"""Operations of records that may have no row, so that only the key tells which one is meant."""
TRUNCATE = "t"
MESSAGE = "m"
IGNORED = "ignored"
"""A record without a row, of which a table has only the offset."""

SEQUENCE = "sequence"
OPERATION = "op"
SOURCE_MS = "source_ms"
PARTITION_ID = "partition"
OFFSET_ID = "offset"
DATABASE, SCHEMA, TABLE = "database", "schema", "table"
POSITION = "position"
OLD_KEY = "old_key"
"""Column of ``meta`` that exists only if a change of the primary key has created a row: the old key, a struct, or null."""
FIELDS = "fields"
NO_COLUMN = "__sluice_no_column"
"""A column of images that have no other one: an Arrow table with rows needs one. It is never written."""
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
        (POSITION, pa.string()),
        (FIELDS, pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Records of one topic and one schema.

    ``meta`` has the columns of META, and perhaps OLD_KEY: sequence is the order of arrival in the task, op is null for a plain
    record and ``tombstone`` for a record without a value, position comes from ``source_positions``, fields from
    ``present_fields`` (null: those of the image's columns). ``image`` has the row's columns: after, or before for a delete; all
    null if there is no image. ``keys`` has the fields of the record key; it is None when keys were not requested or no record has
    one. Its row is null for a record without a key.
    """

    topic: str
    meta: pa.Table
    image: pa.Table
    keys: pa.Table | None
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """The defaults of fields in the records' schema, if a table may need them."""

    @property
    def num_rows(self) -> int:
        return int(self.meta.num_rows)

    def filter(self, mask: pa.ChunkedArray | pa.Array) -> ChangeBatch:
        """The changes for which the mask is true."""
        keys = None if self.keys is None else self.keys.filter(mask)
        return replace(self, meta=self.meta.filter(mask), image=self.image.filter(mask), keys=keys)

    def slice(self, part: range) -> ChangeBatch:
        """The changes at these positions, without copying."""
        start, count = part.start, len(part)
        keys = None if self.keys is None else self.keys.slice(start, count)
        return replace(self, meta=self.meta.slice(start, count), image=self.image.slice(start, count), keys=keys)

    def without_empty_columns(self) -> ChangeBatch:
        """Drops columns of image and keys without a value: they come from other records that were decoded together with these, or
        are null; ``meta`` tells."""
        named = self.with_fields()
        image = self.image.select([n for n in self.image.column_names if self.image[n].null_count < self.num_rows])
        keys = self.keys
        if keys is not None:
            names = [n for n in keys.column_names if keys[n].null_count < self.num_rows]
            keys = keys.select(names) if names else None
        if not image.num_columns:
            image = empty_rows(self.num_rows)
        return replace(named, image=image, keys=keys)

    def with_fields(self) -> ChangeBatch:
        """The changes with the fields of each record in ``meta``."""
        if not self.meta[FIELDS].null_count:
            return self
        fields = pc.fill_null(self.meta[FIELDS], fields_text(name for name in self.image.column_names if name != NO_COLUMN))
        return replace(self, meta=self.meta.set_column(self.meta.column_names.index(FIELDS), FIELDS, fields))

    def columns(self) -> pa.Table:
        """The image without NO_COLUMN."""
        at = self.image.schema.get_field_index(NO_COLUMN)
        return self.image if at < 0 or not pa.types.is_null(self.image.schema.field(at).type) else self.image.remove_column(at)

    def partitions(self) -> list[int]:
        return sorted(pc.unique(self.meta[PARTITION_ID]).to_pylist())

    def after_offsets(self, ends: dict[TopicPartition, int]) -> ChangeBatch:
        """The changes at or after each partition's end in the table; the table already contains the others (promise 6)."""
        result = self
        for partition in self.partitions():
            end = ends.get(TopicPartition(self.topic, partition))
            if end is None:
                continue
            kept = pc.or_(pc.not_equal(result.meta[PARTITION_ID], partition), pc.greater_equal(result.meta[OFFSET_ID], end))
            if not pc.all(kept).as_py():
                result = result.filter(kept)
        return result

    def texts_at(self, path: Sequence[str]) -> pa.ChunkedArray:
        """The values of a field of the rows as texts; null where it is missing. Raises DataError that names the record for a
        value that is no text."""
        first, *nested = path
        missing = pa.chunked_array([pa.nulls(self.num_rows, pa.string())])
        if first not in self.image.column_names:
            return missing
        column = self.image[first]
        for name in nested:
            if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
                return missing
            column = pc.struct_field(column, name)
        field = ".".join(path)
        if pa.types.is_nested(column.type):
            at = pc.index(column.is_valid(), True).as_py()
            if at < 0:
                return missing
            raise DataError(f"{self.describe_record(at)}: the field {field} has several values, and not a text")
        try:
            return column.cast(pa.string())
        except pa.ArrowException as e:
            raise DataError(f"topic {self.topic}: the field {field} is no text: {e}") from e

    def location(self, index: int) -> tuple[TopicPartition, int]:
        """The record's partition and offset."""
        return TopicPartition(self.topic, self.meta[PARTITION_ID][index].as_py()), self.meta[OFFSET_ID][index].as_py()

    def describe_record(self, index: int) -> str:
        """Describes the record for messages."""
        return describe_location(*self.location(index))


def empty_rows(count: int) -> pa.Table:
    """Rows without columns, apart from NO_COLUMN."""
    return pa.table({NO_COLUMN: pa.nulls(count)})


def make_meta(
    sequences: pa.Array,
    operations: pa.Array,
    source_ms: pa.Array,
    partitions: pa.Array,
    offsets: pa.Array,
    names: Sequence[pa.Array] | None = None,
    positions: pa.Array | None = None,
    fields: pa.Array | None = None,
) -> pa.Table:
    """Builds ``meta``; ``names`` are database, schema, and table, None when no table name needs them; ``positions`` are None when
    nothing needs them."""
    unknown = pa.nulls(len(sequences), pa.string())
    sources = list(names) if names is not None else [unknown] * 3
    positions, fields = (unknown if column is None else column for column in (positions, fields))
    return pa.table([sequences, operations, source_ms, partitions, offsets, *sources, positions, fields], schema=META)


def table_of_struct(array: pa.Array) -> pa.Table:
    """Converts a struct's fields to columns; a null struct gives nulls."""
    names = [f.name for f in array.type]
    if not names:
        return empty_rows(len(array)).select([])
    return pa.table(array.flatten(), names=names)


def scatter(parts: Sequence[tuple[Sequence[int], pa.Table]], count: int) -> pa.Table | None:
    """A table of ``count`` rows with each part's rows at its positions, null rows elsewhere; None without parts."""
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
