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
from connectors.spark.tables.iceberg.snapshots import TableReader


def move_stored_offsets(
    reader: TableReader, connector: str, offsets: Mapping[TopicPartition, int | None], place: str
) -> None:  # fmt: skip
    """Commits new ends of partitions, or removes them (None), without rows. Raises ConnectError when a task commits meanwhile."""
    handle = reader.open()
    if handle is None:
        return
    state = reader.read(handle)
    handle = reader.handle or handle
    stored = find_offsets(handle.history(0)["snapshots"]) or TableOffsets()
    known = reader.describe(state, stored)
    identities = StoredOffsets(stored.of(connector), connector)
    moved = {str(i): end or 0 for tp, end in offsets.items() for i in identities.partition_ids(tp)}
    change = IcebergChange(pa.table({}))
    request = change.request("append", known.snapshot, stored.next_summary(connector, moved))
    with known.lock.held():
        try:
            handle.commit(request)
        except CommitConflict as e:
            raise ConnectError(f"{place}: a task committed at the same time; stop the connector first") from e
