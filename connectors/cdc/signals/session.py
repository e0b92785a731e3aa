"""Takes signals from all channels, and runs the snapshots that they ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from connect.record import SourceRecord
from connect.source import SourceTaskContext
from connectors.cdc.config.signal_keys import BACKFILL_ALL, BACKFILL_CREATED
from connectors.cdc.incremental.notifications import Notifier
from connectors.cdc.incremental.requests import SnapshotRequest
from connectors.cdc.incremental.snapshot import IncrementalSnapshot
from connectors.cdc.signals.actions import Signal, SourceSignal, handle_signal
from connectors.cdc.signals.blocking import RequestedSnapshots, RunningSnapshot
from connectors.cdc.signals.channels import SignalChannels
from connectors.cdc.source_settings import SourceSettings
from connectors.cdc.streaming.observers import ChangeObservers
from connectors.cdc.streaming.offset_tracker import OffsetPairs

log = logging.getLogger(__name__)


ObserversT = TypeVar("ObserversT", bound=ChangeObservers[Any, Any, Any, Any])
BlockingT = TypeVar("BlockingT", bound=RequestedSnapshots[Any, Any])


class SignalSession(Generic[ObserversT, BlockingT]):
    """The signals of a task, and its snapshots on request (a SnapshotControl)."""

    def __init__(
        self,
        settings: SourceSettings,
        observers: ObserversT,
        incremental: IncrementalSnapshot[Any, Any],
        blocking: BlockingT,
        notifier: Notifier,
        own: SourceSignal | None = None,
    ) -> None:
        """Whoever follows the signal table calls :meth:`handle`. ``own`` is a type of signal that the source has besides."""
        self.own = own
        self._channels = SignalChannels(settings.signals, settings.topic_prefix, observers)
        self._backfills = settings.incremental.backfill
        self.observers = observers
        self.blocking = blocking
        self._incremental = incremental
        self._notifier = notifier
        self._skips_snapshot = False

    def load(self, offset: Mapping[str, Any]) -> None:
        """Continues what a stored offset says."""
        self._skips_snapshot = bool(offset)
        self._incremental.load(offset)
        self.blocking.load(offset)

    def open_channels(self, context: SourceTaskContext, stored: Mapping[str, Any]) -> None:
        """Opens the file and the topic if they are enabled, and continues where the stored offset says. Raises ConfigError."""
        self._channels.open(context, stored)

    def offsets_stored(self, offsets: OffsetPairs) -> None:
        """Offsets are durable."""
        self._channels.offsets_stored(offsets)

    def receive(self, signal: Signal) -> None:
        """Takes note of a signal; safe from any thread."""
        self._channels.receive(signal)

    def handle(self, signal: Signal) -> None:
        """Does what a signal asks for, or starts it."""
        handle_signal(signal, self, self.own)

    @property
    def has_snapshot(self) -> bool:
        """Whether a snapshot on request runs, or waits."""
        return self._incremental.is_active or self.blocking.is_requested or self.blocking.session is not None

    def advance(self) -> None:
        """Reads signals, and the next chunk of an incremental snapshot. Call it while changes are streamed.

        Raises ConnectionLostError.
        """
        if self._skips_snapshot:
            self._skips_snapshot = False
            self._notifier.snapshot_skipped()
        for signal in self._channels.take():
            self.handle(signal)
        self._incremental.advance()

    def note_snapshot(self, snapshot: RunningSnapshot, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        """The events of an initial or blocking snapshot with the notifications behind them."""
        self._skips_snapshot = False
        self.note_steps(snapshot)
        if not self._notifier.has_records or not records:
            return records
        return [*records, *self._notifier.take_records(records[-1].source_offset or {})]

    def note_steps(self, snapshot: RunningSnapshot) -> None:
        """Notifies of what has happened to an initial or blocking snapshot; records follow with the next events."""
        for step in snapshot.take_steps():
            self._notifier.snapshot_step(step, snapshot.tables)

    def add_notifications(
        self, records: Sequence[SourceRecord], position_offset: Callable[[], Mapping[str, Any] | None]
    ) -> Sequence[SourceRecord]:
        """The records with the notifications behind them. ``position_offset`` returns the offset of the position, None if
        notifications must wait until there is one."""
        if not self._notifier.has_records or (offset := position_offset()) is None:
            return records
        return [*records, *self._notifier.take_records(offset)]

    def progress(self) -> Mapping[str, Any]:
        return self._incremental.progress()

    def close(self) -> None:
        """Closes connections; snapshots continue later."""
        self._incremental.close()
        blocking = self.blocking.session
        self.blocking.close()
        if blocking is not None:
            self.note_steps(blocking)

    def close_channels(self) -> None:
        self._channels.close()

    # --- SnapshotControl ------------------------------------------------------------------------------------------------------

    def execute(self, request: SnapshotRequest) -> None:
        if request.is_blocking:
            self.blocking.add(request)
        else:
            self._incremental.execute(request)

    def stop(self, signal_id: str, collections: tuple[str, ...]) -> None:
        self._incremental.stop(signal_id, collections)

    def pause(self) -> None:
        self._incremental.pause()

    def resume(self) -> None:
        self._incremental.resume()

    def backfill(self, tables: Sequence[str], *, at_start: bool) -> None:
        """Reads the existing rows of tables (schema.table) that were added to the publication, if backfill.new.tables says so.

        ``at_start``: they were added when the task started, so perhaps they are not new.
        """
        wanted = (BACKFILL_ALL,) if at_start else (BACKFILL_ALL, BACKFILL_CREATED)
        if tables and self._backfills in wanted:
            self._incremental.backfill(tables)
