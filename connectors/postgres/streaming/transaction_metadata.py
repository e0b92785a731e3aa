"""Transaction metadata: BEGIN and END events, and the transaction block of change events, in Debezium's form.

The counts of a transaction in progress are members of offsets, as in Debezium, so they are the same after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.java.hash_order import hash_map_order
from connect.record import SourceRecord
from connectors.postgres.config import PostgresConfig
from connectors.postgres.name_adjustment import schema_name_adjuster
from connectors.postgres.offsets import TRANSACTION_COUNT, TRANSACTION_ID, source_partition
from connectors.postgres.schema import envelope as env

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

    def __init__(self, settings: PostgresConfig) -> None:
        self._partition = source_partition(settings.topic_prefix)
        self._topic = settings.topic_delimiter.join((settings.topic_prefix, settings.events.transaction_topic))
        adjust = schema_name_adjuster(settings.events.schema_name_adjustment)
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
        self._xid: str | None = None
        self._counts: dict[str, int] = {}

    def restore(self, offset: Mapping[str, int | str]) -> None:
        """Continues the transaction of a stored offset, given the offset's members of it."""
        xid = offset.get(TRANSACTION_ID)
        self._xid = None if xid is None else str(xid)
        self._counts = {name.removeprefix(TRANSACTION_COUNT): int(n) for name, n in offset.items() if name != TRANSACTION_ID}

    def members(self) -> dict[str, Any]:
        """The members of offsets inside the transaction."""
        if self._xid is None:
            return {}
        return {TRANSACTION_ID: self._xid, **{TRANSACTION_COUNT + name: count for name, count in self._counts.items()}}

    def begin(self, xid: int, lsn: int, ts_ms: int, offset: Mapping[str, Any]) -> SourceRecord | None:
        """Begins a transaction; None if it had begun before a restart: its counts continue."""
        if self._xid == str(xid):
            return None
        self._xid, self._counts = str(xid), {}
        return self._record("BEGIN", lsn, None, None, ts_ms, {**offset, **self.members()})

    def end(self, lsn: int, ts_ms: int, offset: Mapping[str, Any]) -> SourceRecord | None:
        """Ends the transaction; None if it had not begun."""
        if self._xid is None:
            return None
        counts = [Struct(_COLLECTION, [name, self._counts[name]]) for name in hash_map_order(self._counts)]
        record = self._record("END", lsn, sum(self._counts.values()), counts, ts_ms, offset)
        self._xid, self._counts = None, {}
        return record

    def add(self, record: SourceRecord, collection: str, block_index: int, *, is_last: bool) -> None:
        """Counts an event and sets its transaction block. ``is_last``: a restart behind it does not repeat its change."""
        assert record.source_offset is not None
        members = self.members()
        count = self._counts[collection] = self._counts.get(collection, 0) + 1
        lsn = record.source_offset["lsn"]
        block = [f"{self._xid}:{lsn}", sum(self._counts.values()), count]
        record.value.values[block_index] = Struct(env.TRANSACTION, block)
        record.source_offset = {**record.source_offset, **(self.members() if is_last else members)}

    def add_change(self, records: Sequence[SourceRecord], collection: str, block_index: int) -> None:
        """Counts the event of a change. A tombstone that follows it is not counted."""
        event, *tombstones = records
        self.add(event, collection, block_index, is_last=not tombstones)
        for tombstone in tombstones:
            assert tombstone.source_offset is not None
            tombstone.source_offset = {**tombstone.source_offset, **self.members()}

    def _record(
        self, status: str, lsn: int, count: int | None, counts: list[Struct] | None, ts_ms: int, offset: Mapping[str, Any]
    ) -> SourceRecord:
        name = f"{self._xid}:{lsn}"
        value = Struct(self._value, [status, name, count, counts, ts_ms])
        return SourceRecord(self._partition, offset, self._topic, None, self._key, Struct(self._key, [name]), self._value, value)
