"""The stream of changes: reads them as they are committed, and keeps the triggers in agreement with the tables."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any, Final

from connect.text_records import MixedTextRecords
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.schema.checks import check_table_topics
from connectors.cdc.streaming.heartbeat import Heartbeat
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.cdc.streaming.read_pace import ReadPace
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.connection import SqliteConnection
from connectors.sqlite.offsets import SequencePosition
from connectors.sqlite.schema.catalog import MAIN, Captures
from connectors.sqlite.sessions import DatabaseFile
from connectors.sqlite.streaming.emitter import ChangeEmitter
from connectors.sqlite.streaming.reader import ChangeTableReader
from connectors.sqlite.triggers.installation import Installation

log = logging.getLogger(__name__)

_SHORTEST_WAIT_S: Final = 0.001
_LONGEST_WAIT_S: Final = 0.02
"""How often an idle source looks for commits, which costs about 10 microseconds."""


class ChangeStreamSession:
    """Reads changes. Its position outlives connections."""

    def __init__(
        self,
        settings: SqliteConfig,
        sessions: DatabaseFile,
        installation: Installation,
        emitter: ChangeEmitter,
        extras: OffsetExtras,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._installation = installation
        self._emitter = emitter
        self._extras = extras
        self._reader = ChangeTableReader(installation.names, settings.max_batch, settings.max_batch_bytes)
        self._heartbeat = Heartbeat(settings.heartbeat, settings.topic_prefix, self._run_query)
        self._pace = ReadPace()
        self._schema_version = 0
        self._warned_of_lag = False
        self.captures = Captures({}, {})
        self.end = SequencePosition(0, 0)
        """The newest change, as of the last read."""
        self.is_full = False
        """Whether more changes wait than the last read has returned."""

    @property
    def position(self) -> SequencePosition:
        return self._emitter.position

    @property
    def is_positioned(self) -> bool:
        """Whether the position is one in the change table."""
        return self._emitter.position.sequence > 0

    @property
    def lag_rows(self) -> int:
        return max(0, self.end.sequence - self._emitter.position.sequence)

    @property
    def out(self) -> MixedTextRecords:
        """The records that were read, to which a snapshot adds its rows."""
        return self._emitter.out

    def position_offset(self) -> dict[str, Any]:
        """The offset of the position."""
        return {**self._emitter.position.members(), **self._extras.offset_extras}

    # --- start ----------------------------------------------------------------------------------------------------------------

    def check(self, connection: SqliteConnection, position: SequencePosition) -> None:
        """Raises DatabaseReplacedError if the change table does not have the change at a position."""
        self._reader.check(connection, position)

    def start(self, connection: SqliteConnection, position: SequencePosition | None) -> None:
        """Starts at a position; without one at the oldest change that is left. Updates the triggers before."""
        position = position or self._reader.start(connection)
        self._installation.update(self._sessions.writer(), position.sequence)
        self._refresh(connection)
        self._emitter.position = position
        self._emitter.forget_candidates()
        with connection.reading():
            for part in self._reader.look_back(connection, position):
                self._emitter.remember(part)

    def start_without_triggers(self, connection: SqliteConnection, captures: Captures) -> None:
        """Sets the tables of a snapshot that nothing follows."""
        self.captures, self._schema_version = captures, connection.schema_version()
        self._emitter.position = self.end = SequencePosition(0, time.time_ns() // 1_000_000)

    def forget_position(self) -> None:
        """The database does not have the position."""
        self._emitter.position = SequencePosition(0, 0)

    def _refresh(self, connection: SqliteConnection) -> None:
        """Reads the structures that changes have, as of one version of the schema."""
        with connection.reading():
            self._schema_version = connection.schema_version()
            self.captures = self._installation.read_captures(connection)
            self.end = self._reader.end(connection)
        self._emitter.set_captures(self.captures.by_id)

    def is_current(self, connection: SqliteConnection) -> bool:
        """Whether the schema is the one for which the triggers were made."""
        return connection.schema_version() == self._schema_version

    def follow_schema(self) -> None:
        """Makes the triggers agree with a new schema."""
        connection = self._sessions.reader()
        self._installation.update(self._sessions.writer(), self._emitter.position.sequence)
        self._refresh(connection)
        check_table_topics([(MAIN, name) for name in self.captures.current], self._settings.topic_naming)

    # --- reading --------------------------------------------------------------------------------------------------------------

    def begin(self, connection: SqliteConnection, *, skips_changes: bool) -> None:
        """Begins to read in a transaction of a snapshot. ``skips_changes``: its rows contain all changes."""
        if not self.is_positioned:
            return
        self.end = self._reader.end(connection)
        if skips_changes:
            self._emitter.position = self.end
        else:
            self._reader.check(connection, self._emitter.position)

    def catch_up(self, connection: SqliteConnection) -> bool:
        """Reads changes up to the end that a transaction sees. Returns whether it has reached it."""
        if self.lag_rows:
            self._emitter.process(self._reader.read(connection, self._emitter.position))
        return not self.lag_rows

    def read(self, connection: SqliteConnection) -> None:
        """Reads the next changes, or waits for them."""
        if (delay_s := self._pace.delay_s()) > 0:
            self._sessions.interrupt.wait(delay_s)
        seen = connection.data_version()
        if not self._read_changes(connection) and not self._emitter.out and self._wait_for_commit(connection, seen):
            self._read_changes(connection)
        out = self._emitter.out
        self._pace.start(kinds=out.count_kinds(), is_full=self.is_full)
        if self._heartbeat.is_due:
            out.append(self._heartbeat.beat(self.position_offset()))
        self._warn_of_lag()

    def _read_changes(self, connection: SqliteConnection) -> bool:
        """Reads the next changes. Returns whether there were any, or the schema has changed."""
        with connection.reading():
            is_current = self.is_current(connection)
            if is_current:
                self.end = self._reader.end(connection)
                self._reader.check(connection, self._emitter.position)
                entries = self._reader.read(connection, self._emitter.position)
        if not is_current:
            self.follow_schema()
            return True
        self._emitter.process(entries)
        self.is_full = self.lag_rows > 0
        return bool(entries)

    def take_records(self) -> MixedTextRecords:
        """Returns the records that were read and removes them."""
        return self._emitter.take_records()

    def _wait_for_commit(self, connection: SqliteConnection, seen: int) -> bool:
        """Waits at most for a poll; returns whether another connection has committed something."""
        end = time.monotonic() + self._heartbeat.limit_wait_s(self._settings.poll_interval_s)
        wait_s = _SHORTEST_WAIT_S
        while (remaining_s := end - time.monotonic()) > 0 and not self._sessions.interrupt.wait(min(wait_s, remaining_s)):
            if connection.data_version() != seen:
                return True
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        return False

    def _warn_of_lag(self) -> None:
        most, lag = self._settings.lag_warn_rows, self.lag_rows
        if most and lag > most and not self._warned_of_lag:
            size = os.path.getsize(self._settings.file)
            log.warning("%d changes wait in the change table (changes.lag.warn.rows=%d); the file has %d bytes", lag, most, size)
        self._warned_of_lag = bool(most) and lag > most

    def _run_query(self, sql: str) -> None:
        try:
            self._sessions.writer().execute(sql, what="run heartbeat.action.query")
        except ConnectionLostError:
            log.info("heartbeat.action.query has to wait: the database is locked")

    def progress(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {"events": self._emitter.events, "seq": self._emitter.position.sequence}
        return {**found, "lag_rows": self.lag_rows} if self.is_positioned else found
