"""The signals of a task, with what MySQL and MariaDB need for them."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.cdc.incremental.notifications import Notifier
from connectors.cdc.incremental.snapshot import IncrementalSnapshot
from connectors.cdc.incremental.watermarks import Watermarks
from connectors.cdc.signals.session import SignalSession
from connectors.cdc.signals.signal_table import SignalTable
from connectors.mysql.config import MySqlConfig
from connectors.mysql.incremental.chunks import BinlogChunkReader, FollowedStream
from connectors.mysql.incremental.signal_writer import MySqlSignalWriter
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.signals.binlog_position import BinlogPositionSignal
from connectors.mysql.signals.blocking import MySqlBlockingSnapshots
from connectors.mysql.streaming.observers import BinlogObservers, RowChange

MySqlSignals = SignalSession[BinlogObservers, MySqlBlockingSnapshots]


def create_mysql_signals(
    settings: MySqlConfig,
    observers: BinlogObservers,
    tables: MySqlCapturedTables,
    structures: TableStructures,
    sessions: MySqlSessions,
    stream: FollowedStream,
    moves: BinlogPositionSignal,
    version: str,
) -> MySqlSignals:
    """Creates the session of a task; it opens no connection yet. ``stream`` is asked only while it is open."""
    notifier = Notifier(settings.notifications, settings.topic_prefix)
    writer = MySqlSignalWriter(settings, sessions)
    incremental = IncrementalSnapshot(
        BinlogChunkReader(settings, tables, structures, sessions, stream, writer, version),
        observers,
        Watermarks(settings, writer),
        notifier,
        skips_unchanged=settings.skip_unchanged,
    )
    blocking = MySqlBlockingSnapshots(settings, tables, structures, sessions, observers, version)
    signals = SignalSession(settings, observers, incremental, blocking, notifier, moves)
    if "source" in settings.signals.channels:
        observers.add(SignalTable(settings.signals, signals.handle, _name_of, _inserted_texts))
    return signals


def _name_of(rows: MySqlTableRows) -> tuple[str, str]:
    return rows.table.database, rows.table.name


def _inserted_texts(rows: MySqlTableRows, change: RowChange) -> Sequence[str | None] | None:
    if change.before is not None or change.after is None:
        return None
    return [None if value is None else str(value) for value in change.after]
