"""Creates, checks, mends, and removes the triggers. Each change is one transaction: a crash leaves the old or the new state."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from connect.errors import ConfigError, ConnectError
from connectors.cdc.schema.filters import Filters
from connectors.sqlite.connection import SqliteConnection, quote_identifier
from connectors.sqlite.schema.catalog import (
    OWN_PREFIX,
    Captures,
    SqliteTable,
    TableCapture,
    dump_table,
    load_table,
    read_captured_tables,
)
from connectors.sqlite.triggers.ddl import (
    FIXED_COLUMNS,
    MOST_VALUES,
    CaptureNames,
    ChangeOperation,
    add_value_columns,
    create_tables,
    create_triggers,
    stored_columns,
    touch_rows,
)

log = logging.getLogger(__name__)

_FORMAT: Final = 1
_KEPT_CHANGES: Final = 1_000
"""Stored changes that are kept: the newest one continues the sequence, and an offset can be set back to others."""
DELETED_AT_ONCE: Final = 4_000
"""Changes that one transaction deletes, because writers wait for it: about 2 ms."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database says about a structure."""

    capture: TableCapture
    structure: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class _Trigger:
    table: str
    sql: str
    place: int
    """Triggers of a later place fire first."""


class Installation:
    """The connector's objects in one database. Every method raises the errors of :class:`SqliteConnection`."""

    def __init__(self, capture_name: str, topic_prefix: str, filters: Filters) -> None:
        self.names = CaptureNames.of(capture_name)
        self._topic_prefix = topic_prefix
        self._filters = filters

    # --- reading ------------------------------------------------------------------------------------------------------------

    def database_id(self, connection: SqliteConnection) -> str | None:
        """The random number of this database; None if the connector has no tables in it. Raises ConfigError if they are
        another connector's."""
        if not self._exists(connection):
            return None
        state = self._state(connection)
        if state["format"] != _FORMAT:
            raise ConnectError(f"{self.names.state} in {connection.path} is of another release, with format {state['format']}")
        if state["owner"] != self._topic_prefix:
            raise ConfigError(
                f"{self.names.changes} in {connection.path} belongs to the connector with topic.prefix={state['owner']}; set "
                "capture.name, so that this connector gets triggers of its own",
                key="capture.name",
            )
        return str(state["id"])

    def _exists(self, connection: SqliteConnection) -> bool:
        sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN (?, ?, ?)"
        return int(connection.value(sql, [self.names.changes, self.names.tables, self.names.state])) == 3

    def _state(self, connection: SqliteConnection) -> Mapping[str, Any]:
        return dict(connection.query(f"SELECT name, value FROM {self.names.state}"))

    def read_captures(self, connection: SqliteConnection) -> Captures:
        """The structures of tables that changes may have."""
        known = self._read_known(connection)
        return Captures(
            {one.capture.id: one.capture for one in known},
            {one.capture.table.name: one.capture for one in known if one.is_current},
        )

    def _read_known(self, connection: SqliteConnection) -> list[_Known]:
        rows = connection.query(f"SELECT id, structure, stored, ended_at IS NULL FROM {self.names.tables} ORDER BY id")
        return [
            _Known(TableCapture(int(id_), load_table(text), tuple(json.loads(stored))), text, bool(is_current))
            for id_, text, stored, is_current in rows
        ]

    def _triggers(self, connection: SqliteConnection) -> Mapping[str, _Trigger]:
        rows = connection.query("SELECT name, tbl_name, sql, rowid FROM sqlite_master WHERE type = 'trigger'")
        return {str(name): _Trigger(str(table), str(sql), int(place)) for name, table, sql, place in rows}

    # --- changing -----------------------------------------------------------------------------------------------------------

    def install(self, connection: SqliteConnection) -> None:
        """Creates the tables and the first triggers, unless they exist."""
        with connection.writing("create triggers"):
            if not self._exists(connection):
                drop_objects(connection, self.names)
                for sql in create_tables(self.names):
                    connection.execute(sql)
                state = (("format", _FORMAT), ("id", str(uuid.uuid4())), ("owner", self._topic_prefix))
                for entry in state:
                    connection.execute(f"INSERT INTO {self.names.state} VALUES (?, ?)", entry)
                self._add_mark(connection, None, ChangeOperation.START)
                self._update(connection, 0, is_first=True)
        log.info("created triggers and %s in %s", self.names.changes, connection.path)

    def update(self, connection: SqliteConnection, position: int) -> None:
        """Makes triggers agree with the tables. ``position`` is the last change that was read, as of the last time they did.

        Changes of a table after that may lack columns, so the current state of their rows follows them. A table that was without
        triggers gets a mark.
        """
        if not self._is_outdated(connection):
            return
        with connection.writing("update triggers"):
            self._update(connection, position, is_first=False)

    def _is_outdated(self, connection: SqliteConnection) -> bool:
        """Whether something has to be written, for which writers would wait."""
        with connection.reading():
            tables = read_captured_tables(connection, self._filters)
            known, triggers = self._current(connection), self._triggers(connection)
            wanted = {table.name: dump_table(table) for table in tables}
            if any(
                name not in known or known[name].structure != text or known[name].capture.stored != self._stored(table)
                or not self._is_intact(known[name].capture, triggers)
                for (name, text), table in zip(wanted.items(), tables, strict=True)
            ):  # fmt: skip
                return True
            ids = {known[name].capture.id for name in wanted}
            return any(name not in wanted for name in known) or any(
                self.names.is_trigger(name) and self._table_id(name) not in ids for name in triggers
            )

    def _current(self, connection: SqliteConnection) -> dict[str, _Known]:
        return {known.capture.table.name: known for known in self._read_known(connection) if known.is_current}

    def _table_id(self, trigger: str) -> int:
        return int(trigger.removeprefix(self.names.prefix).partition("_")[0])

    def _stored(self, table: SqliteTable) -> tuple[str, ...]:
        return stored_columns(table, self._filters)

    def _is_attached(self, capture: TableCapture, triggers: Mapping[str, _Trigger]) -> bool:
        """Whether the table has had all its triggers: they can be dropped, or go with a table that is renamed."""
        expected = create_triggers(self.names, capture.id, capture.table, capture.stored)
        return all(name in triggers and triggers[name].table == capture.table.name for name in expected)

    def _is_intact(self, capture: TableCapture, triggers: Mapping[str, _Trigger]) -> bool:
        """Whether the triggers are as created, and fire before others of the table, which may change its rows again."""
        if not self._is_attached(capture, triggers):
            return False
        expected = create_triggers(self.names, capture.id, capture.table, capture.stored)
        first = min(triggers[name].place for name in expected)
        return all(triggers[name].sql == sql for name, sql in expected.items()) and not any(
            # Triggers of other connectors change no captured table.
            trigger.place > first and not name.startswith(OWN_PREFIX)
            for name, trigger in triggers.items()
            if trigger.table == capture.table.name
        )

    def _update(self, connection: SqliteConnection, position: int, *, is_first: bool) -> None:
        tables = read_captured_tables(connection, self._filters)
        known, triggers = self._current(connection), self._triggers(connection)
        ever = {name for (name,) in connection.query(f"SELECT DISTINCT name FROM {self.names.tables}")}
        kept: set[int] = set()
        for table in tables:
            self._check(table)
            before = known.pop(table.name, None)
            if (
                before is not None
                and before.structure == dump_table(table)
                and before.capture.stored == self._stored(table)
                and self._is_intact(before.capture, triggers)
            ):
                kept.add(before.capture.id)
                continue
            was_attached = before is not None and self._is_attached(before.capture, triggers)
            if before is not None:
                self._end(connection, before.capture, triggers)
            capture = self._capture(connection, table)
            if was_attached and before is not None:
                touched = connection.execute(touch_rows(self.names, capture, before.capture), [position])
                log.info("table %s has changed; %d rows that changed since then are read again", table, touched)
            elif table.name in ever:
                log.warning("table %s was without triggers for some time; changes in that time are unknown", table)
                self._add_mark(connection, capture.id, ChangeOperation.LOSS)
            elif not is_first:
                log.info("table %s is new", table)
                self._add_mark(connection, capture.id, ChangeOperation.NEW_TABLE)
            kept.add(capture.id)
        for gone in known.values():
            log.info("table %s is no longer captured", gone.capture.table)
            self._end(connection, gone.capture, triggers)
        for name in self._triggers(connection):
            if self.names.is_trigger(name) and self._table_id(name) not in kept:
                connection.execute(f"DROP TRIGGER {quote_identifier(name)}")

    def _check(self, table: SqliteTable) -> None:
        if table.rowid is None and not table.key:
            raise ConfigError(
                f"table {table} cannot be captured: its columns hide all names of the rowid, and it has no primary key; exclude "
                "it",
                key="table.exclude.list",
            )
        if 2 * len(self._stored(table)) > MOST_VALUES:
            raise ConfigError(
                f"table {table} has more than {MOST_VALUES // 2} captured columns, which the change table cannot hold; exclude "
                "some",
                key="column.exclude.list",
            )
        if table.unseen_indexes:
            log.warning(
                "unique index %s of table %s is partial, on an expression, or has a collation of the application: rows that "
                "REPLACE removes because of it are captured only if writers set PRAGMA recursive_triggers=ON",
                ", ".join(table.unseen_indexes), table,
            )  # fmt: skip

    def _capture(self, connection: SqliteConnection, table: SqliteTable) -> TableCapture:
        """Creates the triggers of a table."""
        stored = self._stored(table)
        columns = connection.value("SELECT count(*) FROM pragma_table_info(?)", [self.names.changes])
        for sql in add_value_columns(self.names, int(columns) - FIXED_COLUMNS, 2 * len(stored)):
            connection.execute(sql)
        insert = f"INSERT INTO {self.names.tables}(name, structure, stored) VALUES (?, ?, ?) RETURNING id"
        id_ = int(connection.value(insert, [table.name, dump_table(table), json.dumps(stored, ensure_ascii=False)]))
        for sql in create_triggers(self.names, id_, table, stored).values():
            connection.execute(sql, what=f"create triggers of table {table}")
        return TableCapture(id_, table, stored)

    def _end(self, connection: SqliteConnection, capture: TableCapture, triggers: Mapping[str, _Trigger]) -> None:
        """Drops the triggers of a structure."""
        for name in create_triggers(self.names, capture.id, capture.table, capture.stored):
            if name in triggers:
                connection.execute(f"DROP TRIGGER {quote_identifier(name)}")
        connection.execute(
            f"UPDATE {self.names.tables} SET ended_at = (SELECT max(seq) FROM {self.names.changes}) WHERE id = ?", [capture.id]
        )

    def _add_mark(self, connection: SqliteConnection, table_id: int | None, operation: ChangeOperation) -> None:
        sql = f"INSERT INTO {self.names.changes}(tab, op, at) VALUES (?, ?, julianday('now'))"
        connection.execute(sql, [table_id, int(operation)])

    def delete_changes(self, connection: SqliteConnection, stored: int) -> bool:
        """Deletes changes up to ``stored``, whose offset is durable, without the newest ones. Returns whether some are left.

        Promise 1: nothing is deleted whose offset is not stored.
        """
        end = stored - _KEPT_CHANGES
        first = connection.value(f"SELECT min(seq) FROM {self.names.changes}")
        if first is None or int(first) >= end or self._are_of_one_statement(connection, end, stored + 1):
            return False
        until = min(end, int(first) + DELETED_AT_ONCE)
        with connection.writing("delete changes"):
            connection.execute(f"DELETE FROM {self.names.changes} WHERE seq < ?", [until])
            # The newest structure of each table remains, to know that the table was captured before.
            connection.execute(
                f"DELETE FROM {self.names.tables} WHERE ended_at < ? AND id NOT IN "
                f"(SELECT max(id) FROM {self.names.tables} GROUP BY name)",
                [until],
            )
        return until < end

    def _are_of_one_statement(self, connection: SqliteConnection, first: int, last: int) -> bool:
        """Whether two changes have the same time. A candidate at the beginning of a long statement may belong to its last row."""
        at = f"(SELECT at FROM {self.names.changes} WHERE seq >= ? ORDER BY seq LIMIT 1)"
        return bool(connection.value(f"SELECT {at} = {at}", [first, last]))

    def uninstall(self, connection: SqliteConnection) -> None:
        """Drops all triggers and tables of the connector. Raises ConfigError if they are those of another one."""
        with connection.writing("drop triggers"):
            if self.database_id(connection) is None:
                return
            drop_objects(connection, self.names)
        log.info("dropped triggers and %s in %s", self.names.changes, connection.path)


def drop_objects(connection: SqliteConnection, names: CaptureNames) -> int:
    """Drops all triggers and tables with a connector's names, in a transaction of the caller; returns how many there were."""
    listed = connection.query("SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'table')")
    tables = (names.changes, names.tables, names.state)
    found = [
        (str(type_), str(name)) for type_, name in listed if name in tables or (type_ == "trigger" and names.is_trigger(name))
    ]
    for type_, name in sorted(found, reverse=True):  # triggers first
        connection.execute(f"DROP {type_} {quote_identifier(name)}")
    return len(found)
