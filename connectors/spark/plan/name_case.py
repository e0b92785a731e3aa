"""Finds the columns of a table by names that differ only in case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.plan.evolution import Columns, cast_column, sql_type


def with_table_names(changes: Sequence[ChangeBatch], table: Columns) -> list[ChangeBatch]:
    """The changes with the names that the table has for their columns and keys, and for fields of structs.

    Fields of the records that differ only in case become one column, which has the name of the table or of the first one. Raises
    DataError for a record that has values in two of them.
    """
    names = _by_lower_case(table)

    def name_of(field: str) -> str:
        return names.setdefault(field.lower(), field)

    def columns_of(rows: pa.Table, one: ChangeBatch) -> pa.Table:
        columns: dict[str, pa.ChunkedArray] = {}
        for field, column in zip(rows.column_names, rows.columns, strict=True):
            name = name_of(field)
            column = _renamed(column, table.get(name), field, one)
            columns[name] = _joined(columns[name], column, name, one) if name in columns else column
        return pa.table(columns) if columns else rows

    return [
        one.with_names(columns_of(one.image, one), None if one.keys is None else columns_of(one.keys, one), name_of)
        for one in changes
    ]


def _by_lower_case(names: Iterable[str] | Mapping[str, object]) -> dict[str, str]:
    return {name.lower(): name for name in names}


def _joined(one: pa.ChunkedArray, other: pa.ChunkedArray, name: str, changes: ChangeBatch) -> pa.ChunkedArray:
    both = pc.and_(one.is_valid(), other.is_valid())
    if pc.any(both).as_py():
        at = pc.index(both, True).as_py()
        raise DataError(f"{changes.describe_record(at)}: two fields have the name {name}, apart from case")
    # A column without values, which comes from other records that were decoded together with these, has any type.
    if not other.null_count < len(other):
        return one
    if not one.null_count < len(one):
        return other
    try:
        return pc.coalesce(one, cast_column(other, one.type, name))
    except DataError as e:
        types = f"{sql_type(one.type)} and {sql_type(other.type)}"
        raise DataError(f"topic {changes.topic}: two fields have the name {name}, apart from case, but the types {types}") from e


def _renamed(column: pa.ChunkedArray, wanted: pa.DataType | None, path: str, changes: ChangeBatch) -> pa.ChunkedArray:
    if wanted is None or not pa.types.is_struct(wanted) or not pa.types.is_struct(column.type) or column.type == wanted:
        return column
    chunks = [_renamed_struct(chunk, wanted, path, changes) for chunk in column.chunks]
    return pa.chunked_array(chunks) if chunks else column


def _renamed_struct(array: pa.StructArray, wanted: pa.StructType, path: str, changes: ChangeBatch) -> pa.StructArray:
    names = _by_lower_case(field.name for field in wanted)
    found: dict[str, pa.Array] = {}
    for field, values in zip(array.type, array.flatten(), strict=True):
        name = names.get(field.name.lower(), field.name)
        if name in found:
            raise DataError(f"topic {changes.topic}: two fields have the name {path}.{name}, apart from case")
        at = wanted.get_field_index(name)
        if at >= 0 and pa.types.is_struct(wanted.field(at).type) and pa.types.is_struct(values.type):
            values = _renamed_struct(values, wanted.field(at).type, f"{path}.{name}", changes)
        found[name] = values
    return pa.StructArray.from_arrays(list(found.values()), list(found), mask=array.is_null())
