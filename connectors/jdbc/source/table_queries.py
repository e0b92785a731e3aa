"""Queries that a task runs repeatedly: of a table, or the user's. They hold no connection."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from connect.data.logical import DATE, TIME, TIMESTAMP
from connect.errors import ConfigError, ConnectError, DataError
from connect.suggestions import did_you_mean
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.database import Session
from connectors.jdbc.dialects.dialect import RowReader
from connectors.jdbc.dialects.types import timestamp_schema_for
from connectors.jdbc.errors import RowRejectedError, StatementError, TableChangedError
from connectors.jdbc.options import ReadOptions
from connectors.jdbc.source.config import JdbcSourceConfig, ModeConfig
from connectors.jdbc.source.modes import CursorColumns, Mode, QueryRange, TimestampBounds, incremental_query, with_suffix
from connectors.jdbc.source.offset_tracking import (
    ExactValues,
    IncrementingOffsets,
    NoOffsets,
    OffsetTracker,
    TimestampIncrementingOffsets,
    TimestampOffsets,
)
from connectors.jdbc.source.offsets import (
    NO_POSITION,
    QUERY_PARTITION,
    SourcePosition,
    legacy_table_partition,
    parse_offset,
    table_partition,
)
from connectors.jdbc.source.table_selection import find_mapped_columns, format_topic
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)


class TableMissingError(ConnectError):
    """The table does not exist."""


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A query that was started."""

    reader: RowReader
    table: JdbcTable | None
    """The table that it reads; None for the user's query."""


class TableQuery(Protocol):
    """A query that a task runs repeatedly."""

    label: str
    """For messages."""
    partition: Mapping[str, Any]
    topic: str
    name: TableName | None
    """The table; None for the user's query."""
    tracker: OffsetTracker
    finished: bool
    """Whether it will never return rows again."""

    def open(self, session: Session) -> RunningQuery | None:
        """Queries the rows after ``tracker.position``; returns None if there is nothing to run now.

        Raises TableMissingError, errors of the session, and ConfigError for missing columns.
        """

    def exact(self, values: Sequence[Sequence[Any]]) -> ExactValues:
        """Returns the tracker's values if the reader was not asked for exact values."""

    def on_end(self) -> None:
        """Called when the query was read to its end."""


class BulkTableQuery:
    """Bulk mode: reads all rows of a table each time."""

    finished = False

    def __init__(self, name: TableName, settings: JdbcSourceConfig) -> None:
        self.name: TableName | None = name
        self.label = str(name)
        self.partition: Mapping[str, Any] = legacy_table_partition(name)
        self.topic = format_topic(name, settings.topic_prefix, settings.topic_format)
        self.tracker: OffsetTracker = NoOffsets()
        self._table, self._settings = name, settings

    def open(self, session: Session) -> RunningQuery | None:
        table = describe_table(session, self._table)
        query = with_suffix(select_all(session, self._table), self._settings.suffix)
        return RunningQuery(session.dialect.reader(session, query, self._settings.read, table), table)

    def exact(self, values: Sequence[Sequence[Any]]) -> ExactValues:
        return [()] * len(values)

    def on_end(self) -> None:
        """Does nothing: the next query reads all rows again."""


