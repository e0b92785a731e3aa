"""Events of Iceberg tables that Spark and the sink write add up to the table at every version, with and without keys."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from connect.errors import ConnectError
from connect.testing import MemoryOffsets
from connectors.spark import session
from connectors.spark.config import parse_config
from tests.integration.spark.lake import field, message
from tests.integration.spark.table_access import CATALOG, IcebergAccess, catalog_props, configure_catalog
from tests.support.replayed_events import as_counter, check_every_version, events, read_all

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_CREATE = """
CREATE TABLE {t} (id BIGINT, v STRING, amount DECIMAL(12,2), at TIMESTAMP, tags ARRAY<STRING>, place STRUCT<x: INT, d: DATE>)
USING iceberg PARTITIONED BY (truncate(10, id)) TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = '{mode}',
'write.update.mode' = '{mode}', 'write.merge.mode' = '{mode}', 'write.delete.granularity' = '{granularity}')
"""
_ROWS = """
SELECT id, concat('v', id) v, CAST(CAST(id AS DECIMAL(12,2)) / 4 AS DECIMAL(12,2)) amount,
timestamp'2024-01-01 00:00:00.000001' + make_interval(0, 0, 0, id) at, array('a', CAST(id AS STRING)) tags,
named_struct('x', CAST(id AS INT), 'd', date'2024-01-01') place FROM range({first}, {end})
"""
_MERGE = """
MERGE INTO {t} t USING (SELECT * FROM {t} WHERE id BETWEEN 5 AND 25) s ON t.id = s.id + 10
WHEN MATCHED AND t.id > 20 THEN DELETE WHEN MATCHED THEN UPDATE SET v = concat(s.v, '+')
WHEN NOT MATCHED THEN INSERT (id, v, amount, at, tags, place) VALUES (s.id + 10, 'merged', s.amount, NULL, NULL, NULL)
"""
_REPARTITION = "by a field more"
_STATEMENTS = [
    "INSERT INTO {t} " + _ROWS.format(first=0, end=20),
    "UPDATE {t} SET v = concat(v, '!'), amount = amount + 1 WHERE id % 5 = 0",
    "DELETE FROM {t} WHERE id IN (3, 4)",
    _MERGE,
    "CALL lake.system.rewrite_data_files(table => '{name}', options => map('min-input-files', '2'))",
    "DELETE FROM {t} WHERE id IN (5, 8)",
    "CALL lake.system.rewrite_manifests(table => '{name}')",
    "ALTER TABLE {t} ADD COLUMN extra INT",
    _REPARTITION,
    "INSERT INTO {t} SELECT *, 7 FROM (" + _ROWS.format(first=30, end=35) + ")",
    "UPDATE {t} SET extra = 8 WHERE id BETWEEN 8 AND 31",
    "CALL lake.system.rewrite_position_delete_files(table => '{name}', options => map('rewrite-all', 'true'))",
    "DELETE FROM {t} WHERE id BETWEEN 30 AND 39",
    "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id < 12",
]
MODES = {
    "v2": ("2", "merge-on-read", "partition"),
    "v2file": ("2", "merge-on-read", "file"),
    "v3": ("3", "merge-on-read", "file"),
    "cow": ("2", "copy-on-write", "partition"),
}

_LONG = ("v2", "v3")
"""The tables with all statements."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of the catalog."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def spark(spark_props: dict[str, str], folder: Path) -> Iterator[Any]:
    """The session that writes the tables."""
    conf = {f"spark.conf.{key}": value for key, value in catalog_props(folder).items()}
    props = {**spark_props, **conf, "topics": "t", "table.format": "iceberg", "table.catalog": CATALOG}
    lease = session.lease(parse_config(props).spark)
    found = lease.session()
    configure_catalog(found, folder)
    yield found
    lease.release()


@pytest.fixture(scope="module")
def warehouse(spark: Any, folder: Path) -> Path:
    """The folder of the tables of :data:`MODES`."""
    for name, (version, mode, granularity) in MODES.items():
        for statement in [_CREATE, *(_STATEMENTS if name in _LONG else _STATEMENTS[:6])]:
            if statement == _REPARTITION:
                _repartition(spark, f"{CATALOG}.{name}")
                continue
            values = {"version": version, "mode": mode, "granularity": granularity}
            spark.sql(statement.format(t=f"{CATALOG}.{name}", name=name, **values)).collect()
    return folder


def _repartition(spark: Any, table: str) -> None:
    """ALTER TABLE ... ADD PARTITION FIELD extra, for which Spark needs Iceberg's extensions."""
    loaded = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    loaded.updateSpec().addField("extra").commit()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MODES)
