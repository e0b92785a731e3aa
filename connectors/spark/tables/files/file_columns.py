"""Columns of data files as the rows of their table have them, whoever wrote the files.

Files have columns under the table's names, perhaps in another case, under others, or with IDs. Writers also differ in the sizes,
units, and encodings of types: Spark writes timestamps as INT96 unless told otherwise, and other writers have texts of other
sizes, dictionaries, or nanoseconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.types import is_nested

from connect.errors import DataError, SchemaError
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.variant import is_variant
from connectors.spark.plan.evolution import sql_type
from connectors.spark.plan.stored_variants import stored_variants
from connectors.spark.tables.files.partition_values import parse_value

FIELD_ID = b"PARQUET:field_id"
T = TypeVar("T")
Values = Mapping[Any, Any]
"""By name or ID: the values of columns that are the same in all rows of a file."""


class UnreadableColumn(DataError):
    """A column of a data file does not have the type, or values, of the table's column."""


class ColumnLookup(Protocol):
    """How a table format finds columns in data files."""

    def fields(self, schema: pa.Schema, path: str, values: Values) -> Iterable[pa.Field]:
        """The columns of a file that may be read, with IDs if they are found by ID. Raises ConnectError."""
        ...

    def absent(self, field: pa.Field, type_: pa.DataType, values: Values) -> pa.Scalar | None:
        """What all rows of a file have in a column or nested field that it lacks; None for null. Raises ConnectError."""
        ...


