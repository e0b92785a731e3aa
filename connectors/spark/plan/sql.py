"""Builds SQL for a table. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.plan.evolution import RESERVED, quote, sql_type

DELETE_FLAG = RESERVED + "delete"
KEEP_PREFIX = RESERVED + "keep_"
UNAVAILABLE_COUNT = RESERVED + "unavailable"
"""Column of the source: the number of unavailable values that a row keeps."""

PARSER_SETTINGS = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
}
"""Settings of a session in which these statements, with any names and texts, mean what they say."""

_MAX_LITERAL_LENGTH = 128
_DATE_MARGIN = 11
"""Days. Spark compares dates with the bounds of Parquet files as java.sql.Date, which moves 1582-10-05 to 14 by up to 10 days.
Where the time zone of the JVM has skipped a day, it moves that, too."""


def table_at(path: str) -> str:
    """The SQL name of the Delta table at a path or URI."""
    return f"delta.{quote(path)}"


def ddl(columns: dict[str, pa.DataType]) -> str:
    """A schema string of the columns, all nullable."""
    return ", ".join(f"{quote(n)} {sql_type(t)}" for n, t in columns.items())


def written_columns(columns: Collection[str], present: Collection[str], computed: Collection[str]) -> list[str]:
    """The columns of a table that a row of an upsert writes, in the table's order. Those that it lacks become null, whatever
    their default is, except ``computed`` ones, whose values Spark makes."""
    return [name for name in columns if name in present or name not in computed]


def merge_statement(
    target: str,
    source: str,
    keys: Sequence[str],
    columns: Sequence[str],
    present: Collection[str],
    kept: Collection[str],
    bounds: tuple[str, str] | None,
    *,
    deletes: bool,
    soft_flag: str | None = None,
) -> str:
    """MERGE of deduplicated changes: one source row per key.

    ``columns`` are those that are written (:func:`written_columns`), ``present`` those that the changes have. ``kept`` are
    columns with a flag to keep the table's value; an inserted row has that of the source, which is null if it is unavailable.
    ``bounds`` are those of the first key column (:func:`key_bounds`), which let Delta skip files.
    ``soft_flag`` is the column that marks soft deletes, which keep all columns that they do not have.
    """
    match = [f"t.{quote(k)} = s.{quote(k)}" for k in keys]
    if bounds is not None:
        match.append(f"t.{quote(keys[0])} BETWEEN {bounds[0]} AND {bounds[1]}")
    sets = ", ".join(f"t.{quote(c)} = {_updated(c, present, kept, soft_flag)}" for c in columns if c not in keys)
    names = ", ".join(quote(c) for c in columns)
    values = ", ".join(f"s.{quote(c)}" if c in present else "NULL" for c in columns)
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


def missing_rows_query(target: str, source: str, keys: Sequence[str], soft_flag: str | None = None) -> str:
    """Counts the unavailable values in rows of the source that the target lacks, without soft deletes."""
    match = " AND ".join(f"t.{quote(k)} = s.{quote(k)}" for k in keys)
    condition = "" if soft_flag is None else f" WHERE NOT s.{quote(soft_flag)}"
    return (
        f"SELECT sum(s.{quote(UNAVAILABLE_COUNT)}) FROM {quote(source)} AS s LEFT ANTI JOIN {target} AS t ON {match}{condition}"
    )


def key_bounds(column: pa.ChunkedArray) -> tuple[str, str] | None:
    """A lower and an upper bound of a key column, as SQL that Spark makes a literal of; None if they would not help."""
    type_ = column.type
    if pa.types.is_date32(type_):
        column = column.cast(pa.int32())
    elif not (pa.types.is_integer(type_) or pa.types.is_string(type_)):
        return None
    bounds = pc.min_max(column)
    if not bounds["min"].is_valid:
        return None
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if pa.types.is_date32(type_):
        low, high = max(low - _DATE_MARGIN, -(1 << 31)), min(high + _DATE_MARGIN, (1 << 31) - 1)
        return f"date_from_unix_date({low})", f"date_from_unix_date({high})"
    if isinstance(low, str):
        return (literal(low), literal(high)) if max(len(low), len(high)) <= _MAX_LITERAL_LENGTH else None
    return str(low), str(high)


def literal(text: str) -> str:
    """The SQL literal of a text, in a session with :data:`PARSER_SETTINGS`."""
    # Spark interprets escapes in string literals, so backslashes and quotes are escaped.
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
