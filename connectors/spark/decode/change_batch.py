"""A batch of change events: decoded records of one topic as Arrow columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connect.record import TopicPartition
from connectors.sink_support.errant_records import describe_location
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.present_fields import fields_of, fields_text

TOMBSTONE = "tombstone"
DELETE = "d"
WITHOUT_ROW = pa.array([DELETE, TOMBSTONE])
"""Operations of records that may have no row, so that only the key tells which one is meant."""
TRUNCATE = "t"
MESSAGE = "m"
WITH_ROW = pa.array(["c", "u", "r"])
OPERATIONS = pa.array([*WITH_ROW.to_pylist(), DELETE, TRUNCATE, MESSAGE])
"""Those of change events."""
IGNORED = "ignored"
"""A record without a row, of which a table has only the offset."""
RESERVED = pa.array([TOMBSTONE, IGNORED])
"""Operations that the sink gives to records, and that no record has itself."""

SEQUENCE = "sequence"
OPERATION = "op"
SOURCE_MS = "source_ms"
PARTITION_ID = "partition"
OFFSET_ID = "offset"
DATABASE, SCHEMA, TABLE = "database", "schema", "table"
POSITION = "position"
OLD_KEY = "old_key"
"""Column of ``meta`` that exists only if a change of the primary key has created a row: the old key, a struct, or null."""
TOPIC_ID = "topic"
"""Column of ``meta`` after changes of several topics are concatenated."""
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


class RecordKeys(NamedTuple):
    """The keys of one schema in a batch."""

    rows: Sequence[int]
    keys: pa.Table
    is_single: bool = False
    """Whether they are single values without a name, which are taken for the configured key column."""
    has_schema: bool = True
    """Whether each has all of these fields. Without a schema, some are those of other keys."""


class KeyGroup(NamedTuple):
    """Rows of a batch whose keys have the same types."""

    rows: Sequence[int]
    keys: pa.Table | None
    """Null for a row without a key; None if none has one."""
    has_schema: bool


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
    has_schema: bool = True
    """Whether the records have a schema, whose fields are the columns of the image. Otherwise, a column without a value, and a
    nested field, may come from other records, which were decoded with these or before."""
    keys_have_schema: bool = True
    """Whether the fields of the keys are those of their schema."""
    is_unwrapped: bool = False
    """Whether the records are plain ones, whose operations were read from fields of their rows."""

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

    def has_values(self, name: str) -> bool:
        """Whether a column of the image has a value."""
        return bool(self.image[name].null_count < self.num_rows)

    def without_empty_keys(self) -> ChangeBatch:
        """Drops columns of the keys without a value: they come from other records that were decoded together with these."""
        if self.keys is None or self.keys_have_schema:
            return self
        names = [n for n in self.keys.column_names if self.keys[n].null_count < self.num_rows]
        return replace(self, keys=self.keys.select(names) if names else None)

    def with_fields(self) -> ChangeBatch:
        """The changes with the fields of each record in ``meta``."""
        if not self.meta[FIELDS].null_count:
            return self
        fields = pc.fill_null(self.meta[FIELDS], fields_text(name for name in self.image.column_names if name != NO_COLUMN))
        return replace(self, meta=_with_column(self.meta, FIELDS, fields))

    def with_names(self, image: pa.Table, keys: pa.Table | None, name_of: Callable[[str], str]) -> ChangeBatch:
        """The changes with this image and these keys, whose columns have other names; ``name_of`` returns that of a field. All
        else that names fields gets the same names."""
        meta = self.meta
        if meta[FIELDS].null_count < self.num_rows:
            codes = as_array(meta[FIELDS]).dictionary_encode()
            texts = [fields_text({name_of(name) for name in fields_of(text)}) for text in codes.dictionary.to_pylist()]
            meta = _with_column(meta, FIELDS, pa.array(texts, pa.string()).take(codes.indices))
        if OLD_KEY in meta.column_names:
            old_keys = as_array(meta[OLD_KEY])
            names = [name_of(member.name) for member in old_keys.type]
            meta = _with_column(meta, OLD_KEY, pa.StructArray.from_arrays(old_keys.flatten(), names, mask=old_keys.is_null()))
        defaults = {name_of(name): value for name, value in self.defaults.items()}
        return replace(self, meta=meta, image=image, keys=keys, defaults=defaults)

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


def find_deletes(meta: pa.Table) -> pa.ChunkedArray:
    """Mask of the changes that delete a row."""
    return pc.fill_null(pc.is_in(meta[OPERATION], WITHOUT_ROW), False)


def find_tombstones(meta: pa.Table) -> pa.ChunkedArray:
    """Mask of the records without a value, which delete a row."""
    return pc.fill_null(pc.equal(meta[OPERATION], TOMBSTONE), False)


def _with_column(meta: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return meta.set_column(meta.column_names.index(name), name, column)


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


def _scatter(parts: Sequence[RecordKeys], count: int) -> pa.Table:
    """A table of ``count`` rows with each part's rows at its positions, null rows elsewhere."""
    if len(parts) == 1 and len(parts[0].rows) == count:
        return parts[0].keys
    stacked = pa.concat_tables([part.keys for part in parts], promote_options="default")
    where: list[int | None] = [None] * count
    for row, position in enumerate(itertools.chain.from_iterable(part.rows for part in parts)):
        where[position] = row
    return stacked.take(pa.array(where, pa.int64()))


def group_parts(parts: Sequence[RecordKeys], count: int) -> list[KeyGroup]:
    """Divides ``count`` rows so that the keys in each group have one table: their types agree, and those with schemas have the
    same fields. There is at least one group; its rows without a part are null."""
    groups: list[tuple[dict[str, pa.DataType], list[RecordKeys]]] = []
    for part in parts:
        types = {member.name: member.type for member in part.keys.schema if not pa.types.is_null(member.type)}
        for known, members in groups:
            if _belong_together(members[0], part) and all(known.get(name, type_) == type_ for name, type_ in types.items()):
                known |= types
                members.append(part)
                break
        else:
            groups.append((types, [part]))
    if len(groups) < 2:
        return [KeyGroup(range(count), _scatter(parts, count) if parts else None, all(part.has_schema for part in parts))]
    others = {at for _, members in groups[1:] for part in members for at in part.rows}
    found: list[KeyGroup] = []
    for number, (_, members) in enumerate(groups):
        own = sorted(at for part in members for at in part.rows)
        rows = own if number else [row for row in range(count) if row not in others]
        places = {row: place for place, row in enumerate(rows)}
        moved = [part._replace(rows=[places[at] for at in part.rows]) for part in members]
        found.append(KeyGroup(rows, _scatter(moved, len(rows)), members[0].has_schema))
    return found


def _belong_together(one: RecordKeys, other: RecordKeys) -> bool:
    if not one.has_schema and not other.has_schema:
        return True
    return one.has_schema == other.has_schema and set(one.keys.column_names) == set(other.keys.column_names)