class IncrementalTableQuery:
    """Incremental modes: reads the rows of a table that are new or changed since the last query."""

    finished = False

    def __init__(self, name: TableName, settings: JdbcSourceConfig, offset: Mapping[str, Any] | None) -> None:
        self.name: TableName | None = name
        self.label = str(name)
        self.partition: Mapping[str, Any] = table_partition(name)
        self.topic = format_topic(name, settings.topic_prefix, settings.topic_format)
        self._table, self._settings = name, settings
        self.tracker = create_initial_tracker(settings.mode, offset, self.label)
        self._checked = False
        self._inclusive: SourcePosition | None = None

    def start_at(self, position: SourcePosition, *, inclusive: bool) -> None:
        """Continues at a position that is no stored offset; ``inclusive``: including rows with its timestamp."""
        self.tracker = create_tracker(self._settings.mode.mode, position, self.label)
        self._inclusive = None
        if inclusive:
            self._inclusive = position
            if isinstance(self.tracker, TimestampOffsets):
                self.tracker = TimestampOffsets(position, self.label, unread=True)

    def resume(self, offset: Mapping[str, Any]) -> None:
        """Continues after a stored offset."""
        self.tracker = create_initial_tracker(self._settings.mode, offset, self.label)

    def open(self, session: Session) -> RunningQuery | None:
        table = describe_table(session, self._table)
        found = incremental_columns(table, self._settings.mode)
        if self._settings.mode.validate_non_null and not self._checked:
            require_non_null(table, found, self._settings.mode.mode)
            self._checked = True
        number, times = found
        columns = CursorColumns(
            session.dialect.quote(number.name) if number else None, tuple(session.dialect.quote(column.name) for column in times)
        )
        # The first row that was read since then replaced the position.
        inclusive = self._inclusive is not None and self._inclusive is self.tracker.position
        query_range = next_range(session, self._settings, self.tracker, times, inclusive=inclusive)
        query = incremental_query(select_all(session, self._table), columns, query_range)
        exact = tuple(column.name for column in ((number, *times) if number else times))
        options = replace(self._settings.read, exact=exact)
        try:
            reader = session.dialect.reader(session, with_suffix(query, self._settings.suffix), options, table)
        except (RowRejectedError, StatementError, TableChangedError) as e:
            # For a column of an unsuitable type the message is about operators and literals that the user did not write.
            by = ", ".join(f"{column.name} ({column.type_name})" for column in ((number, *times) if number else times))
            raise type(e)(f"{e.message}; mode={self._settings.mode.mode.value} goes by {by}") from e
        names = tuple(column.name for column in times)
        return RunningQuery(
            _require_column_types(reader, number.name if number else None, names, self._settings.read, self.label), table
        )

    def exact(self, values: Sequence[Sequence[Any]]) -> ExactValues:
        return [()] * len(values)

    def on_end(self) -> None:
        """Does nothing: the tracker has the position."""


class CustomQuery:
    """Runs the user's query (``query``): all rows, or new rows."""

    name: TableName | None = None
    label = "the query"
    finished = False

    def __init__(self, settings: JdbcSourceConfig, offset: Mapping[str, Any] | None) -> None:
        assert settings.query is not None
        self.partition: Mapping[str, Any] = QUERY_PARTITION
        self.topic = settings.topic_prefix
        self._settings = settings
        self._query = settings.query
        mode = settings.mode
        self.tracker = create_initial_tracker(mode, offset, self.label)
        self._exact = ((mode.incrementing_column,) if mode.mode.uses_incrementing else ()) + (
            mode.timestamp_columns if mode.mode.uses_timestamp else ()
        )

    def open(self, session: Session) -> RunningQuery | None:
        settings, dialect = self._settings, session.dialect
        # The newline keeps the appended clauses out of a comment at the end of the query.
        text = Sql(self._query.value + "\n")
        if settings.mode.mode is Mode.BULK:
            return RunningQuery(
                self._require_columns(session, dialect.reader(session, with_suffix(text, settings.suffix), settings.read)), None
            )
        number = dialect.quote(settings.mode.incrementing_column) if settings.mode.mode.uses_incrementing else None
        times = (
            tuple(dialect.quote(name) for name in settings.mode.timestamp_columns) if settings.mode.mode.uses_timestamp else ()
        )
        query_range = next_range(
            session, settings, self.tracker, [JdbcColumn(name, "") for name in settings.mode.timestamp_columns], inclusive=False
        )
        query = with_suffix(incremental_query(text, CursorColumns(number, times), query_range), settings.suffix)
        try:
            reader = dialect.reader(session, query, replace(settings.read, exact=self._exact))
        except (RowRejectedError, StatementError, TableChangedError) as e:
            by = ", ".join(self._exact)
            raise type(e)(
                f"{e.message}; mode={settings.mode.mode.value} goes by {by} and appends WHERE and ORDER BY to the query. Wrap a "
                "query that has its own, or renames these columns: SELECT * FROM (SELECT ...) t"
            ) from e
        except DataError:
            self._exact = self._find_result_columns(session, query, settings.read)
            reader = dialect.reader(session, query, replace(settings.read, exact=self._exact))
        own = self._exact[0] if settings.mode.mode.uses_incrementing else None
        return RunningQuery(
            _require_column_types(reader, own, self._exact[0 if own is None else 1 :], settings.read, self.label), None
        )

    @staticmethod
    def _require_columns(session: Session, reader: RowReader) -> RowReader:
        """Returns the reader. Rolls back and raises ConnectError if the statement is no SELECT and returns no columns."""
        if reader.fields:
            return reader
        reader.close()
        session.rollback()
        raise ConnectError(
            f"The query returns no columns in {session.label}; it must return rows, like SELECT. Its changes were rolled back"
        )

    def _find_result_columns(self, session: Session, query: Sql, options: ReadOptions) -> tuple[str, ...]:
        """Returns the names of the mode's columns as in the result. Raises the reader's DataError if that is not the problem."""
        reader = session.dialect.reader(session, query, options)
        try:
            names = [name for name, _ in reader.fields]
        finally:
            reader.close()
        return tuple(_find_result_column(name, names, self.label) for name in self._exact)

    def exact(self, values: Sequence[Sequence[Any]]) -> ExactValues:
        return [()] * len(values)

    def on_end(self) -> None:
        """Does nothing: the tracker has the position."""


