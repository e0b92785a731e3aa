"""Where Iceberg tables are found, and those that cannot be read: messages name the thing and the remedy."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from connect.errors import ConfigError, ConnectError, RetriableError
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark import SparkSource
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.task import SparkSourceTask
from tests.support.iceberg_rest import TOKEN, rest_catalog
from tests.support.iceberg_writer import ID_AND_TEXT, IcebergWriter, Row
from tests.support.replayed_events import FAST, as_counter, check_every_version, events, poll_all, read_all
from tests.support.s3 import EmbeddedS3

FORMAT = {"source_format": "iceberg"}
CONF = "spark.conf.spark.sql.catalog.lake"


def rows(*ids: int) -> list[Row]:
    return [{"id": number, "v": "a"} for number in ids]


@pytest.fixture
def table(tmp_path: Path) -> IcebergWriter:
    found = IcebergWriter(tmp_path / "orders")
    for number in range(1, 5):
        found.insert(rows(number))
    return found


def ids(table: IcebergWriter, offsets: MemoryOffsets | None = None, **config: str) -> list[int]:
    found = events(read_all(table.folder, offsets, **FORMAT, **config))
    return [after["id"] for _, _, after in found]


def harness_of(folder: Path, **config: str) -> SourceHarness:
    props = {**FAST, "source.format": "iceberg", "source.location": str(folder)}
    return SourceHarness(SparkSourceTask(), {**props, **{k.replace("_", "."): v for k, v in config.items()}})


def offsets_at(table: IcebergWriter, version: int, row: int = 0, **more: Any) -> MemoryOffsets:
    offsets = MemoryOffsets()
    offsets.store(table_partition(str(table.folder)), {"version": version, "row": row, "snapshot": False, **more})
    return offsets


def snapshot_id(table: IcebergWriter, version: int) -> int:
    return int(table._at(version)["snapshot-id"])


# --- gaps


def test_expired_snapshots_are_a_gap_that_names_the_oldest_one(table: IcebergWriter) -> None:
    offsets = offsets_at(table, 2, snapshot_id=snapshot_id(table, 1))
    table.expire(4)
    with pytest.raises(ConnectError) as raised:
        ids(table, offsets)
    assert raised.value.message == (
        f"the snapshots from version 2 on of table {table.folder} have expired; the oldest snapshot that there is has the ID "
        f"{snapshot_id(table, 4)}. The oldest version whose changes can be read is 4 (the newest is 4). Stop the connector and "
        'PATCH its offset to {"version": 4, "row": 0} to continue there without the changes before it, or set '
        "source.on.gap=snapshot to read the whole table again"
    )
    assert ids(table, offsets_at(table, 4)) == [4]
    with pytest.raises(ConnectError, match="from version 3 on of table"):
        ids(table, offsets_at(table, 3))
    assert ids(table, offsets, source_on_gap="snapshot") == [4, 3, 2, 1]


def test_snapshot_whose_parent_was_read_and_expired_is_no_gap(table: IcebergWriter) -> None:
    table.insert(rows(6))
    done = snapshot_id(table, 3)
    table.expire(4)
    assert ids(table, offsets_at(table, 4, snapshot_id=done)) == [4, 6]


def test_removed_file_that_expired_with_its_snapshot_is_a_gap(table: IcebergWriter) -> None:
    table.delete(lambda r: r["id"] == 2)
    done = snapshot_id(table, 4)
    table.expire(5)
    with pytest.raises(ConnectError, match=r"snapshot .* \(version 5\) of table .*which does not exist.*can be read is 6"):
        ids(table, offsets_at(table, 5, snapshot_id=done))


def test_rollback_is_a_gap_after_a_version_and_in_the_middle_of_one(table: IcebergWriter) -> None:
    table.insert(rows(5, 6))
    done, current = snapshot_id(table, 5), snapshot_id(table, 4)
    table.roll_back(3)
    with pytest.raises(ConnectError, match=rf"rolled back or replaced: the snapshot {done} \(version 5\).* can be read is 6"):
        ids(table, offsets_at(table, 6, snapshot_id=done))
    with pytest.raises(ConnectError, match=r"version 4 of table .*, which was read up to row 1, is no longer in the history"):
        ids(table, offsets_at(table, 4, 1, snapshot_id=snapshot_id(table, 3)))
    table.insert(rows(7))
    with pytest.raises(ConnectError, match="rolled back"):
        ids(table, offsets_at(table, 5, snapshot_id=current))
    assert ids(table, offsets_at(table, 6)) == [7]
    assert sorted(ids(table, offsets_at(table, 6, snapshot_id=done), source_on_gap="snapshot")) == [1, 2, 3, 7]


def test_rollback_while_the_task_waits_is_noticed(table: IcebergWriter) -> None:
    with harness_of(table.folder) as harness:
        assert len(poll_all(harness)) == 4
        table.roll_back(2)
        with pytest.raises(ConnectError, match="rolled back"):
            _poll_until_failure(harness)


def _poll_until_failure(harness: SourceHarness) -> None:
    for _ in range(20):
        harness.poll()


def test_replaced_table_is_refused_or_read_again(table: IcebergWriter) -> None:
    offsets = MemoryOffsets()
    ids(table, offsets)
    shutil.rmtree(table.folder)
    replaced = IcebergWriter(table.folder, table_id="00000000-0000-0000-0000-000000000002").insert(rows(7))
    with pytest.raises(ConnectError, match=r"was replaced: its id is .*2, and the offset is of .*1; the oldest snapshot"):
        ids(replaced, offsets)
    assert ids(replaced, offsets, source_on_gap="snapshot") == [7]


def test_snapshot_that_expires_while_it_is_read_is_a_gap(table: IcebergWriter) -> None:
    offsets = MemoryOffsets()
    place = {"version": 3, "row": 1, "snapshot": True, "snapshot_id": snapshot_id(table, 3)}
    offsets.store(table_partition(str(table.folder)), place)
    assert ids(table, offsets) == [2, 1, 4]
    offsets.store(table_partition(str(table.folder)), place)
    table.expire(4)
    with pytest.raises(ConnectError, match="no longer has the snapshot of version 3 that was being read"):
        ids(table, offsets)


def test_version_that_was_never_there_is_named(table: IcebergWriter) -> None:
    with pytest.raises(ConnectError, match="has no version 8: it may have been replaced, or the offset is wrong"):
        ids(table, offsets_at(table, 9))


# --- tables that cannot be read


def _typed(type_: str) -> Callable[[IcebergWriter], object]:
    return lambda t: t.evolve(*ID_AND_TEXT, {"id": 9, "name": "doc", "required": False, "type": type_})


def _of_format(version: int) -> Callable[[IcebergWriter], None]:
    def change(table: IcebergWriter) -> None:
        table._format = version
        table.write_metadata()

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_of_format(1), r"has the format version 1.*'format-version' = '2'\)\), which changes no file"),
        (_of_format(4), "has the format version 4, and SparkSource reads up to 3"),
        (_typed("geometry"), "column doc of table .* has the type geometry"),
    ],
)
def test_table_that_cannot_be_read_is_refused(table: IcebergWriter, change: Any, message: str) -> None:
    change(table)
    with pytest.raises(ConnectError, match=message):
        ids(table)
    config = {"source.format": "iceberg", "source.location": str(table.folder), "topic": "t"}
    (problem,) = _errors(config)["source.location"]
    assert "Spark" in problem


def test_data_files_that_are_not_parquet_are_refused(table: IcebergWriter) -> None:
    table.commit("append", [replace(table.data(rows(9)), format="ORC")])
    with pytest.raises(ConnectError, match=r"the format ORC, and SparkSource reads Parquet. Rewrite the data files"):
        ids(table, source_start="5")


@pytest.mark.parametrize("on_gap", ["fail", "snapshot"])
def test_file_that_is_missing_in_the_newest_snapshot_fails_its_reading(table: IcebergWriter, on_gap: str) -> None:
    Path(next(iter(table.state.files))).unlink()
    with pytest.raises(ConnectError, match=r"of table .*: the table names the file .*parquet, which does not exist") as raised:
        ids(table, source_on_gap=on_gap)
    assert "source.on.gap" not in raised.value.message


def test_damaged_files_are_named_and_not_skipped(table: IcebergWriter) -> None:
    Path(next(iter(table.state.files))).write_bytes(b"PAR1 no more")
    with pytest.raises(ConnectError, match=r"snapshot .* \(version 1\) of table .*: the file .*parquet cannot be read"):
        ids(table, source_start="1", source_on_gap="snapshot")
    Path(table.snapshots[0]["manifest-list"]).write_bytes(b"Obj\x01 no more")
    with pytest.raises(ConnectError, match=r"the manifest .*avro of table .* cannot be read.*from a backup"):
        ids(table, source_start="1")
    table.metadata_file().write_text('{"format-version": 2')
    with pytest.raises(ConnectError, match=r"the metadata .*metadata.json of table .* cannot be read"):
        ids(table)


def test_damaged_deletion_vector_is_named(table: IcebergWriter) -> None:
    table.optimize().delete(lambda r: r["id"] == 2)
    (puffin,) = (table.folder / "data").glob("*.puffin")
    puffin.write_bytes(puffin.read_bytes().replace(b"\x01\x00\x00\x00", b"\x02\x00\x00\x00", 1))
    with pytest.raises(ConnectError, match=r"\(version 6\) of table .*puffin cannot be read: a deletion vector is damaged"):
        ids(table, source_start="6")


# --- directories


def test_missing_table_is_named_with_the_nearest_one_and_awaited(table: IcebergWriter, caplog: pytest.LogCaptureFixture) -> None:
    missing = table.folder.parent / "order"
    with harness_of(missing) as harness:
        assert harness.poll() == []
        assert f"there is no Iceberg table at {missing}; did you mean orders?; waiting until the table exists" in caplog.text
        IcebergWriter(missing).insert(rows(1))
        assert len(harness.poll_records(1)) == 1


def test_metadata_is_found_with_an_old_hint_without_one_and_compressed(table: IcebergWriter) -> None:
    hint = table.folder / "metadata" / "version-hint.text"
    for text in ("2", "99", "no number"):
        hint.write_text(text)
        assert ids(table, source_start="1") == [1, 2, 3, 4]
    hint.unlink()
    metadata = table.metadata_file()
    compressed = metadata.with_name(metadata.name.replace(".metadata.json", ".gz.metadata.json"))
    compressed.write_bytes(gzip.compress(metadata.read_bytes()))
    metadata.unlink()
    with harness_of(table.folder) as harness:
        assert len(poll_all(harness)) == 4
        table.insert(rows(5))
        assert len(harness.poll_records(1)) == 1


def test_directory_of_a_catalog_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "t" / "metadata"
    folder.mkdir(parents=True)
    (folder / "00000-11111111-1111-1111-1111-111111111111.metadata.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"belongs to a catalog, .*set table.catalog and source.table instead"):
        read_all(folder.parent, None, **FORMAT)


# --- catalogs


def _errors(config: dict[str, str]) -> dict[str, list[str]]:
    return {value.name: value.errors for value in SparkSource().validate(config) if value.errors}


def _read_catalog(config: dict[str, str], offsets: MemoryOffsets | None = None, **more: str) -> list[Any]:
    props = {**FAST, "source.format": "iceberg", **config, **{k.replace("_", "."): v for k, v in more.items()}}
    with SourceHarness(SparkSourceTask(), props, offsets) as harness:
        records = poll_all(harness)
        harness.commit()
    return records


@pytest.fixture(scope="module")
def catalog_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("catalog")


@pytest.fixture(scope="module")
def jdbc(catalog_folder: Path) -> dict[str, str]:
    load_catalog("lake", type="sql", uri=f"sqlite:///{catalog_folder}/c.db", warehouse=f"file://{catalog_folder}/warehouse")
    return {
        CONF: "org.apache.iceberg.spark.SparkCatalog",
        f"{CONF}.type": "jdbc",
        f"{CONF}.uri": f"jdbc:sqlite:{catalog_folder}/c.db",
        f"{CONF}.warehouse": f"file://{catalog_folder}/warehouse",
        "table.catalog": "lake.shop",
    }


@pytest.fixture(scope="module")
def catalog(catalog_folder: Path, jdbc: dict[str, str]) -> Catalog:
    found = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{catalog_folder}/c.db", warehouse=f"file://{catalog_folder}/warehouse"
    )
    found.create_namespace("shop")
    return found


ARROW = pa.schema([("id", pa.int64()), ("v", pa.string()), ("at", pa.timestamp("us"))])


def _rows(*numbers: int, v: str = "a") -> pa.Table:
    listed = [{"id": n, "v": v, "at": 1_700_000_000_000_000 + 40_000_000_000 * n} for n in numbers]
    return pa.Table.from_pylist(listed, ARROW)


def test_history_that_pyiceberg_writes_adds_up_at_every_snapshot(catalog: Catalog, jdbc: dict[str, str]) -> None:
    table = catalog.create_table("shop.history", ARROW)
    table.append(_rows(*range(8)))
    table.delete("id = 3")
    table.overwrite(_rows(1, 2, v="b"), overwrite_filter="id in (1, 2)")
    table.append(_rows(20, 21, 22))
    with table.update_spec() as spec:
        spec.add_identity("v")
    table.append(_rows(30, 31, v="c"))
    table.delete("id in (0, 21, 30)")
    table.upsert(_rows(4, 22, 99, v="new"), ["id"])
    config = {**jdbc, "source.table": "history", "source.start": "1"}
    versions = {s.sequence_number: _as_events(table.scan(snapshot_id=s.snapshot_id).to_arrow()) for s in table.metadata.snapshots}
    for keys in ("", "id"):
        check_every_version(_read_catalog({**config, "key.columns": keys}), versions)
    snapshot = events(_read_catalog({**config, "source.start": "snapshot"}))
    assert as_counter(after for _, _, after in snapshot) == as_counter(_as_events(table.scan().to_arrow()))


def _as_events(rows: pa.Table) -> list[Row]:
    found: list[Row] = rows.set_column(2, "at", rows["at"].cast(pa.int64())).to_pylist()
    return found


def test_table_of_a_catalog_is_followed_and_its_source_block_names_the_namespace(catalog: Catalog, jdbc: dict[str, str]) -> None:
    table = catalog.create_table("shop.orders", ARROW)
    props = {**FAST, **jdbc, "source.format": "iceberg", "source.table": "orders"}
    with SourceHarness(SparkSourceTask(), props) as harness:
        assert poll_all(harness) == []
        table.append(_rows(1))
        (record,) = harness.poll_records(1)
    assert record.source_partition == {"table": "lake.shop.orders"}
    source = record.value.get("source")
    assert (source.get("db"), source.get("table")) == ("shop", "orders")


def test_missing_table_of_a_catalog_is_named_with_the_nearest_one(
    catalog: Catalog, jdbc: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    catalog.create_table("shop.customers", ARROW)
    with SourceHarness(SparkSourceTask(), {**FAST, **jdbc, "source.format": "iceberg", "source.table": "customer"}) as harness:
        harness.poll()
    assert "there is no Iceberg table lake.shop.customer; did you mean customers?; waiting until" in caplog.text


def test_table_that_pyiceberg_does_not_know_is_refused(tmp_path: Path, jdbc: dict[str, str], catalog: Catalog) -> None:
    table = catalog.create_table("shop.documents", ARROW)
    metadata = Path(table.metadata_location.removeprefix("file://"))
    metadata.write_text(metadata.read_text().replace('"type":"string"', '"type":"variant"'))
    config = {**jdbc, "source.format": "iceberg", "source.table": "documents", "topic": "t"}
    (problem,) = _errors(config)["table.catalog"]
    assert "cannot load table lake.shop.documents from its catalog" in problem
    assert "'variant'" in problem
    assert "copy it into one without it with Spark" in problem


def test_catalog_whose_database_is_down_is_asked_again(jdbc: dict[str, str]) -> None:
    down = {**jdbc, f"{CONF}.uri": "jdbc:sqlite:/nowhere/c.db", "source.format": "iceberg", "source.table": "t"}
    with SourceHarness(SparkSourceTask(), {**FAST, **down}) as harness, pytest.raises(RetriableError, match="does not answer"):
        harness.task.poll()


def test_rest_catalog_is_read_with_its_token(tmp_path: Path) -> None:
    with rest_catalog(tmp_path) as uri:
        writer = load_catalog("lake", type="rest", uri=uri, token=TOKEN)
        writer.create_namespace("shop")
        writer.create_table("shop.orders", ARROW).append(_rows(1, 2))
        rest = {f"{CONF}.catalog-impl": "org.apache.iceberg.rest.RESTCatalog", f"{CONF}.uri": uri}
        rest |= {"table.catalog": "lake", "source.table": "shop.orders"}
        assert [after["id"] for _, _, after in events(_read_catalog({**rest, f"{CONF}.token": TOKEN}))] == [1, 2]
        config = {**rest, "source.format": "iceberg", "topic": "t", f"{CONF}.token": "wrong"}
        (problem,) = _errors(config)["table.catalog"]
        assert "the catalog refuses to load table lake.shop.orders" in problem
        assert "wrong" not in problem


def test_hadoop_catalog_is_the_directory_below_its_warehouse(tmp_path: Path) -> None:
    IcebergWriter(tmp_path / "shop" / "orders").insert(rows(1))
    config = {f"{CONF}.type": "hadoop", f"{CONF}.warehouse": str(tmp_path)}
    config |= {"table.catalog": "lake.shop", "source.table": "orders"}
    assert [after["id"] for _, _, after in events(_read_catalog(config))] == [1]


@pytest.mark.parametrize(
    ("config", "key", "message"),
    [
        ({}, "table.catalog", "table.catalog needs spark.conf.spark.sql.catalog.lake.type"),
        ({f"{CONF}.type": "rets"}, f"{CONF}.type", "Expected hadoop, hive, rest, glue, jdbc"),
        ({f"{CONF}.type": "rest"}, "table.catalog", "table.catalog needs spark.conf.spark.sql.catalog.lake.uri"),
        ({f"{CONF}.type": "hadoop"}, "table.catalog", "needs spark.conf.spark.sql.catalog.lake.warehouse"),
        ({f"{CONF}.catalog-impl": "x.Y"}, f"{CONF}.catalog-impl", "Expected org.apache.iceberg.hadoop.HadoopCatalog"),
        ({f"{CONF}.type": "jdbc", f"{CONF}.uri": "jdbc:x"}, f"{CONF}.uri", "the sub-protocol is not supported"),
        (
            {f"{CONF}.type": "hive", f"{CONF}.uri": "thrift://x"},
            "table.catalog",
            "needs a package that is not installed",
        ),
        ({"source.format": "delta"}, "table.catalog", "delta tables are at a location; set source.location"),
        ({"source.location": "/lake"}, "table.catalog", "the catalog places its tables; remove source.location"),
        ({"source.table": ""}, "source.table", "Expected the names of tables in table.catalog"),
        ({"source.table": "a..b"}, "source.table", "Expected the name of a table, and of namespaces before it"),
    ],
)
def test_bad_settings_of_catalogs_are_refused(config: dict[str, str], key: str, message: str) -> None:
    base = {"source.format": "iceberg", "table.catalog": "lake.shop", "source.table": "orders", "topic": "t"}
    ((name, (problem,)),) = _errors({**base, **config}).items()
    assert message in problem
    assert name == key


@pytest.mark.long
def test_table_on_s3_is_read_by_a_catalog_and_in_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = EmbeddedS3()
    try:
        bucket = server.create_bucket()
        settings = {
            "s3.endpoint": server.endpoint,
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        }
        uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"s3://{bucket}/warehouse"
        writer = load_catalog("lake", type="sql", uri=uri, warehouse=warehouse, **settings)
        writer.create_namespace("shop")
        table = writer.create_table("shop.orders", ARROW)
        table.append(_rows(1, 2))
        jdbc = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": warehouse, **settings}
        config = {f"{CONF}.{name}": value for name, value in jdbc.items()}
        config |= {"table.catalog": "lake.shop", "source.table": "orders"}
        assert [after["id"] for _, _, after in events(_read_catalog(config))] == [1, 2]
        folder = f"{bucket}/warehouse/shop/orders/metadata"
        files = server.open_files()
        files.copy_file(table.metadata_location.removeprefix("s3://"), f"{folder}/v1.metadata.json")
        with files.open_output_stream(f"{folder}/version-hint.text") as hint:
            hint.write(b"1")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        location = {"source.location": f"s3a://{bucket}/warehouse/shop/orders"}
        assert [after["id"] for _, _, after in events(_read_catalog(location))] == [1, 2]
    finally:
        server.stop()
