"""Iceberg tables become change events: their order, images, offsets, and what happens after a restart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import StaticTable
from pyiceberg.types import DoubleType

from connect.errors import ConnectError
from connect.record import SourceRecord
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark.source.iceberg.deletes import applies
from connectors.spark.source.iceberg.manifests import FileEntry
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.task import SparkSourceTask
from tests.support.iceberg_writer import DATA, EQUALITY, ID_AND_TEXT, POSITIONS, File, IcebergWriter, Row
from tests.support.replayed_events import (
    FAST,
    as_counter,
    check_every_version,
    check_restarts,
    events,
    is_complete,
    plain,
    poll_all,
    read_all,
)

TABLE_ID = "00000000-0000-0000-0000-000000000001"
LONG, TEXT = ({**one} for one in ID_AND_TEXT)
NewTable = Callable[..., IcebergWriter]


def row(id_: int | None, v: str | None = None) -> Row:
    return {"id": id_, "v": f"v{id_}" if v is None else v}


def read(table: IcebergWriter, offsets: MemoryOffsets | None = None, **config: str) -> list[SourceRecord]:
    return read_all(table.folder, offsets, source_format="iceberg", **config)


def changes(table: IcebergWriter, **config: str) -> list[tuple[str, Any, Any]]:
    """The events of the newest version."""
    return events(read(table, None, source_start=str(table.version), **config))


@pytest.fixture
def new_table(tmp_path: Path) -> NewTable:
    return lambda **options: IcebergWriter(tmp_path / "shop" / "orders", **options)


@pytest.fixture(params=[2, 3], ids=["positions", "vectors"])
def table(new_table: NewTable, request: pytest.FixtureRequest) -> IcebergWriter:
    """A table that deletes rows by files of position deletes, or by deletion vectors."""
    return new_table(version=request.param).insert([row(i) for i in range(5)])


@pytest.fixture
def simple(new_table: NewTable) -> IcebergWriter:
    return new_table().insert([row(i) for i in range(5)])


def test_snapshot_has_every_live_row_then_changes_follow(table: IcebergWriter) -> None:
    table.delete(lambda r: r["id"] == 2)
    offsets = MemoryOffsets()
    assert [(op, after["id"]) for op, _, after in events(read(table, offsets))] == [("r", 0), ("r", 1), ("r", 3), ("r", 4)]
    table.insert([row(9)])
    assert events(read(table, offsets)) == [("c", None, row(9))]


def test_envelope_names_the_table_its_version_and_the_place_of_the_change(simple: IcebergWriter) -> None:
    before = simple.current_id
    simple.insert([row(7), row(8)])
    record = read(simple, source_start="2", topic_prefix="lake", topic="")[1]
    source = plain(record.value)["source"]
    del source["version"]
    assert source == {
        "connector": "spark",
        "name": "lake",
        "ts_ms": 1_700_000_000_002,
        "snapshot": "false",
        "db": "shop",
        "sequence": '["2","1"]',
        "table": "orders",
        "table_id": TABLE_ID,
        "table_version": 2,
    }
    assert record.source_partition == {"table": str(simple.folder)}
    assert record.source_offset == {"version": 2, "row": 2, "snapshot": False, "id": TABLE_ID, "snapshot_id": before}


def test_table_without_rows_is_read_from_its_first_snapshot_on(new_table: NewTable) -> None:
    table = new_table()
    offsets = MemoryOffsets()
    assert read(table, offsets) == []
    table.insert([row(1)])
    assert events(read(table, offsets)) == [("c", None, row(1))]


# --- changes


def test_delete_files_give_only_the_newly_deleted_rows(table: IcebergWriter) -> None:
    table.delete(lambda r: r["id"] == 3)
    assert changes(table) == [("d", row(3), None)]
    table.delete(lambda r: r["id"] in (0, 4))
    assert changes(table) == [("d", row(0), None), ("d", row(4), None)]
    table.delete(lambda r: True)
    assert changes(table) == [("d", row(1), None), ("d", row(2), None)]
    assert read(table) == []


def test_update_is_a_delete_and_an_insert_without_a_key_and_one_update_with_one(table: IcebergWriter) -> None:
    table.update(lambda r: r["id"] == 1, lambda r: row(1, "new"))
    assert changes(table) == [("d", row(1), None), ("c", None, row(1, "new"))]
    assert changes(table, key_columns="id") == [("u", row(1), row(1, "new"))]


def test_rewritten_file_gives_only_the_rows_that_differ_with_a_key(table: IcebergWriter) -> None:
    table.delete(lambda r: r["id"] == 0)
    table.rewrite(lambda r: r["id"] in (1, 3), lambda r: None if r["id"] == 1 else row(3, "new"))
    assert changes(table, key_columns="id") == [("d", row(1), None), ("u", row(3), row(3, "new"))]
    assert Counter(op for op, _, _ in changes(table)) == {"d": 4, "c": 3}


def test_compaction_gives_no_events_and_deletes_after_it_are_known(table: IcebergWriter) -> None:
    table.delete(lambda r: r["id"] == 3)
    offsets = MemoryOffsets()
    read(table, offsets)
    table.optimize()
    assert changes(table) == []
    table.delete(lambda r: r["id"] == 4)
    # One reader goes through the compaction, another one starts after it.
    assert events(read(table, offsets)) == changes(table) == [("d", row(4), None)]


def test_positions_of_several_files_in_one_file_are_found_and_counted_once(new_table: NewTable) -> None:
    table = new_table(version=2).insert([row(0), row(1)], [row(2), row(3)])
    first, second = table.state.files
    for path, number in ((first, 1), (second, 0)):
        table.state.deleted[path].add(number)
    gone = [(second, 0), (first, 1), (str(table.folder / "data" / "unknown.parquet"), 0)]
    table.commit("delete", [table.positions(gone)])
    assert changes(table) == [("d", row(2), None), ("d", row(1), None)]
    # A second file with one of the same rows.
    table.state.deleted[first].add(0)
    table.commit("delete", [table.positions([(first, 0), (first, 1)])])
    assert changes(table) == [("d", row(0), None)]
    assert events(read(table)) == [("r", None, row(3))]


def test_positions_apply_only_to_files_of_their_partition(new_table: NewTable) -> None:
    table = new_table(version=2, spec=[{"name": "id", "source-id": 1, "field-id": 1000}])
    table.insert([row(1, "a"), row(1, "b")], [row(2, "a")])
    table.delete(lambda r: r["v"] == "b")
    assert changes(table) == [("d", row(1, "b"), None)]
    table.rewrite(lambda r: True, lambda r: {**r, "v": "c"})
    assert changes(table, key_columns="id") == [("u", row(1, "a"), row(1, "c")), ("u", row(2, "a"), row(2, "c"))]


def test_equality_deletes_of_a_spec_with_only_void_fields_apply_to_the_whole_table(new_table: NewTable) -> None:
    table = new_table(version=2, spec=[{"name": "id", "source-id": 1, "field-id": 1000}])
    table.insert([row(1), row(1, "a")], [row(2)])
    table.drop_partition_fields().insert([row(1, "b"), row(3)])
    table.delete_equal(["id"], [row(1)])
    assert changes(table) == [("d", row(1), None), ("d", row(1, "a"), None), ("d", row(1, "b"), None)]
    assert sorted(after["id"] for _, _, after in events(read(table))) == [2, 3]


def test_positions_apply_to_the_partition_of_nan(new_table: NewTable) -> None:
    number = {"id": 1, "name": "n", "required": False, "type": "double"}
    table = new_table(
        fields=[number, TEXT], version=2, spec=[{"name": "n", "source-id": 1, "field-id": 1000, "type": DoubleType()}]
    )
    rows = [{"n": math.nan, "v": "a"}, {"n": math.nan, "v": "b"}]
    table.commit("append", [table.data(rows, names=["v"])])
    table.delete(lambda r: r["v"] == "a")
    ((op, before, _),) = changes(table)
    assert (op, before["v"]) == ("d", "a")
    assert math.isnan(before["n"])


def test_vector_that_replaces_positions_after_an_upgrade_gives_only_new_rows(new_table: NewTable) -> None:
    table = new_table(version=2).insert([row(i) for i in range(4)])
    table.delete(lambda r: r["id"] == 0)
    table._format = 3
    table.delete(lambda r: r["id"] == 2)
    assert changes(table) == [("d", row(2), None)]


def test_rows_whose_delete_file_is_removed_are_inserts(simple: IcebergWriter) -> None:
    simple.delete(lambda r: r["id"] in (1, 3))
    (path,) = simple.state.files
    vectors = simple.deletes_of(path)
    simple.state.deleted[path] = set()
    simple.commit("overwrite", removed=vectors)
    assert changes(simple) == [("c", None, row(1)), ("c", None, row(3))]


def test_rows_that_are_inserted_and_deleted_in_one_snapshot_have_no_events(new_table: NewTable) -> None:
    table = new_table(version=2).insert([row(0)])
    added = table.data([row(1), row(2)])
    table.state.deleted[added.path].add(0)
    table.commit("overwrite", [added, table.positions([(added.path, 0)])])
    assert changes(table) == [("c", None, row(2))]


def test_equality_deletes_are_computed_with_nulls_and_several_columns(new_table: NewTable) -> None:
    table = new_table(version=2).insert([row(1), row(None, "n"), row(2, "a")], [row(2, "b"), row(1, "x")])
    table.delete_equal(["id"], [row(None), row(1), row(99)])
    assert changes(table) == [("d", row(1), None), ("d", row(None, "n"), None), ("d", row(1, "x"), None)]
    table.delete_equal(["id", "v"], [row(2, "b"), row(1, "x")])
    assert changes(table) == [("d", row(2, "b"), None)]
    assert events(read(table)) == [("r", None, row(2, "a"))]
    table.rewrite(lambda r: True, lambda r: row(2, "c"))
    assert changes(table, key_columns="id") == [("u", row(2, "a"), row(2, "c"))]


def test_order_of_equality_deletes_does_not_depend_on_where_the_task_started(new_table: NewTable) -> None:
    table = new_table(version=2).insert([row(1, "a")], [row(1, "b")])
    table.delete(lambda r: False)
    table.insert([row(1, "c")], [row(2)])
    table.delete_equal(["id"], [row(2)])
    offsets = MemoryOffsets()
    read(table, offsets, source_start="1")
    table.insert([row(1, "d")])
    table.delete_equal(["id"], [row(1)])
    found = events(read(table, offsets))[1:]
    assert [before["v"] for _, before, _ in found] == ["a", "b", "c", "d"]
    assert found == changes(table)


def test_equality_deletes_spare_rows_of_their_own_snapshot(new_table: NewTable) -> None:
    table = new_table(version=2).insert([row(1), row(2)])
    table.delete_equal(["id"], [row(1), row(7)], insert=[row(1, "new"), row(7, "new")])
    assert changes(table, key_columns="id") == [("u", row(1), row(1, "new")), ("c", None, row(7, "new"))]
    table.delete_equal(["id"], [row(1)], insert=[row(1, "newer")])
    assert changes(table) == [("d", row(1, "new"), None), ("c", None, row(1, "newer"))]
    assert as_counter(after for _, _, after in events(read(table))) == as_counter(table.rows())


# --- schemas


def test_columns_follow_their_ids_through_renames_drops_additions_and_wider_types(new_table: NewTable) -> None:
    number = {"id": 1, "name": "id", "required": False, "type": "int"}
    table = new_table(fields=[number, TEXT]).insert([row(1), row(2)])
    extra = {"id": 3, "name": "extra", "required": False, "type": "string", "initial-default": "none"}
    table.evolve({**number, "name": "key", "type": "long"}, extra)
    # Without a snapshot, only the newest rows have the new columns.
    assert events(read(table))[0] == ("r", None, {"key": 1, "extra": "none"})
    assert events(read(table, source_start="1"))[0] == ("c", None, row(1))
    table.update(lambda r: r["key"] == 2, lambda r: {**r, "extra": "some"})
    records = read(table, source_start="2", key_columns="key")
    assert events(records) == [("u", {"key": 2, "extra": "none"}, {"key": 2, "extra": "some"})]
    schema: Any = records[0].value_schema
    assert [f.schema.type.value for f in schema.field("after").schema.fields] == ["int64", "string"]


def test_name_that_a_new_column_has_again_is_null_in_old_rows(new_table: NewTable) -> None:
    table = new_table().insert([row(1)])
    table.evolve(LONG).evolve(LONG, {**TEXT, "id": 3})
    table.insert([row(2)])
    assert [after for _, _, after in events(read(table))] == [row(2), {"id": 1, "v": None}]


def test_nested_fields_follow_their_ids(new_table: NewTable) -> None:
    def place(*fields: Row) -> Row:
        return {"id": 2, "name": "place", "required": False, "type": {"type": "struct", "fields": list(fields)}}

    x = {"id": 3, "name": "x", "required": False, "type": "int"}
    y = {"id": 4, "name": "y", "required": False, "type": "string"}
    inner = {"type": "list", "element-id": 6, "element-required": False, "element": {"type": "struct", "fields": [x]}}
    listed = {"id": 5, "name": "list", "required": False, "type": inner}
    table = new_table(fields=[LONG, place(x, y), listed])
    table.insert([{"id": 1, "place": {"x": 5, "y": "a"}, "list": [{"x": 6}, None]}, {"id": 2}])
    renamed = {**x, "name": "east", "type": "long"}
    added = {"id": 7, "name": "z", "required": False, "type": "int", "initial-default": 9}
    listed["type"] = {**inner, "element": {"type": "struct", "fields": [renamed, added]}}
    table.evolve(LONG, place(added, renamed), listed)
    assert [after for _, _, after in events(read(table))] == [
        {"id": 1, "place": {"z": 9, "east": 5}, "list": [{"east": 6, "z": 9}, None]},
        {"id": 2, "place": None, "list": None},
    ]


def _without_ids(table: IcebergWriter) -> None:
    (path,) = table.state.files
    rows = pq.read_table(path)
    pq.write_table(rows.rename_columns(["old", "v"]).replace_schema_metadata(None).cast(_plain(rows)), path)


def _plain(rows: Any) -> Any:
    import pyarrow as pa

    return pa.schema([("old", rows.schema[0].type), ("v", rows.schema[1].type)])


def test_files_without_field_ids_are_read_by_the_name_mapping(simple: IcebergWriter) -> None:
    _without_ids(simple)
    with pytest.raises(ConnectError, match=r"has no field IDs, and the table has no property schema.name-mapping.default. Set"):
        read(simple)
    simple.properties["schema.name-mapping.default"] = (
        '[{"field-id": 1, "names": ["id", "old"]}, {"field-id": 2, "names": ["v"]}]'
    )
    simple.write_metadata()
    assert [after for _, _, after in events(read(simple))] == simple.rows()


def test_identity_partitions_have_values_of_columns_that_files_lack(new_table: NewTable) -> None:
    table = new_table(spec=[{"name": "id", "source-id": 1, "field-id": 1000}])
    table.commit("append", [table.data([row(7, "a"), row(7, "b")], names=["v"])])
    assert [after for _, _, after in events(read(table))] == [row(7, "a"), row(7, "b")]


# --- offsets and restarts


@given(data=st.data(), version=st.sampled_from([2, 3]), keys=st.sampled_from(["", "id"]), pairing=st.sampled_from(["2", "1000"]))
def test_events_of_a_random_history_add_up_to_the_table_at_every_version_wherever_the_task_restarts(
    tmp_path_factory: pytest.TempPathFactory, data: Any, version: int, keys: str, pairing: str
) -> None:
    table = IcebergWriter(tmp_path_factory.mktemp("history") / "t", version=version)
    for number in range(1, data.draw(st.integers(1, 6))):
        _apply(table, data.draw(_OPERATIONS), number, data.draw)
    start = data.draw(st.sampled_from(["1", "snapshot"]))
    config = {"source_start": start, "key_columns": keys, "source_pairing_max_rows": pairing, "batch_max_rows": "4"}
    records = read(table, None, **config)
    check_every_version(records, {number: state.rows() for number, state in table.states.items()})
    cuts = data.draw(st.sets(st.integers(0, len(records) - 1), max_size=4)) if records else ()
    check_restarts(records, lambda offsets: read(table, offsets, **config), cuts)
    if not any(file.equality_ids for m in table.state.manifests for file in m.live):  # which PyIceberg does not read
        by_peer = StaticTable.from_metadata(str(table.metadata_file())).scan().to_arrow().to_pylist()
        assert as_counter(by_peer) == as_counter(table.rows())


_OPERATIONS = st.sampled_from(["insert", "insert", "delete", "update", "rewrite", "compact", "equality"])


def _apply(table: IcebergWriter, operation: str, number: int, draw: Any) -> None:
    ids = [r["id"] for r in table.rows()]
    chosen = draw(st.sets(st.sampled_from(ids))) if ids else set()
    match operation:
        case "insert":
            table.insert(*([row(100 * number + 10 * part + i) for i in range(draw(st.integers(1, 5)))] for part in range(2)))
        case "delete":
            table.delete(lambda r: r["id"] in chosen)
        case "update":
            table.update(lambda r: r["id"] in chosen, lambda r: {**r, "v": f"u{number}"})
        case "rewrite":
            table.rewrite(lambda r: r["id"] in chosen, lambda r: None if r["id"] % 3 == 0 else {**r, "v": f"w{number}"})
        case "compact":
            table.optimize()
        case "equality":
            found = [row(id_) for id_ in chosen]
            table.delete_equal(["id"], [*found, row(-1)], insert=[{**r, "v": f"e{number}"} for r in found[::2]])


def test_start_may_be_the_newest_version_a_number_or_the_id_of_a_snapshot(simple: IcebergWriter) -> None:
    simple.insert([row(5)])
    second = simple.current_id
    simple.insert([row(6)])
    assert [after["id"] for _, _, after in events(read(simple, source_start="2"))] == [5, 6]
    assert [after["id"] for _, _, after in events(read(simple, source_start=str(second)))] == [5, 6]
    offsets = MemoryOffsets()
    assert read(simple, offsets, source_start="latest") == []
    simple.insert([row(7)])
    assert [after["id"] for _, _, after in events(read(simple, offsets))] == [7]
    offsets.store(table_partition(str(simple.folder)), {"version": second})
    assert [after["id"] for _, _, after in events(read(simple, offsets))] == [5, 6, 7]


def test_snapshots_of_other_branches_are_skipped(simple: IcebergWriter) -> None:
    offsets = MemoryOffsets()
    read(simple, offsets)
    main, state = simple.current_id, simple.state.copy()
    simple.insert([row(8)])  # a branch
    simple._current, simple.state = main, state
    simple.write_metadata()
    assert read(simple, offsets) == []
    simple.insert([row(9)])
    assert events(read(simple, offsets)) == [("c", None, row(9))]
    assert events(read(simple, source_start="2")) == [("c", None, row(9))]


def test_versions_without_events_move_the_stored_offset(simple: IcebergWriter) -> None:
    offsets = MemoryOffsets()
    read(simple, offsets)
    simple.optimize()
    read(simple, offsets)
    stored = offsets.offset(table_partition(str(simple.folder)))
    assert stored == {"version": 3, "row": 0, "snapshot": False, "id": TABLE_ID, "snapshot_id": simple.current_id}


def test_one_version_is_one_transaction(simple: IcebergWriter) -> None:
    simple.insert([row(i) for i in range(10, 20)])
    simple.optimize()
    simple.insert([row(40)])
    config = {**FAST, "source.format": "iceberg", "source.location": str(simple.folder), "source.start": "1"}
    config |= {"transaction.boundary": "connector", "batch.max.rows": "3"}
    sizes: list[int] = []
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert harness.transactions is not None
        count = 0
        while sum(sizes) < 16:
            seen = len(harness.transactions.commits)
            count += len(harness.poll())
            if len(harness.transactions.commits) > seen:
                sizes.append(count)
                count = 0
    assert sizes == [5, 10, 0, 1]


def test_progress_counts_the_snapshots_to_read(simple: IcebergWriter) -> None:
    for number in range(5, 8):
        simple.insert([row(number)])
    config = {**FAST, "source.format": "iceberg", "source.location": str(simple.folder), "source.start": "2"}
    with SourceHarness(SparkSourceTask(), {**config, "batch.max.rows": "1"}) as harness:
        harness.poll()
        figures = harness.task.progress()["table_progress"]["orders"]
        assert figures == {"phase": "changes", "rows": 1, "version": 2, "row": 1, "newest_version": 4, "lag_versions": 3}
        poll_all(harness)
        simple.insert([row(9)])
        while is_complete(harness.task.progress()):
            harness.poll()
        poll_all(harness)
        assert harness.task.progress()["lag_versions"] == 0


def test_unused_entries_of_older_manifests_do_not_count(simple: IcebergWriter) -> None:
    """A manifest that a later snapshot takes over has entries that were added before it."""
    simple.insert([row(5)])
    old = simple.state.manifests[-1]
    moved = replace(old, entries=tuple((0, file) for _, file in old.entries), snapshot=simple.current_id)
    assert isinstance(moved.live[0], File)
    assert moved.live[0].content == DATA
    simple.state.manifests[-1] = simple._manifest(0, old.snapshot + 1, simple.version + 1, list(moved.entries))
    simple.commit("append", [simple.data([row(6)])])
    assert changes(simple) == [("c", None, row(6))]


_DATA = File("a", DATA, 1, 5, partition=(1,))
_EQUALITY = File("e", EQUALITY, 1, 6, partition=(1,))
_POSITIONS = File("p", POSITIONS, 1, 5, partition=(1,))


@pytest.mark.parametrize(
    ("delete", "expected"),
    [
        (_EQUALITY, True),
        (replace(_EQUALITY, sequence=5), False),  # rows of the same snapshot stay
        (replace(_EQUALITY, partition=(2,)), False),
        (_POSITIONS, True),
        (replace(_POSITIONS, sequence=4), False),
        (replace(_POSITIONS, partition=(2,)), False),
        (replace(_POSITIONS, of="a"), True),
        (replace(_POSITIONS, of="b"), False),
    ],
)
def test_deletes_apply_by_partition_sequence_and_file(delete: File, expected: bool) -> None:
    assert applies(_entry(delete), _entry(_DATA)) is expected


@pytest.mark.parametrize(("sequence", "expected"), [(5, False), (6, True)])
def test_global_deletes_apply_to_every_partition_by_sequence(sequence: int, expected: bool) -> None:
    delete = replace(_entry(replace(_EQUALITY, sequence=sequence, partition=(None,))), spec=1, is_global=True)
    assert applies(delete, _entry(_DATA)) is expected


def _entry(file: File) -> FileEntry:
    return FileEntry(file.path, file.content, file.format, file.rows, file.sequence, 0, file.partition, file.of)
