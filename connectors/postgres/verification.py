"""Reads the captured tables for ``sluice verify``: as of one point in time, as the records that the connector would write."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from connect.change_events.toast import text_forms
from connect.data.struct import Struct
from connect.errors import ConfigError, ConnectError
from connect.record import SourceRecord
from connect.verification import Key, SourceRows, SourceTable
from connect.version import sluice_version
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.cdc.schema.filters import Filters
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.cdc.snapshot.row_stream import first_full
from connectors.postgres.config import PostgresConfig, parse_config
from connectors.postgres.connection import Connection, quote_identifier, quote_value
from connectors.postgres.errors import ServerError
from connectors.postgres.offsets import confirmable_lsn, format_lsn, parse_lsn, parse_offset
from connectors.postgres.schema import source_block as fields
from connectors.postgres.schema.catalog import estimated_rows
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.snapshot.copy_stream import Block, CopyStream
from connectors.postgres.snapshot.events import SnapshotPoint, TableEvents
from connectors.postgres.snapshot.transaction import select_statement, start_snapshot
from connectors.postgres.streaming import publications
from connectors.postgres.streaming.captured_tables import CapturedTables

_LSN = "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end"
_PAGE_SIZE, _PAGE_HEADERS = 8192, (24, 40)
_WRITERS = """
select coalesce(p.root, l.relation), l.virtualtransaction from pg_locks l
left join (select r.oid root, t.relid from pg_class r, pg_partition_tree(r.oid) t where r.relkind = 'p') p on p.relid = l.relation
where l.locktype = 'relation' and l.granted and l.pid is distinct from pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
  and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""
_KEYS_PER_QUERY = 500
_WAIT_S = 0.5
_SAMPLED_TOO_MANY = 1.5
"""A sample of a part of the rows has more or fewer of them; those beyond the limit are not read."""
_INVALID_TEXT = ("22P02", "22007", "22008", "22003", "22P03", "22001", "22021")
"""SQL states of a text that is no value of a type."""
_NO_OFFSETS = OffsetStep({}, {})
_STREAMED = ("c", "u", "d", "t")
_VARIED_MS = 86_400_000
"""By how much the times of another event of the same row differ."""


