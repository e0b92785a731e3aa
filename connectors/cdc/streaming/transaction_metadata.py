"""Transaction metadata: BEGIN and END events, and the transaction block of change events, in Debezium's form.

The counts of a transaction in progress are members of offsets, as in Debezium, so they are the same after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.java.hash_order import hash_map_order
from connect.record import SourceRecord
from connectors.cdc.config.event_settings import EventSettings
from connectors.cdc.name_adjustment import schema_name_adjuster
from connectors.cdc.offsets import TRANSACTION_COUNT, TRANSACTION_ID, source_partition
from connectors.cdc.schema.envelope import TRANSACTION

MESSAGES = "LOGICAL_DECODING_MESSAGE"
"""The name under which logical messages are counted."""
_NAME = "io.debezium.connector.common.TransactionMetadata"
_COLLECTION = (
    SchemaBuilder.struct()
    .name("event.collection")
    .version(1)
    .field("data_collection", Schema.STRING)
    .field("event_count", Schema.INT64)
    .optional()
    .build()
)


class TransactionMetadata:
    """Counts the events of the current transaction. ``provide.transaction.metadata=true``."""

    def __init__(
        self, topic_prefix: str, topic_delimiter: str, events: EventSettings, name: Callable[[str, Mapping[str, Any]], str]
    ) -> None:
        """``name`` returns what events call a transaction, given its ID and the offset of the event."""
        self._partition = source_partition(topic_prefix)
        self._topic = topic_delimiter.join((topic_prefix, events.transaction_topic))
        self._name = name
        adjust = schema_name_adjuster(events.schema_name_adjustment)
        self._key = SchemaBuilder.struct().name(adjust(f"{_NAME}Key")).version(1).field("id", Schema.STRING).build()
        self._value = (
            SchemaBuilder.struct()
            .name(adjust(f"{_NAME}Value"))
            .version(1)
            .field("status", Schema.STRING)
            .field("id", Schema.STRING)
            .field("event_count", Schema.OPTIONAL_INT64)
            .field("data_collections", SchemaBuilder.array(_COLLECTION).optional().build())
            .field("ts_ms", Schema.INT64)
            .build()
        )
        self._id: str | None = None
        self._counts: dict[str, int] = {}

    def restore(self, offset: Mapping[str, int | str]) -> None:
        """Continues the transaction of a stored offset, given the offset's members of it."""
        id_ = offset.get(TRANSACTION_ID)
        self._id = None if id_ is None else str(id_)
        self._counts = {name.removeprefix(TRANSACTION_COUNT): int(n) for name, n in offset.items() if name != TRANSACTION_ID}

    def members(self) -> dict[str, Any]:
        """The members of offsets inside the transaction."""
        if self._id is None:
            return {}
        return {TRANSACTION_ID: self._id, **{TRANSACTION_COUNT + name: count for name, count in self._counts.items()}}

    def begin(self, transaction_id: str, name: str, ts_ms: int, offset: Mapping[str, Any]) -> SourceRecord | None:
        """Begins a transaction; None if it had begun before a restart: its counts continue."""
        if self._id == transaction_id:
            return None
        self._id, self._counts = transaction_id, {}
        return self._record("BEGIN", name, None, None, ts_ms, {**offset, **self.members()})

    def end(self, name: str, ts_ms: int, offset: Mapping[str, Any]) -> SourceRecord | None:
        """Ends the transaction; None if it had not begun. ``name`` is what the record calls it."""
        if self._id is None:
            return None
        counts = [Struct(_COLLECTION, [name, self._counts[name]]) for name in hash_map_order(self._counts)]
        record = self._record("END", name, sum(self._counts.values()), counts, ts_ms, offset)
        self._id, self._counts = None, {}
        return record

    def add(self, record: SourceRecord, collection: str, block_index: int, *, is_last: bool) -> None:
        """Counts an event and sets its transaction block. ``is_last``: a restart behind it does not repeat its change."""
        assert record.source_offset is not None
        assert self._id is not None
        members = self.members()
        count = self._counts[collection] = self._counts.get(collection, 0) + 1
        block = [self._name(self._id, record.source_offset), sum(self._counts.values()), count]
        record.value.values[block_index] = Struct(TRANSACTION, block)
        record.source_offset = {**record.source_offset, **(self.members() if is_last else members)}

    def add_change(self, records: Sequence[SourceRecord], collection: str, block_index: int) -> None:
        """Counts the event of a change. A tombstone that follows it is not counted."""
        event, *tombstones = records
        self.add(event, collection, block_index, is_last=not tombstones)
        for tombstone in tombstones:
            assert tombstone.source_offset is not None
            tombstone.source_offset = {**tombstone.source_offset, **self.members()}

    def _record(
        self, status: str, name: str, count: int | None, counts: list[Struct] | None, ts_ms: int, offset: Mapping[str, Any]
    ) -> SourceRecord:
        value = Struct(self._value, [status, name, count, counts, ts_ms])
        return SourceRecord(self._partition, offset, self._topic, None, self._key, Struct(self._key, [name]), self._value, value)
