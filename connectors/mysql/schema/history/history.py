"""Records DDL with its position, and recovers the tables of a position."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connect.errors import ConfigError
from connect.source import OwnedTopic, OwnedTopicSettings
from connectors.mysql.schema.ddl import DdlContext, TableDdlChange, UnparsedDdlError, apply, apply_changes
from connectors.mysql.schema.ddl.changes import Change
from connectors.mysql.schema.history.kafka_store import open_kafka_store
from connectors.mysql.schema.history.positions import PositionComparison
from connectors.mysql.schema.history.records import HistoryRecord, StoredChange, decode_record, encode_record, stored_changes
from connectors.mysql.schema.history.settings import PREFIX, SchemaHistorySettings, ddl_filter
from connectors.mysql.schema.history.store import FileHistoryStore, HistoryStore, MemoryHistoryStore
from connectors.mysql.schema.model import MySqlTable, TableId

log = logging.getLogger(__name__)

KAFKA: Final = "io.debezium.storage.kafka.history.KafkaSchemaHistory"
FILE: Final = "io.debezium.storage.file.history.FileSchemaHistory"
MEMORY: Final = "io.debezium.relational.history.MemorySchemaHistory"
CLASSES: Final = (KAFKA, FILE, MEMORY)
_CLASS_KEY: Final = "schema.history.internal"
_FILE_KEY: Final = PREFIX + "file.filename"


def open_store(config: Mapping[str, str], open_topic: Callable[[str, OwnedTopicSettings], OwnedTopic]) -> HistoryStore:
    """Opens the store that ``schema.history.internal`` names. ``open_topic`` is the task context's ``open_owned_topic``.

    Raises ConfigError, also for classes of Debezium that have no counterpart.
    """
    name = config.get(_CLASS_KEY, KAFKA).strip()
    if name == KAFKA:
        return open_kafka_store(config, open_topic)
    if name == FILE:
        if not (path := config.get(_FILE_KEY, "").strip()):
            raise ConfigError.invalid(_FILE_KEY, None, "A value is required")
        return FileHistoryStore(Path(path))
    if name == MEMORY:
        return MemoryHistoryStore()
    known = ", ".join(CLASSES)
    raise ConfigError.invalid(_CLASS_KEY, name, f"expected one of {known}; other stores of Debezium are not supported")


@dataclass(slots=True)
class RecoveredTables:
    """What is known at a position. Both mappings may be changed."""

    tables: dict[TableId, MySqlTable] = field(default_factory=dict)
    database_charsets: dict[str, str] = field(default_factory=dict)
    record_count: int = 0
    """How many records were applied."""


class SchemaHistory:
    """The schema history of a connector. For one thread; calls may block on the store, and raise ConnectError."""

    def __init__(
        self,
        store: HistoryStore,
        source: Mapping[str, Any],
        settings: SchemaHistorySettings,
        comparison: PositionComparison,
    ) -> None:
        """``source`` is the source partition, like ``{"server": "<topic.prefix>"}``: a store may have records of others."""
        self._store = store
        self._source = dict(source)
        self._settings = settings
        self._comparison = comparison
        self._is_filtered = ddl_filter(settings.ddl_filter)
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
        data = encode_record(record, include_comments=self._settings.include_comments)
        if self._buffer is None:
            self._store.append([data])
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
        finally:
            self._buffer = None

    def recover(self, position: Mapping[str, Any], context: DdlContext) -> RecoveredTables:
        """Returns the tables at a stored offset, from the records at or before it.

        Records with tables replace these; others are parsed again with ``context``, whose charsets of databases are completed by
        those in the history. Raises UnparsedDdlError for DDL that cannot be applied, unless
        ``schema.history.internal.skip.unparseable.ddl`` is set.
        """
        recovered = RecoveredTables(database_charsets=dict(context.database_charsets))
        for data in self._store.read():
            record = decode_record(data)
            if record is None:
                log.warning("skipping a record of the schema history that has no source or no position")
            elif dict(record.source) == self._source and self._comparison.is_at_or_before(record.position, position):
                self._apply(record, recovered, context)
                recovered.record_count += 1
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
            if not self._settings.skips_unparseable_ddl:
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
