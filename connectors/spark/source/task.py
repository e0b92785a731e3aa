"""The Spark source task: polls its tables in turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from connect.record import SourceRecord
from connect.source import SourceTask
from connect.text_records import MixedTextRecords
from connectors.spark.source.config import SparkSourceConfig, parse_config
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.table_reader import SourceTableReader

_POLL_S = 0.5
"""How long a poll reads or waits at most, apart from one batch."""

OffsetPairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]


class SparkSourceTask(SourceTask):
    """Reads one or several tables. A poll returns records of one table."""

    settings: SparkSourceConfig

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._readers: list[SourceTableReader] = []
        self._next = 0
        self._current: SourceTableReader | None = None
        self._in_transaction = 0

    def start(self, config: Mapping[str, str]) -> None:
        self.settings = settings = parse_config(config)
        stored = self.context.offset_reader.offsets([table_partition(table.location) for table in settings.tables])
        self._readers = [
            SourceTableReader(table, settings, offset) for table, offset in zip(settings.tables, stored, strict=True)
        ]

    def poll(self) -> Sequence[SourceRecord] | None:
        deadline = time.monotonic() + _POLL_S
        while not self._stop.is_set():
            now = time.monotonic()
            reader = self._choose(now)
            if reader is None:
                wait_s = min((one.due for one in self._readers), default=deadline) - now
                self._stop.wait(min(max(wait_s, 0.0), deadline - now))
            else:
                records = self._read(reader, deadline)
                if records is not None:
                    return records
            if time.monotonic() >= deadline:
                return None
        return None

    def _choose(self, now: float) -> SourceTableReader | None:
        """The table in the middle of a version, or the next one that is due."""
        if self._current is not None:
            return self._current
        for step in range(len(self._readers)):
            place = (self._next + step) % len(self._readers)
            if self._readers[place].due <= now:
                self._next = place + 1
                return self._readers[place]
        return None

    def _read(self, reader: SourceTableReader, deadline: float) -> Sequence[SourceRecord] | None:
        """The next records of a table. An empty batch ends the transaction of the one before."""
        transaction = self.context.transaction_context
        records = MixedTextRecords(reader.partition)
        is_end = reader.read(records, deadline, ends_with_version=transaction is not None)
        if records:
            reader.returned(records)
        if transaction is None:
            return records or None
        self._in_transaction += len(records)
        limit = self.settings.transaction_records - self.settings.batch_rows
        is_full = bool(self._in_transaction) and self._in_transaction > limit
        self._current = None if is_end or not self._in_transaction else reader
        if is_end or is_full:
            # A version without records has an offset to store.
            transaction.commit_transaction()
            self._in_transaction = 0
            return records
        return records or None

    def has_more(self) -> bool:
        return any(reader.is_behind for reader in self._readers)

    def update_offsets(self, offsets: OffsetPairs) -> OffsetPairs:
        """Adds positions after versions without changes, so that they are not missed when their log is cleaned up."""
        found = []
        for reader in self._readers:
            for partition, offset in offsets:
                if partition == reader.partition:
                    reader.sent(offset)
            past = reader.offset_past_records()
            if past is not None:
                found.append((reader.partition, past))
        return found

    def commit(self, offsets: OffsetPairs) -> None:
        for reader in self._readers:
            for partition, offset in offsets:
                if partition == reader.partition:
                    reader.stored(offset)

    def progress(self) -> Mapping[str, Any]:
        """Rows read and versions to read, of all tables and of each."""
        figures = {reader.table.name: reader.figures() for reader in self._readers}
        progress: dict[str, Any] = {
            "tables": len(figures),
            "rows": sum(one["rows"] for one in figures.values()),
            "lag_versions": sum(one.get("lag_versions", 0) for one in figures.values()),
            "table_progress": figures,
        }
        absent = [reader.table.location for reader in self._readers if reader.is_absent]
        return {**progress, "missing_tables": absent} if absent else progress

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
