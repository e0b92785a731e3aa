"""Records DDL with its position, and recovers the tables of a position."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from connect import crash_points
from connect.source import OwnedTopic, OwnedTopicSettings
from connectors.mysql.history_keys import FILE, MEMORY, HistorySettings
from connectors.mysql.offsets import SNAPSHOT, has_other_files, is_at_or_before
from connectors.mysql.schema.ddl import DdlContext, TableDdlChange, UnparsedDdlError, apply, apply_changes
from connectors.mysql.schema.ddl.changes import Change
from connectors.mysql.schema.history.ddl_selection import compile_ddl_filter
from connectors.mysql.schema.history.kafka_store import open_kafka_store
from connectors.mysql.schema.history.records import HistoryRecord, StoredChange, decode_record, encode_record, stored_changes
from connectors.mysql.schema.history.store import FileHistoryStore, HistoryStore, MemoryHistoryStore
from connectors.mysql.schema.model import MySqlTable, TableId

log = logging.getLogger(__name__)


def open_store(settings: HistorySettings, open_topic: Callable[[str, OwnedTopicSettings], OwnedTopic]) -> HistoryStore:
    """Opens the store of the settings. ``open_topic`` is the task context's ``open_owned_topic``. Raises ConfigError for settings
    of Kafka clients that cannot work."""
    if settings.kind == FILE:
        return FileHistoryStore(Path(settings.file))
    return MemoryHistoryStore() if settings.kind == MEMORY else open_kafka_store(settings, open_topic)


@dataclass(slots=True)
class RecoveredTables:
    """What is known at a position. Both mappings may be changed."""

    tables: dict[TableId, MySqlTable] = field(default_factory=dict)
    database_charsets: dict[str, str] = field(default_factory=dict)
    record_count: int = 0
    """How many records were applied."""
    last_position: Mapping[str, Any] | None = None
    """The position of the last one."""


class SchemaHistory:
    """The schema history of a connector. For one thread; calls may block on the store, and raise ConnectError."""

    def __init__(
        self,
        store: HistoryStore,
        source: Mapping[str, Any],
        settings: HistorySettings,
        reads_source: Callable[[str], bool] | None = None,
    ) -> None:
        """``source`` is the source partition, like ``{"server": "<topic.prefix>"}``: a store may have records of others.
        ``reads_source`` says which sources of GTIDs are read (``gtid.source.*``); None: all."""
        self._store = store
        self._source = dict(source)
        self._settings = settings
        self._reads_source = reads_source
        self._is_filtered = compile_ddl_filter(settings.ddl_filter)
        self._buffer: list[bytes] | None = None

    def storage_exists(self) -> bool:
        return self._store.storage_exists()

    def exists(self) -> bool:
        """Returns whether there are records."""
        return self._store.exists()

    def initialize_storage(self) -> None:
        """Creates the topic or file unless it exists."""
        self._store.initialize()

    def record(
        self, position: Mapping[str, Any], database: str | None, ddl: str, changes: Iterable[Change], *, ts_ms: int
    ) -> None:
        """Stores a statement with the tables that result from it.

        ``position`` is the source offset of the statement: recovery applies it to offsets at or after that. Changes of unknown
        tables are left out, so that the caller settles them first.
        """
        # Promise 1: the caller returns events that need this version of a table only after it is durable here.
        table_changes = [change for change in changes if isinstance(change, TableDdlChange)]
        record = HistoryRecord(self._source, position, ts_ms, database, ddl, stored_changes(table_changes))
        data = encode_record(record, include_comments=self._settings.includes_comments)
        if self._buffer is None:
            self._store.append([data])
            crash_points.point("mysql.history")
        else:
            self._buffer.append(data)

    @contextmanager
    def buffered(self) -> Iterator[None]:
        """Within the block, records wait; at its end they are stored together. After an error in the block, none is."""
        self._buffer = []
        try:
            yield
            if self._buffer:
                self._store.append(self._buffer)
                crash_points.point("mysql.history")
        finally:
            self._buffer = None

    def last_snapshot(self, since_ms: int) -> Mapping[str, Any] | None:
        """Returns the position of the snapshot that stored the last record, if it did so after this time."""
        last: HistoryRecord | None = None
        for data in self._store.read() if self._store.exists() else ():
            record = decode_record(data)
            if record is not None and dict(record.source) == self._source:
                last = record
        if last is None or not last.position.get(SNAPSHOT) or (last.ts_ms or 0) < since_ms:
            return None
        return last.position

    def recover(self, position: Mapping[str, Any], context: DdlContext) -> RecoveredTables:
        """Returns the tables at a stored offset, from the records at or before it.

        Records with tables replace these; others are parsed again with ``context``, whose charsets of databases are completed by
        those in the history. Raises UnparsedDdlError for DDL that cannot be applied, unless
        ``schema.history.internal.skip.unparseable.ddl`` is set.
        """
        recovered = RecoveredTables(database_charsets=dict(context.database_charsets))
        in_other_files = False
        for data in self._store.read():
            record = decode_record(data)
            if record is None:
                log.warning("skipping a record of the schema history that has no source or no position")
            elif dict(record.source) == self._source and is_at_or_before(record.position, position, self._reads_source):
                self._apply(record, recovered, context)
                recovered.record_count += 1
                recovered.last_position = record.position
                in_other_files = in_other_files or has_other_files(record.position, position)
        if in_other_files:
            log.warning(
                "the schema history has binary log files with other names than %s: their positions do not compare, so all "
                "their statements are applied. This is expected after the server was restored or log_bin_basename was changed",
                position.get("file"),
            )
        return recovered

    def _apply(self, record: HistoryRecord, recovered: RecoveredTables, context: DdlContext) -> None:
        if record.changes and not self._settings.prefers_ddl:
            for change in record.changes:
                _apply_stored(change, recovered.tables)
            return
        if record.ddl is None or self._is_filtered(record.ddl):
            return
        context = replace(context, database_charsets=recovered.database_charsets)
        try:
            changes = apply(recovered.tables, record.ddl, record.database or None, context)
        except UnparsedDdlError as e:
            if not self._settings.skips_unparseable:
                raise
            log.warning("skipping a statement of the schema history: %s", e.message)
            return
        apply_changes(changes, recovered.tables, recovered.database_charsets)

    def close(self) -> None:
        self._store.close()


def _apply_stored(change: StoredChange, tables: dict[TableId, MySqlTable]) -> None:
    if change.previous_id is not None:
        tables.pop(change.previous_id, None)
    if change.table is None:
        tables.pop(change.id, None)
    else:
        tables[change.id] = change.table
