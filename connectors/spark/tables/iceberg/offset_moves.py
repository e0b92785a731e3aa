"""Moves the offsets that an Iceberg table stores."""

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
from connectors.spark.tables.iceberg.types import Json


def move_stored_offsets(
    reader: TableReader, state: Json, connector: str, offsets: Mapping[TopicPartition, int | None], place: str
) -> None:
    """Commits new offsets (None deletes one), also those of recreated topics: deleting them accepts the new topic."""
    handle = reader.handle
    assert handle is not None
    stored = find_offsets(handle.history(0)["snapshots"]) or TableOffsets()
    known = reader.describe(state, stored)
    identities = StoredOffsets(stored.of(connector), connector)
    moved = {str(i): end or 0 for tp, end in offsets.items() for i in identities.partition_ids(tp)}
    request = IcebergChange(pa.table({})).request("append", 0, stored.next_summary(connector, moved))
    with known.lock.held():
        try:
            handle.commit(request)
        except CommitConflict as e:
            raise ConnectError(f"{place}: a task committed at the same time; stop the connector first") from e
