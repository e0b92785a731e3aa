"""Writes Debezium's watermarks to the signal table, so that others see the windows of an incremental snapshot.

They are not needed for correctness: the window closes at an LSN.
"""

from __future__ import annotations

import json
import logging
import uuid
from datetime import UTC, datetime

from connectors.cdc.incremental.context import DataCollection
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection, quote_name
from connectors.postgres.errors import ServerError

log = logging.getLogger(__name__)


class Watermarks:
    """Marks one chunk at a time; does nothing without a signal table or with read.only=true."""

    def __init__(self, settings: PostgresConfig) -> None:
        table = settings.signals.table
        self._is_enabled = table is not None and not settings.incremental.read_only
        self._deletes = settings.incremental.deletes_watermarks
        self._table = quote_name(*table) if table is not None else ""
        self._chunk_id = ""
        self._metadata: dict[str, str] = {}

    def open(self, connection: Connection, collection: DataCollection) -> None:
        """Opens the window of a chunk."""
        if not self._is_enabled:
            return
        self._chunk_id = str(uuid.uuid4())
        self._metadata = {"openWindowTimestamp": _now()}
        if collection.signal_id is not None:
            self._metadata["correlationId"] = collection.signal_id
        self._metadata["dataCollectionId"] = str(collection)
        self._insert(connection, "open", self._metadata)

    def close(self, connection: Connection) -> None:
        """Closes the window."""
        if not self._is_enabled:
            return
        if self._deletes:
            self._write(connection, f"DELETE FROM {self._table} WHERE id = $1", [f"{self._chunk_id}-open"])
            return
        opened = self._metadata["openWindowTimestamp"]
        rest = {name: value for name, value in self._metadata.items() if name != "openWindowTimestamp"}
        self._insert(connection, "close", {"openWindowTimestamp": opened, "closeWindowTimestamp": _now(), **rest})

    def _insert(self, connection: Connection, what: str, metadata: dict[str, str]) -> None:
        values = [f"{self._chunk_id}-{what}", f"snapshot-window-{what}", json.dumps(metadata, ensure_ascii=False)]
        self._write(connection, f"INSERT INTO {self._table} VALUES ($1, $2, $3)", values)

    def _write(self, connection: Connection, sql: str, values: list[str]) -> None:
        try:
            connection.execute(sql, values)
        except ServerError as e:
            self._is_enabled = False
            log.warning("cannot write watermarks to the signal table %s; continuing without: %s", self._table, e.message)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
