"""Parquet tables of the sink are read along the chain of each partition: each row once, in the order of its partition."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConnectError
from connect.record import SourceRecord, TopicPartition
from connect.sink import TopicIdentity
from connect.testing import MemoryOffsets
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.parquet import chain_feed
from connectors.spark.source.parquet.listing import find_file, list_files
from connectors.spark.source.parquet.positions import ListedFile
from connectors.spark.tables.parquet.links import chain_of
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.table import OffsetCommit
from tests.support.parquet_directory import ParquetDirectory, rows_of, set_age
from tests.support.replayed_events import FAST, deliver_with_kills, events, read_all

PARTITIONS = [TopicPartition("t", number) for number in range(2)]


class SinkTable:
    """A table that two connectors of the sink append to, each from two partitions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        self.topic_id = "1"
        self._ends: dict[tuple[str, int], int] = {}

    def open(self, connector: str = "c") -> ParquetTable:
        table = ParquetTable(str(self.folder), connector, lambda topic: TopicIdentity("cluster", self.topic_id))
        table.load(PARTITIONS)
        return table

    def append(
        self, rows: int = 2, connector: str = "c", partition: int = 0, columns: dict[str, pa.DataType] | None = None
    ) -> None:
        table = self.open(connector)
        known = table.load(PARTITIONS).columns or {}
        wanted = {"id": pa.int64(), **known, **(columns or {})}
        if wanted != known:
            table.add_columns([], wanted, {})
            table.load(PARTITIONS)
        numbers = range(self.written, self.written + rows)
        first = self._ends.get((connector, partition), 0)
        end = first + max(rows, 1)
        commit = OffsetCommit({PARTITIONS[partition]: (first, end)}, {PARTITIONS[partition]: end})
        self.written += rows
        self._ends[connector, partition] = end
        assert table.append(pa.table({"id": pa.array(numbers, pa.int64())}), commit) is not None

    def files(self, partition: int = 0) -> list[Path]:
        """The files of the first connector's partition, without the first one, which has no rows."""
        chain = chain_of("c", PARTITIONS[partition])
        return [path for path in sorted(self.folder.glob(f"sluice-{chain}-*")) if not path.name.endswith("start.parquet")]


