"""Random histories of a Parquet table against a model: two tasks that fight for partitions, calls of the file system that fail
before or after they have an effect, restarts, moved columns, and a rule that deletes old files.

While a task calls the file system, the other one acts, and so does a reader, who must see each record once at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.parquet import table as parquet_table
from connectors.spark.tables.parquet.links import newest_links, parse_link
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.table import OffsetCommit, TableState

PARTITIONS = [TopicPartition("t", p) for p in range(2)]
BASE: Columns = {"p": pa.int64(), "o": pa.int64()}
T = TypeVar("T")
TYPES = (pa.int64(), pa.string(), pa.float64())


@dataclass(slots=True)
class MemoryFiles:
    """Files in memory. ``at_call`` is called with the number of each call, before and after it has its effect."""

    contents: dict[str, pa.Buffer] = field(default_factory=dict)
    read: dict[str, tuple[list[tuple[int, int]], Columns]] = field(default_factory=dict)
    """By file: its records, and its columns."""
    age: dict[str, int] = field(default_factory=dict)
    """By file: the number of the call that created it."""
    calls: int = 0
    at_call: Callable[[int, str], None] = lambda number, when: None

    def names_in(self, folder: str) -> list[str]:
        return self._called(lambda: [name for name in self.contents if name.rpartition("/")[0] == folder])

    def open_input(self, name: str) -> pa.NativeFile:
        return self._called(lambda: self._open(name))

    def put_if_absent(self, name: str, content: pa.Buffer) -> bool:
        return self._called(lambda: self._put(name, content))

    def make_folder(self, folder: str) -> None: ...

    def delete_temporary_files(self, listed: Iterable[str]) -> None: ...

    def _put(self, name: str, content: pa.Buffer) -> bool:
        if name in self.contents:
            return False
        self.contents[name] = content
        self.age[name] = self.calls
        rows = pq.read_table(pa.BufferReader(content))
        records = list(zip(rows["p"].to_pylist(), rows["o"].to_pylist(), strict=True))
        self.read[name] = records, dict(zip(rows.schema.names, rows.schema.types, strict=True))
        return True

    def _open(self, name: str) -> pa.NativeFile:
        if name not in self.contents:
            raise FileNotFoundError(name)
        return pa.BufferReader(self.contents[name])

    def _called(self, effect: Callable[[], T]) -> T:
        self.calls += 1
        number = self.calls
        self.at_call(number, "before")
        found = effect()
        self.at_call(number, "after")
        return found


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a task. In its n-th call of the file system, ``others`` run, and then the call fails if ``fails``."""

    task: int
    action: str
    partition: int
    rows: int
    call: int
    when: str
    fails: bool
    others: tuple[Step, ...] = ()


def steps(depth: int) -> st.SearchStrategy[Step]:
    others = st.just(()) if depth == 0 else st.lists(steps(depth - 1), max_size=2).map(tuple)
    return st.builds(
        Step,
        task=st.integers(0, 1),
        action=st.sampled_from(["append", "append", "append", "restart", "column", "expire"]),
        partition=st.integers(0, 1),
        rows=st.integers(1, 3),
        call=st.integers(1, 6),
        when=st.sampled_from(["before", "after"]),
        fails=st.booleans(),
        others=others,
    )


@dataclass(slots=True)
class Task:
    table: ParquetTable
    state: TableState | None = None
    """As the table's writer holds it; None if it must be read."""


