"""Tables, logs, and configurations that cannot be read are refused with a message that names the thing and the remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from connect.errors import BadRequestError, ConfigError, ConnectError
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark import SparkSource
from connectors.spark.source.config import parse_config
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.task import SparkSourceTask
from tests.support.delta_writer import DeltaWriter
from tests.support.replayed_events import FAST, events, is_complete, poll_all, read_all

COLUMNS = {"id": pa.int64(), "v": pa.string()}


@pytest.fixture
def table(tmp_path: Path) -> DeltaWriter:
    found = DeltaWriter(tmp_path / "orders", COLUMNS).create([{"id": 0, "v": "a"}])
    for number in range(1, 5):
        found.insert([{"id": number, "v": "a"}])
    return found


def offsets_at(table: DeltaWriter, version: int, row: int = 0, table_id: str = "table-1") -> MemoryOffsets:
    offsets = MemoryOffsets()
    offsets.store(table_partition(str(table.folder)), {"version": version, "row": row, "snapshot": False, "id": table_id})
    return offsets


def clean_log(table: DeltaWriter, checkpoint: int) -> None:
    """Removes the commits before a version, which gets a checkpoint file."""
    metadata, protocol = table.metadata(), {"protocol": table.protocol}
    adds = [{"add": table._action(path, True)} for path in list(table.files)[: checkpoint + 1]]
    name = f"{checkpoint:020d}.checkpoint.11111111-1111-1111-1111-111111111111.json"
    (table.log / name).write_text("\n".join(map(json.dumps, [metadata, protocol, *adds])))
    for version in range(checkpoint):
        table.commit_file(version).unlink()


def test_log_that_was_cleaned_up_names_the_oldest_version(table: DeltaWriter) -> None:
    clean_log(table, 3)
    with pytest.raises(ConnectError) as raised:
        read_all(table.folder, offsets_at(table, 1))
    assert raised.value.message == (
        f"the log of table {table.folder} no longer has version 1. The oldest version whose changes can be read is 3 (the newest "
        'is 4). Stop the connector and PATCH its offset to {"version": 3, "row": 0} to continue there without the changes '
        "before it, or set source.on.gap=snapshot to read the whole table again"
    )
    assert [after["id"] for _, _, after in events(read_all(table.folder, offsets_at(table, 3)))] == [3, 4]


def test_deletes_whose_columns_the_log_no_longer_has_are_a_gap(table: DeltaWriter) -> None:
    table.overwrite({"id": pa.int64(), "w": pa.string()}, [{"id": 5, "w": "b"}])
    table.insert([{"id": 6, "w": "b"}])
    clean_log(table, 5)
    with pytest.raises(ConnectError, match=r"version 5 of table .* the log no longer has version 4.*is 6 \(the newest is 6\)"):
        read_all(table.folder, offsets_at(table, 5))
    assert events(read_all(table.folder, offsets_at(table, 6))) == [("c", None, {"id": 6, "w": "b"})]
    assert len(read_all(table.folder, offsets_at(table, 5), source_on_gap="snapshot")) == 2


def test_gap_is_filled_by_a_snapshot_on_request(table: DeltaWriter, caplog: pytest.LogCaptureFixture) -> None:
    clean_log(table, 3)
    found = events(read_all(table.folder, offsets_at(table, 1), source_on_gap="snapshot"))
    assert [(op, after["id"]) for op, _, after in found] == [("r", number) for number in range(5)]
    assert "no longer has version 1; reading the whole table again (source.on.gap=snapshot)" in caplog.text


def test_replaced_table_is_refused_or_read_again(table: DeltaWriter) -> None:
    offsets = offsets_at(table, 5)
    shutil.rmtree(table.folder)
    replaced = DeltaWriter(table.folder, COLUMNS, table_id="table-2").create([{"id": 7, "v": "b"}])
    for _ in range(6):
        replaced.insert([{"id": 8, "v": "b"}])
    with pytest.raises(
        ConnectError, match=r"was replaced: its id is table-2, and the offset is of table-1.*is 0 \(the newest is 6"
    ):
        read_all(table.folder, offsets)
    assert len(read_all(table.folder, offsets, source_on_gap="snapshot")) == 7


def test_table_that_is_replaced_while_the_task_waits_is_noticed(table: DeltaWriter) -> None:
    with SourceHarness(SparkSourceTask(), {**FAST, "source.location": str(table.folder)}) as harness:
        assert len(poll_all(harness)) == 5
        shutil.rmtree(table.folder)
        DeltaWriter(table.folder, COLUMNS, table_id="table-2").create([{"id": 7, "v": "b"}])
        with pytest.raises(ConnectError, match="has no version 4: it may have been replaced, or the offset is wrong"):
            _poll_until_failure(harness)


def test_table_that_is_replaced_while_versions_wait_is_not_read_on(table: DeltaWriter) -> None:
    config = {**FAST, "source.location": str(table.folder), "source.start": "0", "batch.max.rows": "1"}
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert len(harness.poll()) == 1
        assert len(harness.poll()) == 1
        shutil.rmtree(table.folder)
        replaced = DeltaWriter(table.folder, COLUMNS, table_id="table-2").create([{"id": 7, "v": "b"}])
        for _ in range(6):
            replaced.insert([{"id": 8, "v": "b"}])
        with pytest.raises(ConnectError, match=r"was replaced: its id is table-2, and the offset is of table-1"):
            harness.poll()


def test_table_that_is_created_again_with_fewer_versions_than_were_cleaned_up_is_noticed(table: DeltaWriter) -> None:
    clean_log(table, 3)  # the version before the first one that is read has no file, in no log
    with SourceHarness(SparkSourceTask(), {**FAST, "source.location": str(table.folder), "source.start": "3"}) as harness:
        while not is_complete(harness.task.progress()):
            harness.poll()
        shutil.rmtree(table.folder)
        DeltaWriter(table.folder, COLUMNS, table_id="table-2").create([{"id": 7, "v": "b"}])
        with pytest.raises(ConnectError, match="may have been replaced"):
            _poll_until_failure(harness)


def test_log_that_is_cleaned_up_behind_the_task_is_read_on_up_to_a_gap(table: DeltaWriter) -> None:
    config = {**FAST, "source.location": str(table.folder), "source.start": "0", "batch.max.rows": "1"}
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert len(harness.poll()) == 1
        assert len(harness.poll()) == 1
        clean_log(table, 1)
        assert len(harness.poll()) == 1
        table.commit_file(2).unlink()
        table.commit_file(3).unlink()
        with pytest.raises(ConnectError, match="no longer has version 3"):
            harness.poll()


def _poll_until_failure(harness: SourceHarness, between: Callable[[], None] = lambda: None) -> None:
    for _ in range(20):
        harness.poll()
        between()


def test_file_that_was_vacuumed_is_a_gap(table: DeltaWriter) -> None:
    (table.folder / next(iter(table.files))).unlink()
    with pytest.raises(
        ConnectError, match=r"version 0 of table .*part-1.parquet, which does not exist.*can be read is 1 \(the newest"
    ):
        read_all(table.folder, source_start="0")
    assert len(read_all(table.folder, source_start="1")) == 4


@pytest.mark.parametrize("on_gap", ["fail", "snapshot"])
def test_file_that_is_missing_in_the_newest_version_fails_its_snapshot(table: DeltaWriter, on_gap: str) -> None:
    (table.folder / "part-3.parquet").unlink()
    with pytest.raises(
        ConnectError,
        match=r"version 4 of table .*: the table names the file .*part-3.parquet, which does not exist.*RESTORE TABLE",
    ) as raised:
        read_all(table.folder, source_on_gap=on_gap)
    assert "source.on.gap" not in raised.value.message


def test_snapshot_after_a_gap_that_has_a_gap_too_fails(table: DeltaWriter, caplog: pytest.LogCaptureFixture) -> None:
    (table.folder / "part-3.parquet").unlink()
    config = {**FAST, "source.location": str(table.folder), "source.on.gap": "snapshot", "batch.max.rows": "2"}
    message = r"part-3.parquet.*The task was already reading the whole table again"
    with SourceHarness(SparkSourceTask(), config) as harness, pytest.raises(ConnectError, match=message):
        _poll_until_failure(harness, lambda: table.insert([{"id": 10, "v": "a"}]))
    assert caplog.text.count("reading the whole table again") == 1


def test_each_gap_is_filled_by_a_snapshot_of_its_own(table: DeltaWriter, caplog: pytest.LogCaptureFixture) -> None:
    with SourceHarness(SparkSourceTask(), {**FAST, "source.location": str(table.folder), "source.on.gap": "snapshot"}) as harness:
        assert len(poll_all(harness)) == 5
        for number in (1, 2):
            table.insert([{"id": 9, "v": "lost"}])
            lost = table.folder / list(table.files)[-1]
            table.rewrite(lambda r: r["v"] == "lost", lambda r: None)
            lost.unlink()
            found = harness.poll_records(5)
            assert [(op, after["id"]) for op, _, after in events(found)] == [("r", id_) for id_ in range(5)]
            assert caplog.text.count("reading the whole table again") == number


def test_damaged_files_are_named_and_not_skipped(table: DeltaWriter) -> None:
    (table.folder / "part-2.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ConnectError, match=r"version 1 of table .*: the file .*part-2.parquet cannot be read"):
        read_all(table.folder, source_start="0", source_on_gap="snapshot")
    table.commit_file(1).write_text('{"add": {"path"')
    with pytest.raises(ConnectError, match=r"the commit .*00000000000000000001.json is damaged"):
        read_all(table.folder, source_start="0")


def _remove_without_values(table: DeltaWriter, *, data_change: bool = True) -> list[dict[str, dict[str, object]]]:
    """Actions as writers without ``extendedFileMetadata`` have them."""
    actions = [table.remove(path, data_change=data_change) for path in list(table.files)]
    for action in actions:
        del action["remove"]["partitionValues"], action["remove"]["extendedFileMetadata"]
    return actions


@pytest.mark.parametrize("stays_partitioned", [True, False])
def test_removed_files_without_their_partition_values_are_refused(tmp_path: Path, stays_partitioned: bool) -> None:
    rows = [{"id": 1, "v": "a"}]
    table = DeltaWriter(tmp_path / "t", COLUMNS, partitioned_by=["v"]).create(rows)
    actions = _remove_without_values(table, data_change=False)
    table.commit([*actions, table.add(rows, data_change=False)])  # a compaction, whose rows nobody needs
    actions = _remove_without_values(table)
    if not stays_partitioned:
        table._partitioned_by = []
    table.commit([*actions, table.metadata(), table.add(rows)])
    with pytest.raises(ConnectError, match=r"version 2 removes the file part-2.parquet without its partition values"):
        read_all(table.folder, source_start="1")


def test_files_of_a_table_that_becomes_partitioned_need_no_partition_values(tmp_path: Path) -> None:
    rows = [{"id": 1, "v": "a"}]
    table = DeltaWriter(tmp_path / "t", COLUMNS).create(rows)
    actions = _remove_without_values(table)
    table._partitioned_by = ["v"]
    table.commit([*actions, table.metadata(), table.add(rows)])
    assert events(read_all(table.folder, source_start="1")) == [("d", rows[0], None), ("c", None, rows[0])]


def test_damaged_checkpoint_is_named(table: DeltaWriter) -> None:
    (table.log / f"{3:020d}.checkpoint.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ConnectError, match=r"the checkpoint .*00000000000000000003.checkpoint.parquet cannot be read"):
        read_all(table.folder)


def test_missing_table_is_named_with_the_nearest_one_and_awaited(table: DeltaWriter, caplog: pytest.LogCaptureFixture) -> None:
    missing = table.folder.parent / "order"
    with SourceHarness(SparkSourceTask(), {**FAST, "source.location": str(missing)}) as harness:
        assert harness.poll() == []
        assert f"there is no Delta table at {missing}; did you mean orders?; waiting until the table exists" in caplog.text
        assert harness.task.progress()["missing_tables"] == [str(missing)]
        DeltaWriter(missing, COLUMNS).create([{"id": 1, "v": "a"}])
        assert len(harness.poll_records(1)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.configuration.update({"delta.columnMapping.mode": "id"}),
            r"has column mapping \(delta.columnMapping.mode=id\)",
        ),
        (lambda t: t.protocol.update(readerFeatures=["deletionVectors", "shinyRows"]), "has the reader feature shinyRows, which"),
        (lambda t: t.protocol.update(minReaderVersion=9), "has the reader version 9, which"),
        (lambda t: t.columns.update(doc=pa.null()), "column doc of table .* cannot be read"),
    ],
)
def test_table_that_needs_spark_is_refused(table: DeltaWriter, change: Callable[[DeltaWriter], None], message: str) -> None:
    change(table)
    metadata = table.metadata() if "doc" not in table.columns else _with_type(table, "void")
    table.commit([{"protocol": table.protocol}, metadata])
    with pytest.raises(ConnectError, match=message):
        read_all(table.folder)
    (problem,) = _errors({"source.location": str(table.folder), "topic": "t"}).values()
    assert "Spark" in problem


def _with_type(table: DeltaWriter, name: str) -> dict[str, dict[str, object]]:
    table.columns.pop("doc", None)
    metadata = table.metadata()
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"].append({"name": "doc", "type": name, "nullable": True, "metadata": {}})
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    return metadata


def test_unknown_key_column_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", {"customer_id": pa.int64()}).create([{"customer_id": 1}])
    with pytest.raises(ConfigError, match=r"has no column custmer_id \(key.columns\); did you mean customer_id\?"):
        read_all(table.folder, key_columns="custmer_id")
    errors = _errors({"source.location": str(table.folder), "topic": "t", "key.columns": "custmer_id"})
    assert "did you mean customer_id?" in errors["key.columns"]


def test_deletes_of_rows_without_the_key_column_are_refused(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", {"a": pa.int64()}).create([{"a": 1}])
    table.overwrite(COLUMNS, [{"id": 1, "v": "x"}])
    with pytest.raises(ConfigError, match=r"table .*/t at version 0 has no column id \(key.columns\)"):
        read_all(table.folder, source_start="1", key_columns="id")
    table.overwrite(COLUMNS, [{"id": 1, "v": "y"}])
    assert len(read_all(table.folder, source_start="2", key_columns="id")) == 1


@pytest.mark.parametrize("keys", ["", "id"])
def test_empty_table_of_any_columns_may_be_replaced(tmp_path: Path, keys: str) -> None:
    table = DeltaWriter(tmp_path / "t", {"a": pa.int64()})
    table.commit([{"protocol": table.protocol}, _with_type(table, "void")])
    table.overwrite(COLUMNS, [{"id": 1, "v": "x"}])
    assert events(read_all(table.folder, source_start="1", key_columns=keys)) == [("c", None, {"id": 1, "v": "x"})]


def test_timestamp_that_text_cannot_hold_names_the_column(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", {"id": pa.int64(), "at": pa.timestamp("us", "UTC")})
    table.create([{"id": 1, "at": 300_000_000_000_000_000}])
    with pytest.raises(
        ConnectError, match=r"column at of table .*: the timestamp 300000000000000000 .* outside the years 1 to 9999"
    ):
        read_all(table.folder)


# --- configuration


def _errors(config: dict[str, str]) -> dict[str, str]:
    return {value.name: value.errors[0] for value in SparkSource().validate(config) if value.errors}


@pytest.mark.parametrize(
    ("config", "key", "message"),
    [
        ({"source.format": "delta2"}, "source.format", "Expected delta, iceberg, parquet, query; did you mean delta?"),
        ({"topic": ""}, "topic", "set topic, or topic.prefix"),
        ({"topic.prefix": "p"}, "topic", "topic.prefix is set too"),
        ({"source.location": "/lake/a,/lake/b"}, "topic", "there are 2 tables; set topic.prefix instead"),
        ({"source.location": "/a/t,/b/t", "topic": "", "topic.prefix": "p"}, "source.location", "its topic p.t is that of /a/t"),
        ({"source.location": "/a/t,/a/t/", "topic": "", "topic.prefix": "p"}, "source.location", "the table is named twice"),
        ({"source.location": "/a,/b", "source.table": "t"}, "source.location", "source.table needs one directory"),
        ({"source.table": "../t"}, "source.table", "Expected the name of a directory"),
        ({"source.start": "newest"}, "source.start", "Expected snapshot, latest, or a number"),
        ({"topic": "a b"}, "topic", "Expected up to 249 letters"),
        ({"source.on.gap": "skip"}, "source.on.gap", "String must be one of: fail, snapshot"),
    ],
)
def test_bad_keys_are_refused(config: dict[str, str], key: str, message: str) -> None:
    assert message in _errors({"source.location": "/lake/orders", "topic": "t", **config})[key]


def test_tables_are_locations_or_names_in_one_location() -> None:
    both = {"source.location": "/lake/sales", "source.table": "orders,old/orders-2", "topic.prefix": "p"}
    found = [(table.location, table.topic, table.database) for table in parse_config(both).tables]
    assert found == [
        ("/lake/sales/orders", "p.orders", "sales"),
        ("/lake/sales/old/orders-2", "p.orders-2", "old"),
    ]
    connector = SparkSource()
    connector.start({"source.location": "/lake/a,/lake/b,s3://c/d e", "topic.prefix": "p"})
    assigned = [parse_config(config).tables for config in connector.task_configs(2)]
    assert [[table.topic for table in tables] for tables in assigned] == [["p.a", "p.d_e"], ["p.b"]]
    assert len(connector.task_configs(9)) == 3


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        ({"table": "/lake/order"}, {"version": 1}, "no table at /lake/order; did you mean /lake/orders?"),
        ({"server": "x"}, {"version": 1}, 'is {"table": "<location>"}'),
        ({"table": "/lake/orders"}, {"versoin": 1}, "an offset has no 'versoin'; did you mean version?"),
        ({"table": "/lake/orders"}, {"row": 1}, "an offset needs version"),
        ({"table": "/lake/orders"}, {"version": -1}, "version must be an integer of at least 0, not -1"),
        ({"table": "/lake/orders"}, {"version": 1, "snapshot": "yes"}, "snapshot must be true or false"),
    ],
)
def test_offsets_that_make_no_sense_are_refused(partition: dict[str, str], offset: dict[str, object], message: str) -> None:
    config = {"source.location": "/lake/orders", "topic": "t"}
    with pytest.raises(BadRequestError) as raised:
        SparkSource().alter_offsets(config, {tuple(partition.items()): offset})
    assert message in raised.value.message
    assert SparkSource().alter_offsets(config, {(("table", "/lake/orders"),): {"version": 3}, (("table", "/gone"),): None})


def test_patched_offset_starts_at_its_version_and_row(table: DeltaWriter) -> None:
    table.insert([{"id": 10, "v": "a"}, {"id": 11, "v": "a"}])
    offsets = MemoryOffsets()
    offsets.store(table_partition(str(table.folder)), {"version": 5, "row": 1})
    assert [after["id"] for _, _, after in events(read_all(table.folder, offsets))] == [11]
    offsets.store(table_partition(str(table.folder)), {"version": 9})
    with pytest.raises(ConnectError, match="has no version 8: it may have been replaced, or the offset is wrong"):
        read_all(table.folder, offsets)


def test_progress_has_the_lag_in_versions_and_the_rows_read(table: DeltaWriter) -> None:
    config = {**FAST, "source.location": str(table.folder), "source.start": "0", "batch.max.rows": "1"}
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert len(harness.poll()) == 1
        progress = harness.task.progress()
        assert (progress["rows"], progress["lag_versions"]) == (1, 5)
        poll_all(harness)
        progress = harness.task.progress()
        assert (progress["rows"], progress["lag_versions"]) == (5, 0)
