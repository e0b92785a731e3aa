"""Blocking ad hoc snapshots: the stream pauses while the named tables are read, as of a point that it has reached."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from connect.errors import ConfigError, ConnectError
from connect.record import SourceRecord
from connectors.cdc.errors import RejectedStatementError, TablesChangedError
from connectors.cdc.incremental.requests import SnapshotRequest, dump_requests, parse_requests
from connectors.cdc.snapshot.offsets import EmittedTable, OffsetStep
from connectors.cdc.snapshot.progress import SnapshotStep
from connectors.cdc.source_settings import SourceSnapshotSettings
from connectors.cdc.streaming.offset_extras import OffsetExtras

log = logging.getLogger(__name__)

_REQUESTS = "blocking_snapshot_requests"
"""Our own key in offsets: snapshots that are not complete. After a restart, they start over."""
_MAX_ATTEMPTS = 3
"""A condition with a column that does not exist looks like a table that has just changed."""


class RunningSnapshot(Protocol):
    """An initial or blocking snapshot."""

    @property
    def tables(self) -> Sequence[str]:
        """The tables of the snapshot (schema.table), those included that an earlier attempt has read."""

    @property
    def done(self) -> bool: ...

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events; after the last ones, ``done`` is set and the connections are closed."""

    def take_steps(self) -> Sequence[SnapshotStep]:
        """Returns what has happened since the last call."""

    def close(self) -> None:
        """Closes the connections. May be called twice."""


SnapshotT = TypeVar("SnapshotT", bound=RunningSnapshot)
PointT = TypeVar("PointT")
"""What fixes the point in time of a snapshot."""
SettingsT = TypeVar("SettingsT", bound=SourceSnapshotSettings)


class RequestedSnapshots(ABC, Generic[SnapshotT, PointT]):
    """Runs one snapshot at a time. ``session`` is the one that runs."""

    def __init__(self, extras: OffsetExtras) -> None:
        self._extras = extras
        self._requests: list[SnapshotRequest] = []
        self._attempts = 0
        self.session: SnapshotT | None = None

    @abstractmethod
    def _open(self, request: SnapshotRequest, point: PointT) -> SnapshotT | None:
        """Starts a snapshot whose rows have :meth:`offset_extras`; None if no table matches. Closes what it has opened before it
        raises an error."""

    def load(self, offset: Mapping[str, Any]) -> None:
        """Starts what a stored offset says again."""
        self._requests = parse_requests(offset.get(_REQUESTS))
        self._store()

    def add(self, request: SnapshotRequest) -> None:
        self._requests.append(request)
        self._store()

    def _store(self) -> None:
        self._extras.set_offset_extras(self, self._own_extras(self._requests))

    def _own_extras(self, requests: Sequence[SnapshotRequest]) -> dict[str, Any]:
        return {_REQUESTS: dump_requests(requests)} if requests else {}

    def offset_extras(self, *, is_complete: bool) -> dict[str, Any]:
        """What offsets contain in addition during the first snapshot, or once it is complete."""
        others = {key: value for key, value in self._extras.offset_extras.items() if key != _REQUESTS}
        return others | self._own_extras(self._requests[1:] if is_complete else self._requests)

    @property
    def is_requested(self) -> bool:
        return bool(self._requests)

    def start(self, point: PointT) -> SnapshotT | None:
        """Starts the first requested snapshot as of a point; None if it cannot be taken, which is logged.

        Raises TablesChangedError and ConnectionLostError: then start again.
        """
        request = self._requests[0]
        try:
            self.session = self._open(request, point)
        except (RejectedStatementError, ConfigError, TablesChangedError) as e:
            self._give_up_at_last(e)
            return None
        if self.session is None:
            log.warning("signal %s: no captured table matches %s", request.signal_id, ", ".join(request.collections))
            self._complete()
        return self.session

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events; afterwards ``session`` is None if they were the last.

        Raises TablesChangedError and ConnectionLostError: then :meth:`close`, and start again.
        """
        session = self.session
        assert session is not None
        try:
            records = session.read()
        except (RejectedStatementError, TablesChangedError) as e:
            self._give_up_at_last(e)
            self.close()
            return []
        if session.done:
            self._complete()
            self.session = None
        return records

    def _give_up_at_last(self, error: ConnectError) -> None:
        """Gives up, or raises the error if another attempt may succeed."""
        self._attempts += 1
        if isinstance(error, TablesChangedError) and self._attempts < _MAX_ATTEMPTS:
            raise error
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


class RequestedOffsets:
    """The offsets of rows of a requested snapshot: the position of the stream, which it has reached (see SnapshotOffsets)."""

    def __init__(self, position: Mapping[str, Any], extras: Callable[..., Mapping[str, Any]]) -> None:
        """``position`` is the stream's offset there; ``extras`` is :meth:`RequestedSnapshots.offset_extras`."""
        self._position = position
        self._extras = extras

    def table_emitted(self, table: EmittedTable, *, is_complete: bool = False) -> None:
        """Does nothing: the snapshot is not resumed."""

    def step(self, *, last: bool = False) -> OffsetStep:
        return OffsetStep(self._offset(is_complete=False), self._offset(is_complete=last))

    def _offset(self, *, is_complete: bool) -> Mapping[str, Any]:
        return {**self._position, **self._extras(is_complete=is_complete)}


def limit_snapshot(settings: SettingsT, request: SnapshotRequest, tables: Iterable[tuple[str, str]]) -> SettingsT:
    """The settings of a snapshot of the requested tables. ``tables`` are pairs of a name (schema.table) and a SELECT of all its
    rows that the condition of the signal can be added to."""
    overrides = {name: sql for name, rows in tables if (sql := _override(request, name, rows))}
    return replace(settings, include=request.collections, overrides={**settings.overrides, **overrides}, resumes=False)


def _override(request: SnapshotRequest, table: str, rows: str) -> str:
    """The SELECT of a table with a condition: Debezium's filters of blocking snapshots are whole statements."""
    condition = request.condition(table)
    if not condition or condition.lstrip().lower().startswith("select"):
        return condition
    return f"{rows} ({condition})"
