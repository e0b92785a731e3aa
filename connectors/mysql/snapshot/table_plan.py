"""Plans how each table of a snapshot is read: by which key, in how many ranges, and how a later attempt notices a change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.cdc.snapshot.key_ranges import EVERYTHING, Key, KeyRange, fingerprint_of, split_range
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection, quote_identifier, quote_name
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.snapshot.key_ranges import MySqlKeyColumn, key_column, key_order, range_condition

MIN_PARALLEL_BYTES = 8 << 20
"""A smaller table is not worth several connections."""
_MOST_RANGES: Final = 256
_MOST_BEYOND_COUNT: Final = 4
"""How many times the wanted number of ranges there are at most, if the server's estimate of rows is too low."""


@dataclass(frozen=True, slots=True)
class MySqlTablePlan:
    """How a table is read. ``key`` is empty if only all of it can be read at once."""

    rows: MySqlTableRows
    fingerprint: str
    key: tuple[MySqlKeyColumn, ...]
    estimated_rows: int
    size_bytes: int


def plan_table(
    rows: MySqlTableRows,
    settings: MySqlConfig,
    orders: Mapping[str, Sequence[str]],
    *,
    estimated_rows: int,
    size_bytes: int,
    has_full_images: bool,
) -> MySqlTablePlan:
    """Plans a table. ``orders`` are those of :func:`connectors.mysql.catalog.read_column_orders`.

    ``has_full_images``: the log has all values of changed rows.
    """
    key = _range_key(rows, settings) if has_full_images else ()
    return MySqlTablePlan(rows, _fingerprint(rows, settings, orders), key, estimated_rows, size_bytes)


def _range_key(rows: MySqlTableRows, settings: MySqlConfig) -> tuple[MySqlKeyColumn, ...]:
    """The key by which the table can be read in ranges; empty if there is none.

    A row that moves from a missing range to a completed one is in the stream with all its values.
    """
    table = rows.table
    if str(table) in settings.snapshot.overrides or not set(table.key) <= set(rows.key):
        return ()
    places = {column.name: i for i, column in enumerate(rows.columns)}
    found: list[MySqlKeyColumn] = []
    for name in table.key:
        column, place = table.column(name), places.get(name)
        if column is None or place is None or column.optional:
            return ()
        part = key_column(column, rows.columns[place], place, table.charset)
        if part is None:
            return ()
        found.append(part)
    return tuple(found)


def _fingerprint(rows: MySqlTableRows, settings: MySqlConfig, orders: Mapping[str, Sequence[str]]) -> str:
    table = rows.table
    columns = [
        (column.name, column.type_name, column.length, column.scale, orders.get(column.name, ())) for column in table.columns
    ]
    return fingerprint_of(str(table), columns, table.key, rows.key, select_statement(rows, settings))


def select_statement(rows: MySqlTableRows, settings: MySqlConfig, conditions: Sequence[str] = (), order: str = "") -> str:
    """SELECT of the captured columns and rows of a table, or of its override.

    ``conditions`` limit the rows further, and ``order`` has the columns to order by; neither is for overrides.
    """
    table = rows.table
    columns = ", ".join(column.select.format(name=quote_identifier(column.name)) for column in rows.columns) or "NULL"
    override = settings.snapshot.overrides.get(str(table))
    if override is not None:
        return f"SELECT {columns} FROM ({override.strip().rstrip(';')}) AS selected"
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {columns} FROM {quote_name(*table.id)}{where}{f' ORDER BY {order}' if order else ''}"


def count_ranges(plan: MySqlTablePlan, settings: MySqlConfig) -> int:
    """The number of ranges to aim for: more than one only if several connections read the table."""
    snapshot = settings.snapshot
    if not plan.key or snapshot.max_threads == 1 or snapshot.table_per_thread or plan.size_bytes < MIN_PARALLEL_BYTES:
        return 1
    return min(snapshot.max_threads * snapshot.threads_multiplier, _MOST_RANGES)


def split_table(connection: MySqlConnection, plan: MySqlTablePlan, missing: Sequence[KeyRange], count: int) -> list[KeyRange]:
    """Splits what is missing of a table into about ``count`` ranges of about the same number of rows.

    The server steps through the index of the key, which takes a small part of the time in which the rows are read.
    """
    if count <= len(missing) or not plan.key:
        return list(missing) or [EVERYTHING]
    step = max(1, math.ceil(plan.estimated_rows / count))
    found: list[KeyRange] = []
    for bounds in missing:
        found += split_range(bounds, _keys_at_steps(connection, plan, bounds, step, count * _MOST_BEYOND_COUNT))
    return found


def _keys_at_steps(connection: MySqlConnection, plan: MySqlTablePlan, bounds: KeyRange, step: int, most: int) -> list[Key]:
    columns = ", ".join(f"HEX({column.select})" if column.is_bytes else column.select for column in plan.key)
    name, order = quote_name(*plan.rows.table.id), key_order(plan.key)
    found: list[Key] = []
    after = bounds.after
    while len(found) < most:
        where = " AND ".join(range_condition(plan.key, KeyRange(after, bounds.until))) or "TRUE"
        rows = connection.query(
            f"SELECT {columns} FROM {name} WHERE {where} ORDER BY {order} LIMIT 1 OFFSET {step - 1:d}", timeout_s=math.inf
        )
        if not rows:
            break
        after = tuple(
            (text or "").lower() if column.is_bytes else text or "" for text, column in zip(rows[0], plan.key, strict=True)
        )
        found.append(after)
    return found
