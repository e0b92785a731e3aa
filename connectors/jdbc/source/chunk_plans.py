"""Plans for reading a large table in chunks: ranges of one key column, each with its own offset.

In incremental modes the chunks hold the rows before a point P that the plan fixes: the highest incrementing value or the latest
timestamp at planning time. When all chunks are done, and that is stored, the mode continues at P, including the rows at P. So no
row is missed, a row that changes in between is read again with its new timestamp, and the first row after the chunks has an
offset that Confluent's connector can read.

The plan is part of each chunk's offset, so any of them is enough to find the others after a restart.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from connect.errors import DataError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.database import Session
from connectors.jdbc.source.config import JdbcSourceConfig
from connectors.jdbc.source.modes import CursorColumns, Mode
from connectors.jdbc.source.offsets import table_partition
from connectors.jdbc.source.table_queries import incremental_columns, select_all, timestamp_bounds
from connectors.jdbc.sql import Bind, Sql, joined
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

MAX_CHUNKS = 256
_AUTO_MIN_ROWS = 200_000
_AUTO_CHUNK_ROWS = 100_000
_DENSE_FRACTION = 0.5
"""If at least this fraction of an integer range is used, it is divided by arithmetic, without reading keys."""

CHUNK, PLAN, AT, DONE = "chunk", "plan", "at", "done"
ChunkKey = int | str


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """Chunk ``i`` has the keys above ``bounds[i-1]`` up to ``bounds[i]``; the first and last chunks are open-ended."""

    key: str
    bounds: tuple[ChunkKey, ...]
    rows: int
    """Rows of the table at planning time."""
    number: int | None = None
    """P in incrementing mode: chunks hold lower values."""
    time_ns: int | None = None
    """P in modes with a timestamp: chunks hold earlier rows."""

    @property
    def chunks(self) -> int:
        return len(self.bounds) + 1

    @property
    def json_text(self) -> str:
        parts = {"key": self.key, "bounds": self.bounds, "rows": self.rows, "number": self.number, "time_ns": self.time_ns}
        return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> ChunkPlan:
        parts = json.loads(text)
        return cls(parts["key"], tuple(parts["bounds"]), parts["rows"], parts["number"], parts["time_ns"])

    def limits(self, chunk: int) -> tuple[ChunkKey | None, ChunkKey | None]:
        """Returns the exclusive lower and inclusive upper key of a chunk; None: no limit."""
        lower = self.bounds[chunk - 1] if chunk > 0 else None
        return lower, self.bounds[chunk] if chunk < len(self.bounds) else None


def chunk_partition(table: TableName, chunk: int) -> dict[str, str]:
    return {**table_partition(table), CHUNK: str(chunk)}


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """Stored progress of a chunk."""

    at: ChunkKey | None = None
    done: bool = False

    @classmethod
    def parse(cls, offset: Mapping[str, Any] | None, plan: ChunkPlan) -> ChunkProgress:
        """Ignores the offset of another plan, which has other ranges."""
        if not offset or offset.get(PLAN) != plan.json_text:
            return cls()
        return cls(offset.get(AT), bool(offset.get(DONE)))


def find_stored_plan(offsets: Sequence[Mapping[str, Any] | None], *, unfinished: bool) -> ChunkPlan | None:
    """Returns the plan in the stored offsets of a table's chunks, in chunk order; the most frequent one if they differ.

    With ``unfinished`` only if a chunk is not done.
    """
    texts = [offset[PLAN] for offset in offsets if offset and isinstance(offset.get(PLAN), str)]
    if not texts:
        return None
    plan = ChunkPlan.parse(max(dict.fromkeys(texts), key=texts.count))
    known = [*offsets[: plan.chunks], *[None] * (plan.chunks - len(offsets))]
    if unfinished and all(ChunkProgress.parse(offset, plan).done for offset in known):
        return None
    return plan


def chunk_condition(
    session: Session, table: JdbcTable, plan: ChunkPlan, chunk: int, at: ChunkKey | None, settings: JdbcSourceConfig
) -> Sql:
    """Returns the WHERE clause for a chunk's rows after the key ``at``. Empty for the only chunk of a table."""
    key = session.dialect.quote(plan.key)
    lower, upper = plan.limits(chunk)
    lower = at if at is not None else lower
    mode = settings.mode
    parts: list[Sql] = []
    if plan.number is not None:
        # Keys are integers; the outer limits are the mode's initial value and P.
        parts.append(Sql(f"{key} > ", Bind(mode.initial_incrementing if lower is None else lower)))
        parts.append(Sql(f"{key} <= ", Bind(plan.number - 1 if upper is None else upper)))
    else:
        if lower is not None:
            parts.append(Sql(f"{key} > ", Bind(lower)))
        if upper is not None:
            parts.append(Sql(f"{key} <= ", Bind(upper)))
    if plan.time_ns is not None:
        parts += _timestamp_conditions(session, table, plan.time_ns, settings)
    return Sql(" WHERE ", joined(" AND ", parts)) if parts else Sql()


def _timestamp_conditions(session: Session, table: JdbcTable, before_ns: int, settings: JdbcSourceConfig) -> list[Sql]:
    times, columns = _timestamp_columns(session, table, settings)
    first_ns = (settings.mode.initial_timestamp_ms or 0) * 1_000_000
    return [
        columns.compare(" > ", timestamp_bounds(session, first_ns, times, settings)),
        columns.compare(" < ", timestamp_bounds(session, before_ns, times, settings)),
    ]


def _timestamp_columns(
    session: Session, table: JdbcTable, settings: JdbcSourceConfig
) -> tuple[tuple[JdbcColumn, ...], CursorColumns]:
    _, times = incremental_columns(table, settings.mode)
    return times, CursorColumns(None, tuple(session.dialect.quote(column.name) for column in times))


