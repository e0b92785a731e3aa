"""What captures of databases with a log have in common: a snapshot, a stream, and what leads from one to the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from connect.record import SourceRecord
from connect.text_records import LazyRecords
from connectors.cdc.signals.blocking import RunningSnapshot
from connectors.cdc.signals.session import SignalSession
from connectors.cdc.source_settings import SourceSnapshotSettings
from connectors.cdc.states import CaptureState
from connectors.cdc.streaming.offset_tracker import OffsetPairs, StoredOffsetTracker
from connectors.cdc.task import TaskSessions


class CaptureConfig(Protocol):
    """The settings that a capture looks at."""

    @property
    def poll_interval_s(self) -> float: ...
    @property
    def snapshot(self) -> SourceSnapshotSettings: ...


class CaptureSessions(TaskSessions, Protocol):
    """The connections of a capture."""

    def close_catalog(self) -> None:
        """Closes the connections that are shared."""


class CaptureStream(Protocol):
    """The stream of changes. Its position outlives its connection."""

    @property
    def is_open(self) -> bool: ...
    @property
    def has_more(self) -> bool:
        """Whether more changes had arrived than the last read has returned."""

    def take_records(self) -> Sequence[SourceRecord]:
        """Returns the records that were read, and removes them."""

    def position_offset(self) -> Mapping[str, Any] | None:
        """The offset of the position; None inside a transaction, and before a snapshot."""

    def disconnect(self) -> None: ...


class CaptureSnapshot(RunningSnapshot, Protocol):
    """An initial snapshot."""

    def progress(self) -> Mapping[str, Any]: ...


class LogCapture(ABC):
    """Captures the changes of a database (a TaskCapture). Every method that talks to the server may raise ConnectionLostError;
    then call ``disconnect`` and ``read`` again later.

    A subclass opens connections, and says where the stream continues behind a snapshot.
    """

    sessions: CaptureSessions
    signals: SignalSession[Any, Any]
    _settings: CaptureConfig
    _stream: CaptureStream
    _offsets: StoredOffsetTracker[Any]
    _snapshot: CaptureSnapshot | None
    state: CaptureState

    # --- what a subclass decides ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """Decides by position and server state how to start, and starts it."""

    @abstractmethod
    def _read_stream(self) -> Sequence[SourceRecord]:
        """Returns the next records of the open stream."""

    @abstractmethod
    def _continue_behind(self, snapshot: Any) -> None:
        """Continues the stream behind a snapshot, which has everything that is before."""

    @abstractmethod
    def _is_streaming(self) -> bool:
        """Whether the stream's position says everything: no snapshot is missing."""

    @property
    @abstractmethod
    def _is_snapshot_done(self) -> bool:
        """Whether the snapshot of this task is complete."""

    @abstractmethod
    def _complete_snapshot(self) -> None:
        """The last row of the snapshot was read."""

    @abstractmethod
    def _note_offset(self, offset: Mapping[str, Any]) -> None:
        """Records up to an offset are returned."""

    # --- what the task calls ----------------------------------------------------------------------------------------------------

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next records; connects first if necessary, and waits for changes a short time."""
        records: Sequence[SourceRecord] = ()
        if self.state is CaptureState.DONE:
            self.sessions.interrupt.wait(self._settings.poll_interval_s)
        elif self._stream.is_open:
            records = self._read_stream()
        elif self.signals.blocking.session is not None:
            records = self._read_blocking_snapshot(self.signals.blocking.session)
        elif self._snapshot is not None and not self._is_snapshot_done:
            records = self._read_snapshot(self._snapshot)
        else:
            self._open()
        self._polled(records)
        return records

    @property
    def has_more(self) -> bool:
        """Whether the next read returns records without waiting."""
        return self._stream.has_more or self.state is CaptureState.SNAPSHOT

    def take_records(self) -> Sequence[SourceRecord]:
        """Returns the records that were read before an error."""
        self._polled(records := self._stream.take_records())
        return records

    def _polled(self, records: Sequence[SourceRecord]) -> None:
        latest = None
        if records:
            # Looking at one of these records would create all of them.
            latest = (records if isinstance(records, LazyRecords) else records[-1]).source_offset or {}
            self._note_offset(latest)
        self._offsets.polled(latest, self._stream.position_offset() if self._is_streaming() else None)

    def is_loaded(self) -> bool:
        """Whether the snapshot is complete, or none is required."""
        return self._is_snapshot_done or self.state is CaptureState.DONE or self._is_streaming()

    def update_offsets(self, offsets: OffsetPairs) -> OffsetPairs:
        return self._offsets.update_offsets(offsets)

    def snapshot_progress(self) -> Mapping[str, Any]:
        """Numbers about the snapshot that is running, or has run last."""
        snapshot = self.signals.blocking.session or self._snapshot
        return {} if snapshot is None else snapshot.progress()

    def disconnect(self) -> None:
        """Closes all connections. The position remains; of a snapshot that is not complete, what it has completed."""
        self._stream.disconnect()
        self._close_snapshot()
        self.signals.close()
        self.sessions.close_catalog()

    def _close_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self.signals.note_steps(self._snapshot)
            if not self._is_snapshot_done:
                self._snapshot = None

    # --- snapshots --------------------------------------------------------------------------------------------------------------

    def _read_blocking_snapshot(self, snapshot: RunningSnapshot) -> Sequence[SourceRecord]:
        records = self.signals.note_snapshot(snapshot, self.signals.blocking.read())
        if self.signals.blocking.session is None:
            self._continue_behind(snapshot)
            self.state = CaptureState.SNAPSHOT_COMPLETED
        return records

    def _read_snapshot(self, snapshot: CaptureSnapshot) -> Sequence[SourceRecord]:
        records = self.signals.note_snapshot(snapshot, snapshot.read())
        if snapshot.done:
            self._complete_snapshot()
            if self._settings.snapshot.mode == "initial_only":
                self.state = CaptureState.DONE
            else:
                self._continue_behind(snapshot)
                self.state = CaptureState.SNAPSHOT_COMPLETED
        return records
