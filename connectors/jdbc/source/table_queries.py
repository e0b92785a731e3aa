"""What a task reads over and over: a table, or a query. A feed opens the query for what is new; it holds no connection."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from connect.data.logical import DATE, TIME, TIMESTAMP
from connect.errors import ConfigError, ConnectError, DataError
from connect.suggestions import did_you_mean
from connectors.jdbc.catalog import Column, Table
from connectors.jdbc.connection.database import Session
from connectors.jdbc.dialects.dialect import RowReader
from connectors.jdbc.dialects.types import timestamp_schema_of
from connectors.jdbc.errors import RowRefusedError, StatementError, TableChangedError
from connectors.jdbc.options import ReadOptions
from connectors.jdbc.source.config import ModeSettings, Settings
from connectors.jdbc.source.modes import Bound, Columns, Mode, Range, incremental_query, with_suffix
from connectors.jdbc.source.offset_tracking import ByNumber, ByTime, ByTimeAndNumber, Exact, Nothing, Stamp
from connectors.jdbc.source.offsets import NOWHERE, QUERY_PARTITION, Position, load_offset, old_table_partition, table_partition
from connectors.jdbc.source.table_selection import column_for, topic_of
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)


class TableGoneError(ConnectError):
    """The table is not there, or not any more."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A query that runs."""

    reader: RowReader
    table: Table | None
    """What it reads, as it is now; None for a query of the user."""


class Feed(Protocol):
    """One of a task's sources of rows."""

    label: str
    """For messages."""
    partition: Mapping[str, Any]
    topic: str
    name: TableName | None
    """The table; None for a query of the user."""
    stamp: Stamp
    finished: bool
    """Whether it will never have rows again."""

    def open(self, session: Session) -> Opened | None:
        """Runs the query for what comes after ``stamp.position``; None when there is nothing to run now. Raises TableGoneError,
        the failures of a session, ConfigError for columns that are not there."""

    def exact(self, values: Sequence[Sequence[Any]]) -> Exact:
        """What the stamp goes by, of rows whose reader was asked for no exact values."""

    def ended(self) -> None:
        """The query was read to its end."""


class BulkFeed:
    """All rows of a table, each time."""

    finished = False

    def __init__(self, name: TableName, settings: Settings) -> None:
        self.name: TableName | None = name
        self.label = str(name)
        self.partition: Mapping[str, Any] = old_table_partition(name)
        self.topic = topic_of(name, settings.topic_prefix, settings.topic_format)
        self.stamp: Stamp = Nothing()
        self._table, self._settings = name, settings

    def open(self, session: Session) -> Opened | None:
        table = described(session, self._table)
        query = with_suffix(select_all(session, self._table), self._settings.suffix)
        return Opened(session.dialect.reader(session, query, self._settings.read, table), table)

    def exact(self, values: Sequence[Sequence[Any]]) -> Exact:
        return [()] * len(values)

    def ended(self) -> None:
        """Nothing is kept from one time to the next."""


class IncrementalFeed:
    """The rows of a table that came or changed since the last time."""

    finished = False

    def __init__(self, name: TableName, settings: Settings, offset: Mapping[str, Any] | None) -> None:
        self.name: TableName | None = name
        self.label = str(name)
        self.partition: Mapping[str, Any] = table_partition(name)
        self.topic = topic_of(name, settings.topic_prefix, settings.topic_format)
        self._table, self._settings = name, settings
        self.stamp = first_stamp(settings.mode, offset, self.label)
        self._checked = False
        self._inclusive: Position | None = None

    def begin_at(self, position: Position, *, inclusive: bool) -> None:
        """Goes on from a position that is no stored offset: from its time itself when ``inclusive``."""
        self.stamp = stamp_at(self._settings.mode.mode, position, self.label)
        self._inclusive = None
        if inclusive:
            self._inclusive = position
            if isinstance(self.stamp, ByTime):
                self.stamp = ByTime(position, self.label, unread=True)

    def resume(self, offset: Mapping[str, Any]) -> None:
        """Goes on from a stored offset."""
        self.stamp = first_stamp(self._settings.mode, offset, self.label)

    def open(self, session: Session) -> Opened | None:
        table = described(session, self._table)
        found = incremental_columns(table, self._settings.mode)
        if self._settings.mode.validate_non_null and not self._checked:
            require_non_null(table, found, self._settings.mode.mode)
            self._checked = True
        number, times = found
        columns = Columns(
            session.dialect.quote(number.name) if number else None, tuple(session.dialect.quote(column.name) for column in times)
        )
        # Any row that was stamped since made another position of it.
        inclusive = self._inclusive is not None and self._inclusive is self.stamp.position
        part = range_of(session, self._settings, self.stamp, times, inclusive=inclusive)
        query = incremental_query(select_all(session, self._table), columns, part)
        exact = tuple(column.name for column in ((number, *times) if number else times))
        options = replace(self._settings.read, exact=exact)
        try:
            reader = session.dialect.reader(session, with_suffix(query, self._settings.suffix), options, table)
        except (RowRefusedError, StatementError, TableChangedError) as e:
            # A column of another kind than the mode needs shows in words about operators and literals that no one has written.
            by = ", ".join(f"{column.name} ({column.type_name})" for column in ((number, *times) if number else times))
            raise type(e)(f"{e.message}; mode={self._settings.mode.mode.value} goes by {by}") from e
        names = tuple(column.name for column in times)
        return Opened(_of_kinds(reader, number.name if number else None, names, self._settings.read, self.label), table)

    def exact(self, values: Sequence[Sequence[Any]]) -> Exact:
        return [()] * len(values)

    def ended(self) -> None:
        """The next query begins where the stamp is."""