@pytest.mark.long
def test_events_add_up_to_the_table_of_spark_at_every_version(warehouse: Path, name: str) -> None:
    folder = warehouse / name
    versions = _versions(folder)
    found = {}
    for keys in ("", "id"):
        records = read_all(folder, None, source_format="iceberg", source_start="1", key_columns=keys)
        check_every_version(records, versions)
        found[keys] = records
    snapshot = events(read_all(folder, None, source_format="iceberg"))
    assert as_counter(after for _, _, after in snapshot) == as_counter(versions[max(versions)])
    # 20 inserted, 4 updated, 2 deleted.
    assert [_of_version(found["id"], version) for version in (1, 2, 3)] == [Counter(c=20), Counter(u=4), Counter(d=2)]
    deletes = _of_version(found[""], 3)["d"]
    assert deletes > 2 if name == "cow" else deletes == 2
    rewritten = [version for version, operation in _operations(folder).items() if operation == "replace"]
    assert rewritten or name not in _LONG
    assert not any(_of_version(found[""], version) for version in rewritten)


@pytest.mark.timeout(300)
@pytest.mark.long
def test_rollback_replacement_and_expired_snapshots_of_spark_are_gaps(spark: Any, folder: Path) -> None:
    def run(statement: str) -> None:
        spark.sql(statement).collect()

    def read(**config: str) -> list[int]:
        found = events(read_all(folder / "moved", offsets, source_format="iceberg", **config))
        return sorted(after["id"] for _, _, after in found)

    offsets = MemoryOffsets()
    run(f"CREATE TABLE {CATALOG}.moved USING iceberg AS SELECT id FROM range(3)")
    first = _table(folder / "moved").current_snapshot().snapshot_id
    run(f"INSERT INTO {CATALOG}.moved VALUES (7)")
    assert read() == [0, 1, 2, 7]
    run(f"CALL {CATALOG}.system.rollback_to_snapshot('moved', {first})")
    with pytest.raises(ConnectError, match="was rolled back or replaced"):
        read()
    assert read(source_on_gap="snapshot") == [0, 1, 2]
    run(f"CREATE OR REPLACE TABLE {CATALOG}.moved USING iceberg AS SELECT id FROM range(5, 7)")
    with pytest.raises(ConnectError, match="was rolled back or replaced"):
        read()
    assert read(source_on_gap="snapshot") == [5, 6]
    run(f"INSERT INTO {CATALOG}.moved VALUES (8)")
    run(f"INSERT INTO {CATALOG}.moved VALUES (9)")
    options = "older_than => TIMESTAMP '2999-01-01', retain_last => 1"
    run(f"CALL {CATALOG}.system.expire_snapshots(table => 'moved', {options})")
    with pytest.raises(ConnectError, match=r"the snapshots from version 4 on of table .* have expired"):
        read()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.long
def test_events_add_up_to_tables_that_the_sink_upserts(
    spark_props: dict[str, str], run: Any, topic: Any, tmp_path: Path, version: str
) -> None:
    records = topic("t", schemas=True)
    props = {
        **spark_props,
        **{f"spark.conf.{key}": value for key, value in catalog_props(tmp_path).items()},
        "name": "lake",
        "topics": "t",
        "table.format": "iceberg",
        "table.catalog": CATALOG,
        "table.properties.format-version": version,
        "write.mode": "upsert",
        "key.columns": "id",
        "metadata.columns": "none",
        "commit.interval.ms": "600000",
    }
    fields = [field("id", "int32"), field("v", "string")]
    sink = run(props, [records], raw=True, group={})
    for number in range(6):
        for id_ in (number, number + 1, number * 7 % 5):
            records.add(None, message(fields, {"id": id_, "v": f"v{number}"}))
        records.add(message(fields[:1], {"id": number - 1}), None)
        sink.deliver()
        sink.commit()
    sink.close()
    folder = tmp_path / "t"
    versions = _versions(folder)
    assert len(versions) >= 6
    for keys in ("", "id"):
        check_every_version(read_all(folder, None, source_format="iceberg", source_start="1", key_columns=keys), versions)


def _table(folder: Path) -> StaticTable:
    return StaticTable.from_metadata(str(IcebergAccess(folder).metadata_file()))


def _versions(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """By PyIceberg, which shares no code with Spark, the rows at each version."""
    table = _table(folder)
    return {
        one.sequence_number: [_as_event(row) for row in table.scan(snapshot_id=one.snapshot_id).to_arrow().to_pylist()]
        for one in table.metadata.snapshots
    }


def _operations(folder: Path) -> dict[int, str]:
    return {one.sequence_number: one.summary.operation.value for one in _table(folder).metadata.snapshots}


def _of_version(records: list[Any], version: int) -> Counter[str]:
    return Counter(op for op, _, _ in events(r for r in records if r.source_offset["version"] == version))


def _as_event(row: dict[str, Any]) -> dict[str, Any]:
    """A row of PyIceberg in the types of events."""
    if "at" not in row:
        return row
    place, at = row["place"], row["at"]
    return {
        **row,
        "at": None if at is None else at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "place": None if place is None else {"x": place["x"], "d": (place["d"] - dt.date(1970, 1, 1)).days},
    }
