"""Parquet tables: compare-and-set of offsets, drafts, columns, the manifest's size, and tables without it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import obstore.store
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.tables import parquet_files
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.parquet_files import open_table_files
from connectors.spark.tables.parquet_manifest import Manifest, ManifestEntry, ManifestState

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def commit_of(sequence: int, first: int, end: int, partition: TopicPartition = PARTITION, connector: str = "c") -> TableCommit:
    return TableCommit(connector, sequence, {partition: (first, end)}, {partition: end})


def append(table: ParquetTable, sequence: int, columns: dict[str, pa.Array]) -> int | None:
    return table.append(pa.table(columns), commit_of(sequence, sequence, sequence + 1))


def append_range(table: ParquetTable, first: int, end: int, partition: TopicPartition = PARTITION) -> int | None:
    rows = pa.table({"p": pa.array([partition.partition] * (end - first)), "o": pa.array(range(first, end))})
    return table.append(rows, commit_of(first + 1, first, end, partition))


def visible(path: Path) -> list[tuple[int, int]]:
    """What a reader of the directory sees."""
    rows = ds.dataset(str(path), format="parquet").to_table().to_pylist() if path.is_dir() else []
    return sorted((row["p"], row["o"]) for row in rows)


def drafts(path: Path) -> list[Path]:
    return sorted((path / "_sluice").rglob("*.draft"))


def test_a_column_missing_in_newer_files_keeps_its_type_after_a_restart(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path / "t"), "c")
    assert table.columns() is None
    append(table, 1, {"a": pa.array([1]), "old": pa.array(["x"]), "s": pa.array([{"p": 1}])})
    for sequence in range(2, 130):
        append(table, sequence, {"a": pa.array([1]), "s": pa.array([{"q": "x"}])})
    found = ParquetTable(str(tmp_path / "t"), "c").columns()
    nested = pa.struct([("p", pa.int64()), ("q", pa.string())])
    assert found == {"a": pa.int64(), "old": pa.string(), "s": nested}


def test_columns_of_two_tasks_are_put_together(tmp_path: Path) -> None:
    one, other = ParquetTable(str(tmp_path / "t"), "c"), ParquetTable(str(tmp_path / "t"), "c")
    append(one, 1, {"a": pa.array([1]), "one": pa.array([1.0])})
    append(other, 2, {"a": pa.array([1]), "other": pa.array([True])})
    found = ParquetTable(str(tmp_path / "t"), "c").columns()
    assert found == {"a": pa.int64(), "one": pa.float64(), "other": pa.bool_()}


def test_task_with_outdated_offsets_cannot_append(tmp_path: Path) -> None:
    path = tmp_path / "t"
    zombie, owner = (ParquetTable(str(path), "c", task=task) for task in "01")
    for table in (zombie, owner):
        table.committed_offsets([PARTITION])
    assert append_range(owner, 0, 5) == 1
    assert append_range(zombie, 0, 5) is None
    assert append_range(zombie, 3, 8) is None
    assert append_range(zombie, 5, 8) is None, "it has not read the end that the owner moved"
    assert drafts(path) == []
    assert zombie.committed_offsets([PARTITION]).ends == {PARTITION: 5}
    assert append_range(zombie, 5, 8) == 2
    assert visible(path) == [(0, offset) for offset in range(8)]


def test_tasks_with_different_partitions_do_not_fail_because_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "t"
    one, other = (ParquetTable(str(path), "c", task=task) for task in "01")
    for table in (one, other):
        table.committed_offsets([])
    for first in range(0, 20, 2):
        assert append_range(one, first, first + 2) is not None
        assert append_range(other, first, first + 2, OTHER) is not None
    ends = ParquetTable(str(path), "c").committed_offsets([]).ends
    assert ends == {PARTITION: 20, OTHER: 20}
    assert visible(path) == [(p, offset) for p in (0, 1) for offset in range(20)]


def test_connectors_of_one_table_have_their_own_offsets(tmp_path: Path) -> None:
    path = tmp_path / "t"
    one, other = ParquetTable(str(path), "a"), ParquetTable(str(path), "b")
    rows = pa.table({"a": [1]})
    assert one.append(rows, commit_of(1, 0, 5, connector="a")) == 1
    assert other.append(rows, commit_of(1, 0, 3, connector="b")) == 2
    assert ParquetTable(str(path), "a").committed_offsets([]).ends == {PARTITION: 5}
    assert ParquetTable(str(path), "b").committed_offsets([]).ends == {PARTITION: 3}


def test_two_tasks_that_add_a_column_of_different_types_do_not_both_commit(tmp_path: Path) -> None:
    path = tmp_path / "t"
    one, other = (ParquetTable(str(path), "c", task=task) for task in "01")
    for table in (one, other):
        assert table.columns() is None
    assert one.append(pa.table({"v": pa.array([1])}), commit_of(1, 0, 1)) == 1
    assert other.append(pa.table({"v": pa.array([1.5])}), commit_of(1, 0, 1, OTHER)) is None
    assert other.append(pa.table({"V": pa.array([1])}), commit_of(1, 0, 1, OTHER)) is None
    assert other.append(pa.table({"s": pa.array([{"a": 1}])}), commit_of(1, 0, 1, OTHER)) == 2
    assert one.append(pa.table({"s": pa.array([{"a": "x"}])}), commit_of(2, 1, 2)) is None
    assert one.append(pa.table({"s": pa.array([{"b": "x"}])}), commit_of(2, 1, 2)) == 3


def test_offsets_without_rows_are_committed_without_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = ParquetTable(str(path), "c")
    assert append_range(table, 0, 3) == 1
    assert table.append(pa.table({"p": pa.array([], pa.int64())}), commit_of(2, 3, 9)) == 2
    assert ParquetTable(str(path), "c").committed_offsets([]).ends == {PARTITION: 9}
    assert len(list(path.glob("*.parquet"))) == 1


def test_ends_are_changed_and_removed_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    task, request = ParquetTable(str(path), "c"), ParquetTable(str(path), "c")
    append_range(task, 0, 5)
    task.committed_offsets([PARTITION])
    request.committed_offsets([PARTITION])
    assert request.commit_metadata(TableCommit("c", 3, {}, {PARTITION: 2, OTHER: 7})) == 2
    assert append_range(task, 5, 6) is None, "its offsets were changed"
    assert task.committed_offsets([]).ends == {PARTITION: 2, OTHER: 7}
    assert task.commit_metadata(TableCommit("c", 4, {}, {PARTITION: None, OTHER: 7})) == 3
    assert request.commit_metadata(TableCommit("c", 4, {}, {PARTITION: 1})) is None
    assert ParquetTable(str(path), "c").committed_offsets([]).ends == {OTHER: 7}


def test_starting_task_deletes_only_its_predecessors_drafts(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append_range(ParquetTable(str(path), "c", task="0"), 0, 1)
    folders = {}
    for owner in ("c-0", "c-1", "d-0"):
        folders[owner] = path / "_sluice" / "drafts" / owner / "0000000000-x.draft"
        folders[owner].parent.mkdir(parents=True, exist_ok=True)
        folders[owner].write_bytes(b"half a file")
    # A predecessor that has noticed its successor writes with the successor's epoch, and may commit that.
    current = folders["c-0"].with_name("0000000001-y.draft")
    current.write_bytes(b"half a file")
    ParquetTable(str(path), "c", task="0").delete_drafts()
    assert drafts(path) == [current, folders["c-1"], folders["d-0"]]
    assert visible(path) == [(0, 0)]


def test_task_whose_draft_a_successor_deletes_writes_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    first, second = ParquetTable(str(path), "c"), ParquetTable(str(path), "c")
    first.committed_offsets([])
    points: list[str] = []

    def point(name: str) -> None:
        if name == "parquet.drafted" and not points:
            points.append(name)
            assert len(drafts(path)) == 1
            second.delete_drafts()
            assert drafts(path) == []

    monkeypatch.setattr("connect.crash_points.point", point)
    assert append_range(first, 0, 3) == 2
    assert visible(path) == [(0, 0), (0, 1), (0, 2)]
    assert drafts(path) == []


def test_start_reads_one_entry_and_no_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table = ParquetTable(str(path), "c")
    for first in range(260):
        append_range(table, first, first + 1)
    entries = sorted((path / "_sluice" / "entries").iterdir())
    assert len(entries) <= 150
    assert entries[-1].stem == f"{260:020d}"
    reads: list[str] = []
    read = parquet_files.LocalTableFiles.read

    def counted(self: parquet_files.LocalTableFiles, name: str) -> bytes:
        reads.append(name)
        return read(self, name)

    monkeypatch.setattr(parquet_files.LocalTableFiles, "read", counted)
    monkeypatch.setattr(parquet_files.LocalTableFiles, "open_input", None)
    fresh = ParquetTable(str(path), "c")
    assert fresh.columns() is not None
    assert fresh.committed_offsets([PARTITION]).ends == {PARTITION: 260}
    assert set(reads) == {f"_sluice/entries/{260:020d}.json"}


def test_writer_that_slept_while_entries_were_removed_commits_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = ParquetTable(str(path), "c")
    zombie = ParquetTable(str(path), "c", task="1")
    unborn = Manifest(open_table_files(str(path)), str(path))
    assert unborn.refresh() is None
    append_range(table, 0, 1)
    zombie.committed_offsets([PARTITION])
    for first in range(1, 200):
        append_range(table, first, first + 1)
    with pytest.raises(RetriableError, match="suspended"):
        append_range(zombie, 1, 4)
    with pytest.raises(RetriableError, match="suspended"):
        unborn.add(ManifestState())
    assert visible(path) == [(0, offset) for offset in range(200)]
    assert zombie.committed_offsets([]).ends == {PARTITION: 200}
    assert append_range(zombie, 200, 201) == 201


def test_table_that_is_removed_under_its_task_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = ParquetTable(str(path), "c")
    append_range(table, 0, 1)
    shutil.rmtree(path)
    with pytest.raises(ConnectError, match=r"was removed.*reset the connector's offsets"):
        append_range(table, 1, 2)
    assert ParquetTable(str(path), "c").columns() is None


def test_damaged_entry_is_reported_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append_range(ParquetTable(str(path), "c"), 0, 1)
    (entry,) = (path / "_sluice" / "entries").iterdir()
    for text in (entry.read_text()[:50], "{}", '{"format": 9}'):
        entry.write_text(text)
        with pytest.raises(ConnectError, match=rf"_sluice/entries/{entry.name} cannot be read"):
            ParquetTable(str(path), "c").columns()


def test_file_system_without_exclusive_creation_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        parquet_files, "open_location", lambda location, s3: (fs.SubTreeFileSystem("/", fs.LocalFileSystem()), location)
    )
    with pytest.raises(ConnectError, match="cannot be guarded against two tasks"):
        ParquetTable(str(tmp_path), "c")


def test_file_system_without_hard_links_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(ConnectError, match="no hard links"):
        append_range(ParquetTable(str(tmp_path / "t"), "c"), 0, 1)
    assert list((tmp_path / "t" / "_sluice" / "entries").iterdir()) == []


def test_table_whose_manifest_was_deleted_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append_range(ParquetTable(str(path), "c"), 0, 1)
    shutil.rmtree(path / "_sluice")
    with pytest.raises(ConnectError, match=r"manifest of the table .* is missing: restore .*/_sluice"):
        ParquetTable(str(path), "c").columns()


def test_files_of_others_need_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    (path / "foreign.parquet").write_bytes(b"not ours")
    table = ParquetTable(str(path), "c")
    assert table.columns() is None
    assert append_range(table, 0, 1) == 1
    assert (path / "foreign.parquet").exists()


def test_first_commit_of_another_task_after_the_manifest_was_read_is_not_taken_for_a_lost_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    one, other = (ParquetTable(str(path), "c", task=task) for task in "01")
    refresh = Manifest.refresh

    def refresh_before_a_commit(manifest: Manifest) -> ManifestEntry | None:
        found = refresh(manifest)
        monkeypatch.setattr(Manifest, "refresh", refresh)
        assert append_range(other, 0, 1) is not None
        return found

    monkeypatch.setattr(Manifest, "refresh", refresh_before_a_commit)
    assert append_range(one, 0, 1) is None
    assert one.committed_offsets([]).ends == {PARTITION: 1}
    assert visible(path) == [(0, 0)]


def test_conditional_writes_that_are_turned_off_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    store = obstore.store.S3Store("b", access_key_id="a", secret_access_key="s", region="us-east-1")
    files = parquet_files.ObjectTableFiles(fs.LocalFileSystem(), "b/t", store, "t")
    with pytest.raises(
        ConnectError, match=r"^Parquet tables at b/t cannot be guarded .*AWS_CONDITIONAL_PUT=disabled.*remove it$"
    ):
        files.put_if_absent("x", b"")
