"""Moves the offsets of a stopped sink in an Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark.tables.application_ids import StoredOffsets
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.offsets import TableOffsets, find_offsets
from connectors.spark.tables.iceberg.snapshots import IcebergTableSettings, TableReader


def move_stored_offsets(
    reader: TableReader, settings: IcebergTableSettings, offsets: Mapping[TopicPartition, int | None], place: str
) -> None:  # fmt: skip
    """Commits new ends of partitions, or removes them (None), without rows. If the table has lost all ends of the connector, it
    forgets that it had some: those of the consumer group apply then. Raises ConnectError when a task commits meanwhile."""
    handle = reader.open()
    if handle is None:
        return
    state = reader.read(handle)
    handle = reader.handle or handle
    stored = find_offsets(handle.history(0)["snapshots"]) or TableOffsets()
    known, connector = reader.describe(state, stored), settings.connector
    if not stored.of(connector):
        if settings.writer_property in state["properties"]:
            with known.lock.held():
                handle.remove_property(settings.writer_property)
        return
    identities = StoredOffsets(stored.of(connector), connector)
    moved = {str(i): end or 0 for tp, end in offsets.items() for i in identities.partition_ids(tp)}
    change = IcebergChange(pa.table({}))
    request = change.request("append", known.snapshot, stored.next_summary(connector, moved))
    with known.lock.held():
        try:
            handle.commit(request)
        except CommitConflict as e:
            raise ConnectError(f"{place}: a task committed at the same time; stop the connector first") from e
