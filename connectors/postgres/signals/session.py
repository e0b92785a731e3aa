"""The signals of a task, with what PostgreSQL needs for them."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.cdc.incremental.notifications import Notifier
from connectors.cdc.incremental.snapshot import IncrementalSnapshot
from connectors.cdc.incremental.watermarks import Watermarks
from connectors.cdc.schema.filters import Filters
from connectors.cdc.signals.session import SignalSession
from connectors.cdc.signals.signal_table import SignalTable
from connectors.postgres.config import PostgresConfig
from connectors.postgres.incremental.chunks import ChunkReader
from connectors.postgres.incremental.signal_writer import PostgresSignalWriter
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.signals.blocking import BlockingSnapshots
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.observers import StreamObservers
from connectors.postgres.streaming.pgoutput import Delete, Insert, Update

PostgresSignals = SignalSession[StreamObservers, BlockingSnapshots]


def create_signals(
    settings: PostgresConfig, filters: Filters, tables: CapturedTables, sessions: DatabaseSessions, version: str
) -> PostgresSignals:
    """Creates the session of a task; it opens no connection yet."""
    observers = StreamObservers()
    notifier = Notifier(settings.notifications, settings.topic_prefix)
    incremental = IncrementalSnapshot(
        ChunkReader(settings, filters, tables, sessions, observers, version),
        observers,
        Watermarks(settings, PostgresSignalWriter(settings, sessions)),
        notifier,
        skips_unchanged=settings.skip_unchanged,
    )
    blocking = BlockingSnapshots(settings, filters, tables, sessions, observers, version)
    signals = SignalSession(settings, observers, incremental, blocking, notifier)
    if "source" in settings.signals.channels:
        observers.add(SignalTable(settings.signals, signals.handle, _name_of, _inserted_texts))
    return signals


def _name_of(rows: TableRows) -> tuple[str, str]:
    return rows.table.schema, rows.table.name


def _inserted_texts(rows: TableRows, message: Insert | Update | Delete) -> Sequence[str | None] | None:
    if not isinstance(message, Insert):
        return None
    values = [message.new[column.source_index] for column in rows.columns]
    return [value.decode() if isinstance(value, bytes) else None for value in values]
