"""Parquet tables: chains of files, columns, moved offsets, recreated topics, crashes, and what other programs do to the files."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import obstore.store
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from connect.errors import BadRequestError, ConnectError, RetriableError, SchemaError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import TableConfig, parse_config
from connectors.spark.connector import SparkSink
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.tables import find_tables
from connectors.spark.tables.application_ids import OtherTopicError
from connectors.spark.tables.parquet import files as parquet_files
from connectors.spark.tables.parquet.links import ChainEnd, Link, chain_of, columns_name, parse_footer, parse_link
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.table import OffsetCommit
from connectors.spark.tables.writer import TableWriter
from tests.support.files_only_world import Partitions
from tests.support.source_order_histories import Event

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
COLUMNS = {"p": pa.int64(), "o": pa.int64()}


def open_table(path: Path, connector: str = "c", *, topic_id: str = "1", load: bool = True) -> ParquetTable:
    table = ParquetTable(str(path), connector, lambda topic: TopicIdentity("cluster", topic_id))
    if load and table.load([PARTITION, OTHER]).columns is None:
        table.create(COLUMNS, ())
        table.load([PARTITION, OTHER])
    return table


def identify(topic: str) -> TopicIdentity:
    return TopicIdentity("cluster", "1")


def append(table: ParquetTable, first: int, end: int, partition: TopicPartition = PARTITION) -> int | None:
    rows = pa.table({"p": pa.array([partition.partition] * (end - first)), "o": pa.array(range(first, end), pa.int64())})
    return table.append(rows, OffsetCommit({partition: (first, end)}, {partition: end}))


def ends(path: Path, connector: str = "c") -> dict[TopicPartition, int]:
    return dict(open_table(path, connector).stored_ends())


def visible(path: Path) -> list[tuple[int, int]]:
    """What a reader of the directory sees."""
    rows = ds.dataset(str(path), format="parquet").to_table().to_pylist() if path.is_dir() else []
    return sorted((row["p"], row["o"]) for row in rows)


def data_files(path: Path) -> list[str]:
    return sorted(file.name for file in path.glob("*.parquet"))


def test_task_with_outdated_offsets_cannot_append_and_goes_on_where_the_winner_ended(tmp_path: Path) -> None:
    path = tmp_path / "t"
    zombie, owner = open_table(path), open_table(path)
    assert append(owner, 0, 5) == 5
    assert append(zombie, 0, 5) is None
    assert append(zombie, 3, 8) is None
    assert append(zombie, 5, 8) is None, "it has not read the end that the owner moved"
    assert zombie.load([PARTITION]).ends == {PARTITION: 5}
    assert append(zombie, 5, 8) == 8
    assert append(owner, 5, 7) is None
    assert append(zombie, 6, 10) is None
    assert visible(path) == [(0, offset) for offset in range(8)]


def test_tasks_with_different_partitions_do_not_fail_because_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "t"
    one, other = open_table(path), open_table(path)
    for first in range(0, 20, 2):
        assert append(one, first, first + 2) is not None
        assert append(other, first, first + 2, OTHER) is not None
    assert ends(path) == {PARTITION: 20, OTHER: 20}
    assert visible(path) == [(p, offset) for p in (0, 1) for offset in range(20)]


def test_connectors_of_one_table_have_their_own_offsets(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert append(open_table(path, "a"), 0, 5) == 5
    assert append(open_table(path, "b"), 0, 3) == 3
    assert ends(path, "a") == {PARTITION: 5}
    assert ends(path, "b") == {PARTITION: 3}


def test_files_are_named_by_the_offset_at_which_they_begin_and_say_where_they_end(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = open_table(path)
    append(table, 7, 9)
    append(table, 9, 12)
    chain = chain_of("c", PARTITION)
    assert chain.startswith("t-0-")
    assert data_files(path) == [
        f"sluice-{chain}-000000-00000000000000000007.parquet",
        f"sluice-{chain}-000000-00000000000000000009.parquet",
        f"sluice-{chain}-000000-start.parquet",
    ]
    footers = [parse_footer(pq.read_metadata(path / name).metadata, name) for name in data_files(path)]
    assert [(footer.at, footer.after) for footer in footers] == [((0, 7), (0, 9)), ((0, 9), (0, 12)), ((0, -1), (0, 7))]
    assert footers[0].identity == TopicIdentity("cluster", "1")
    assert (footers[0].connector, footers[0].partition, footers[0].columns) == ("c", PARTITION, 1)


def test_names_of_files_fit_file_systems_and_tell_similar_topics_apart() -> None:
    long = TopicPartition("a" * 249, 12345)
    link = Link(chain_of("c", long), ChainEnd(3, 2**63 - 1))
    assert len(link.name) <= 255
    assert parse_link(link.name) == link
    similar = TopicPartition("a" * 248 + "b", 12345)
    assert chain_of("c", similar) != chain_of("c", long)
    assert chain_of("a", TopicPartition("b/c", 1)) != chain_of("a", TopicPartition("b_c", 1))
    assert "/" not in chain_of("a", TopicPartition("b/c", 1))


def test_offsets_without_rows_are_committed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = open_table(path)
    append(table, 0, 3)
    assert table.append(pa.schema(list(COLUMNS.items())).empty_table(), OffsetCommit({PARTITION: (3, 9)}, {PARTITION: 9})) == 9
    assert ends(path) == {PARTITION: 9}
    assert visible(path) == [(0, offset) for offset in range(3)]


def test_file_also_stands_for_records_without_rows_before_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = open_table(path)
    append(table, 0, 3)
    assert append(table, 5, 6) == 6
    footer = parse_footer(pq.read_metadata(path / Link(chain_of("c", PARTITION), ChainEnd(0, 3)).name).metadata, "")
    assert (footer.at.offset, footer.after.offset) == (3, 6)


def test_moved_offsets_begin_the_next_generation_of_names(tmp_path: Path) -> None:
    path = tmp_path / "t"
    task, request = open_table(path), open_table(path)
    append(task, 0, 5)
    append(task, 0, 4, OTHER)
    request.move_offsets({PARTITION: 2, OTHER: None})
    assert append(task, 5, 6) is None, "its offset was moved"
    assert task.load([PARTITION, OTHER]).ends == {PARTITION: 2}
    assert append(task, 2, 6) == 6
    assert append(task, 7, 8, OTHER) == 8
    assert ends(path) == {PARTITION: 6, OTHER: 8}
    assert visible(path) == sorted([(0, o) for o in (*range(5), *range(2, 6))] + [(1, o) for o in (*range(4), 7)])


def test_offsets_are_changed_over_rest_unless_rows_would_be_added_again(tmp_path: Path) -> None:
    append(open_table(tmp_path / "t"), 0, 5)
    props = {"name": "c", "topics": "t", "table.format": "parquet", "table.location": str(tmp_path)}
    with pytest.raises(BadRequestError, match=r"records of t-0 up to offset 5.*append\.replay=repeat"):
        SparkSink().alter_offsets(props, {PARTITION: 2})
    assert SparkSink().alter_offsets(props, {PARTITION: 7})
    assert ends(tmp_path / "t") == {PARTITION: 7}
    assert SparkSink().alter_offsets({**props, "append.replay": "repeat"}, {PARTITION: None})
    assert ends(tmp_path / "t") == {}


def test_request_that_loses_against_a_task_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    task, request = open_table(path), open_table(path)
    append(task, 0, 5)
    load = ParquetTable._load

    def load_before_a_commit(table: ParquetTable, partitions: Any) -> Any:
        found = load(table, partitions)
        assert append(task, 5, 6) == 6
        return found

    monkeypatch.setattr(ParquetTable, "_load", load_before_a_commit)
    with pytest.raises(RetriableError, match="stop the connector first"):
        request.move_offsets({PARTITION: 2})
    monkeypatch.undo()
    assert ends(path) == {PARTITION: 6}


def test_recreated_topic_is_refused_until_its_offsets_are_reset(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(open_table(path), 0, 5)
    with pytest.raises(OtherTopicError, match=r"holds t-0 up to offset 5 from a topic that was recreated.*DELETE"):
        open_table(path, topic_id="2")
    open_table(path, load=False).move_offsets({PARTITION: None})
    table = open_table(path, topic_id="2")
    assert append(table, 0, 2) == 2
    with pytest.raises(OtherTopicError):
        open_table(path)
    assert visible(path) == [(0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (0, 3), (0, 4)]


def test_topic_whose_id_cannot_be_read_is_not_committed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(open_table(path), 0, 1)
    table = ParquetTable(str(path), "c", lambda topic: None)
    table.load([PARTITION])
    with pytest.raises(RetriableError, match="the brokers have no topic t, whose ID its files have"):
        append(table, 1, 2)
    with pytest.raises(ConnectError, match=r"the brokers name no ID of topic t, .*nothing of it is committed"):
        open_table(path, topic_id="-")


# --- columns


class Task:
    """A task that writes values of any type into the column ``v``."""

    def __init__(self, path: Path, partition: int) -> None:
        settings = TableConfig("append", (), "hard", "add", (), keep_tombstones=True)
        self.table = open_table(path, load=False)
        self.writer = TableWriter("t", settings, self.table, identify)
        self.partition = partition
        self.next = 0

    def write(self, values: Sequence[Any], name: str = "v") -> None:
        numbers = pa.array(range(self.next, self.next + len(values)), pa.int64())
        nulls = pa.nulls(len(values), pa.string())
        meta = make_meta(
            numbers, nulls, pa.nulls(len(values), pa.int64()), pa.array([self.partition] * len(values), pa.int32()), numbers
        )
        changes = ChangeBatch("t", meta, pa.table({name: pa.array(values)}), None)
        self.writer.commit([changes], [TopicPartition("t", self.partition)])
        self.next += len(values)


@pytest.mark.parametrize("first", ["loaded", "absent"])
def test_of_two_tasks_that_add_a_column_with_different_types_the_second_one_refuses_its_records(
    tmp_path: Path, first: str
) -> None:
    path = tmp_path / "t"
    winner, loser = Task(path, 0), Task(path, 1)
    if first == "loaded":
        winner.write([1], "id")
    for task in (winner, loser):
        task.writer.committed_offsets([TopicPartition("t", task.partition)])
    winner.write([1])
    with pytest.raises(SchemaError, match="column v is BIGINT in the table, but STRING in the records"):
        loser.write(["x"])
    with pytest.raises(SchemaError, match="differ only in case"):
        loser.write([1], "V")
    loser.write([2])
    loser.write([{"a": 1}], "s")
    with pytest.raises(SchemaError, match=r"column s"):
        winner.write([{"a": "x"}], "s")
    winner.write([{"b": "x"}], "s")
    rows = ds.dataset(str(path), schema=pq.read_schema(path / columns_name(4 if first == "loaded" else 3)), format="parquet")
    assert sorted(str(row["v"]) for row in rows.to_table().to_pylist() if row["v"] is not None) == ["1", "2"]


def test_commit_of_several_partitions_is_a_file_for_each(tmp_path: Path) -> None:
    path = tmp_path / "t"
    settings = TableConfig("append", (), "hard", "add", ("__partition", "__offset"), keep_tombstones=True)
    writer = TableWriter("t", settings, open_table(path, load=False), identify)
    partitions, offsets = [1, 0, 0, 2, 1, 0], [5, 0, 1, 7, 6, 2]
    numbers = pa.array(range(6), pa.int64())
    meta = make_meta(
        numbers, pa.nulls(6, pa.string()), pa.nulls(6, pa.int64()), pa.array(partitions, pa.int32()), pa.array(offsets)
    )
    batch = ChangeBatch("t", meta, pa.table({"v": pa.array(range(6))}), None)
    listed = [TopicPartition("t", number) for number in range(4)]
    writer.commit([batch], listed, {listed[3]: (0, 4), listed[2]: (8, 9)})
    rows = ds.dataset(str(path), format="parquet").to_table().to_pylist()
    assert sorted((row["__partition"], row["__offset"]) for row in rows) == sorted(zip(partitions, offsets, strict=True))
    assert ends(path) == {listed[0]: 3, listed[1]: 7, listed[2]: 9, listed[3]: 4}
    counts = [pq.read_metadata(path / name).num_rows for name in data_files(path)]
    assert sorted(counts) == [0, 0, 0, 0, 0, 1, 2, 3]
    assert writer.progress.rows == 6
    writer.commit([batch], listed)
    assert writer.progress.rows == 6, "the table has these records"


def test_every_file_has_all_columns_of_its_time(tmp_path: Path) -> None:
    path = tmp_path / "t"
    task = Task(path, 0)
    task.write([1], "a")
    task.write([{"p": 1}], "s")
    task.write([{"q": "x"}], "s")
    task.write([2], "a")
    nested = pa.struct([("p", pa.int64()), ("q", pa.string())])
    newest = max(data_files(path), key=lambda name: "" if "start" in name else name)
    assert dict(zip(*_names_and_types(path / newest), strict=True)) == {"a": pa.int64(), "s": nested}
    assert open_table(path).load([]).columns == {"a": pa.int64(), "s": nested}


def _names_and_types(path: Path) -> tuple[list[str], list[pa.DataType]]:
    schema = pq.read_schema(path)
    return schema.names, schema.types


def test_table_whose_columns_were_deleted_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "t"
    task = Task(path, 0)
    task.write([1])
    task.write(["x"], "w")
    (path / columns_name(2)).unlink()
    with pytest.raises(
        ConnectError, match=r"has lost the file with its columns, _sluice/columns/0000000002.parquet .*restore it"
    ):
        open_table(path)
    shutil.rmtree(path / "_sluice")
    with pytest.raises(ConnectError, match=r"has lost the file with its columns.*or move the directory away"):
        open_table(path)


def test_widening_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="cannot be widened"):
        open_table(tmp_path / "t").widen_columns([("p", pa.float64())])


# --- what others do to the files


def test_chain_whose_files_were_deleted_goes_on_at_the_groups_offset_also_against_a_zombie(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    zombie = open_table(path)
    append(zombie, 0, 5)
    append(zombie, 0, 4, OTHER)
    for name in data_files(path):
        if name.startswith("sluice-t-0-"):
            (path / name).unlink()
    owner = open_table(path)
    assert ends(path) == {OTHER: 4}
    with caplog.at_level(logging.INFO):
        assert append(owner, 5, 8) == 8
    assert "has no offset of t-0: its first record is that of offset 5" in caplog.text
    assert append(zombie, 5, 8) is None
    assert zombie.load([PARTITION]).ends == {PARTITION: 8}
    assert visible(path) == [(0, 5), (0, 6), (0, 7), (1, 0), (1, 1), (1, 2), (1, 3)]


def test_table_that_is_removed_under_its_task_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = open_table(path)
    append(table, 0, 1)
    shutil.rmtree(path)
    with pytest.raises(ConnectError, match=r"was removed while this task wrote to it; .*restart the connector"):
        append(table, 1, 2)
    assert open_table(path, load=False).load([PARTITION]).columns is None


def test_damaged_files_are_reported_with_their_names(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(open_table(path), 0, 1)
    newest = path / Link(chain_of("c", PARTITION), ChainEnd(0, 0)).name
    whole = newest.read_bytes()
    newest.write_bytes(whole[:50])
    with pytest.raises(ConnectError, match=rf"{newest} is damaged"):
        open_table(path)
    pq.write_table(pa.table({"o": [0]}), newest)
    with pytest.raises(ConnectError, match=rf"footer of the file {newest} is damaged"):
        open_table(path)
    pq.write_table(pa.table({"o": [0]}).replace_schema_metadata({"sluice": '{"format": 9}'}), newest)
    with pytest.raises(ConnectError, match="knows only format 2"):
        open_table(path)


@pytest.mark.parametrize("left", ["_sluice/entries/00000000000000000001.json", f"sluice-c-{1:020d}-0a1b2c3d.parquet"])
def test_table_of_an_earlier_release_is_refused_with_the_way_out(tmp_path: Path, left: str) -> None:
    file = tmp_path / "t" / left
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    with pytest.raises(ConnectError, match=r"written by an earlier release.*Move the directory away"):
        open_table(tmp_path / "t")


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    (path / "foreign.parquet").write_bytes(b"not ours")
    table = open_table(path, load=False)
    assert table.load([PARTITION]).columns is None
    assert append(open_table(path), 0, 1) == 1
    assert (path / "foreign.parquet").read_bytes() == b"not ours"


def test_tables_of_a_location_are_found(tmp_path: Path) -> None:
    append(open_table(tmp_path / "t"), 0, 1)
    open_table(tmp_path / "without_rows")
    (tmp_path / "empty").mkdir()
    config = parse_config({"name": "c", "topics": "t", "table.format": "parquet", "table.location": str(tmp_path)})
    assert find_tables.find_tables(config, None) == ["t", "without_rows"]


# --- file systems


def test_temporary_files_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    open_table(path)
    names = ["notes.tmp", ".0a1b.tmp", f"{'0a1b' * 8}.tmp", f".{'0A1B' * 8}.tmp", f".{'0a1b' * 8}.parquet.tmp"]
    for name in names:
        (path / name).touch()
    append(open_table(path), 0, 3)
    assert {name for name in names if (path / name).exists()} == set(names)


def test_temporary_files_of_a_crash_are_deleted_and_a_writer_that_loses_one_writes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    table = open_table(path)
    for folder in (path, path / "_sluice" / "columns"):
        (folder / f".{'0a1b' * 8}.tmp").write_bytes(b"half a file")
    points: list[str] = []

    def point(name: str) -> None:
        if name == "parquet.linking" and not points:
            points.append(name)
            assert len(list(path.rglob(".*.tmp"))) == 3
            open_table(path)
            assert not list(path.rglob(".*.tmp"))

    monkeypatch.setattr("connect.crash_points.point", point)
    assert append(table, 0, 3) == 3
    assert visible(path) == [(0, 0), (0, 1), (0, 2)]
    assert not list(path.rglob(".*.tmp"))


def test_file_whose_creation_was_not_confirmed_is_recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table = open_table(path)
    put = parquet_files.LocalTableFiles.put_if_absent

    def put_twice(self: parquet_files.LocalTableFiles, name: str, content: pa.Buffer) -> bool:
        return put(self, name, content) and put(self, name, content)

    monkeypatch.setattr(parquet_files.LocalTableFiles, "put_if_absent", put_twice)
    assert append(table, 0, 3) == 3
    assert append(table, 3, 4) == 4
    assert visible(path) == [(0, offset) for offset in range(4)]


def test_file_system_without_exclusive_creation_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        parquet_files, "open_location", lambda location, s3: (fs.SubTreeFileSystem("/", fs.LocalFileSystem()), location)
    )
    with pytest.raises(ConnectError, match="cannot be guarded against two tasks"):
        open_table(tmp_path)


def test_file_system_without_hard_links_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(ConnectError, match="no hard links"):
        append(open_table(tmp_path / "t"), 0, 1)
    assert [path for path in (tmp_path / "t").rglob("*") if path.is_file()] == []


def test_store_that_ignores_the_condition_is_rejected_before_a_file_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    store = obstore.store.MemoryStore()
    obstore.put(store, "t/x", b"of another task")
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, name, content, **_: put(store, name, bytes(content)))
    files = parquet_files.ObjectTableFiles(fs.LocalFileSystem(), "b/t", store, "t")
    with pytest.raises(ConnectError, match="ignores the condition If-None-Match"):
        files.put_if_absent("x", pa.py_buffer(b"of this task"))
    assert bytes(obstore.get(store, "t/x").bytes()) == b"of another task"


def test_object_is_created_only_if_its_name_is_free() -> None:
    store = obstore.store.MemoryStore()
    one, other = (parquet_files.ObjectTableFiles(fs.LocalFileSystem(), "b/t", store, "t") for _ in range(2))
    assert one.put_if_absent("x", pa.py_buffer(b"1"))
    assert not other.put_if_absent("x", pa.py_buffer(b"2"))
    assert bytes(obstore.get(store, "t/x").bytes()) == b"1"


@pytest.mark.parametrize("is_excluded", [False, True])
def test_records_without_rows_do_not_keep_other_partitions_from_their_commits(tmp_path: Path, is_excluded: bool) -> None:
    settings = TableConfig("append", (), "hard", "add", (), keep_tombstones=False)
    table = ParquetTable(str(tmp_path / "t"), "c", lambda topic: TopicIdentity("cluster", topic, 2))
    writer = TableWriter("t", settings, table)
    records, assigned = Partitions(), [TopicPartition("t", 0), TopicPartition("t", 1)]
    if is_excluded:
        writer.commit([], assigned, dict.fromkeys(assigned, (0, 1)))  # of a table that does not exist
        return
    writer.commit([records.batch([(Event("c", 1, 1, "a"), 0), (Event("c", 2, 2, "b"), 1)])], assigned)
    writer.commit([records.batch([(Event("tombstone", 1, 3), 0), (Event("c", 3, 4, "c"), 1)])], assigned)
    assert writer.committed_offsets(assigned).ends[assigned[1]] == 2
    writer.commit([records.batch([(Event("c", 4, 5, "d"), 0)])], assigned)
    assert writer.committed_offsets(assigned).ends == {assigned[0]: 3, assigned[1]: 2}


@pytest.mark.parametrize(("marker", "other"), [("_delta_log", "delta"), ("metadata", "iceberg")])
def test_table_is_not_created_where_one_of_another_format_is(tmp_path: Path, marker: str, other: str) -> None:
    path = tmp_path / "t"
    (path / marker).mkdir(parents=True)
    (path / marker / "00000000000000000000.json").touch()
    with pytest.raises(ConnectError, match=f"cannot be created, because a {other} table is there: set table.format={other}, or "):
        open_table(path)
    assert [file.name for file in path.iterdir()] == [marker]
    shutil.rmtree(path / marker)
    assert append(open_table(path), 0, 5) == 5
