"""Plans for reading a large table in chunks: ranges of one key, each with an offset of its own.

In incremental modes the chunks hold what is before a point P that is fixed with the plan: the highest number, or the latest time,
that a row had then. When every chunk is done, and that is stored, the mode goes on at P itself, its rows included. So nothing
falls between the two, a row that changes meanwhile comes (again) with its new time, and the first row after the chunks carries
the offset that the originals know.

The plan stands in the offset of each chunk, so that any one of them is enough to find the others after a restart.
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
from connectors.jdbc.source.config import Settings
from connectors.jdbc.source.modes import Columns, Mode
from connectors.jdbc.source.offsets import table_partition
from connectors.jdbc.source.table_queries import bound, incremental_columns, select_all
from connectors.jdbc.sql import Bind, Sql, joined
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

MOST_CHUNKS = 256
_AUTO_LEAST_ROWS = 200_000
_AUTO_CHUNK_ROWS = 100_000
_DENSE = 0.5
"""A range of integers of which at least so many are in use is cut by arithmetic, without a look at its keys."""

CHUNK, PLAN, AT, DONE = "chunk", "plan", "at", "done"
Key = int | str


@dataclass(frozen=True, slots=True)
class Plan:
    """Chunk ``i`` has the keys above ``bounds[i-1]`` up to ``bounds[i]``; the first and the last are open at their outer end."""

    key: str
    bounds: tuple[Key, ...]
    rows: int
    """How many rows the table had."""
    number: int | None = None
    """P of incrementing mode: chunks hold numbers below it."""
    time_ns: int | None = None
    """P of the modes with a time: chunks hold rows of earlier times."""

    @property
    def chunks(self) -> int:
        return len(self.bounds) + 1

    @property
    def text(self) -> str:
        parts = {"key": self.key, "bounds": self.bounds, "rows": self.rows, "number": self.number, "time_ns": self.time_ns}
        return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def load(cls, text: str) -> Plan:
        parts = json.loads(text)
        return cls(parts["key"], tuple(parts["bounds"]), parts["rows"], parts["number"], parts["time_ns"])

    def limits(self, chunk: int) -> tuple[Key | None, Key | None]:
        """The key before the first and the last key of a chunk; None is no limit."""
        lower = self.bounds[chunk - 1] if chunk > 0 else None
        return lower, self.bounds[chunk] if chunk < len(self.bounds) else None


def chunk_partition(table: TableName, chunk: int) -> dict[str, str]:
    return {**table_partition(table), CHUNK: str(chunk)}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a chunk is, by what is stored."""

    at: Key | None = None
    done: bool = False

    @classmethod
    def load(cls, offset: Mapping[str, Any] | None, plan: Plan) -> Progress:
        """Of another plan's offset nothing is known: its ranges were others."""
        if not offset or offset.get(PLAN) != plan.text:
            return cls()
        return cls(offset.get(AT), bool(offset.get(DONE)))


def stored_plan(offsets: Sequence[Mapping[str, Any] | None], *, unfinished: bool) -> Plan | None:
    """The plan that stored offsets of a table's chunks (from the first on) are of; with ``unfinished`` only if a chunk is not
    done. Of several plans the one that most of them have."""
    texts = [offset[PLAN] for offset in offsets if offset and isinstance(offset.get(PLAN), str)]
    if not texts:
        return None
    plan = Plan.load(max(dict.fromkeys(texts), key=texts.count))
    known = [*offsets[: plan.chunks], *[None] * (plan.chunks - len(offsets))]
    if unfinished and all(Progress.load(offset, plan).done for offset in known):
        return None
    return plan


def conditions(session: Session, table: JdbcTable, plan: Plan, chunk: int, at: Key | None, settings: Settings) -> Sql:
    """WHERE of a chunk's rows that come after ``at``. Empty for the only chunk of a table."""
    key = session.dialect.quote(plan.key)
    lower, upper = plan.limits(chunk)
    lower = at if at is not None else lower
    mode = settings.mode
    parts: list[Sql] = []
    if plan.number is not None:
        # Keys are numbers, and the outer ends are the mode's own: its initial value, and P.
        parts.append(Sql(f"{key} > ", Bind(mode.initial_number if lower is None else lower)))
        parts.append(Sql(f"{key} <= ", Bind(plan.number - 1 if upper is None else upper)))
    else:
        if lower is not None:
            parts.append(Sql(f"{key} > ", Bind(lower)))
        if upper is not None:
            parts.append(Sql(f"{key} <= ", Bind(upper)))
    if plan.time_ns is not None:
        parts += _time_conditions(session, table, plan.time_ns, settings)
    return Sql(" WHERE ", joined(" AND ", parts)) if parts else Sql()


def _time_conditions(session: Session, table: JdbcTable, before_ns: int, settings: Settings) -> list[Sql]:
    times, columns = _times(session, table, settings)
    first_ns = (settings.mode.initial_time_ms or 0) * 1_000_000
    return [
        columns.compared(" > ", bound(session, first_ns, times, settings)),
        columns.compared(" < ", bound(session, before_ns, times, settings)),
    ]


def _times(session: Session, table: JdbcTable, settings: Settings) -> tuple[tuple[JdbcColumn, ...], Columns]:
    _, times = incremental_columns(table, settings.mode)
    return times, Columns(None, tuple(session.dialect.quote(column.name) for column in times))