@dataclass(frozen=True, slots=True)
class ByName:
    """Finds columns by their names. What the table says of a whole file counts more than the file, because other writers may
    repeat partition columns there."""

    assumes_utc: bool = False
    """Of instants in partitions that name no zone (:func:`parse_value`)."""

    def fields(self, schema: pa.Schema, path: str, values: Values) -> Iterable[pa.Field]:
        repeated = {str(name).lower() for name in values}
        return (field for field in schema if field.name.lower() not in repeated)

    def absent(self, field: pa.Field, type_: pa.DataType, values: Values) -> pa.Scalar | None:
        if field.name not in values:
            return None
        return parse_value(values[field.name], type_, field.name, assumes_utc=self.assumes_utc)


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of rows, with its type there. ``in_files`` has the name in files, or the ID, of the column and of the fields in
    it."""

    name: str
    type: pa.DataType
    in_files: pa.Field


@dataclass(frozen=True, slots=True)
class FileColumns:
    """Columns to read from data files of one table."""

    columns: tuple[FileColumn, ...]
    lookup: ColumnLookup

    @classmethod
    def by_name(
        cls, types: Mapping[str, pa.DataType], in_files: Mapping[str, pa.Field] | None = None, *, assumes_utc: bool = False
    ) -> FileColumns:
        """Columns that files have under their own names, or under those of ``in_files``."""
        others = in_files or {}
        columns = (FileColumn(name, type_, others.get(name, pa.field(name, type_))) for name, type_ in types.items())
        return cls(tuple(columns), ByName(assumes_utc))

    def only(self, names: Iterable[str]) -> FileColumns:
        """Only the columns of these names."""
        wanted = set(names)
        return FileColumns(tuple(column for column in self.columns if column.name in wanted), self.lookup)

    def in_file(self, schema: pa.Schema, path: str = "", values: Values | None = None) -> ColumnsInFile:
        """The columns of a file with this schema."""
        found = self.lookup.fields(schema, path, values or {})
        return ColumnsInFile(self, path, values or {}, {key: field for field in found for key in _keys_of(field)})


@dataclass(frozen=True, slots=True)
class ColumnsInFile:
    """Columns of one file."""

    wanted: FileColumns
    path: str
    values: Values
    stored: Mapping[int | str, pa.Field]
    """By name, and by ID: the file's columns."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the file's columns that are needed."""
        found = (_find(self.stored, column.in_files) for column in self.wanted.columns)
        return [field.name for field in found if field is not None]

    @property
    def has_views(self) -> bool:
        """Whether the file's columns may have views of text or bytes, which few of Arrow's functions take."""
        return any("_view" in str(field.type) for field in self.stored.values())

    def complete(self, rows: pa.Table) -> pa.Table:
        """The columns of the table, from rows with those columns of the file. Raises UnreadableColumn."""
        found = {}
        for column in self.wanted.columns:
            key = _key(column.in_files)
            stored = _find(self.stored, column.in_files)
            if stored is None:
                found[column.name] = self._absent(column.in_files, column.type, rows.num_rows, self.values)
            elif stored.type == column.in_files.type == column.type and (isinstance(key, str) or not is_nested(column.type)):
                found[column.name] = rows[stored.name]
            else:
                try:
                    array = self._read(as_array(rows[stored.name]), stored.type, column.in_files.type, column.type)
                except (pa.ArrowException, DataError) as e:
                    of_file = f" of the file {self.path}" if self.path else ""
                    raise UnreadableColumn(f"column {column.name}{of_file} cannot be read as {_name(column.type)}: {e}") from e
                found[column.name] = pa.chunked_array([array])
        return pa.table(found)

    def _absent(self, field: pa.Field, type_: pa.DataType, count: int, values: Values) -> pa.Array:
        value = self.wanted.lookup.absent(field, type_, values)
        return pa.nulls(count, type_) if value is None else pa.repeat(value, count)

    def _read(self, array: pa.Array, stored: pa.DataType, wanted: pa.DataType, type_: pa.DataType) -> pa.Array:
        """A column or nested field as rows have it. ``stored`` and ``wanted`` have the names or IDs of the fields in it."""
        t = pa.types
        if isinstance(array, pa.ExtensionArray):
            return self._read(array.storage, stored.storage_type, wanted, type_)
        if t.is_dictionary(array.type):
            return self._read(array.dictionary_decode(), stored.value_type, wanted, type_)
        if is_variant(type_):
            return stored_variants(array)
        if not is_nested(type_) or t.is_null(array.type):
            return _read_leaf(array, type_)
        if t.is_struct(type_) and t.is_struct(array.type):
            return self._read_struct(array, stored, wanted, type_)
        if t.is_list(type_) and (t.is_list(array.type) or t.is_large_list(array.type) or t.is_fixed_size_list(array.type)):
            if not t.is_list(array.type):
                array = array.cast(pa.list_(array.type.value_field))
            array = _from_start(array)
            elements = self._read(array.values, stored.value_type, wanted.value_type, type_.value_type)
            return pa.ListArray.from_arrays(array.offsets, elements, mask=_null_mask(array))
        if t.is_map(type_) and t.is_map(array.type):
            array = _from_start(array)
            keys = self._read(array.keys, stored.key_type, wanted.key_type, type_.key_type)
            items = self._read(array.items, stored.item_type, wanted.item_type, type_.item_type)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type_, mask=_null_mask(array))
        raise SchemaError(f"the file has {array.type}")

    def _read_struct(self, array: pa.Array, stored: pa.DataType, wanted: pa.DataType, type_: pa.DataType) -> pa.Array:
        places = {key: place for place, field in enumerate(stored) for key in _keys_of(field)}
        parts = []
        for field, member in zip(wanted, type_, strict=True):
            place = _find(places, field)
            if place is None:
                parts.append(self._absent(field, member.type, len(array), {}))
            else:
                parts.append(self._read(array.field(place), stored.field(place).type, field.type, member.type))
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=_null_mask(array))


def open_parquet(stream: pa.NativeFile) -> pq.ParquetFile:
    """Opens a data file to read rows from it."""
    return pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")


def field_id(field: pa.Field) -> int | None:
    """The ID of a file's field; None if the file's writer gave it none."""
    found = (field.metadata or {}).get(FIELD_ID)
    return None if found is None else int(found)


def _key(field: pa.Field) -> int | str:
    """What a wanted field is found by."""
    number = field_id(field)
    return field.name if number is None else number


def _find(stored: Mapping[int | str, T], wanted: pa.Field) -> T | None:
    """What is stored for a wanted field. A name is found in another case, too, as Spark does. Raises UnreadableColumn for one
    that the file has in several cases, none of which is the wanted one."""
    key = _key(wanted)
    found = stored.get(key)
    if found is not None or not isinstance(key, str):
        return found
    same = [name for name in stored if isinstance(name, str) and name.lower() == key.lower()]
    if len(same) > 1:
        raise UnreadableColumn(f"the file has several columns {key} that differ only in case: {', '.join(same)}")
    return stored[same[0]] if same else None


def _keys_of(field: pa.Field) -> Sequence[int | str]:
    number = field_id(field)
    return (field.name,) if number is None else (field.name, number)


def _read_leaf(array: pa.Array, type_: pa.DataType) -> pa.Array:
    given = array.type
    if given == type_:
        return array
    if pa.types.is_null(given):
        return pa.nulls(len(array), type_)
    if given == pa.binary(16) and pa.types.is_string(type_):
        return pa.array([None if value is None else str(uuid.UUID(bytes=value)) for value in array.to_pylist()], type_)
    if not _holds(type_, given):
        raise SchemaError(f"the file has {given}")
    return array.cast(type_)


def _holds(type_: pa.DataType, given: pa.DataType) -> bool:
    """Whether a column may have this type in a file; values that do not fit are refused one by one."""
    t = pa.types
    if t.is_string(type_):
        return bool(t.is_large_string(given) or t.is_string_view(given))
    if t.is_binary(type_):
        return bool(t.is_large_binary(given) or t.is_binary_view(given) or t.is_fixed_size_binary(given))
    if t.is_timestamp(type_):
        return bool(t.is_timestamp(given) or t.is_date(given))
    if t.is_floating(type_):
        return bool(t.is_integer(given) or (t.is_floating(given) and given.bit_width <= type_.bit_width))
    if t.is_decimal(type_):
        return bool(t.is_integer(given) or t.is_decimal(given))
    if t.is_integer(type_):
        return bool(t.is_integer(given))
    return bool((t.is_date(type_) and t.is_date(given)) or (t.is_time(type_) and t.is_time(given)))


def _from_start(array: pa.Array) -> pa.Array:
    """The array with offsets from 0, which Arrow wants beside a mask."""
    return pa.concat_arrays([array.slice(0, 0), array]) if array.offset else array


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _name(type_: pa.DataType) -> str:
    try:
        return sql_type(type_)
    except SchemaError:
        return str(type_)
