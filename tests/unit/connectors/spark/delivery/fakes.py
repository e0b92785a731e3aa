"""A table writer in memory, and change batches."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from connect.record import TopicPartition
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.offset_ranges import OffsetRanges
from connectors.spark.tables.table import TableState
from connectors.spark.tables.writer import TableProgress
from tests.support.waiting import WAIT_S


def changes(
    offsets: Sequence[int],
    *,
    topic: str = "t",
    partition: int = 0,
    ops: Sequence[str | None] | None = None,
    tables: Sequence[str | None] | None = None,
    keys: pa.Table | None = None,
) -> ChangeBatch:
    """A batch with these offsets; the image has the column ``id`` with the offset."""
    count = len(offsets)
    nothing = pa.nulls(count, pa.string())
    meta = make_meta(
        pa.array(offsets, pa.int64()),
        pa.array(ops or [None] * count, pa.string()),
        pa.array([1] * count, pa.int64()),
        pa.array([partition] * count, pa.int32()),
        pa.array(offsets, pa.int64()),
        [nothing, nothing, pa.array(tables or [None] * count, pa.string())],
    )
    return ChangeBatch(topic, meta, pa.table({"id": pa.array(offsets, pa.int64())}), keys)


def offsets_of(batches: Sequence[ChangeBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.meta["offset"].to_pylist()]


class FakeWriter:
    """Stores commits in memory. While ``gate`` is closed (clear), a commit waits in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.progress = TableProgress()
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.errors: list[BaseException | None] = []
        """Errors of the next commits."""
        self.bad_records: list[BadRecord] = []
        """What ``split_bad_records`` finds."""
        self.commits: list[list[int]] = []
        """The offsets of each commit's records."""
        self.excluded: list[OffsetRanges] = []
        self.partitions: list[set[TopicPartition]] = []
        self.ends: dict[TopicPartition, int] = {}
        self.known: Columns | None = None
        self.threads: set[str] = set()
        self._active = threading.Lock()

    def wait_until_committing(self) -> None:
        """Waits until one more commit has started."""
        assert self.entered.acquire(timeout=WAIT_S)

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> TableState:
        return TableState(self.known, dict(self.ends))

    def columns(self) -> Columns | None:
        return self.known

    def commit(
        self, batches: Sequence[ChangeBatch], partitions: Collection[TopicPartition], excluded: OffsetRanges | None = None
    ) -> None:
        assert self._active.acquire(blocking=False), f"two commits of table {self.name} at once"
        try:
            self.threads.add(threading.current_thread().name)
            self.entered.release()
            assert self.gate.wait(WAIT_S)
            if self.errors and (error := self.errors.pop(0)) is not None:
                raise error
            self.commits.append(offsets_of(batches))
            self.excluded.append(dict(excluded or {}))
            self.partitions.append(set(partitions))
        finally:
            self._active.release()

    def split_bad_records(
        self, batches: Sequence[ChangeBatch], partitions: Collection[TopicPartition]
    ) -> tuple[list[ChangeBatch], list[BadRecord]]:
        bad = {record.offset for record in self.bad_records}
        good = [batch.filter(pa.array([offset not in bad for offset in offsets_of([batch])])) for batch in batches]
        return [batch for batch in good if batch.num_rows], list(self.bad_records)


class FakeTables:
    """The writers of a task, by table."""

    def __init__(self) -> None:
        self.writers: dict[str, FakeWriter] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> FakeWriter:
        with self._lock:
            return self.writers.setdefault(name, FakeWriter(name))

    def open(self, name: str) -> Any:
        return self[name]