@pytest.fixture(autouse=True, scope="module")
def no_syncs() -> Iterator[None]:
    """Nothing here survives a power failure, and syncs take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture
def table(tmp_path: Path) -> SinkTable:
    return SinkTable(tmp_path / "audit")


def read(table: SinkTable, offsets: MemoryOffsets | None = None, **config: str) -> list[SourceRecord]:
    return read_all(table.folder, offsets, source_format="parquet", **config)


def ids(records: list[SourceRecord]) -> list[int]:
    return [after["id"] for _, _, after in events(records)]


def test_snapshot_has_the_rows_of_all_commits_and_then_each_commit_follows(table: SinkTable) -> None:
    table.append()
    table.append()
    pq.write_table(pa.table({"id": [-1]}), table.folder / "foreign.parquet")
    offsets = MemoryOffsets()
    records = read(table, offsets)
    assert [(op, after["id"]) for op, _, after in events(records)] == [("r", number) for number in range(4)]
    first, last = (record.source_offset or {} for record in (records[2], records[3]))
    chain = chain_of("c", PARTITIONS[0])
    assert first == {
        "version": first["version"],
        "snapshot": True,
        "chains": json.dumps({chain: [0, 2, "1"]}, separators=(",", ":")),
        "chain": chain,
        "row": 1,
        "first_row": 2,
    }
    assert last == {"version": first["version"], "snapshot": True, "chains": f'{{"{chain}":[0,4,"1"]}}'}
    table.append(columns={"n": pa.int32()})
    (record, _) = read(table, offsets)
    assert events([record]) == [("c", None, {"id": 4, "n": None})]
    assert (record.source_offset or {})["version"] > first["version"]
    table.append()
    assert ids(read(table, offsets)) == [6, 7]
    assert read(table, source_start="latest") == []


def test_start_at_a_time_skips_files_that_are_older(table: SinkTable) -> None:
    for partition in (0, 1):
        for _ in range(3):
            table.append(1, partition=partition)
    for path in (*table.folder.glob("*.parquet"),):
        set_age(path, 1000)
    set_age(table.files()[2], 10)
    start = str(time.time_ns() // 1_000_000 - 100_000)
    offsets = MemoryOffsets()
    assert [(op, after["id"]) for op, _, after in events(read(table, offsets, source_start=start))] == [("c", 2)]
    table.append(1, partition=1)
    assert ids(read(table, offsets)) == [6]


def test_events_of_older_files_have_the_columns_of_the_table(table: SinkTable) -> None:
    table.append(1, partition=1)
    table.append(1, columns={"n": pa.int32()})
    assert sorted(events(read(table)), key=str) == [("r", None, {"id": 0, "n": None}), ("r", None, {"id": 1, "n": None})]


def test_moved_offsets_are_followed(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    table.append()
    assert ids(read(table, offsets)) == [0, 1]
    table.open().move_offsets({PARTITIONS[0]: None})
    table.append(1)
    table.open().move_offsets({PARTITIONS[0]: 0})
    table._ends["c", 0] = 0
    table.append(1)
    assert ids(read(table, offsets)) == [2, 3]
    assert ids(read(table)) == [0, 1, 2, 3]


def test_file_that_a_listing_misses_is_read_before_those_that_follow(table: SinkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        table.append(1)
    missed = table.files()[1].name

    def list_others(files: Any, folder: str, location: str) -> Iterator[ListedFile]:
        return (file for file in list_files(files, folder, location) if file.name != missed)

    monkeypatch.setattr(chain_feed, "list_files", list_others)
    assert ids(read(table)) == [0, 1, 2]


def test_reading_changes_nothing(table: SinkTable) -> None:
    table.append()
    (table.folder / ".0a.tmp").write_bytes(b"of a task that is writing")
    before = sorted(path.name for path in table.folder.rglob("*"))
    read(table)
    assert sorted(path.name for path in table.folder.rglob("*")) == before


@given(data=st.data())
def test_every_row_of_a_random_history_is_delivered_once_wherever_the_task_restarts(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    table = SinkTable(tmp_path_factory.mktemp("history") / "t")
    config = {**FAST, "source.format": "parquet", "source.location": str(table.folder), "batch.max.rows": "2"}

    def change() -> None:
        for connector, partition in data.draw(
            st.lists(st.tuples(st.sampled_from(["c", "other"]), st.integers(0, 1)), max_size=6)
        ):
            table.append(data.draw(st.integers(0, 4)), connector, partition)

    table.append()
    delivered = deliver_with_kills(data.draw, config, str(table.folder), change)
    assert sorted(ids(delivered)) == list(range(table.written))


def refusal(table: SinkTable, offsets: MemoryOffsets) -> str:
    with pytest.raises(ConnectError) as raised:
        read(table, offsets)
    return raised.value.message


def test_file_that_is_gone_before_it_was_read_is_a_gap(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    table.append()
    read(table, offsets)
    table.append()
    table.append()
    removed = table.files()[1]
    removed.unlink()
    message = refusal(table, offsets)
    assert message.startswith(f"the file {removed.name} of table {table.folder} was removed before its rows were read")
    assert "DELETE its offsets" in message
    assert ids(read(table, offsets, source_on_gap="snapshot")) == [0, 1, 4, 5]
    table.append()
    assert ids(read(table, offsets)) == [6, 7]


def remove_files(table: SinkTable) -> None:
    """What a rule of the storage does to files of a certain age."""
    for path in table.folder.glob("sluice-*.parquet"):
        path.unlink()


def test_chain_that_begins_again_before_the_offset_is_a_gap(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    table.append()
    table.open().move_offsets({PARTITIONS[0]: 100})
    table._ends["c", 0] = 100
    table.append()
    assert ids(read(table, offsets)) == [0, 1, 2, 3]
    remove_files(table)
    assert read(table, offsets) == []
    table.append()  # in the first generation of names, at offset 102
    message = refusal(table, offsets)
    chain = f"sluice-{chain_of('c', PARTITIONS[0])}"
    follows = f"{chain}-000000-{104:020d}.parquet follows the last one, {table.files()[-1].name}, and not"
    assert f"begin again: {follows} {chain}-000001-{102:020d}.parquet" in message
    assert "DELETE its offsets" in message
    assert ids(read(table, offsets, source_on_gap="snapshot")) == [4, 5]
    table.append()
    assert ids(read(table, offsets)) == [6, 7]


@pytest.mark.parametrize("files", [1, 2, 3, 5])  # the new ones end before, at, and after the offset
def test_records_of_a_recreated_topic_are_a_gap(table: SinkTable, files: int) -> None:
    offsets = MemoryOffsets()
    for _ in range(3):
        table.append()
    read(table, offsets)
    remove_files(table)
    table._ends.clear()
    table.topic_id = "2"
    for _ in range(files):
        table.append()
    assert "begin again" in refusal(table, offsets)
    assert ids(read(table, offsets, source_on_gap="snapshot")) == list(range(6, table.written))
    table.append()
    assert ids(read(table, offsets)) == [table.written - 2, table.written - 1]


def test_recreated_topic_is_followed_after_offsets_were_deleted(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    table.append()
    assert ids(read(table, offsets)) == [0, 1]
    table.open().move_offsets({PARTITIONS[0]: None})
    table._ends.clear()
    table.topic_id = "2"
    table.append()
    assert ids(read(table, offsets)) == [2, 3]


def test_offset_of_an_earlier_release_takes_the_topic_from_the_next_file(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    table.append()
    chain, partition = chain_of("c", PARTITIONS[0]), table_partition(str(table.folder))
    offsets.store(partition, {"version": 1, "snapshot": False, "chains": json.dumps({chain: [0, 0]})})
    (*_, last) = read(table, offsets)
    assert json.loads((last.source_offset or {})["chains"]) == {chain: [0, 2, "1"]}


def test_listing_that_misses_the_last_file_is_no_gap(table: SinkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = MemoryOffsets()
    for _ in range(3):
        table.append()
    read(table, offsets)
    missed = {path.name for path in table.files()[1:]}

    def list_others(files: Any, folder: str, location: str) -> Iterator[ListedFile]:
        return (file for file in list_files(files, folder, location) if file.name not in missed)

    monkeypatch.setattr(chain_feed, "list_files", list_others)
    assert read(table, offsets) == []


def test_files_that_were_read_may_be_removed_after_they_were_listed(table: SinkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = MemoryOffsets()
    table.append()
    read(table, offsets)

    def find_after_removal(files: Any, folder: str, name: str) -> ListedFile | None:
        remove_files(table)
        return find_file(files, folder, name)

    with monkeypatch.context() as patch:
        patch.setattr(chain_feed, "find_file", find_after_removal)
        assert read(table, offsets) == []
    assert not table.files()
    table.append()
    assert ids(read(table, offsets)) == [2, 3]


@pytest.mark.parametrize("done", [0, 1])
def test_snapshot_has_no_rows_of_a_partition_whose_files_are_all_removed_meanwhile(
    table: SinkTable, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    offsets = MemoryOffsets()
    for _ in range(2):
        table.append(1, partition=1)
    removed = table.files(1)[done].name

    def find_after_removal(files: Any, folder: str, name: str) -> ListedFile | None:
        if name == removed:
            remove_files(table)
        return find_file(files, folder, name)

    with monkeypatch.context() as patch:
        patch.setattr(chain_feed, "find_file", find_after_removal)
        assert ids(read(table, offsets)) == [0][:done]
    table.append(1, partition=1)
    assert ids(read(table, offsets)) == [2]


def test_last_file_that_is_removed_during_a_snapshot_is_a_gap(table: SinkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        table.append()
    removed = table.files()[1]

    def find_after_removal(files: Any, folder: str, name: str) -> ListedFile | None:
        if name == removed.name:
            removed.unlink(missing_ok=True)
        return find_file(files, folder, name)

    monkeypatch.setattr(chain_feed, "find_file", find_after_removal)
    assert f"the file {removed.name} of table {table.folder} was removed before" in refusal(table, MemoryOffsets())


def test_old_files_may_be_deleted_when_they_were_read(table: SinkTable) -> None:
    offsets = MemoryOffsets()
    for _ in range(3):
        table.append()
    read(table, offsets)
    for path in table.folder.glob("*.parquet"):
        path.unlink()
    assert read(table, offsets) == []
    table.append()
    assert ids(read(table, offsets)) == [6, 7]
    table.append()
    assert ids(read(table)) == [6, 7, 8, 9]


def test_damaged_files_are_named(table: SinkTable) -> None:
    table.append()
    (path,) = table.files()
    path.write_bytes(b"PAR1")
    assert f"the file {path.name} of table {table.folder} cannot be read" in refusal(table, MemoryOffsets())
    pq.write_table(pa.table({"id": [1]}), path)
    assert f"the footer of the file {table.folder}/{path.name} is damaged" in refusal(table, MemoryOffsets())


def test_offset_that_cannot_be_read_is_named(table: SinkTable) -> None:
    table.append()
    for offset, problem in (
        ({"chains": "[1]"}, "chains must be a text that the connector has stored"),
        ({"chains": "{}", "chain": "a"}, "chain must be one of chains"),
        ({"chains": "{}", "rows": 1}, "an offset has no 'rows'; did you mean row?"),
        ({"version": 3, "row": 1, "snapshot": False, "id": "x"}, "an offset has no 'id'"),
    ):
        offsets = MemoryOffsets()
        offsets.store(table_partition(str(table.folder)), offset)
        assert problem in refusal(table, offsets)


def test_table_of_an_earlier_release_is_refused_with_the_way_out(table: SinkTable) -> None:
    (table.folder / "_sluice" / "entries").mkdir(parents=True)
    assert "an earlier release of the sink wrote the table" in refusal(table, MemoryOffsets())


def test_offset_of_a_directory_is_refused_for_a_table_and_the_reverse(table: SinkTable, tmp_path: Path) -> None:
    offsets = MemoryOffsets()
    table.append()
    offsets.store(table_partition(str(table.folder)), {"passed_ms": 1})
    message = refusal(table, offsets)
    assert "is one of a directory" in message
    assert "DELETE its offsets" in message
    assert ids(read(table, offsets, source_on_gap="snapshot")) == [0, 1]
    directory = ParquetDirectory(tmp_path / "files")
    directory.add("a.parquet", rows_of(1))
    offsets.store(table_partition(str(directory.folder)), {"chains": "{}"})
    with pytest.raises(ConnectError, match="is one of a table of the sink"):
        read_all(directory.folder, offsets, source_format="parquet")
