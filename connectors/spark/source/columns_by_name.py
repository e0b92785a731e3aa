"""Columns of Parquet files by their names, with the types of a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from connect.errors import DataError
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.plan.stored_variants import cast_stored
from connectors.spark.source.table_feed import TableSchema
from connectors.spark.tables.files.live_files import LiveFile
from connectors.spark.tables.files.partition_values import parse_value


@dataclass(frozen=True, slots=True)
class ColumnsByName:
    """Columns of a version (:class:`connectors.spark.source.file_rows.FileColumns`); those that a file lacks are null."""

    types: Mapping[str, pa.DataType]
    in_files: Mapping[str, pa.Field] = field(default_factory=dict)
    """Columns for which files have other names (:attr:`connectors.spark.source.table_feed.TableColumn.in_files`)."""

    @classmethod
    def of(cls, schema: TableSchema, types: Mapping[str, pa.DataType] | None = None) -> ColumnsByName:
        """All columns of a schema, or those of ``types``, which can have others, too."""
        in_files = {column.name: column.in_files for column in schema.columns if column.in_files is not None}
        return cls(types or schema.types, in_files)

    def names(self, schema: pa.Schema, file: LiveFile) -> Sequence[str]:
        # Other writers may repeat partition columns in the file; the values of the table count.
        in_file = set(schema.names) - set(file.values)
        return [name for name in self._stored if name in in_file]

    def complete(self, rows: pa.Table, schema: pa.Schema, file: LiveFile) -> pa.Table:
        found = complete_columns(rows, file.values, self._stored)
        if not self.in_files:
            return found
        columns = [
            column if column.type == type_ else pa.chunked_array([as_array(column).view(type_)])
            for column, type_ in zip(found.columns, self.types.values(), strict=True)
        ]
        return pa.table(columns, names=list(self.types))

    @property
    def _stored(self) -> dict[str, pa.DataType]:
        """The columns as files have them, in the same order."""
        fields = (self.in_files.get(name, pa.field(name, type_)) for name, type_ in self.types.items())
        return {one.name: one.type for one in fields}


def complete_columns(rows: pa.Table, values: Mapping[str, str | None], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """The rows with exactly these columns and types; ``values`` are those of partition columns. Raises DataError."""
    found = {}
    count = rows.num_rows
    names = set(rows.column_names)
    for name, type_ in columns.items():
        if name in values:
            found[name] = pa.chunked_array([pa.repeat(parse_value(values[name], type_, name, assumes_utc=True), count)])
        elif name in names:
            column = rows[name]
            if column.type != type_:
                try:
                    stored = _as_written_by_spark(as_array(column), type_)
                except pa.ArrowInvalid as e:
                    raise DataError(f"column {name}: {e}") from e
                column = cast_stored(pa.chunked_array([stored]), type_, name)
            found[name] = column
        else:
            found[name] = pa.chunked_array([pa.nulls(count, type_)])
    return pa.table(found)


def _as_written_by_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array with the types that Arrow gives to files of Spark: those of other writers differ in size or unit. INT96
    timestamps, which Spark writes by default, have no zone in Arrow."""
    t, given = pa.types, array.type
    if given == wanted:
        return array
    if isinstance(given, pa.ExtensionType):
        return _as_written_by_spark(array.storage, wanted)
    if t.is_float16(given):
        return array.cast(pa.float32())
    if t.is_dictionary(given):
        return _as_written_by_spark(array.dictionary_decode(), wanted)
    if t.is_timestamp(given) and t.is_timestamp(wanted):
        return array.cast(wanted)
    if t.is_large_string(given) or t.is_string_view(given):
        return array.cast(pa.string())
    if t.is_large_binary(given) or t.is_binary_view(given) or t.is_fixed_size_binary(given):
        return array.cast(pa.binary())
    if t.is_large_list(given) or t.is_fixed_size_list(given):
        return _as_written_by_spark(array.cast(pa.list_(given.value_type)), wanted)
    mask = array.is_null() if array.null_count else None
    if t.is_struct(given) and t.is_struct(wanted):
        types = {f.name: f.type for f in wanted}
        parts = [
            _as_written_by_spark(array.field(i), types[f.name]) if f.name in types else array.field(i)
            for i, f in enumerate(given)
        ]
        return pa.StructArray.from_arrays(parts, names=[f.name for f in given], mask=mask)
    if (t.is_list(given) and t.is_list(wanted)) or (t.is_map(given) and t.is_map(wanted)):
        start = array if array.offset == 0 else array.take(pa.array(range(len(array))))
        mask = start.is_null() if start.null_count else None
        if t.is_list(given):
            return pa.ListArray.from_arrays(start.offsets, _as_written_by_spark(start.values, wanted.value_type), mask=mask)
        keys, items = (
            _as_written_by_spark(start.keys, wanted.key_type),
            _as_written_by_spark(start.items, wanted.item_type),
        )
        return pa.MapArray.from_arrays(start.offsets, keys, items, mask=mask)
    return array
