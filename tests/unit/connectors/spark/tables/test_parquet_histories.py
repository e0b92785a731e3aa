"""Random histories of a Parquet table against a model: two tasks that fight for partitions, crashes, restarts, compaction.

A crash is an exception at a crash point, after which the task is replaced; while a task is between two points, other tasks act.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect import crash_points
from connect.errors import RetriableError
from connect.record import TopicPartition
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit
from connectors.spark.tables.parquet import ParquetTable

PARTITIONS = [TopicPartition("t", p) for p in range(2)]
POINTS = ("parquet.linking", "parquet.drafted", "parquet.entered", "parquet.renamed", "parquet.merged")


class Crash(BaseException):
    """Stands for SIGKILL."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a task; ``others`` run when it reaches ``point``, and then it crashes if ``crashes``."""

    task: int
    action: str
    partition: int
    rows: int
    point: str
    crashes: bool
    others: tuple[Step, ...] = ()


def steps(depth: int) -> st.SearchStrategy[Step]:
    others = st.just(()) if depth == 0 else st.lists(steps(depth - 1), max_size=2).map(tuple)
    actions = st.sampled_from(["append", "append", "append", "read", "restart", "compact"])
    return st.builds(
        Step,
        task=st.integers(0, 1),
        action=actions,
        partition=st.integers(0, 1),
        rows=st.integers(0, 3),
        point=st.sampled_from(POINTS),
        crashes=st.booleans(),
        others=others,
    )


@dataclass(slots=True)
class Task:
    table: ParquetTable
    offsets: CommittedOffsets | None = None
    """As the table's writer holds them; None if they must be read."""


@dataclass(slots=True)
class World:
    path: Path
    tasks: dict[int, Task] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)

    def start(self, number: int) -> Task:
        task = Task(ParquetTable(str(self.path), "c", task=str(number), min_files=3))
        task.table.delete_drafts()
        self.tasks[number] = task
        return task

    def run(self, step: Step) -> None:
        if step.task in self.busy:
            # The same task number while its process still runs: a zombie and its successor.
            if step.action in ("restart", "append"):
                self.start(step.task)
            return
        self.busy.add(step.task)
        try:
            with self.at_point(step):
                self.act(step)
        except Crash:
            self.tasks.pop(step.task, None)
        finally:
            self.busy.discard(step.task)

    def act(self, step: Step) -> None:
        task = self.tasks.get(step.task) or self.start(step.task)
        partition = PARTITIONS[step.partition]
        match step.action:
            case "read":
                task.offsets = task.table.committed_offsets(PARTITIONS)
            case "restart":
                self.start(step.task)
            case "compact":
                task.table.compact()
            case _:
                offsets = task.offsets or task.table.committed_offsets(PARTITIONS)
                task.offsets = None
                first = offsets.ends.get(partition, 0)
                end = first + step.rows
                rows = pa.table({"p": pa.array([partition.partition] * step.rows, pa.int64()), "o": pa.array(range(first, end))})
                commit = TableCommit("c", (offsets.sequence or 0) + 1, {partition: (first, end)}, {partition: end})
                try:
                    if task.table.append(rows, commit) is not None:
                        offsets.ends[partition] = end
                        offsets.sequence = commit.sequence
                        task.offsets = offsets
                except RetriableError:
                    return

    @contextmanager
    def at_point(self, step: Step) -> Iterator[None]:
        reached: list[str] = []
        before = crash_points.point

        def point(name: str) -> None:
            if name != step.point or reached:
                return
            reached.append(name)
            with mock.patch.object(crash_points, "point", before):
                for other in step.others:
                    self.run(other)
            if step.crashes:
                raise Crash

        with mock.patch.object(crash_points, "point", point):
            yield

    def rows(self) -> list[tuple[int, int]]:
        if not self.path.is_dir():
            return []
        found = ds.dataset(str(self.path), format="parquet").to_table().to_pylist()
        return sorted((row["p"], row["o"]) for row in found)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps(2), min_size=1, max_size=12))
@pytest.mark.long
def test_every_history_leaves_each_row_once_and_offsets_that_match(history: list[Step]) -> None:
    # Nothing here survives a power failure anyway.
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fsync"):
        world = World(Path(folder) / "t")
        before: dict[TopicPartition, int] = {}
        for step in history:
            world.run(step)
            if world.path.is_dir():
                # A starting task repairs what a crash left; then readers see exactly what the offsets say.
                ends = ParquetTable(str(world.path), "c", task="reader").committed_offsets(PARTITIONS).ends
                assert all(ends.get(tp, 0) >= end for tp, end in before.items()), "a commit was lost"
                before = ends
                assert world.rows() == [(tp.partition, offset) for tp in PARTITIONS for offset in range(ends.get(tp, 0))]
        for number in range(2):
            world.start(number)
        assert not list(world.path.rglob("*.draft"))