@dataclass(slots=True)
class World:
    files: MemoryFiles = field(default_factory=MemoryFiles)
    tasks: dict[int, Task] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)
    began: int = 0
    """The number of calls before the outermost step: older files may be deleted during it."""
    expired: dict[int, int] = field(default_factory=dict)
    """By partition: a rule has deleted the records before this offset."""

    def start(self, number: int) -> Task:
        with mock.patch.object(parquet_table, "open_table_files", return_value=self.files):
            task = Task(ParquetTable("memory", "c", lambda topic: TopicIdentity("cluster", "1")))
        self.tasks[number] = task
        return task

    def run(self, step: Step) -> None:
        if step.action == "expire":
            self.expire(step.partition)
            return
        if step.task in self.busy:
            # The same task number while its process still runs: a zombie and its successor.
            self.start(step.task)
            return
        if not self.busy:
            self.began = self.files.calls
        self.busy.add(step.task)
        first_call, before = self.files.calls, self.files.at_call
        reached = False

        def at_call(number: int, when: str) -> None:
            nonlocal reached
            self.read()
            if reached or number - first_call != step.call or when != step.when:
                return
            reached = True
            for other in step.others:
                self.run(other)
            self.files.at_call = at_call
            if step.fails:
                raise OSError("the connection was lost")

        self.files.at_call = at_call
        try:
            self.act(self.tasks.get(step.task) or self.start(step.task), step)
        except ConnectError:
            assert reached, "only a failing call is an error"
        finally:
            self.files.at_call = before
            self.busy.discard(step.task)

    def act(self, task: Task, step: Step) -> None:
        """What a task's writer does: after anything but a success, it reads the table again."""
        partition = PARTITIONS[step.partition]
        if step.action == "restart":
            self.start(step.task)
            return
        state, task.state = task.state or task.table.load(PARTITIONS), None
        if state.columns is None:
            task.table.create(BASE, ())
        elif step.action == "column":
            task.table.add_columns([], {**state.columns, f"c{len(state.columns)}": TYPES[step.rows - 1]}, {})
        else:
            first = state.ends.get(partition, self.expired.get(partition.partition, 0))
            end = first + step.rows
            rows = pa.table({"p": pa.array([partition.partition] * step.rows), "o": pa.array(range(first, end))})
            if task.table.append(rows, OffsetCommit({partition: (first, end)}, {partition: end})) is not None:
                state.ends[partition] = end
                task.state = state

    def expire(self, partition: int) -> None:
        """Deletes the oldest file of a partition, unless it is new."""
        old = [name for name in self.files.contents if self.files.age[name] <= self.began]
        links = sorted((link for name in old if (link := parse_link(name))), key=lambda link: link.at)
        own = [link for link in links if link.chain.startswith(f"t-{partition}-")]
        if own:
            with_rows, _ = self.files.read[own[0].name]
            del self.files.contents[own[0].name]
            self.expired[partition] = max([self.expired.get(partition, 0), *(o + 1 for _, o in with_rows)])

    def read(self) -> dict[int, int]:
        """What any reader of the files sees at this moment. Returns the end of each partition."""
        names = [name for name in self.files.contents if parse_link(name)]
        found = sorted(record for name in names for record in self.files.read[name][0])
        ends = dict(self.expired)
        for partition, offset in found:
            assert offset == ends.get(partition, 0), "each record is there once"
            ends[partition] = offset + 1
        types: Columns = {}
        for name in names:
            for column, type_ in self.files.read[name][1].items():
                assert types.setdefault(column, type_) == type_, "a column has one type"
        return ends


def check(world: World) -> None:
    """After all, the offsets in the table match its records, and a task can go on."""
    ends = world.read()
    stored = world.start(9).table.stored_ends()
    newest = newest_links(name for name in world.files.contents)
    for partition in PARTITIONS:
        if any(chain.startswith(f"t-{partition.partition}-") for chain in newest):
            assert stored.get(partition, 0) == ends.get(partition.partition, 0)
    for number in range(2):
        for _ in range(3):
            world.run(Step(9, "append", number, 1, 0, "before", False))
    assert all(end > ends.get(number, 0) for number, end in world.read().items())


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps(2), min_size=1, max_size=12))
@pytest.mark.long
def test_every_history_leaves_each_record_once_and_offsets_that_match(history: list[Step]) -> None:
    world = World()
    for step in history:
        world.run(step)
        world.read()
    check(world)


@pytest.mark.parametrize(
    ("when", "every"),
    [("after", 3), *(pytest.param(when, 1, marks=pytest.mark.long) for when in ("before", "after"))],
)
def test_each_call_may_fail_while_a_zombie_writes_the_same_records(when: str, every: int) -> None:
    """Two tasks write two partitions in turn; each call of the file system fails once, or every third one."""

    def run(failing: int | None) -> int:
        world = World()
        plan = [*[("append", 0)] * 4, ("column", 0), *[("append", 1)] * 2]

        def at_call(number: int, at: str) -> None:
            world.read()
            if number == failing and at == when:
                raise OSError("the connection was lost")

        world.files.at_call = at_call
        tasks = [world.start(0), world.start(1)]
        for number, (action, partition) in enumerate(plan):
            # The zombie has the same state, and writes some of the same records.
            for task in tasks if number % 2 else reversed(tasks):
                try:
                    world.act(task, Step(0, action, partition, 1 + tasks.index(task), 0, "", False))
                except ConnectError:
                    task.state = None
        calls = world.files.calls
        world.files.at_call = lambda number, at: None
        check(world)
        return calls

    for failing in range(1, run(None) + 1, every):
        run(failing)
