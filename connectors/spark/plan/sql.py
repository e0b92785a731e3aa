"""Builds SQL for a table. Pure functions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from connectors.spark.plan.evolution import RESERVED, quote, sql_type

DELETE_FLAG = RESERVED + "delete"
KEEP_PREFIX = RESERVED + "keep_"
UNAVAILABLE_COUNT = RESERVED + "unavailable"
"""Column of the source: the number of unavailable values that a row keeps."""


def table_at(path: str) -> str:
    """The SQL name of the Delta table at a path or URI."""
    return f"delta.{quote(path)}"


def ddl(columns: dict[str, pa.DataType]) -> str:
    """A schema string of the columns, all nullable."""
    return ", ".join(f"{quote(n)} {sql_type(t)}" for n, t in columns.items())


def merge_statement(
    target: str,
    source: str,
    keys: Sequence[str],
    columns: Sequence[str],
    present: Collection[str],
    kept: Collection[str],
    bounds: tuple[str, Any, Any] | None,
    *,
    deletes: bool,
    soft_flag: str | None = None,
) -> str:
    """MERGE of deduplicated changes: one source row per key.

    ``columns`` are the table's columns, ``present`` those that the changes have: the others become null because the source no
    longer has them. ``kept`` are columns with a flag to keep the table's value; an inserted row, which has none, gets null.
    ``bounds`` are a key column and its smallest and largest value in the source: literals that let Delta skip files.
    ``soft_flag`` is the column that marks soft deletes, which keep all columns that they do not have.
    """
    match = [f"t.{quote(k)} = s.{quote(k)}" for k in keys]
    if bounds is not None:
        name, low, high = bounds
        match.append(f"t.{quote(name)} BETWEEN {literal(low)} AND {literal(high)}")
    sets = ", ".join(f"t.{quote(c)} = {_updated(c, present, kept, soft_flag)}" for c in columns if c not in keys)
    inserted = [c for c in columns if c in present]
    names = ", ".join(quote(c) for c in inserted)
    values = ", ".join(_inserted(c, kept, soft_flag) for c in inserted)
    parts = [f"MERGE INTO {target} AS t USING {quote(source)} AS s ON {' AND '.join(match)}"]
    if deletes:
        parts.append(f"WHEN MATCHED AND s.{quote(DELETE_FLAG)} THEN DELETE")
    if sets:
        parts.append(f"WHEN MATCHED THEN UPDATE SET {sets}")
    condition = f" AND NOT s.{quote(DELETE_FLAG)}" if deletes else ""
    parts.append(f"WHEN NOT MATCHED{condition} THEN INSERT ({names}) VALUES ({values})")
    return " ".join(parts)


def _updated(column: str, present: Collection[str], kept: Collection[str], soft_flag: str | None) -> str:
    if column not in present:
        return "NULL" if soft_flag is None else f"CASE WHEN s.{quote(soft_flag)} THEN t.{quote(column)} END"
    if column in kept:
        return f"CASE WHEN s.{quote(KEEP_PREFIX + column)} THEN t.{quote(column)} ELSE s.{quote(column)} END"
    return f"s.{quote(column)}"


def _inserted(column: str, kept: Collection[str], soft_flag: str | None) -> str:
    value = f"s.{quote(column)}"
    if column not in kept:
        return value
    unavailable = f"s.{quote(KEEP_PREFIX + column)}"
    if soft_flag is not None:  # a soft delete keeps its own image, which has no unavailable values
        unavailable += f" AND NOT s.{quote(soft_flag)}"
    return f"CASE WHEN {unavailable} THEN NULL ELSE {value} END"


def missing_rows_query(target: str, source: str, keys: Sequence[str], soft_flag: str | None = None) -> str:
    """Counts the unavailable values in rows of the source that the target lacks, without soft deletes."""
    match = " AND ".join(f"t.{quote(k)} = s.{quote(k)}" for k in keys)
    condition = "" if soft_flag is None else f" WHERE NOT s.{quote(soft_flag)}"
    return (
        f"SELECT sum(s.{quote(UNAVAILABLE_COUNT)}) FROM {quote(source)} AS s LEFT ANTI JOIN {target} AS t ON {match}{condition}"
    )


def literal(value: Any) -> str:
    """A SQL literal of an int, text or date."""
    if isinstance(value, bool) or not isinstance(value, int | str | dt.date) or isinstance(value, dt.datetime):
        raise TypeError(f"no literal for {value!r}")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    # Spark interprets escapes in string literals, so backslashes and quotes are escaped.
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