class PostgresVerification:
    """Implements :class:`connect.verification.VerifiableSource`."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._settings: PostgresConfig = parse_config(config)
        self._filters = Filters(self._settings.capture)
        self._sessions = DatabaseSessions(self._settings)
        self._captured = CapturedTables(self._settings, self._filters, self._sessions.catalog)
        self._events: dict[str, TableEvents] = {}
        self.placeholders = frozenset(text_forms(self._settings.types.placeholder))

    def tables(self) -> Sequence[SourceTable]:
        connection = self._sessions.catalog()
        found = []
        for rows in self._read_rows(connection):
            masked = [column.name for column in rows.columns if column.is_masked]
            notes = [f"column {name}: the masked value is compared, because the source writes no other" for name in masked]
            if str(rows.table) in self._settings.snapshot.overrides:
                notes.append("rows are those of snapshot.select.statement.overrides")
            names = tuple(rows.schemas.key.field_names) if rows.schemas.key is not None else ()
            found.append(SourceTable(str(rows.table), rows.topic, names, estimated_rows(connection, rows.table), tuple(notes)))
        return found

    def _read_rows(self, connection: Connection) -> list[TableRows]:
        tables = publications.read_captured_tables(connection, self._settings, self._filters)
        return [
            self._captured.snapshot_rows(table) for table in tables if not self._filters.is_signal_table(table.schema, table.name)
        ]

    def snapshot(self) -> PostgresVerificationSnapshot:
        connection = self._sessions.open()
        try:
            # Before the snapshot: a transaction that ends in between is visible in it.
            writers: dict[str, set[str]] = {}
            for relation, transaction in connection.query(_WRITERS):
                writers.setdefault(relation or "", set()).add(transaction or "")
            tables = start_snapshot(connection, None, self._read_rows, self._settings)
            # After the snapshot, so that the position is behind everything in it.
            lsn = _record_end(parse_lsn(connection.query(_LSN)[0][0] or "0/0"))
        except BaseException:
            connection.close()
            raise
        point = SnapshotPoint(lsn, None)
        version = sluice_version()
        by_name = {
            str(rows.table): TableEvents(rows, point, self._settings, version, self._captured.make_nullable) for rows in tables
        }
        self._events = by_name
        return PostgresVerificationSnapshot(connection, self._sessions, self._settings, by_name, lsn, writers)

    def position_of(self, offset: Mapping[str, Any]) -> int:
        parsed = parse_offset(offset)
        return max(parsed.position.done_lsn, confirmable_lsn(offset)) if parsed.snapshot_completed else 0

    def position_of_value(self, value: Any) -> int | None:
        """The LSN of a change that was streamed: records have the order of commits, and its commit is behind it."""
        op, source = _get(value, "op"), _get(value, "source")
        lsn = _get(source, "lsn")
        is_streamed = op in _STREAMED and _get(source, "snapshot") in ("false", None)
        settings = self._settings
        is_own = (_get(source, "name"), _get(source, "db")) == (settings.topic_prefix, settings.address.database)
        return lsn if is_streamed and is_own and isinstance(lsn, int) else None

    def describe_position(self, position: int) -> str:
        return format_lsn(position)

    def example(self, table: str) -> SourceRecord:
        events = self._events_of(table)
        rows = events.rows
        values = [None if column.schema.optional else column.zero for column in rows.columns]
        return _row_record(rows, values, self._source(rows, 0), "r")

    def vary(self, record: SourceRecord) -> SourceRecord:
        """As another event: an update, a day later, at another position."""
        value = record.value
        if not isinstance(value, Struct):
            return record
        before, after, source, transaction, op, ts_ms, ts_us, ts_ns = value.values
        block = list(source.values)
        block[fields.TS_MS] += _VARIED_MS
        block[fields.TS_US] = (block[fields.TS_US] or 0) + _VARIED_MS * 1000
        block[fields.TS_NS] = (block[fields.TS_NS] or 0) + _VARIED_MS * 1_000_000
        block[fields.SNAPSHOT] = "incremental" if block[fields.SNAPSHOT] == "false" else "false"
        block[fields.TX_ID] = (block[fields.TX_ID] or 0) + 1
        block[fields.LSN] = (block[fields.LSN] or 0) + 1
        block[fields.SEQUENCE] = '["1","2"]'
        values = [
            before,
            after,
            Struct(fields.SOURCE, block),
            transaction,
            "u" if op != "u" else "c",
            (ts_ms or 0) + _VARIED_MS,
            (ts_us or 0) + _VARIED_MS * 1000,
            (ts_ns or 0) + _VARIED_MS * 1_000_000,
        ]
        return SourceRecord(
            {}, {}, record.topic, None, record.key_schema, record.key, record.value_schema, Struct(value.schema, values)
        )

    def delete_events(self, table: str, keys: Sequence[Key]) -> Sequence[SourceRecord]:
        """A delete with the key only, as without ``REPLICA IDENTITY FULL``, and a tombstone, for each key."""
        rows = self._events_of(table).rows
        if rows.schemas.key is None:
            raise ConfigError(f"{table} has no key, so its rows cannot be deleted")
        lsn = parse_lsn(self._sessions.catalog().query(_LSN)[0][0] or "0/0")
        source = self._source(rows, lsn)
        found = []
        for key in keys:
            values = [None if column.schema.optional else column.zero for column in rows.columns]
            for index, text in zip(rows.key_indexes, key, strict=True):
                values[index] = _decode(rows, index, text)
            deleted = _row_record(rows, values, source, "d")
            found.append(deleted)
            if self._settings.tombstones:
                found.append(SourceRecord({}, {}, rows.topic, None, deleted.key_schema, deleted.key))
        return found

    def read_again(self, table: str, keys: Sequence[Key]) -> tuple[str, Mapping[str, Any]]:
        rows = self._events_of(table).rows
        schema, name = rows.table.schema, rows.table.name
        collection = ".".join("".join(f"\\{c}" if not c.isalnum() and c != "_" else c for c in part) for part in (schema, name))
        condition = key_condition([rows.columns[i].name for i in rows.key_indexes], keys)
        return "execute-snapshot", {
            "type": "incremental",
            "data-collections": [collection],
            "additional-conditions": [{"data-collection": f"{schema}.{name}", "filter": condition}],
        }

    def _events_of(self, table: str) -> TableEvents:
        if table not in self._events:
            version = sluice_version()
            point = SnapshotPoint(0, None)
            self._events = {
                str(rows.table): TableEvents(rows, point, self._settings, version, self._captured.make_nullable)
                for rows in self._read_rows(self._sessions.catalog())
            }
        if table not in self._events:
            raise ConnectError(f"table {table} is not captured any more")
        return self._events[table]

    def _source(self, rows: TableRows, lsn: int) -> Struct:
        settings, table = self._settings, rows.table
        values = fields.source_values(
            sluice_version(), settings.topic_prefix, settings.address.database, table.schema, table.name
        )
        ns = time.time_ns()
        values[fields.TS_MS], values[fields.TS_US], values[fields.TS_NS] = ns // 1_000_000, ns // 1000, ns
        values[fields.LSN], values[fields.SEQUENCE] = lsn, f'["{lsn}","{lsn}"]'
        return Struct(fields.SOURCE, values)

    def close(self) -> None:
        self._sessions.close_catalog()
        self._sessions.interrupt.close()


class PostgresVerificationSnapshot:
    """Implements :class:`connect.verification.SourceSnapshot`: a transaction on a connection of its own."""

    def __init__(
        self,
        connection: Connection,
        sessions: DatabaseSessions,
        settings: PostgresConfig,
        tables: Mapping[str, TableEvents],
        position: int,
        writers: Mapping[str, set[str]],
    ) -> None:
        self._connection = connection
        self._sessions = sessions
        self._settings = settings
        self._tables = tables
        self._writers = writers
        self.position = position

    def writers(self, table: str) -> frozenset[str]:
        return frozenset(self._writers.get(str(self._find(table).rows.table.oid), ()))

    def _find(self, table: str) -> TableEvents:
        if table not in self._tables:
            raise ConnectError(f"table {table} is not captured any more")
        return self._tables[table]

    def rows(self, table: str) -> Iterator[SourceRows]:
        events = self._find(table)
        for block in self._copy(select_statement(events.rows, self._settings)):
            yield _text_rows(events, block)

    def sample(self, table: str, count: int) -> Iterator[SourceRows]:
        events = self._find(table)
        select = select_statement(events.rows, self._settings)
        rows = estimated_rows(self._connection, events.rows.table)
        if str(events.rows.table) not in self._settings.snapshot.overrides and rows > count:
            own_rows = events.rows.table.own_rows
            percent = min(100.0, _SAMPLED_TOO_MANY * 100 * count / rows)
            select = select.replace(f" FROM {own_rows}", f" FROM {own_rows} TABLESAMPLE BERNOULLI ({percent:.6f})", 1)
        for block in self._copy(f"{select} LIMIT {count}"):
            yield _text_rows(events, block)

    def rows_of(self, table: str, keys: Sequence[Key]) -> Iterator[SourceRows]:
        events = self._find(table)
        names = [events.rows.columns[i].name for i in events.rows.key_indexes]
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            yield from self._rows_of(events, names, keys[start : start + _KEYS_PER_QUERY])

    def _rows_of(self, events: TableEvents, names: Sequence[str], keys: Sequence[Key]) -> Iterator[SourceRows]:
        condition = key_condition(names, keys)
        if str(events.rows.table) in self._settings.snapshot.overrides:
            select = f"SELECT '', * FROM ({select_statement(events.rows, self._settings)}) AS rows WHERE {condition}"
        else:
            plain = select_statement(events.rows, self._settings, [condition])
            # A change of the row writes another version of it, with another place or transaction.
            select = plain.replace("SELECT ", "SELECT tableoid || ':' || ctid || ':' || xmin, ", 1)
        try:
            self._connection.execute("SAVEPOINT keys")
            blocks = list(self._copy(select))
            self._connection.execute("RELEASE SAVEPOINT keys")
        except ServerError as e:
            if e.sqlstate not in _INVALID_TEXT:
                raise
            self._connection.execute("ROLLBACK TO SAVEPOINT keys")
            if len(keys) > 1:  # one of the texts is no value of the key's type, so it has no row
                middle = len(keys) // 2
                yield from self._rows_of(events, names, keys[:middle])
                yield from self._rows_of(events, names, keys[middle:])
            return
        for block in blocks:
            pairs = [line.split("\t", 1) for line in block.rows]
            yield _source_rows(events, [rest for _, rest in pairs], [version or None for version, _ in pairs])

    def _copy(self, select: str) -> Iterator[Block]:
        stream = CopyStream(self._connection)
        stream.start(select)
        while True:
            if first_full([stream], self._sessions.interrupt, _WAIT_S) is None:
                continue
            block = stream.take()
            if block.rows:
                yield block
            if block.is_last:
                return

    def close(self) -> None:
        self._connection.close()


def key_condition(names: Sequence[str], keys: Sequence[Key]) -> str:
    """SQL for the rows with one of these keys. The texts become values of the columns' types."""
    columns = ", ".join(map(quote_identifier, names))
    values = ", ".join(f"({', '.join(map(quote_value, key))})" for key in keys)
    return f"({columns}) IN ({values})" if keys else "false"


