"""VARIANT columns in Parquet files, which have them as structs of ``metadata`` and ``value``, or shredded."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import SchemaError
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.shredded_variants import assemble_variants, is_shredded
from connectors.spark.decode.variant import VARIANT, is_variant
from connectors.spark.plan.evolution import cast_column, contains_variant


def cast_stored(column: pa.ChunkedArray, type_: pa.DataType, name: str) -> pa.ChunkedArray:
    """Casts a column of a data file to the table's type. Files have a VARIANT as a struct whose fields are in any order, and
    nested fields that were dropped from the table."""
    if column.type != type_:
        try:
            column = _mark_variants(column, type_)
        except SchemaError as e:
            raise SchemaError(f"column {name}: {e}") from e
    return cast_column(column, type_, name, drops_fields=True)


def for_file(rows: pa.Table) -> pa.Table:
    """The rows as Parquet takes them: the fields of a VARIANT have no nulls, although its column has."""
    for at, member in enumerate(rows.schema):
        if contains_variant(member.type):
            rows = rows.set_column(at, member, _mark_variants(rows[member.name], member.type))
    return rows


def _mark_variants(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The column with VARIANTs where the type has them."""
    if not contains_variant(type_):
        return column
    return pa.chunked_array([_marked(as_array(column), type_)])


def stored_variants(array: pa.Array) -> pa.Array:
    """The VARIANTs of a data file. Raises SchemaError if they are stored in a way that is not supported."""
    if is_shredded(array.type):
        return assemble_variants(array)
    if not pa.types.is_struct(array.type) or {f.name for f in array.type} != {f.name for f in VARIANT}:
        raise SchemaError(f"a data file has a VARIANT as {array.type}, which is not supported")
    parts = [pc.fill_null(array.field(array.type.get_field_index(f.name)), b"") for f in VARIANT]
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=array.is_null() if array.null_count else None)


def _marked(array: pa.Array, type_: pa.DataType) -> pa.Array:
    t = pa.types
    if is_variant(type_):
        return stored_variants(array)
    mask = array.is_null() if array.null_count else None
    if t.is_struct(type_) and t.is_struct(array.type):
        wanted = {f.name: f.type for f in type_}
        parts = [
            _marked(array.field(i), wanted[f.name]) if f.name in wanted else array.field(i) for i, f in enumerate(array.type)
        ]
        return pa.StructArray.from_arrays(parts, names=[f.name for f in array.type], mask=mask)
    if t.is_list(type_) and t.is_list(array.type):
        start = array if array.offset == 0 else array.take(pa.array(range(len(array))))
        return pa.ListArray.from_arrays(start.offsets, _marked(start.values, type_.value_type), mask=mask)
    if t.is_map(type_) and t.is_map(array.type):
        start = array if array.offset == 0 else array.take(pa.array(range(len(array))))
        items = _marked(start.items, type_.item_type)
        return pa.MapArray.from_arrays(start.offsets, start.keys, items, pa.map_(array.type.key_type, items.type), mask=mask)
    return array