class QueryFeed:
    """The rows of the user's query: all, or what is new."""

    name: TableName | None = None
    label = "the query"
    finished = False

    def __init__(self, settings: Settings, offset: Mapping[str, Any] | None) -> None:
        assert settings.query is not None
        self.partition: Mapping[str, Any] = QUERY_PARTITION
        self.topic = settings.topic_of_query
        self._settings = settings
        self._query = settings.query
        mode = settings.mode
        self.stamp = first_stamp(mode, offset, self.label)
        self._exact = ((mode.number_column,) if mode.mode.by_number else ()) + (mode.time_columns if mode.mode.by_time else ())

    def open(self, session: Session) -> Opened | None:
        settings, dialect = self._settings, session.dialect
        # On a line of its own what is appended is no part of a comment that the query ends with.
        text = Sql(self._query.value + "\n")
        if settings.mode.mode is Mode.BULK:
            return Opened(
                self._with_columns(session, dialect.reader(session, with_suffix(text, settings.suffix), settings.read)), None
            )
        number = dialect.quote(settings.mode.number_column) if settings.mode.mode.by_number else None
        times = tuple(dialect.quote(name) for name in settings.mode.time_columns) if settings.mode.mode.by_time else ()
        part = range_of(session, settings, self.stamp, [Column(name, "") for name in settings.mode.time_columns], inclusive=False)
        query = with_suffix(incremental_query(text, Columns(number, times), part), settings.suffix)
        try:
            reader = dialect.reader(session, query, replace(settings.read, exact=self._exact))
        except (RowRefusedError, StatementError, TableChangedError) as e:
            by = ", ".join(self._exact)
            raise type(e)(
                f"{e.message}; mode={settings.mode.mode.value} goes by {by} and appends WHERE and ORDER BY to the query: one "
                "that has its own, or other names for the columns, is wrapped: SELECT * FROM (SELECT ...) t"
            ) from e
        except DataError:
            self._exact = self._as_in_result(session, query, settings.read)
            reader = dialect.reader(session, query, replace(settings.read, exact=self._exact))
        own = self._exact[0] if settings.mode.mode.by_number else None
        return Opened(_of_kinds(reader, own, self._exact[0 if own is None else 1 :], settings.read, self.label), None)

    @staticmethod
    def _with_columns(session: Session, reader: RowReader) -> RowReader:
        """The reader, if it has any columns. A statement that only changes the database has none, and is undone."""
        if reader.fields:
            return reader
        reader.close()
        session.rollback()
        raise ConnectError(
            f"The query gives no columns in {session.label}: it has to be one that gives rows, as SELECT does. What it changed "
            "is rolled back"
        )

    def _as_in_result(self, session: Session, query: Sql, options: ReadOptions) -> tuple[str, ...]:
        """The columns as the result writes them. Raises the reader's DataError where that is about something else."""
        reader = session.dialect.reader(session, query, options)
        try:
            names = [name for name, _ in reader.fields]
        finally:
            reader.close()
        return tuple(_the_one(name, names, self.label) for name in self._exact)

    def exact(self, values: Sequence[Sequence[Any]]) -> Exact:
        return [()] * len(values)

    def ended(self) -> None:
        """The next query begins where the stamp is."""


def described(session: Session, name: TableName) -> Table:
    """The table as it is now. Raises TableGoneError."""
    table = session.dialect.describe(session, name)
    if table is None:
        raise TableGoneError(f"There is no table {name} in {session.label} (any more), or this user may not see it")
    return table


def select_all(session: Session, name: TableName) -> Sql:
    return Sql("SELECT * FROM ", session.dialect.table_ref(name))


def first_stamp(mode: ModeSettings, offset: Mapping[str, Any] | None, label: str) -> Stamp:
    """The stamp of a feed that begins at a stored offset, or where the configuration says.

    A time that a configuration asks for is a position like a stored one; without any nothing has been read, so rows of the first
    time carry no offset.
    """
    position = load_offset(offset) if mode.mode is not Mode.BULK else NOWHERE
    if position == NOWHERE and mode.mode.by_time and mode.initial_time_ms:
        position = Position(mode.initial_time_ms * 1_000_000, mode.initial_number if mode.mode.by_number else None)
    return stamp_at(mode.mode, position, label)


def stamp_at(mode: Mode, position: Position, label: str) -> Stamp:
    match mode:
        case Mode.BULK:
            return Nothing()
        case Mode.INCREMENTING:
            return ByNumber(position, label)
        case Mode.TIMESTAMP:
            return ByTime(position, label)
        case Mode.BOTH:
            return ByTimeAndNumber(position, label)