def describe_table(session: Session, name: TableName) -> JdbcTable:
    """Describes the table. Raises TableMissingError."""
    table = session.dialect.describe(session, name)
    if table is None:
        raise TableMissingError(f"Table {name} does not exist in {session.label}, or this user may not see it")
    return table


def select_all(session: Session, name: TableName) -> Sql:
    return Sql("SELECT * FROM ", session.dialect.table_ref(name))


def create_initial_tracker(mode: ModeConfig, offset: Mapping[str, Any] | None, label: str) -> OffsetTracker:
    """Creates the tracker for a stored offset, or for the configured start.

    A configured initial timestamp is a position like a stored one. Without one nothing has been read, so rows with the first
    timestamp have no offset.
    """
    position = parse_offset(offset) if mode.mode is not Mode.BULK else NO_POSITION
    if position == NO_POSITION and mode.mode.uses_timestamp and mode.initial_timestamp_ms:
        position = SourcePosition(
            mode.initial_timestamp_ms * 1_000_000, mode.initial_incrementing if mode.mode.uses_incrementing else None
        )
    return create_tracker(mode.mode, position, label)


def create_tracker(mode: Mode, position: SourcePosition, label: str) -> OffsetTracker:
    match mode:
        case Mode.BULK:
            return NoOffsets()
        case Mode.INCREMENTING:
            return IncrementingOffsets(position, label)
        case Mode.TIMESTAMP:
            return TimestampOffsets(position, label)
        case Mode.TIMESTAMP_INCREMENTING:
            return TimestampIncrementingOffsets(position, label)


def next_range(
    session: Session, settings: JdbcSourceConfig, tracker: OffsetTracker, times: Sequence[JdbcColumn | None], *, inclusive: bool
) -> QueryRange:
    """Returns the range of the next query. With timestamp.initial=-1 it starts at the database's current time."""
    mode, dialect = settings.mode, session.dialect
    position = tracker.position
    number = mode.initial_incrementing if position.incrementing is None else position.incrementing
    if not mode.mode.uses_timestamp:
        return QueryRange(number)
    now_ns = dialect.now(session)
    begin_ns = position.timestamp_ns
    if begin_ns is None:
        if mode.initial_timestamp_ms is None:
            begin_ns = now_ns
            tracker.position = SourcePosition(now_ns, position.incrementing)
        else:
            begin_ns = mode.initial_timestamp_ms * 1_000_000
    end_ns = now_ns - mode.delay_ms * 1_000_000
    return QueryRange(
        number,
        timestamp_bounds(session, begin_ns, times, settings),
        timestamp_bounds(session, end_ns, times, settings),
        inclusive,
    )


