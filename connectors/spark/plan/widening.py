"""Wider types for columns of a table, as Delta's type widening allows them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from connect.errors import DataError
from connectors.spark.decode.variant import is_variant
from connectors.spark.plan.evolution import Columns, cast_known_fields, contains_decimal, quote

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DECIMAL_DIGITS = 38


def with_wider_types(table: Columns, rows: pa.Table) -> Columns:
    """The table's columns, widened so that they hold these rows, as far as that is possible without loss.

    A type of the rows that is wider widens the column. Records carry no precision of decimals, so a decimal column is widened
    only if a value does not fit.
    """
    return {n: _widened(t, rows[n], n) if n in rows.column_names else t for n, t in table.items()}


def _widened(known: pa.DataType, values: pa.ChunkedArray, name: str) -> pa.DataType:
    wider = _wider_type(known, values.type, with_decimals=False)
    if not contains_decimal(wider):
        return wider
    try:
        cast_known_fields(values, wider, name)
    except DataError:
        return _wider_type(known, values.type, with_decimals=True)
    return wider


def _wider_type(known: pa.DataType, incoming: pa.DataType, *, with_decimals: bool) -> pa.DataType:
    """The narrowest type that a column can be widened to for this incoming type; the known type when there is none."""
    t = pa.types
    if is_variant(known) or is_variant(incoming):
        return known
    if t.is_struct(known) and t.is_struct(incoming):
        given = {f.name: f.type for f in incoming}
        return pa.struct(
            [
                pa.field(f.name, _wider_type(f.type, given[f.name], with_decimals=with_decimals) if f.name in given else f.type)
                for f in known
            ]
        )
    if t.is_list(known) and t.is_list(incoming):
        return pa.list_(_wider_type(known.value_type, incoming.value_type, with_decimals=with_decimals))
    if known in _INTEGERS:
        if incoming in _INTEGERS:
            return max(known, incoming, key=_INTEGERS.index)
        if t.is_floating(incoming):
            return known if known == pa.int64() else pa.float64()  # a double does not hold each BIGINT
        if t.is_decimal(incoming):
            return _decimal(incoming.scale, 20 if known == pa.int64() else 10) or known
    if t.is_float32(known) and t.is_float64(incoming):
        return incoming
    if with_decimals and t.is_decimal(known) and t.is_decimal(incoming):
        return _decimal(max(known.scale, incoming.scale), known.precision - known.scale) or known
    return known


def _decimal(scale: int, integer_digits: int) -> pa.DataType | None:
    """The decimal with this scale, if it has room for the digits before the point that Delta wants."""
    return pa.decimal128(_DECIMAL_DIGITS, scale) if 0 <= scale <= _DECIMAL_DIGITS - integer_digits else None


def widened_columns(table: Mapping[str, pa.DataType], wanted: Mapping[str, pa.DataType]) -> list[tuple[str, pa.DataType]]:
    """Columns and nested fields whose wanted type is another one than in the table, as ``(path with dots and backquotes,
    type)``. Both types come from :func:`with_wider_types`, or the table has them already."""
    found: list[tuple[str, pa.DataType]] = []
    for name, type_ in table.items():
        if name in wanted:
            found += _widened_fields(type_, wanted[name], quote(name))
    return found


def _widened_fields(known: pa.DataType, wanted: pa.DataType, path: str) -> list[tuple[str, pa.DataType]]:
    if known == wanted:
        return []
    if pa.types.is_struct(known) and pa.types.is_struct(wanted):
        fields = {f.name: f.type for f in wanted}
        return [
            found
            for f in known
            if f.name in fields
            for found in _widened_fields(f.type, fields[f.name], f"{path}.{quote(f.name)}")
        ]
    if pa.types.is_list(known) and pa.types.is_list(wanted):
        return _widened_fields(known.value_type, wanted.value_type, f"{path}.element")
    if pa.types.is_map(known) and pa.types.is_map(wanted):
        return _widened_fields(known.item_type, wanted.item_type, f"{path}.value")
    return [(path, wanted)]