def plan_chunks(session: Session, table: JdbcTable, settings: JdbcSourceConfig) -> ChunkPlan | None:
    """Plans chunks of a table; None if it is small or has no suitable key. ``settings.chunk_rows`` must be set."""
    assert settings.chunk_rows is not None
    mode = settings.mode
    if mode.mode.uses_timestamp and mode.initial_timestamp_ms is None:
        return None  # existing rows are not read
    key = find_chunk_key(table, settings)
    if key is None:
        return None
    doing = f"planning chunks of {table.name}"
    if not mode.mode.uses_incrementing and _has_null(session, table, key, doing):
        log.info("%s is not read in chunks, because a row has null in %s", table.name, key)
        return None
    rows = int(session.query(Sql(f"SELECT COUNT(*) FROM {session.dialect.table_ref(table.name)}"), doing)[0][0])
    chunk_rows = settings.chunk_rows or _AUTO_CHUNK_ROWS
    if rows < (_AUTO_MIN_ROWS if settings.chunk_rows == 0 else chunk_rows + 1):
        return None
    plan = ChunkPlan(key, (), rows)
    if mode.mode.uses_timestamp:
        latest = _find_latest_timestamp(session, table, settings)
        if latest is None:
            return None
        plan = replace(plan, time_ns=latest)
    first, last = _find_key_range(session, table.name, key, doing)
    if first is None or last is None:
        return None
    bounds = _divide_key_range(session, table.name, key, first, last, rows, min(MAX_CHUNKS, math.ceil(rows / chunk_rows)), doing)
    if mode.mode is Mode.INCREMENTING:
        if not isinstance(last, int):
            return None
        plan = replace(plan, number=last)
        bounds = [value for value in bounds if isinstance(value, int) and mode.initial_incrementing < value < last - 1]
    return replace(plan, bounds=tuple(bounds)) if bounds else None


def find_chunk_key(table: JdbcTable, settings: JdbcSourceConfig) -> str | None:
    """Returns the column that chunks are ranges of: the incrementing column, or a primary key with one column."""
    if settings.mode.mode.uses_incrementing:
        column, _ = incremental_columns(table, settings.mode)
        return column.name if column is not None else None
    return table.primary_key[0] if len(table.primary_key) == 1 else None


def _has_null(session: Session, table: JdbcTable, key: str, doing: str) -> bool:
    """Returns whether a row has a null key, which is in no range. SQLite allows null in most primary keys."""
    column = table.column(key)
    if column is None or not column.nullable:
        return False
    dialect = session.dialect
    query = Sql(f"SELECT 1 FROM {dialect.table_ref(table.name)} WHERE {dialect.quote(key)} IS NULL")
    return bool(session.query(dialect.limited(query, 1), doing))


def _find_latest_timestamp(session: Session, table: JdbcTable, settings: JdbcSourceConfig) -> int | None:
    times, columns = _timestamp_columns(session, table, settings)
    dialect = session.dialect
    end = timestamp_bounds(session, dialect.now(session) - settings.mode.delay_ms * 1_000_000, times, settings)
    query = select_all(session, table.name) + Sql(
        " WHERE ", columns.compare(" < ", end), " ORDER BY ", columns.timestamp, " DESC"
    )
    options = replace(settings.read, exact=tuple(column.name for column in times), batch_rows=1)
    reader = dialect.reader(session, dialect.limited(query, 1), options, table)
    try:
        exact = reader.read(1).exact
    finally:
        reader.close()
    return next((ns for ns in exact[0] if ns is not None), None) if exact else None


def _find_key_range(session: Session, name: TableName, key: str, doing: str) -> tuple[ChunkKey | None, ChunkKey | None]:
    dialect = session.dialect
    column = dialect.quote(key)
    found: list[ChunkKey | None] = []
    for direction in ("ASC", "DESC"):
        query = Sql(f"SELECT {column} FROM {dialect.table_ref(name)} WHERE {column} IS NOT NULL ORDER BY {column} {direction}")
        rows = session.query(dialect.limited(query, 1), doing)
        found.append(_parse_key(rows[0][0]) if rows else None)
    return found[0], found[1]


def _divide_key_range(
    session: Session, name: TableName, key: str, first: ChunkKey, last: ChunkKey, rows: int, chunks: int, doing: str
) -> list[ChunkKey]:
    if chunks < 2:
        return []
    if isinstance(first, int) and isinstance(last, int) and rows >= (last - first + 1) * _DENSE_FRACTION:
        step = (last - first + 1) / chunks
        return list(dict.fromkeys(first - 1 + int(step * number) for number in range(1, chunks)))
    dialect = session.dialect
    column, table = dialect.quote(key), dialect.table_ref(name)
    row_numbers = joined(",", [Bind(rows * number // chunks) for number in range(1, chunks)])
    numbered = f"SELECT {column}, ROW_NUMBER() OVER (ORDER BY {column}) AS sluice_n FROM {table} WHERE {column} IS NOT NULL"
    query = Sql(f"SELECT {column} FROM ({numbered}) sluice_t WHERE sluice_n IN (", row_numbers, f") ORDER BY {column}")
    found = [_parse_key(row[0]) for row in session.query(query, doing)]
    return [value for value in dict.fromkeys(found) if value is not None]


def _parse_key(value: Any) -> ChunkKey | None:
    """Returns the value as integer or text, which offsets can hold; None for other types."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return None


def require_chunk_key(value: Any, column: str) -> ChunkKey:
    """Returns the key of a row. Raises DataError for a type that chunks cannot use."""
    key = _parse_key(value)
    if key is None:
        raise DataError(f"{column} holds {value!r}, which chunks cannot use as key; set snapshot.chunks=off")
    return key