def timestamp_bounds(
    session: Session, ns: int, times: Sequence[JdbcColumn | None], settings: JdbcSourceConfig
) -> TimestampBounds:
    return tuple(session.dialect.timestamp(ns, column, settings.read) for column in times)


def incremental_columns(table: JdbcTable, mode: ModeConfig) -> tuple[JdbcColumn | None, tuple[JdbcColumn, ...]]:
    """Finds the incrementing column and the timestamp columns that the mode uses. Raises ConfigError that lists the columns."""
    number = _find_incrementing_column(table, mode) if mode.mode.uses_incrementing else None
    times: tuple[JdbcColumn, ...] = ()
    if mode.mode.uses_timestamp:
        names = mode.timestamp_columns or find_mapped_columns(mode.timestamp_mapping, table.name, "timestamp.columns.mapping")
        times = tuple(find_column(table, name, "timestamp.column.name") for name in names)
    return number, times


def _find_incrementing_column(table: JdbcTable, mode: ModeConfig) -> JdbcColumn:
    if mode.incrementing_column:
        return find_column(table, mode.incrementing_column, "incrementing.column.name")
    if mode.incrementing_mapping:
        (name,) = find_mapped_columns(mode.incrementing_mapping, table.name, "incrementing.column.mapping")
        return find_column(table, name, "incrementing.column.mapping")
    found = next((column for column in table.columns if column.autoincrement), None)
    if found is None:
        raise ConfigError(
            f"Table {table.name} has no auto-increment column; set incrementing.column.name to one of "
            f"{', '.join(column.name for column in table.columns)}",
            key="incrementing.column.name",
        )
    return found


def find_column(table: JdbcTable, name: str, key: str) -> JdbcColumn:
    """Finds a column of a table. Raises ConfigError with the nearest name."""
    found = table.column(name)
    if found is None:
        names = [column.name for column in table.columns]
        hint = did_you_mean(name, names) or f"it has {', '.join(names)}"
        raise ConfigError.invalid(key, name, f"table {table.name} has no such column; {hint}")
    return found


def _require_column_types(
    reader: RowReader, number: str | None, times: Sequence[str], options: ReadOptions, label: str
) -> RowReader:
    """Returns the reader. Raises ConfigError if the mode's columns have the wrong types: some databases compare numbers with
    timestamps without an error, and would return the same rows again and again, or none."""
    schemas, wanted = dict(reader.fields), timestamp_schema_for(options, False)
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


def require_non_null(table: JdbcTable, found: tuple[JdbcColumn | None, Sequence[JdbcColumn]], mode: Mode) -> None:
    """Checks ``validate.non.null``. Raises ConfigError."""
    number, times = found
    way_out = "make it NOT NULL, or set validate.non.null=false to ignore rows with null there"
    # SQLite reports an INTEGER PRIMARY KEY (the row ID) as nullable, which it never is.
    never_null = number is not None and (number.autoincrement or table.primary_key == (number.name,))
    if number is not None and number.nullable and not never_null:
        raise ConfigError(
            f"Cannot make incremental queries using incrementing column {number.name} on {table.name} because this column is "
            f"nullable; {way_out}",
            key="incrementing.column.name",
        )
    if mode.uses_timestamp and all(column.nullable for column in times):
        names = ", ".join(column.name for column in times)
        raise ConfigError(
            f"Cannot make incremental queries using timestamp columns [{names}] on {table.name} because all of these columns are "
            f"nullable; {way_out}",
            key="timestamp.column.name",
        )


def _find_result_column(name: str, names: Sequence[str], label: str) -> str:
    if name in names:
        return name
    alike = [known for known in names if known.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    hint = did_you_mean(name, names) or f"it has {', '.join(names)}"
    raise ConnectError(f"The result of {label} has no column {name}; {hint}")
