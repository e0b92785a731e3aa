"""Compares a lake table with its database table, row by row and column by column.

Both sides become Arrow columns of the same plain types (exact: decimals as text, times as microseconds, doubles by their bits),
which are sorted and compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sluice.demo.delta_table import DeltaTableReader
from sluice.demo.iceberg_table import IcebergTableReader


class DatabaseTable(Protocol):
    """A table of a database."""

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> list[str]: ...

    def plain_type(self, column: str) -> pa.DataType:
        """Returns the type of a column's plain values: int64 (also microseconds), bool, double, or text."""
        ...

    def read(self) -> pa.Table:
        """Returns the plain values of all rows, unordered."""
        ...


class LakeTableReader(Protocol):
    """One version of a lake table."""

    @property
    def columns(self) -> list[str]: ...

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the rows, unordered."""
        ...


@dataclass(frozen=True)
class Comparison:
    """The result for one table. ``differences`` are sentences; empty if the tables are equal."""

    table: str
    rows: int
    differences: list[str]

    @property
    def equal(self) -> bool:
        return not self.differences


READERS: Mapping[str, Callable[[Path], LakeTableReader]] = {"delta": DeltaTableReader, "iceberg": IcebergTableReader}
"""By ``table.format``: what reads a lake table."""


def compare_table(table: DatabaseTable, lake_table: LakeTableReader, order_by: list[str]) -> Comparison:
    """Compares a database table with a lake table; ``order_by`` orders the rows.

    Columns of the lake table that start with two underscores are metadata and ignored.
    """
    columns = table.columns
    ours = {name for name in lake_table.columns if not name.startswith("__")}
    if ours != set(columns):
        missing, extra = sorted(set(columns) - ours), sorted(ours - set(columns))
        return Comparison(table.name, 0, [f"columns differ: not in the lake {missing}, only in the lake {extra}"])
    expected = table.read()
    actual = pa.table({name: _plain(column, table.plain_type(name)) for name, column in _columns(lake_table.read(columns))})
    if expected.num_rows != actual.num_rows:
        return Comparison(
            table.name, actual.num_rows, [f"{expected.num_rows} rows in the database, {actual.num_rows} in the lake"]
        )
    keys: list[tuple[str, str]] = [(name, "ascending") for name in order_by]
    expected, actual = expected.sort_by(keys), actual.sort_by(keys)
    differences = [text for name in columns if (text := find_difference(name, expected[name], actual[name], expected, order_by))]
    return Comparison(table.name, actual.num_rows, differences)


def _columns(table: pa.Table) -> list[tuple[str, pa.ChunkedArray]]:
    return list(zip(table.column_names, table.columns, strict=True))


def find_difference(name: str, expected: pa.ChunkedArray, actual: pa.ChunkedArray, rows: pa.Table, keys: list[str]) -> str | None:
    """Describes how a column differs; None if it is equal. ``rows`` has the key columns, in the order of both columns."""
    if expected.type != actual.type:
        return f"{name}: {expected.type} in the database, {actual.type} in the lake"
    shown_expected, shown_actual = expected, actual
    expected, actual = _comparable(expected), _comparable(actual)
    if expected.equals(actual):
        return None
    same = pc.fill_null(pc.equal(expected, actual), False)
    both_null = pc.and_(pc.is_null(expected), pc.is_null(actual))
    wrong = pc.indices_nonzero(pc.invert(pc.or_(same, both_null)))
    first = wrong[0].as_py()
    where = ", ".join(f"{key}={rows[key][first].as_py()!r}" for key in keys)
    return (
        f"{name}: {len(wrong)} rows differ, the first at {where}: "
        f"{_short(shown_expected[first].as_py())} in the database, {_short(shown_actual[first].as_py())} in the lake"
    )


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Doubles as their bits, because -0.0 equals 0.0 but is another value, and NaN does not equal itself."""
    if not pa.types.is_floating(column.type):
        return column
    one_nan = pc.if_else(pc.is_nan(column), float("nan"), column)
    return pa.chunked_array([chunk.view(pa.int64()) for chunk in one_nan.chunks], pa.int64())


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def _plain(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Converts a lake column to plain values."""
    type_ = column.type
    if pa.types.is_list(type_):
        return pa.chunked_array([pa.array([_json(v) for v in column.to_pylist()], pa.string())])
    if pa.types.is_timestamp(type_):
        return column.cast(pa.int64())
    if pa.types.is_binary(type_):
        return pa.chunked_array([pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())])
    if wanted == pa.int64() and pa.types.is_string(type_):
        return pa.chunked_array([pa.array([_micros_of_day(v) for v in column.to_pylist()], pa.int64())])
    return column.cast(wanted) if type_ != wanted else column


def _micros_of_day(text: str | None) -> int | None:
    if text is None:
        return None
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