def _source_rows(events: TableEvents, lines: list[str], versions: list[str | None]) -> SourceRows:
    indexes = events.rows.key_indexes
    keys = [events.key_of(line, indexes) for line in lines] if indexes else [()] * len(lines)
    return SourceRows(events.records(lines, "true", _NO_OFFSETS), keys, versions)


def _text_rows(events: TableEvents, block: Block) -> SourceRows:
    """Rows without versions, whose records and keys are created when somebody looks at one."""
    lines = block.rows

    def select(places: Sequence[int]) -> SourceRows:
        chosen = [lines[place] for place in places]
        return _source_rows(events, chosen, [None] * len(chosen))

    records = events.batch(lines, block.traits, _NO_OFFSETS)
    return SourceRows(records, _LineKeys(events, lines), [None] * len(lines), select)


class _LineKeys(Sequence[Key]):
    """The keys of lines."""

    def __init__(self, events: TableEvents, lines: Sequence[str]) -> None:
        self._events = events
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Key: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Key]: ...
    def __getitem__(self, index: int | slice) -> Key | Sequence[Key]:
        if isinstance(index, slice):
            return _LineKeys(self._events, self._lines[index])
        return self._events.key_of(self._lines[index], self._events.rows.key_indexes)


def _row_record(rows: TableRows, values: list[Any], source: Struct, op: str) -> SourceRecord:
    schemas = rows.schemas
    row = Struct(schemas.value, values)
    block = source.values
    times = block[fields.TS_MS], block[fields.TS_US], block[fields.TS_NS]
    before, after = (row, None) if op == "d" else (None, row)
    envelope = Struct(schemas.envelope, [before, after, source, None, op, *times])
    key = None if schemas.key is None else Struct(schemas.key, list(rows.key_of(values) or ()))
    return SourceRecord({}, {}, rows.topic, None, schemas.key, key, schemas.envelope, envelope)


def _get(value: Any, name: str) -> Any:
    """A field of a struct, or a member of an object; None without one."""
    if isinstance(value, Struct):
        return value.get(name) if value.schema.field(name) is not None else None
    return value.get(name) if isinstance(value, dict) else None


def _decode(rows: TableRows, index: int, text: str) -> Any:
    """The value of a key column from its text. Raises ConnectError."""
    column = rows.columns[index]
    try:
        return column.type.decode(text)
    except CONVERSION_ERRORS as e:
        raise ConnectError(f"{text!r} is no value of the key column {column.name} of {rows.table}") from e


def _record_end(lsn: int) -> int:
    """The insert position is behind the header of the next page while the last record ends with its page."""
    return lsn - lsn % _PAGE_SIZE if lsn % _PAGE_SIZE in _PAGE_HEADERS else lsn
