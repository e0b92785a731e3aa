"""Blocking ad hoc snapshots: the stream pauses while the named tables are read, as of a point that it has reached."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.errors import ConfigError, ConnectError
from connect.record import SourceRecord
from connectors.cdc.errors import TablesChangedError
from connectors.cdc.incremental.requests import SnapshotRequest, dump_requests, parse_requests
from connectors.cdc.schema.filters import Filters, name_matches
from connectors.cdc.snapshot.offsets import EmittedTable, OffsetStep
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.errors import ServerError
from connectors.postgres.offsets import TX_EVENTS, TX_LSN
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.snapshot.session import SnapshotSession
from connectors.postgres.streaming import publications, slots
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.observers import StreamObservers

log = logging.getLogger(__name__)

_REQUESTS = "blocking_snapshot_requests"
"""Our own key in offsets: snapshots that are not complete. After a restart, they start over."""
_MAX_ATTEMPTS = 3
"""A condition with a column that does not exist looks like a table that has just changed."""


class BlockingSnapshots:
    """Runs one snapshot at a time. ``session`` is the one that runs."""

    def __init__(
        self,
        settings: PostgresConfig,
        filters: Filters,
        tables: CapturedTables,
        sessions: DatabaseSessions,
        observers: StreamObservers,
        version: str,
    ) -> None:
        self._settings = settings
        self._filters = filters
        self._tables = tables
        self._sessions = sessions
        self._observers = observers
        self._version = version
        self._requests: list[SnapshotRequest] = []
        self._attempts = 0
        self.session: SnapshotSession | None = None

    def load(self, offset: Mapping[str, Any]) -> None:
        """Starts what a stored offset says again."""
        self._requests = parse_requests(offset.get(_REQUESTS))
        self._store()

    def add(self, request: SnapshotRequest) -> None:
        self._requests.append(request)
        self._store()

    def _store(self) -> None:
        self._observers.set_offset_extras(self, self._own_extras(self._requests))

    def _own_extras(self, requests: Sequence[SnapshotRequest]) -> dict[str, Any]:
        return {_REQUESTS: dump_requests(requests)} if requests else {}

    def _offset_extras(self, *, is_complete: bool) -> dict[str, Any]:
        """What offsets contain in addition during the first snapshot, or once it is complete."""
        others = {key: value for key, value in self._observers.offset_extras.items() if key != _REQUESTS}
        return others | self._own_extras(self._requests[1:] if is_complete else self._requests)

    @property
    def is_requested(self) -> bool:
        return bool(self._requests)

    def start(self, created: slots.CreatedSlot) -> SnapshotSession | None:
        """Starts the first requested snapshot as of the start of a slot; None if it cannot be taken, which is logged."""
        request = self._requests[0]
        settings = self._limited_settings(self._sessions.catalog(), request)
        if settings is None:
            log.warning("signal %s: no captured table matches %s", request.signal_id, ", ".join(request.collections))
            self._complete()
            return None
        session = SnapshotSession(settings, self._filters, self._tables, self._sessions, self._version)
        try:
            session.start(created, offsets=_StreamOffsets(created.consistent_lsn, self._offset_extras))
        except (ServerError, ConfigError, TablesChangedError) as e:
            session.close()
            self._attempts += 1
            if isinstance(e, TablesChangedError) and self._attempts < _MAX_ATTEMPTS:
                raise
            self._give_up(e)
            return None
        except BaseException:
            session.close()
            raise
        self.session = session
        return session

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events; afterwards ``session`` is None if they were the last."""
        session = self.session
        assert session is not None
        try:
            records = session.read()
        except ServerError as e:
            self._give_up(e)
            self.close()
            return []
        if session.done:
            self._complete()
            self.session = None
        return records

    def _give_up(self, error: ConnectError) -> None:
        log.warning(
            "signal %s: the blocking snapshot failed; streaming continues: %s", self._requests[0].signal_id, error.message
        )
        self._complete()

    def _complete(self) -> None:
        """The first request is done."""
        del self._requests[0]
        self._attempts = 0
        self._store()

    def close(self) -> None:
        """Interrupts the snapshot; it starts over later. May be called twice."""
        if self.session is not None:
            self.session.close()
        self.session = None

    def _limited_settings(self, connection: Connection, request: SnapshotRequest) -> PostgresConfig | None:
        """The configuration of a snapshot of the requested tables; None if there are none."""
        tables = publications.read_captured_tables(connection, self._settings, self._filters)
        found = [table for table in tables if name_matches(request.collections, str(table))]
        overrides = {str(table): sql for table in found if (sql := _override(request, table))}
        snapshot = self._settings.snapshot
        if not found:
            return None
        limited = replace(snapshot, include=request.collections, overrides={**snapshot.overrides, **overrides}, resumes=False)
        return replace(self._settings, snapshot=limited)


class _StreamOffsets:
    """The offsets of rows: the position of the stream, which the snapshot has reached (see SnapshotOffsets)."""

    def __init__(self, lsn: int, extras: Callable[..., dict[str, Any]]) -> None:
        self._lsn = lsn
        self._extras = extras

    def table_emitted(self, table: EmittedTable, *, is_complete: bool = False) -> None:
        """Does nothing: the snapshot is not resumed."""

    def step(self, *, last: bool = False) -> OffsetStep:
        return OffsetStep(self._offset(is_complete=False), self._offset(is_complete=last))

    def _offset(self, *, is_complete: bool) -> dict[str, Any]:
        lsn = self._lsn
        position = {"lsn": lsn, "lsn_proc": lsn, "lsn_commit": lsn, "messageType": "COMMIT", TX_LSN: lsn, TX_EVENTS: 0}
        return position | self._extras(is_complete=is_complete)


def _override(request: SnapshotRequest, table: CapturedTable) -> str:
    """The SELECT of a table with a condition: Debezium's filters of blocking snapshots are whole statements."""
    condition = request.condition(str(table))
    if not condition or condition.lstrip().lower().startswith("select"):
        return condition
    conditions = " AND ".join(f"({part})" for part in (table.row_filter, condition) if part)
    return f"SELECT * FROM {table.own_rows} WHERE {conditions}"
