"""A table without Delta, the process that writes it, and records of a source for it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import DELETED, HARD, SEQ, SOFT, SOURCE
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.tables.writer import TableWriter
from tests.support.files_only_table import Crash, FilesOnlyTable, Storage
from tests.support.source_order_histories import Event

SETTINGS = TableConfig("upsert", (), HARD, "add", (SEQ,), keep_tombstones=True, sequence_by=SOURCE)
SOFT_SETTINGS = replace(SETTINGS, delete_mode=SOFT, metadata_columns=(SEQ, DELETED))


@dataclass
class Partitions:
    """Records with their offsets, as they are delivered."""

    counts: dict[int, int] = field(default_factory=dict)
    sequence: int = 0

    def batch(self, events: Sequence[tuple[Event, int]]) -> ChangeBatch:
        """Records of events and their partitions, in the order of their arrival."""
        offsets = []
        for _, partition in events:
            offsets.append(self.counts.get(partition, 0))
            self.counts[partition] = offsets[-1] + 1
        first, self.sequence = self.sequence, self.sequence + len(events)
        meta = make_meta(
            pa.array(range(first, first + len(events)), pa.int64()),
            pa.array([e.op for e, _ in events], pa.string()),
            pa.array([e.at for e, _ in events], pa.int64()),
            pa.array([partition for _, partition in events], pa.int32()),
            pa.array(offsets, pa.int64()),
            positions=pa.array([e.position for e, _ in events], pa.string()),
        )
        image = pa.table(
            {
                "id": pa.array([e.id for e, _ in events], pa.int64()),
                "v": pa.array([e.value for e, _ in events], pa.string()),
            }
        )
        return ChangeBatch("t", meta, image, image.select(["id"]))


class World:
    """A table, and the process that writes it."""

    def __init__(self, folder: Path, config: TableConfig = SETTINGS) -> None:
        self.storage = Storage(folder)
        self.config = config
        self.partitions = Partitions()
        self.partition_counts: dict[str, int] = {}
        self.restart()

    def restart(self) -> None:
        self.table = FilesOnlyTable(self.storage, self.config.deleted_retention_ms)
        self.writer = TableWriter("t", self.config, self.table, self._identify)

    def _identify(self, topic: str) -> TopicIdentity:
        return TopicIdentity("cluster", "-", self.partition_counts.get(topic, 1))

    def commit(self, *events: Event, partitions: Sequence[int] = (0,), crashes: bool = False) -> None:
        records = [(event, partitions[at % len(partitions)]) for at, event in enumerate(events)]
        batch = self.partitions.batch(records)
        assigned = [TopicPartition("t", partition) for partition in set(partitions)]
        if crashes:
            self.table.crashes = True
            with contextlib.suppress(Crash):
                self.writer.commit([batch], assigned)
            self.restart()
        self.writer.commit([batch], assigned)

    def rows(self) -> dict[int, str | None]:
        """The rows that are not deleted: one per key."""
        rows = [row for row in self.table.rows() if not row.get(DELETED)]
        found = {row["id"]: row["v"] for row in rows}
        assert len(found) == len(rows), rows
        return found