def make_plan(session: Session, table: JdbcTable, settings: Settings) -> Plan | None:
    """A plan for a table as it is now, or None where it is small, or has no key to cut it by. ``settings.chunk_rows`` is set."""
    assert settings.chunk_rows is not None
    mode = settings.mode
    if mode.mode.by_time and mode.initial_time_ms is None:
        return None  # the past is not wanted
    key = chunk_key(table, settings)
    if key is None:
        return None
    doing = f"planning chunks of {table.name}"
    if not mode.mode.by_number and _has_null(session, table, key, doing):
        log.info("%s is read in one piece: a row of it has null in %s", table.name, key)
        return None
    rows = int(session.query(Sql(f"SELECT COUNT(*) FROM {session.dialect.table_ref(table.name)}"), doing)[0][0])
    chunk_rows = settings.chunk_rows or _AUTO_CHUNK_ROWS
    if rows < (_AUTO_LEAST_ROWS if settings.chunk_rows == 0 else chunk_rows + 1):
        return None
    plan = Plan(key, (), rows)
    if mode.mode.by_time:
        latest = _latest_ns(session, table, settings)
        if latest is None:
            return None
        plan = replace(plan, time_ns=latest)
    first, last = _outermost(session, table.name, key, doing)
    if first is None or last is None:
        return None
    bounds = _bounds(session, table.name, key, first, last, rows, min(MOST_CHUNKS, math.ceil(rows / chunk_rows)), doing)
    if mode.mode is Mode.INCREMENTING:
        if not isinstance(last, int):
            return None
        plan = replace(plan, number=last)
        bounds = [bound for bound in bounds if isinstance(bound, int) and mode.initial_number < bound < last - 1]
    return replace(plan, bounds=tuple(bounds)) if bounds else None


def chunk_key(table: JdbcTable, settings: Settings) -> str | None:
    """The column to cut a table by: the incrementing one, or a primary key of one column."""
    if settings.mode.mode.by_number:
        number, _ = incremental_columns(table, settings.mode)
        return number.name if number is not None else None
    return table.primary_key[0] if len(table.primary_key) == 1 else None


def _has_null(session: Session, table: JdbcTable, key: str, doing: str) -> bool:
    """Whether a row is in no range of the key. SQLite allows null in most primary keys."""
    column = table.column(key)
    if column is None or not column.nullable:
        return False
    dialect = session.dialect
    query = Sql(f"SELECT 1 FROM {dialect.table_ref(table.name)} WHERE {dialect.quote(key)} IS NULL")
    return bool(session.query(dialect.limited(query, 1), doing))


def _latest_ns(session: Session, table: JdbcTable, settings: Settings) -> int | None:
    times, columns = _times(session, table, settings)
    dialect = session.dialect
    end = bound(session, dialect.now(session) - settings.mode.delay_ms * 1_000_000, times, settings)
    query = select_all(session, table.name) + Sql(" WHERE ", columns.compared(" < ", end), " ORDER BY ", columns.time, " DESC")
    options = replace(settings.read, exact=tuple(column.name for column in times), batch_rows=1)
    reader = dialect.reader(session, dialect.limited(query, 1), options, table)
    try:
        exact = reader.read(1).exact
    finally:
        reader.close()
    return next((ns for ns in exact[0] if ns is not None), None) if exact else None


def _outermost(session: Session, name: TableName, key: str, doing: str) -> tuple[Key | None, Key | None]:
    dialect = session.dialect
    column = dialect.quote(key)
    found: list[Key | None] = []
    for direction in ("ASC", "DESC"):
        query = Sql(f"SELECT {column} FROM {dialect.table_ref(name)} WHERE {column} IS NOT NULL ORDER BY {column} {direction}")
        rows = session.query(dialect.limited(query, 1), doing)
        found.append(_as_key(rows[0][0]) if rows else None)
    return found[0], found[1]


def _bounds(session: Session, name: TableName, key: str, first: Key, last: Key, rows: int, chunks: int, doing: str) -> list[Key]:
    if chunks < 2:
        return []
    if isinstance(first, int) and isinstance(last, int) and rows >= (last - first + 1) * _DENSE:
        step = (last - first + 1) / chunks
        return list(dict.fromkeys(first - 1 + int(step * number) for number in range(1, chunks)))
    dialect = session.dialect
    column, table = dialect.quote(key), dialect.table_ref(name)
    places = joined(",", [Bind(rows * number // chunks) for number in range(1, chunks)])
    numbered = f"SELECT {column}, ROW_NUMBER() OVER (ORDER BY {column}) AS sluice_n FROM {table} WHERE {column} IS NOT NULL"
    query = Sql(f"SELECT {column} FROM ({numbered}) sluice_t WHERE sluice_n IN (", places, f") ORDER BY {column}")
    found = [_as_key(row[0]) for row in session.query(query, doing)]
    return [bound for bound in dict.fromkeys(found) if bound is not None]


def _as_key(value: Any) -> Key | None:
    """A key that an offset can hold: an integer or text."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return None


def key_in_row(value: Any, column: str) -> Key:
    """The key of a row that was read. Raises DataError for one that a plan cannot have."""
    key = _as_key(value)
    if key is None:
        raise DataError(f"{column} holds {value!r}, which cannot be the key of chunks; set snapshot.chunks=off")
    return key
