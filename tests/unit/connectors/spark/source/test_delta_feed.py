"""Delta tables become change events: their order, images, offsets, and what happens after a restart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConnectError
from connect.record import SourceRecord
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.task import SparkSourceTask
from tests.support.delta_writer import DeltaWriter, Row
from tests.support.replayed_events import (
    FAST,
    check_every_version,
    check_restarts,
    events,
    plain,
    poll_all,
    read_all,
)

COLUMNS = {"id": pa.int64(), "v": pa.string()}


def row(id_: int, v: str | None = None) -> Row:
    return {"id": id_, "v": f"v{id_}" if v is None else v}


@pytest.fixture
def table(tmp_path: Path) -> DeltaWriter:
    return DeltaWriter(tmp_path / "shop" / "orders", COLUMNS).create([row(i) for i in range(5)])


def from_start(table: DeltaWriter, **config: str) -> list[SourceRecord]:
    return read_all(table.folder, None, **{"source_start": "0", **config})


def changes(table: DeltaWriter, **config: str) -> list[tuple[str, Any, Any]]:
    """The events of the newest version."""
    start = str(len(table.versions) - 1)
    return events(read_all(table.folder, None, **{"source_start": start, **config}))


def test_snapshot_has_every_live_row_then_changes_follow(table: DeltaWriter) -> None:
    table.delete(lambda r: r["id"] == 2)
    offsets = MemoryOffsets()
    snapshot = read_all(table.folder, offsets)
    assert [(op, after["id"]) for op, _, after in events(snapshot)] == [("r", 0), ("r", 1), ("r", 3), ("r", 4)]
    table.insert([row(9)])
    assert events(read_all(table.folder, offsets)) == [("c", None, row(9))]


def test_envelope_names_the_table_its_version_and_the_place_of_the_change(table: DeltaWriter) -> None:
    table.insert([row(7), row(8)])
    record = read_all(table.folder, source_start="1", topic_prefix="lake", topic="")[1]
    assert record.topic == "lake.orders"
    assert record.value_schema is not None
    assert record.value_schema.name == "lake.orders.Envelope"
    value = plain(record.value)
    assert value["ts_ms"] > 0
    source = value["source"]
    del source["version"]
    assert source == {
        "connector": "spark",
        "name": "lake",
        "ts_ms": 1_700_000_000_001,
        "snapshot": "false",
        "db": "shop",
        "sequence": '["1","1"]',
        "table": "orders",
        "table_id": "table-1",
        "table_version": 1,
    }
    assert record.source_partition == {"table": str(table.folder)}
    assert record.source_offset == {"version": 1, "row": 2, "snapshot": False, "id": "table-1"}


def test_deletion_vectors_give_only_the_newly_deleted_rows(table: DeltaWriter) -> None:
    table.delete(lambda r: r["id"] == 3)
    assert changes(table) == [("d", row(3), None)]
    table.delete(lambda r: r["id"] in (0, 4))
    assert changes(table) == [("d", row(0), None), ("d", row(4), None)]
    table.delete(lambda r: True)
    assert changes(table) == [("d", row(1), None), ("d", row(2), None)]


def test_rows_that_a_restored_version_brings_back_are_inserts(table: DeltaWriter) -> None:
    (path,) = table.files
    old = table._action(path, True)
    table.delete(lambda r: r["id"] in (1, 3))
    deleted = table._action(path, True)
    table.deleted[path] = set()
    table.commit([{"remove": deleted}, {"add": old}])
    assert changes(table) == [("c", None, row(1)), ("c", None, row(3))]


def test_update_is_a_delete_and_an_insert_without_a_key_and_one_update_with_one(table: DeltaWriter) -> None:
    table.update(lambda r: r["id"] == 1, lambda r: row(1, "new"))
    assert changes(table) == [("d", row(1), None), ("c", None, row(1, "new"))]
    assert changes(table, key_columns="id") == [("u", row(1), row(1, "new"))]


def test_rewritten_file_gives_only_the_rows_that_differ_with_a_key(table: DeltaWriter) -> None:
    table.rewrite(lambda r: r["id"] in (1, 3), lambda r: None if r["id"] == 1 else row(3, "new"))
    assert changes(table, key_columns="id") == [("d", row(1), None), ("u", row(3), row(3, "new"))]
    assert Counter(op for op, _, _ in changes(table)) == {"d": 5, "c": 4}


def test_compaction_and_files_without_data_change_give_no_events(table: DeltaWriter) -> None:
    table.insert([row(5)])
    table.optimize()
    assert changes(table) == []
    assert changes(table, key_columns="id") == []


def test_changed_key_is_a_delete_and_an_insert(table: DeltaWriter) -> None:
    table.update(lambda r: r["id"] == 2, lambda r: row(20))
    assert changes(table, key_columns="id") == [("d", row(2), None), ("c", None, row(20))]


def test_rows_whose_key_is_null_are_not_paired(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", COLUMNS).create([{"id": None, "v": "a"}, row(1)])
    table.rewrite(lambda r: True, lambda r: {**r, "v": "b"})
    assert changes(table, key_columns="id") == [
        ("d", {"id": None, "v": "a"}, None),
        ("c", None, {"id": None, "v": "b"}),
        ("u", row(1), row(1, "b")),
    ]


def test_several_rows_of_one_key_are_paired_one_by_one(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", COLUMNS).create([row(1, "a"), row(1, "b"), row(1, "c")])
    table.rewrite(lambda r: True, lambda r: None if r["v"] == "c" else {**r, "v": r["v"] * 2})
    assert changes(table, key_columns="id") == [
        ("d", row(1, "c"), None),
        ("u", row(1, "a"), row(1, "aa")),
        ("u", row(1, "b"), row(1, "bb")),
    ]


def test_pairing_in_several_passes_gives_the_same_changes_as_in_one(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", COLUMNS, group_rows=50).create([row(i) for i in range(300)])
    table.rewrite(lambda r: True, lambda r: None if r["id"] % 7 == 0 else row(r["id"], "x") if r["id"] % 2 else r)
    one = changes(table, key_columns="id")
    several = changes(table, key_columns="id", source_pairing_max_rows="40")
    assert several != one
    assert Counter(map(repr, several)) == Counter(map(repr, one))


FEED = [
    {**row(0), "_change_type": "update_preimage"},
    {**row(0, "new"), "_change_type": "update_postimage"},
    {**row(3), "_change_type": "delete"},
    {**row(30), "_change_type": "insert"},
]


def test_change_data_feed_is_read_instead_of_files(table: DeltaWriter) -> None:
    table.change_feed(FEED)
    expected = [("u", row(0), row(0, "new")), ("d", row(3), None), ("c", None, row(30))]
    assert changes(table) == expected
    assert changes(table, batch_max_rows="1") == expected
    with_key = changes(table, key_columns="id")
    assert with_key == [("d", row(3), None), ("u", row(0), row(0, "new")), ("c", None, row(30))]


def test_images_of_a_feed_that_are_not_neighbors_are_a_delete_and_an_insert_without_a_key(table: DeltaWriter) -> None:
    table.change_feed([FEED[0], FEED[3], FEED[1]])
    assert changes(table) == [("d", row(0), None), ("c", None, row(30)), ("c", None, row(0, "new"))]
    assert changes(table, key_columns="id") == [("c", None, row(30)), ("u", row(0), row(0, "new"))]


def test_deletes_have_tombstones_with_a_key_and_none_otherwise(table: DeltaWriter) -> None:
    table.delete(lambda r: r["id"] == 3)
    event, tombstone = read_all(table.folder, source_start="1", key_columns="id")
    assert plain(event.key) == plain(tombstone.key) == {"id": 3}
    assert tombstone.value is None
    # A delete whose tombstone was not written is read again.
    assert (event.source_offset or {})["row"] == 0
    assert (tombstone.source_offset or {})["row"] == 1
    assert len(read_all(table.folder, source_start="1", key_columns="id", tombstones_on_delete="false")) == 1


def test_flat_rows_have_the_operation_in_a_header_and_deletes_are_tombstones(table: DeltaWriter) -> None:
    table.update(lambda r: r["id"] == 1, lambda r: row(1, "new"))
    table.delete(lambda r: r["id"] == 3)
    records = read_all(table.folder, source_start="1", key_columns="id", source_value_format="flat")
    shown = [(plain(r.key), plain(r.value), [h.value for h in r.headers or ()]) for r in records]
    assert shown == [({"id": 1}, row(1, "new"), ["u"]), ({"id": 3}, None, ["d"])]


def test_flat_rows_without_a_key_refuse_a_delete(table: DeltaWriter) -> None:
    table.delete(lambda r: r["id"] == 3)
    with pytest.raises(ConnectError, match=r"version 1 of table .* deletes rows.*set key.columns"):
        read_all(table.folder, source_start="1", source_value_format="flat")


def test_schema_of_records_follows_the_versions_of_the_table(table: DeltaWriter) -> None:
    table.add_column("n", pa.int32())
    table.insert([{**row(7), "n": 1}])
    table.delete(lambda r: r["id"] == 0)
    records = from_start(table)
    assert "n" not in plain(records[0].value)["after"]
    assert events(records)[5:] == [("c", None, {**row(7), "n": 1}), ("d", {**row(0), "n": None}, None)]


def test_deletes_of_an_overwrite_with_other_columns_keep_the_old_ones(table: DeltaWriter) -> None:
    table.overwrite({"id": pa.string(), "w": pa.int32()}, [{"id": "a", "w": 1}])
    found = changes(table, key_columns="id")
    assert found[:5] == [("d", row(i), None) for i in range(5)]
    assert found[5:] == [("c", None, {"id": "a", "w": 1})]


@pytest.mark.parametrize("maps_names", [False, True])
def test_overwrite_that_widens_columns_pairs_the_old_rows(tmp_path: Path, maps_names: bool) -> None:
    narrow = pa.struct([("x", pa.int32())])
    columns = {"id": pa.int32(), "day": pa.int32(), "v": pa.string(), "doc": narrow}
    table = DeltaWriter(tmp_path / "t", columns, partitioned_by=["day"], maps_names=maps_names)
    old: list[Row] = [{**row(id_), "day": 7, "doc": {"x": id_}} for id_ in (1, 2)]
    table.create(old)
    wide = pa.struct([("y", pa.string()), ("x", pa.int64())])
    new = {**row(1), "day": 7, "doc": {"y": "new", "x": 1}, "n": 5}
    table.overwrite({"id": pa.int64(), "day": pa.int64(), "v": pa.string(), "doc": wide, "n": pa.int32()}, [new])
    before = [{**one, "doc": {"y": None, **one["doc"]}, "n": None} for one in old]
    assert changes(table, key_columns="id") == [("d", before[1], None), ("u", before[0], new)]
    assert changes(table) == [("d", before[0], None), ("d", before[1], None), ("c", None, new)]


@pytest.mark.parametrize("required", ["v", "n"])
def test_deletes_of_an_overwrite_with_a_not_null_column_keep_the_old_columns(table: DeltaWriter, required: str) -> None:
    columns, new = {**COLUMNS, "n": pa.int32()}, {**row(1), "n": 5}
    table.overwrite(columns, [new], required=[required])
    records = read_all(table.folder, source_start="1", key_columns="id")
    assert events(records) == [*(("d", row(i), None) for i in range(5)), ("c", None, new)]
    assert not records[-1].value["after"].schema.field(required).schema.optional
    # Once it is NOT NULL, rows are paired.
    table.overwrite(columns, [{**new, "n": 6}], required=[required])
    assert changes(table, key_columns="id") == [("u", new, {**new, "n": 6})]


def test_deletes_of_a_commit_that_renames_nested_fields_have_their_values(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", {**COLUMNS, "doc": pa.struct([("x", pa.int64())])}, maps_names=True)
    old = {**row(1), "doc": {"x": 1}}
    table.create([old])
    removes = [table.remove(path) for path in list(table.files)]
    metadata = table.metadata()
    metadata["metaData"]["schemaString"] = metadata["metaData"]["schemaString"].replace("in-x", "in-x2")
    table.commit([*removes, metadata])
    assert changes(table, key_columns="id") == [("d", old, None)]


def test_widened_columns_are_read_as_the_wide_type(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", {"id": pa.int32(), "v": pa.string()}).create([row(1), row(2)])
    table.columns["id"] = pa.int64()
    table.commit([table.metadata()])
    table.delete(lambda r: r["id"] == 2)
    assert changes(table, key_columns="id") == [("d", row(2), None)]


def test_partition_columns_come_from_the_log(tmp_path: Path) -> None:
    columns = {"id": pa.int64(), "day": pa.date32(), "v": pa.string()}
    table = DeltaWriter(tmp_path / "t", columns, partitioned_by=["day"]).create()
    table.insert([{"id": 1, "day": "2026-01-02", "v": "a"}], [{"id": 2, "day": None, "v": "b"}])
    assert [after for _, _, after in events(from_start(table))] == [
        {"id": 1, "day": 20455, "v": "a"},
        {"id": 2, "day": None, "v": "b"},
    ]


# --- restarts


def _checkpointed(table: DeltaWriter, version: int) -> None:
    """Replaces the commits before a version by a checkpoint."""
    adds = [json.loads(line)["add"] for v in range(version + 1) for line in _lines(table, v) if "add" in json.loads(line)]
    live = [add for add in adds if add["path"] in table.files]
    metadata, protocol = table.metadata()["metaData"], table.protocol
    rows = [{"add": None, "metaData": metadata, "protocol": protocol}]
    rows += [{"add": {**add, "partitionValues": [], "stats": add["stats"]}, "metaData": None, "protocol": None} for add in live]
    metadata["configuration"] = []
    metadata["format"]["options"] = []
    text, texts = pa.string(), pa.list_(pa.string())
    pairs = pa.map_(text, text)
    types = {
        "add": pa.struct(
            [("path", text), ("partitionValues", pairs), ("size", pa.int64()), ("modificationTime", pa.int64()), ("stats", text)]
        ),
        "metaData": pa.struct([("id", text), ("schemaString", text), ("partitionColumns", texts), ("configuration", pairs)]),
        "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()), ("readerFeatures", texts)]),
    }
    names = {name: [f.name for f in type_] for name, type_ in types.items()}
    columns = {
        name: pa.array([r[name] and {n: r[name].get(n) for n in names[name]} for r in rows], type_)
        for name, type_ in types.items()
    }
    pa.parquet.write_table(pa.table(columns), table.log / f"{version:020d}.checkpoint.parquet")
    for v in range(version):
        table.commit_file(v).unlink()


def _lines(table: DeltaWriter, version: int) -> list[str]:
    return table.commit_file(version).read_text().splitlines()


def test_snapshot_and_changes_start_from_a_checkpoint(table: DeltaWriter) -> None:
    table.insert([row(5)])
    _checkpointed(table, 1)
    table.insert([row(6)])
    assert [after["id"] for _, _, after in events(read_all(table.folder))] == [0, 1, 2, 3, 4, 5, 6]
    assert [after["id"] for _, _, after in events(read_all(table.folder, source_start="2"))] == [6]
    # The oldest version's changes are those of its commit.
    assert [after["id"] for _, _, after in events(read_all(table.folder, source_start="1"))] == [5, 6]


_OPERATIONS = st.sampled_from(["insert", "delete", "update", "rewrite", "optimize", "feed", "column"])


def _apply(table: DeltaWriter, operation: str, number: int, draw: Any) -> None:
    ids = [r["id"] for r in table.rows()]
    chosen = draw(st.sets(st.sampled_from(ids))) if ids else set()
    extra = {name: number for name in table.columns if name.startswith("n")}
    match operation:
        case "insert":
            table.insert([{**row(100 * number + i), **extra} for i in range(draw(st.integers(1, 5)))])
        case "delete":
            table.delete(lambda r: r["id"] in chosen)
        case "update":
            table.update(lambda r: r["id"] in chosen, lambda r: {**r, "v": f"u{number}", **extra})
        case "rewrite":
            table.rewrite(lambda r: r["id"] in chosen, lambda r: None if r["id"] % 3 == 0 else {**r, "v": f"w{number}"})
        case "optimize":
            table.optimize()
        case "column":
            table.add_column(f"n{number}", pa.int64())
        case "feed":
            found = {r["id"]: r for r in table.rows() if r["id"] in chosen}
            changed = []
            for old in found.values():
                changed += [{**old, "_change_type": "update_preimage"}]
                changed += [{**old, "v": f"f{number}", "_change_type": "update_postimage"}]
            table.change_feed([*changed, {**row(100 * number + 50), **extra, "_change_type": "insert"}])


@given(data=st.data(), keys=st.sampled_from(["", "id"]), pairing=st.sampled_from(["2", "1000"]))
def test_events_of_a_random_history_add_up_to_the_table_at_every_version_wherever_the_task_restarts(
    tmp_path_factory: pytest.TempPathFactory, data: Any, keys: str, pairing: str
) -> None:
    folder = tmp_path_factory.mktemp("history") / "t"
    table = DeltaWriter(folder, COLUMNS, maps_names=data.draw(st.booleans()))
    table.create([row(i) for i in range(data.draw(st.integers(0, 6)))])
    for number in range(1, data.draw(st.integers(1, 6))):
        _apply(table, data.draw(_OPERATIONS), number, data.draw)
    start = data.draw(st.sampled_from(["0", "snapshot"]))
    config = {"source_start": start, "key_columns": keys, "source_pairing_max_rows": pairing, "batch_max_rows": "4"}
    records = read_all(folder, **config)
    check_every_version(records, dict(enumerate(table.versions)))
    cuts = data.draw(st.sets(st.integers(0, len(records) - 1), max_size=4)) if records else ()
    check_restarts(records, lambda offsets: read_all(folder, offsets, **config), cuts)


@pytest.mark.parametrize("keys", ["", "id"])
def test_columns_have_the_names_of_the_version_whatever_files_call_them(tmp_path: Path, keys: str) -> None:
    nested = pa.struct([("x", pa.int64()), ("list", pa.list_(pa.struct([("y", pa.string())])))])
    columns = {**COLUMNS, "day": pa.string(), "doc": nested, "map": pa.map_(pa.string(), nested)}
    document = {"x": 1, "list": [{"y": "a"}, None, {"y": None}]}
    rows: list[Row] = [
        {**row(1), "day": "d1", "doc": document, "map": [("k", document), ("none", None)]},
        {**row(2), "day": "d1", "doc": None, "map": None},
    ]
    table = DeltaWriter(tmp_path / "t", columns, partitioned_by=["day"], maps_names=True).create(rows)
    expected = [{**one, "map": None if one["map"] is None else dict(one["map"])} for one in rows]
    assert events(read_all(table.folder)) == [("r", None, one) for one in expected]
    table.rename_column("v", "text")
    table.rename_column("day", "date")
    renamed = [_renamed(one, v="text", day="date") for one in expected]
    assert events(read_all(table.folder)) == [("r", None, one) for one in renamed]
    table.update(lambda r: r["id"] == 1, lambda r: {**r, "text": "new"})
    updated = {**renamed[0], "text": "new"}
    as_update = [("u", renamed[0], updated)]
    assert changes(table, key_columns=keys) == (as_update if keys else [("d", renamed[0], None), ("c", None, updated)])
    table.add_column("v", pa.string())
    table.delete(lambda r: r["id"] == 2)
    # It is not the column that had the name before.
    assert changes(table, key_columns=keys) == [("d", {**renamed[1], "v": None}, None)]


def _renamed(one: Row, **names: str) -> Row:
    return {names.get(name, name): value for name, value in one.items()}


def test_versions_without_events_move_the_stored_offset(table: DeltaWriter) -> None:
    offsets = MemoryOffsets()
    read_all(table.folder, offsets)
    table.optimize()
    read_all(table.folder, offsets)
    stored = offsets.offset(table_partition(str(table.folder)))
    assert stored == {"version": 2, "row": 0, "snapshot": False, "id": "table-1"}


def test_offset_stays_before_records_that_were_not_sent(table: DeltaWriter) -> None:
    with SourceHarness(SparkSourceTask(), {**FAST, "source.location": str(table.folder)}) as harness:
        records = poll_all(harness)
        assert harness.task.update_offsets([]) == []
        partition, offset = records[0].source_partition, records[0].source_offset
        assert partition is not None
        assert offset is not None
        assert harness.task.update_offsets([(partition, offset)]) == []


def test_one_version_is_one_transaction_up_to_the_limit(table: DeltaWriter) -> None:
    table.insert([row(i) for i in range(10, 30)])
    table.optimize()
    table.insert([row(40)])
    config = {
        **FAST,
        "source.location": str(table.folder),
        "source.start": "0",
        "transaction.boundary": "connector",
        "batch.max.rows": "3",
        "source.transaction.max.records": "9",
    }
    sizes: list[int] = []
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert harness.transactions is not None
        versions: list[Any] = []
        while sum(sizes) < 26:
            seen = len(harness.transactions.commits)
            versions += [(r.source_offset or {})["version"] for r in harness.poll()]
            if len(harness.transactions.commits) > seen:
                assert len(set(versions)) <= 1
                sizes.append(len(versions))
                versions = []
    assert sizes == [5, 9, 9, 2, 0, 1]


def test_other_keys_are_refused_in_the_middle_of_a_version(table: DeltaWriter) -> None:
    table.rewrite(lambda r: True, lambda r: row(r["id"], "x"))
    records = read_all(table.folder, source_start="1", key_columns="id")
    offsets = MemoryOffsets()
    offsets.store(table_partition(str(table.folder)), records[1].source_offset)
    with pytest.raises(ConnectError, match="in the middle of version 1, which was read with other"):
        read_all(table.folder, offsets, key_columns="v")
