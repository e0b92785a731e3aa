"""Columns of a directory's files: those of each file in the types of tables, merged with those of the files before it.

| column of a file                                | column of the table                              |
| ----------------------------------------------- | ------------------------------------------------ |
| unsigned integers of 8, 16, 32, 64 bits         | SMALLINT, INT, BIGINT, DECIMAL(20, 0), as in Spark |
| float of 16 bits                                | FLOAT                                            |
| timestamps in any unit and time zone            | TIMESTAMP, TIMESTAMP_NTZ without a time zone     |
| texts, bytes, and lists of any size             | STRING, BINARY, ARRAY                            |
| only nulls                                      | none, until a file has a type                    |
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from connect.errors import ConnectError, SchemaError
from connectors.spark.plan.evolution import Columns, check_names, common_type, sql_type
from connectors.spark.source.errors import UnsupportedTableError
from connectors.spark.source.table_feed import TableColumn, TableSchema
from connectors.spark.source.types import column_schema
from connectors.spark.tables.files.partition_values import parse_value

_UNSIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


class FileSchemas:
    """The columns of a directory. They only grow: a file adds columns and widens types."""

    def __init__(self, location: str, partition_types: Mapping[str, pa.DataType]) -> None:
        self._location = location
        self._partition_types = partition_types
        self._columns: Columns = {}
        self._known: dict[TableSchema, TableSchema] = {}

    def add(self, schema: pa.Schema, partitions: Mapping[str, str | None], file: str) -> TableSchema:
        """The columns with those of a file. Raises UnsupportedTableError, which names the file, for a column that has no type in
        tables, or another type than in the files before."""
        columns = dict(self._columns)
        for name, type_ in self._file_columns(schema, partitions, file).items():
            columns[name] = self._merged(columns, name, type_, file, is_partition=name in partitions)
        try:
            check_names(columns)
        except SchemaError as e:
            raise UnsupportedTableError(
                f"file {file} of {self._location}: {e}. Rewrite the file with the names of the other files, or move it away"
            ) from e
        self._columns = columns
        found = TableSchema(tuple(TableColumn(name, type_, True) for name, type_ in columns.items()))
        return self._known.setdefault(found, found)

    def _file_columns(self, schema: pa.Schema, partitions: Mapping[str, str | None], file: str) -> Columns:
        columns: Columns = {}
        for member in schema:
            if member.name in partitions or pa.types.is_null(member.type):
                continue
            try:
                found = table_type(member.type)
                column_schema(found)
            except SchemaError as e:
                raise UnsupportedTableError(
                    f"column {member.name} of file {file} of {self._location} cannot be read: {e}. Write the column with another "
                    "type, or move the file away"
                ) from e
            columns[member.name] = found
        for name, value in partitions.items():
            columns[name] = self._partition_types.get(name, pa.string())
            try:
                parse_value(value, columns[name], name, assumes_utc=True)
            except ConnectError as e:
                raise UnsupportedTableError(
                    f"file {file} of {self._location}: {e.message}. Move the file, or change source.partition.types"
                ) from e
        return columns

    def _merged(self, columns: Columns, name: str, type_: pa.DataType, file: str, *, is_partition: bool) -> pa.DataType:
        known = columns.get(name)
        if known is None:
            return type_
        try:
            return common_type(known, type_, name)
        except SchemaError as e:
            remedy = "Rewrite the file with the type of the others, or move it away and read it with another connector"
            if is_partition:
                remedy = f"Set the type of the folder's value in source.partition.types ({name}:<type>), or rename the folder"
            raise UnsupportedTableError(
                f"column {name} of file {file} of {self._location} is {sql_type(type_)}, which does not fit {sql_type(known)} of "
                f"the files before it. {remedy}"
            ) from e


def table_type(type_: pa.DataType) -> pa.DataType:
    """The type of a table's column for a type of a Parquet file. Raises SchemaError if there is none."""
    t = pa.types
    if isinstance(type_, pa.ExtensionType):
        return table_type(type_.storage_type)
    if t.is_dictionary(type_):
        return table_type(type_.value_type)
    if type_ in _UNSIGNED:
        return _UNSIGNED[type_]
    if t.is_float16(type_):
        return pa.float32()
    if t.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    if t.is_large_string(type_) or t.is_string_view(type_):
        return pa.string()
    if t.is_large_binary(type_) or t.is_binary_view(type_) or t.is_fixed_size_binary(type_):
        return pa.binary()
    if t.is_large_list(type_) or t.is_fixed_size_list(type_) or t.is_list(type_):
        return pa.list_(table_type(type_.value_type))
    if t.is_struct(type_):
        return pa.struct([pa.field(member.name, table_type(member.type)) for member in type_])
    if t.is_map(type_):
        return pa.map_(table_type(type_.key_type), table_type(type_.item_type))
    if type_ not in _READABLE and not t.is_decimal128(type_):
        raise SchemaError(f"the type {type_} is not supported")
    return type_


PARTITION_TYPES = {
    "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
"""By the names of source.partition.types."""
_READABLE = {
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.date32(),
}  # fmt: skip
