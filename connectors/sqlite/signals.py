"""Signals: what users ask for while the task runs."""

from __future__ import annotations

from collections.abc import Callable

from connectors.cdc.incremental.requests import SnapshotRequest
from connectors.cdc.signals.actions import Signal, SourceSignal, handle_signal
from connectors.cdc.signals.channels import SignalChannels
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.snapshot.session import SqliteSnapshot


class SqliteSignals(SignalChannels):
    """The signals of a task (a SnapshotControl). ``request`` plans a snapshot."""

    def __init__(
        self,
        settings: SqliteConfig,
        extras: OffsetExtras,
        snapshot: SqliteSnapshot,
        request: Callable[[SnapshotRequest], None],
    ) -> None:
        super().__init__(settings.signals, settings.topic_prefix, extras)
        self._reads_table = "source" in settings.signals.channels
        self._snapshot = snapshot
        self._request = request

    own: SourceSignal | None = None

    def advance(self) -> None:
        """Handles the signals that have arrived."""
        for signal in self.take():
            handle_signal(signal, self)

    def handle_row(self, signal: Signal) -> None:
        """Handles a row of the signal table."""
        if self._reads_table:
            handle_signal(signal, self)

    def execute(self, request: SnapshotRequest) -> None:
        self._request(request)

    def stop(self, signal_id: str, collections: tuple[str, ...]) -> None:
        self._snapshot.cancel(signal_id, collections)

    def pause(self) -> None:
        self._snapshot.pause()

    def resume(self) -> None:
        self._snapshot.unpause()
