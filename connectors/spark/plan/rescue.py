"""``schema.evolution=lenient``: values that no column of the table holds go into a column of JSON text.

The table keeps its columns. A value that does not fit its column is null there, and the rescue column has a JSON object of such
values by field, also of fields that the table lacks (promise 8: nothing is lost, rounded, or guessed).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError, SchemaError
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.rescued_json import RESCUED, join_objects, object_text, scalar_text
from connectors.spark.decode.variant import is_variant
from connectors.spark.plan.evolution import RESERVED, Columns, Mask, cast_known_fields, find_uncastable, sql_type
from connectors.spark.plan.projection import project


def lenient_columns(table: Columns | None, incoming: Columns, metadata: Collection[str], rescue_column: str) -> Columns:
    """The columns to write, with their types in the table, plus the rescue column. All other fields are rescued: those that the
    table lacks, those named like a metadata column or without a name, and of a new table those that differ from another one only
    in case, also within a column.

    Raises SchemaError when the table has a rescue column of another type.
    """
    found: Columns = {}
    seen = {name.lower() for name in (*metadata, rescue_column)}
    for name, type_ in incoming.items():
        if not name or name.lower() in seen or name.startswith(RESERVED) or (table is not None and name not in table):
            continue
        seen.add(name.lower())
        found[name] = _without_twins(type_) if table is None else table[name]
    present = (table or {}).get(rescue_column, pa.string())
    if present != pa.string():
        raise SchemaError(
            f"column {rescue_column} is {sql_type(present)} in the table, and the rescue column has to be STRING; set "
            "rescue.column to another name"
        )
    return found | {rescue_column: present}


def _without_twins(type_: pa.DataType) -> pa.DataType:
    """The type without fields whose names differ from an earlier one only in case."""
    t = pa.types
    if t.is_list(type_):
        return pa.list_(_without_twins(type_.value_type))
    if t.is_map(type_):
        return pa.map_(type_.key_type, _without_twins(type_.item_type))
    if not t.is_struct(type_) or is_variant(type_):
        return type_
    fields: dict[str, pa.Field] = {}
    for member in type_:
        fields.setdefault(member.name.lower(), pa.field(member.name, _without_twins(member.type)))
    return pa.struct(list(fields.values()))


def project_leniently(changes: ChangeBatch, columns: Columns, keys: Sequence[str], rescue_column: str) -> ChangeBatch:
    """Projects the image to exactly these columns, the rescue column among them.

    Raises DataError that names record, column, and value for a key that does not fit: it identifies the row.
    """
    image = changes.image
    rescued: dict[str, pa.ChunkedArray] = {}
    fitting = {}
    for name in image.column_names:
        column, type_ = image[name], columns.get(name)
        if name == RESCUED or pa.types.is_null(column.type):
            continue
        if name == rescue_column or type_ is None:
            rescued[name] = column.is_valid()
        elif name in keys:
            fitting[name] = column
        else:
            fitting[name], rescued[name] = split_fitting(column, type_, name)
    texts = _texts(image, {name: mask for name, mask in rescued.items() if pc.any(mask).as_py()})
    fitting[rescue_column] = texts
    return project(ChangeBatch(changes.topic, changes.meta, pa.table(fitting), changes.keys), columns)


def split_fitting(column: pa.ChunkedArray, type_: pa.DataType, name: str) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The column as the type, null where a value does not fit; and a mask of the values that are not there as a whole."""
    unfit = find_uncastable(column, type_)
    column = _without(column, unfit)
    try:
        values, lost = cast_known_fields(column, type_, name, counts_empty=True)
    except DataError:
        _find_unfit(column, type_, name, 0, unfit)
        column = _without(column, unfit)
        values, lost = cast_known_fields(column, type_, name, counts_empty=True)
    return values, pa.chunked_array([pa.array(unfit if lost.rows is None else unfit | lost.rows)])


def _without(column: pa.ChunkedArray, rows: Mask) -> pa.ChunkedArray:
    """The column with null in these rows."""
    return column.take(pa.array(np.arange(len(column)), mask=rows)) if rows.any() else column


def _find_unfit(column: pa.ChunkedArray, type_: pa.DataType, name: str, first: int, unfit: Mask) -> None:
    """Marks the rows whose values do not fit, by bisection; ``first`` is the number of the column's first row."""
    try:
        cast_known_fields(column, type_, name)
    except DataError:
        if len(column) == 1:
            unfit[first] = True
            return
        middle = len(column) // 2
        _find_unfit(column.slice(0, middle), type_, name, first, unfit)
        _find_unfit(column.slice(middle), type_, name, first + middle, unfit)


def _texts(image: pa.Table, rescued: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
    """By row, the JSON object of the rescued values, or null."""
    earlier = image[RESCUED] if RESCUED in image.column_names else pa.chunked_array([pa.nulls(image.num_rows, pa.string())])
    if not rescued:
        return earlier
    members: dict[int, dict[str, str]] = {}
    for name, mask in rescued.items():
        column = image[name]
        for row in pc.indices_nonzero(mask).to_pylist():
            members.setdefault(row, {})[name] = scalar_text(column[row])
    texts = earlier.to_pylist()
    for row, fields in members.items():
        text = object_text(fields)
        texts[row] = text if texts[row] is None else join_objects([texts[row], text])
    return pa.chunked_array([pa.array(texts, pa.string())])
