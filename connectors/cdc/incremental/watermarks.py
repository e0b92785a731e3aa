"""Writes Debezium's watermarks to the signal table, so that others see the windows of an incremental snapshot.

They are not needed for correctness: the window closes at a position of the stream.
"""

from __future__ import annotations

import contextlib
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from connectors.cdc.errors import RejectedStatementError
from connectors.cdc.incremental.chunks import ChunkDelayed, SignalTableWriter, TableSkipped
from connectors.cdc.incremental.context import DataCollection
from connectors.cdc.source_settings import SourceSettings

log = logging.getLogger(__name__)


class Watermarks:
    """Marks one chunk at a time; does nothing without a signal table or with read.only=true."""

    def __init__(self, settings: SourceSettings, writer: SignalTableWriter) -> None:
        self._table = settings.signals.table
        self._is_enabled = self._table is not None and not settings.incremental.read_only
        self._deletes = settings.incremental.deletes_watermarks
        self._writer = writer
        self._chunk_id: str | None = None
        """That of the window that may be open."""
        self._metadata: dict[str, str] = {}

    @contextlib.contextmanager
    def window(self, collection: DataCollection) -> Iterator[None]:
        """The window of a chunk, which is closed also if the chunk is not read now. Raises ConnectionLostError.

        One that a lost connection left open is closed before the next one.
        """
        self._close()
        self._open(collection)
        try:
            yield
        except (ChunkDelayed, TableSkipped):
            self._close()
            raise
        self._close()

    def _open(self, collection: DataCollection) -> None:
        if not self._is_enabled:
            return
        self._chunk_id = str(uuid.uuid4())
        self._metadata = {"openWindowTimestamp": _now()}
        if collection.signal_id is not None:
            self._metadata["correlationId"] = collection.signal_id
        self._metadata["dataCollectionId"] = str(collection)
        self._insert("open", self._metadata)

    def _close(self) -> None:
        if not self._is_enabled or self._chunk_id is None:
            return
        if self._deletes:
            self._write(lambda: self._writer.delete(f"{self._chunk_id}-open"))
        else:
            opened = self._metadata["openWindowTimestamp"]
            rest = {name: value for name, value in self._metadata.items() if name != "openWindowTimestamp"}
            self._insert("close", {"openWindowTimestamp": opened, "closeWindowTimestamp": _now(), **rest})
        self._chunk_id = None

    def _insert(self, what: str, metadata: dict[str, str]) -> None:
        id_, data = f"{self._chunk_id}-{what}", json.dumps(metadata, ensure_ascii=False)
        self._write(lambda: self._writer.insert(id_, f"snapshot-window-{what}", data))

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except RejectedStatementError as e:
            self._is_enabled = False
            log.warning(
                "cannot write watermarks to the signal table %s; continuing without: %s", ".".join(self._table or ()), e.message
            )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
