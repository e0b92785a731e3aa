"""What is emitted, and the values that events of a transaction share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.record import SourceRecord
from connect.text_records import MixedTextRecords
from connectors.cdc.streaming.transaction_metadata import TransactionMetadata
from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.offsets import BinlogPosition, stream_offset
from connectors.mysql.position_tracker import BinlogPositionTracker
from connectors.mysql.streaming.change_events import BinlogEventBuilder, EventValues, now_values
from connectors.mysql.streaming.observers import BinlogObservers


class StreamedTransaction:
    """What is known about the current transaction, or the last one between two."""

    __slots__ = ("commit_us", "is_read", "is_standalone", "name", "query", "server_id", "thread", "ts_sec")

    def __init__(self, server_id: int = 0, ts_sec: int | None = None) -> None:
        self.server_id = server_id
        self.ts_sec = ts_sec
        self.commit_us: int | None = None
        """When it was committed where it began, in microseconds since 1970; None if the log has seconds only."""
        self.thread: int | None = None
        self.query: str | None = None
        self.name = ""
        self.is_read = True
        """Whether its changes are emitted (``gtid.source.*``)."""
        self.is_standalone = False
        """Whether it is a single statement without an end."""


class Emission:
    """The records of a stream in order, with its position. For one connection."""

    def __init__(
        self,
        tracker: BinlogPositionTracker,
        builder: BinlogEventBuilder,
        observers: BinlogObservers,
        metadata: TransactionMetadata | None,
    ) -> None:
        self.tracker = tracker
        self.builder = builder
        self.observers = observers
        self.metadata = metadata
        self.transaction = StreamedTransaction()
        self.out = MixedTextRecords(builder.partition)
        self.events = 0
        """The number of changes that were emitted."""
        self._values: EventValues | None = None

    def offset(self, position: BinlogPosition) -> dict[str, Any]:
        """The offset of a position, without what observers add."""
        transaction = self.transaction
        members = self.metadata.members() if self.metadata is not None and position.is_in_transaction else None
        return stream_offset(position, transaction.server_id, transaction.ts_sec, members)

    def full_offset(self, position: BinlogPosition) -> dict[str, Any]:
        """The offset of a position."""
        return self.offset(position) | dict(self.observers.offset_extras)

    def position_offset(self) -> Mapping[str, Any]:
        """The offset of the current position."""
        return self.full_offset(self.tracker.position)

    def values(self, header: EventHeader) -> EventValues:
        """What the changes of an event share with others, as far as they are in the current batch."""
        values = self._values
        if values is not None and values.ts_sec == header.timestamp:
            return values
        transaction = self.transaction
        transaction.server_id, transaction.ts_sec = header.server_id, header.timestamp
        us = header.timestamp * 1_000_000 if transaction.commit_us is None else transaction.commit_us
        self._values = values = EventValues(
            us // 1000,
            us,
            us * 1000,
            header.server_id,
            self.tracker.gtid,
            self.tracker.file,
            transaction.thread,
            transaction.query,
            *now_values(),
            header.timestamp,
            self.observers.offset_extras,
        )
        return values

    def reset_values(self) -> None:
        """What events share has changed: another transaction or statement, or the members of offsets."""
        self._values = None

    def append(self, record: SourceRecord | None) -> None:
        """Adds a record, if there is one."""
        if record is not None:
            self.out.append(record)

    def take_records(self) -> MixedTextRecords:
        """Returns the records that were emitted and removes them."""
        batch, self.out = self.out, MixedTextRecords(self.builder.partition)
        self._values = None  # the next events have another time
        return batch