def range_of(session: Session, settings: Settings, stamp: Stamp, times: Sequence[Column | None], *, inclusive: bool) -> Range:
    """Where the next query begins and ends. With timestamp.initial=-1 the first look at the database's clock is the beginning."""
    mode, dialect = settings.mode, session.dialect
    position = stamp.position
    number = mode.initial_number if position.incrementing is None else position.incrementing
    if not mode.mode.by_time:
        return Range(number)
    now_ns = dialect.now(session)
    begin_ns = position.timestamp_ns
    if begin_ns is None:
        if mode.initial_time_ms is None:
            begin_ns = now_ns
            stamp.position = Position(now_ns, position.incrementing)
        else:
            begin_ns = mode.initial_time_ms * 1_000_000
    end_ns = now_ns - mode.delay_ms * 1_000_000
    return Range(number, bound(session, begin_ns, times, settings), bound(session, end_ns, times, settings), inclusive)


def bound(session: Session, ns: int, times: Sequence[Column | None], settings: Settings) -> Bound:
    return tuple(session.dialect.timestamp(ns, column, settings.read) for column in times)


def incremental_columns(table: Table, mode: ModeSettings) -> tuple[Column | None, tuple[Column, ...]]:
    """The incrementing column and the timestamp columns of a table, as far as the mode has them. Raises ConfigError that names
    what is there."""
    number = _number_column(table, mode) if mode.mode.by_number else None
    times: tuple[Column, ...] = ()
    if mode.mode.by_time:
        names = mode.time_columns or column_for(mode.time_mapping, table.name, "timestamp.columns.mapping")
        times = tuple(column_of(table, name, "timestamp.column.name") for name in names)
    return number, times


def _number_column(table: Table, mode: ModeSettings) -> Column:
    if mode.number_column:
        return column_of(table, mode.number_column, "incrementing.column.name")
    if mode.number_mapping:
        (name,) = column_for(mode.number_mapping, table.name, "incrementing.column.mapping")
        return column_of(table, name, "incrementing.column.mapping")
    found = next((column for column in table.columns if column.autoincrement), None)
    if found is None:
        raise ConfigError(
            f"Table {table.name} has no auto-increment column; name one with incrementing.column.name: it has "
            f"{', '.join(column.name for column in table.columns)}",
            key="incrementing.column.name",
        )
    return found


def column_of(table: Table, name: str, key: str) -> Column:
    """A table's column. Raises ConfigError with the nearest."""
    found = table.column(name)
    if found is None:
        names = [column.name for column in table.columns]
        hint = did_you_mean(name, names) or f"it has {', '.join(names)}"
        raise ConfigError.invalid(key, name, f"table {table.name} has no such column; {hint}")
    return found


def _of_kinds(reader: RowReader, number: str | None, times: Sequence[str], options: ReadOptions, label: str) -> RowReader:
    """The reader, if the columns of the mode are numbers and times. Some databases compare one with the other without a word, and
    would give the same rows again and again, or none. Raises ConfigError."""
    schemas, wanted = dict(reader.fields), timestamp_schema_of(options, False)
    problem: ConfigError | None = None
    if number in schemas and schemas[number].name in (DATE, TIME, TIMESTAMP):
        why = f"the column of {label} holds dates or times, where whole numbers are needed; mode=timestamp goes by times"
        problem = ConfigError.invalid("incrementing.column.name", number, why)
    for name in times:
        schema = schemas.get(name)
        if schema is not None and schema.name != DATE and (schema.type, schema.name) != (wanted.type, wanted.name):
            why = f"the column of {label} is read as {schema.name or schema.type.value}, where a timestamp or a date is needed"
            problem = ConfigError.invalid("timestamp.column.name", name, why)
    if problem is not None:
        reader.close()
        raise problem
    return reader


def require_non_null(table: Table, found: tuple[Column | None, Sequence[Column]], mode: Mode) -> None:
    """``validate.non.null``. Raises ConfigError."""
    number, times = found
    way_out = "make it NOT NULL, or set validate.non.null=false if rows with null there shall never be read"
    # SQLite calls the primary key of a table nullable, which it never is where it is its row's number.
    never_null = number is not None and (number.autoincrement or table.primary_key == (number.name,))
    if number is not None and number.nullable and not never_null:
        raise ConfigError(
            f"Cannot make incremental queries using incrementing column {number.name} on {table.name} because this column is "
            f"nullable; {way_out}",
            key="incrementing.column.name",
        )
    if mode.by_time and all(column.nullable for column in times):
        names = ", ".join(column.name for column in times)
        raise ConfigError(
            f"Cannot make incremental queries using timestamp columns [{names}] on {table.name} because all of these columns are "
            f"nullable; {way_out}",
            key="timestamp.column.name",
        )


def _the_one(name: str, names: Sequence[str], label: str) -> str:
    if name in names:
        return name
    alike = [known for known in names if known.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
    raise ConnectError(f"The result of {label} has no column {name}; {hint}")
