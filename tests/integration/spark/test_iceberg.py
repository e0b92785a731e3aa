"""Iceberg tables: types, partitions, schema changes, write modes, offsets, and what other writers and users do to them."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from connect import crash_points
from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.testing.harness import MemoryReporter
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink
from connectors.spark.tables.iceberg.library import IcebergHandle
from tests.integration.spark.conftest import Context
from tests.integration.spark.lake import field, message
from tests.integration.spark.table_access import CATALOG, IcebergAccess, catalog_props, configure_catalog
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

UTC = dt.UTC
TP = TopicPartition("t", 0)
ID, V = field("id", "int32"), field("v", "string")
EXPIRE = f"CALL {CATALOG}.system.expire_snapshots(table => 't', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"


class IcebergLake:
    """The topic ``t``, the table ``lake.t`` of a Hadoop catalog, and another Spark."""

    def __init__(self, props: dict[str, str], run: Any, topic: Any, warehouse: Path) -> None:
        self.warehouse = warehouse
        self.topic = topic("t", schemas=True)
        self.access = IcebergAccess(warehouse / "t")
        self.props = {k: v for k, v in props.items() if k != "table.location"} | {
            **{f"spark.conf.{key}": value for key, value in catalog_props(warehouse).items()},
            "table.format": "iceberg",
            "table.catalog": CATALOG,
            "metadata.columns": "none",
        }
        self._new_run = run
        self.group: dict[TopicPartition, int] = {}
        self.task_run: Any = None
        self.lease = session.lease(parse_config(self.props).spark)
        self.spark: Any = self.lease.session()
        configure_catalog(self.spark, warehouse)

    def start(self, **own: str) -> None:
        self.props |= {key.replace("_", "."): value for key, value in own.items()}
        self.task_run = self._new_run(self.props, [self.topic], raw=True, group=self.group)

    def write(self, *rows: dict[str, Any] | bytes, fields: tuple[dict[str, Any], ...] = (ID, V)) -> None:
        for row in rows:
            self.topic.add(None, row if isinstance(row, bytes) else message(list(fields), row))
        if self.task_run is None:
            self.start()
        self.task_run.deliver()
        self.task_run.commit()

    def restart(self, **own: str) -> None:
        self.task_run.task.close()
        self.start(**own)

    def refuses(self, *rows: dict[str, Any], match: str, fields: tuple[dict[str, Any], ...] = (ID, V)) -> None:
        with pytest.raises(ConnectError, match=match):
            self.write(*rows, fields=fields)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.spark.sql(statement).collect()]

    def rows(self, table: str = "t") -> list[dict[str, Any]]:
        """A table by Spark, which must be what PyIceberg reads."""
        access = IcebergAccess(self.warehouse / table)
        by_spark = access.by_spark(self.spark).to_pylist()
        order = repr
        assert sorted(access.by_second_engine().to_pylist(), key=order) == sorted(by_spark, key=order)
        return sorted(by_spark, key=lambda row: row["id"])


@pytest.fixture
def lake(props: dict[str, str], run: Any, topic: Any, tmp_path: Path) -> Iterator[IcebergLake]:
    created = IcebergLake(props, run, topic, tmp_path / "warehouse")
    yield created
    if created.task_run is not None:
        created.task_run.task.close()
    created.lease.release()


NESTED = field(
    "s",
    "struct",
    fields=[field("a", "int8"), field("l", "array", items={"type": "int16", "optional": True})],
)
ALL = (
    field("id", "int64"),
    field("b", "boolean"),
    field("tiny", "int8"),
    field("small", "int16"),
    field("f", "float"),
    field("d", "double"),
    field("text", "string"),
    field("bytes", "bytes"),
    field("price", "bytes", name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}),
    field("day", "int32", name="org.apache.kafka.connect.data.Date"),
    field("at", "int64", name="org.apache.kafka.connect.data.Timestamp"),
    field("wall", "int64", name="io.debezium.time.MicroTimestamp"),
    NESTED,
    field("m", "map", keys={"type": "string"}, values={"type": "int8", "optional": True}),
)
FULL = {
    "id": 2**62, "b": True, "tiny": -128, "small": 32767, "f": 1.5, "d": -0.1, "text": "ä\U0001f600", "bytes": "AP8=",
    "price": "/5w=", "day": -719162, "at": 1_700_000_000_123, "wall": -1, "s": {"a": 5, "l": [1, None, 3]},
    "m": {"k": 7, "n": None},
}  # fmt: skip


@pytest.mark.parametrize("version", first_fast(["3", "2"]))
def test_every_type_is_written_without_loss_and_read_by_two_engines(lake: IcebergLake, version: str) -> None:
    lake.props["table.properties.format-version"] = version
    lake.write(FULL, {"id": 3}, fields=ALL)
    empty, full = lake.rows()
    assert set(empty.values()) == {3, None}
    assert full == {
        "id": 2**62,
        "b": True,
        "tiny": -128,
        "small": 32767,
        "f": 1.5,
        "d": -0.1,
        "text": "ä\U0001f600",
        "bytes": b"\x00\xff",
        "price": Decimal("-1.00"),
        "day": dt.date(1, 1, 1),
        "at": dt.datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        "wall": dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        "s": {"a": 5, "l": [1, None, 3]},
        "m": [("k", 7), ("n", None)],
    }


TERMS = "flag, bucket(4, id), truncate(v, 2), years(created), months(born), days(at), hours(wall)"
PARTITIONED = (
    ID,
    field("flag", "boolean"),
    V,
    field("created", "int32", name="org.apache.kafka.connect.data.Date"),
    field("born", "int32", name="org.apache.kafka.connect.data.Date"),
    field("at", "int64", name="org.apache.kafka.connect.data.Timestamp"),
    field("wall", "int64", name="io.debezium.time.MicroTimestamp"),
)


def partitioned_row(i: int, v: str) -> dict[str, Any]:
    """Its times are around 1970, and in all units before it, too."""
    moment = {"created": (i - 5) * 200, "born": (i - 5) * 20, "at": (i - 5) * 43_200_000 + 1, "wall": (i - 5) * 1_800_000_000 - 1}
    return {"id": i, "flag": i % 2 == 0, "v": v, **moment}


@pytest.mark.parametrize("version", first_fast(["2", "3", "1"]))
def test_rows_are_in_the_partitions_where_spark_and_pyiceberg_look_for_them(lake: IcebergLake, version: str) -> None:
    lake.start(partition_columns=TERMS, write_mode="upsert", key_columns="id", **{"table.properties.format-version": version})
    nulls = dict.fromkeys(name["field"] for name in PARTITIONED) | {"id": 99}
    lake.write(*(partitioned_row(i, f"{i % 3}äb") for i in range(3, 8)), nulls, fields=PARTITIONED)
    lake.write(partitioned_row(4, "moved"), fields=PARTITIONED)
    name = lake.access.name
    found = lake.sql(f"SELECT partition.* FROM {name}.files")
    # Spark writes the same rows into a table of its own.
    lake.sql(f"CREATE TABLE {CATALOG}.copy USING iceberg PARTITIONED BY ({TERMS}) AS SELECT * FROM {name}")
    expected = lake.sql(f"SELECT partition.* FROM {CATALOG}.copy.files")
    assert {repr(sorted(row.items())) for row in expected} <= {repr(sorted(row.items())) for row in found}
    # PyIceberg reads only files of partitions that may have such rows.
    rows = lake.rows()
    assert len(rows) == 6
    for column in (member["field"] for member in PARTITIONED):
        for value in {row[column] for row in rows}:
            where = f"{column} IS NULL" if value is None else f"{column} = {literal(value)}"
            ids = sorted(lake.access.by_second_engine(where)["id"].to_pylist())
            assert ids == [other["id"] for other in rows if other[column] == value], where
    # Another spec for new files; that of format version 1 keeps the field, as void.
    table = lake.spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lake.spark._jsparkSession, name)
    table.updateSpec().removeField("at_day").commit()
    lake.write(partitioned_row(5, "x"), fields=PARTITIONED)
    assert [row["v"] for row in lake.rows() if row["id"] in (4, 5)] == ["moved", "x"]


def literal(value: Any) -> str:
    """A value in a condition of PyIceberg."""
    if isinstance(value, dt.date):
        return f"'{value.isoformat()}'"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def test_columns_are_added_and_widened(lake: IcebergLake) -> None:
    lake.write({"id": 1, "v": "a"})
    more = field("more", "struct", fields=[field("x", "int32")])
    lake.write({"id": 2, "v": "b", "more": {"x": 1}}, fields=(ID, V, more))
    deeper = field("more", "struct", fields=[field("x", "int32"), field("y", "string")])
    lake.write({"id": 3, "v": "c", "more": {"x": 2, "y": "z"}}, fields=(ID, V, deeper))
    lake.restart(schema_evolution="widen")
    lake.write({"id": 2**40, "v": "d"}, fields=(field("id", "int64"), V))
    assert lake.rows() == [
        {"id": 1, "v": "a", "more": None},
        {"id": 2, "v": "b", "more": {"x": 1, "y": None}},
        {"id": 3, "v": "c", "more": {"x": 2, "y": "z"}},
        {"id": 2**40, "v": "d", "more": None},
    ]


@pytest.mark.long
def test_a_column_that_spark_renamed_keeps_its_values_in_an_upsert(lake: IcebergLake) -> None:
    lake.start(write_mode="upsert", key_columns="id")
    placeholder = "__debezium_unavailable_value"
    lake.write({"id": 1, "v": "large"}, {"id": 2, "v": "b"})
    lake.sql(f"ALTER TABLE {lake.access.name} RENAME COLUMN v TO w")
    renamed = (ID, field("w", "string"))
    lake.write({"id": 1, "w": placeholder}, {"id": 2, "w": "c"}, fields=renamed)
    assert lake.rows() == [{"id": 1, "w": "large"}, {"id": 2, "w": "c"}]


@pytest.mark.usefixtures("no_maintenance_thread")
@pytest.mark.long
def test_files_without_ids_keep_their_values_in_upserts_and_merges(lake: IcebergLake, tmp_path: Path) -> None:
    name, plain = lake.access.name, tmp_path / "plain"
    columns = "id INT, v STRING, note STRING, day DATE"
    lake.sql(f"CREATE TABLE {name} ({columns}) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ('format-version' = '3')")
    row = "CAST(id AS INT) AS id, concat('large', id) AS v, 'dropped' AS note, DATE'2026-05-06' AS day"
    lake.spark.sql(f"SELECT {row} FROM range(0, 3, 1, 1)").write.partitionBy("day").parquet(str(plain))
    lake.sql(f"CALL {CATALOG}.system.add_files(table => 't', source_table => '`parquet`.`{plain}`')")
    for change in ("RENAME COLUMN v TO w", "DROP COLUMN note", "ADD COLUMN note STRING"):
        lake.sql(f"ALTER TABLE {name} {change}")
    before = sorted(lake.access.by_spark(lake.spark).to_pylist(), key=lambda row: row["id"])
    assert [(row["w"], row["day"]) for row in before] == [(f"large{number}", dt.date(2026, 5, 6)) for number in range(3)]
    lake.start(write_mode="upsert", key_columns="id", missing_columns="keep", compaction_min_files="2")
    placeholder = "__debezium_unavailable_value"
    lake.write({"id": 0, "w": placeholder}, {"id": 1, "w": "c"}, fields=(ID, field("w", "string")))
    lake.task_run.task.sink.tables.queue("t").writer.maintain(lambda: False)
    assert len(lake.sql(f"SELECT 1 FROM {name}.data_files")) == 1
    assert lake.rows() == [before[0], {**before[1], "w": "c"}, before[2]]


@pytest.mark.long
@pytest.mark.usefixtures("no_maintenance_thread")
def test_rows_keep_their_ids_when_files_are_merged(lake: IcebergLake) -> None:
    lake.start(write_mode="upsert", key_columns="id", compaction_min_files="3")
    for number in range(6):
        lake.write({"id": number % 4, "v": str(number)}, {"id": number + 10, "v": "x"})
    before = lake.sql(f"SELECT id, _row_id, _last_updated_sequence_number AS at FROM {lake.access.name} ORDER BY id")
    table = lake.task_run.task.sink.tables.queue("t")
    files = len(lake.sql(f"SELECT 1 FROM {lake.access.name}.data_files"))
    table.writer.maintain(lambda: False)
    assert len(lake.sql(f"SELECT 1 FROM {lake.access.name}.data_files")) < files
    assert lake.sql(f"SELECT id, _row_id, _last_updated_sequence_number AS at FROM {lake.access.name} ORDER BY id") == before
    lake.write({"id": 0, "v": "after"})
    assert lake.rows()[0] == {"id": 0, "v": "after"}


def test_position_deletes_of_spark_are_respected(lake: IcebergLake) -> None:
    lake.start(write_mode="upsert", key_columns="id", **{"table.properties.format-version": "2"})
    lake.sql(
        f"CREATE TABLE {lake.access.name} (id INT, v STRING) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    lake.write(*({"id": i, "v": "a"} for i in range(10)))
    lake.sql(f"DELETE FROM {lake.access.name} WHERE id = 3")
    assert lake.sql(f"SELECT content FROM {lake.access.name}.delete_files") == [{"content": 1}]
    lake.restart()
    lake.write({"id": 3, "v": "b"}, {"id": 4, "v": "b"})
    assert {row["id"]: row["v"] for row in lake.rows()} == {i: "b" if i in (3, 4) else "a" for i in range(10)}


@pytest.mark.parametrize("version", first_fast(["3", "2"]))
def test_versions_and_changelog(lake: IcebergLake, version: str) -> None:
    lake.start(write_mode="scd2", key_columns="id", **{"table.properties.format-version": version})
    lake.props["table.properties.format-version"] = version
    lake.write({"id": 1, "v": "a"})
    lake.write({"id": 1, "v": "b"})
    assert sorted((row["v"], row["__current"]) for row in lake.rows()) == [("a", False), ("b", True)]
    lake.task_run.task.close()
    lake.topic.name = "u"
    lake.group.clear()
    lake.props |= {"topics": "u"}
    lake.start(write_mode="both", metadata_columns="__offset")
    lake.write()
    assert [row["v"] for row in lake.rows("u")] == ["b"]
    assert sorted((row["__offset"], row["v"]) for row in lake.rows("u_changelog")) == [(0, "a"), (1, "b")]


def test_a_task_continues_where_the_table_ends_and_offsets_are_moved_over_rest(lake: IcebergLake) -> None:
    lake.start(write_mode="upsert", key_columns="id")
    lake.write({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    lake.group.clear()
    lake.restart()
    assert lake.task_run.position == {TP: 2}
    lake.task_run.task.close()
    assert SparkSink().alter_offsets(lake.props, {TP: 1})
    lake.start()
    assert lake.task_run.position == {TP: 1}
    lake.write({"id": 1, "v": "c"})
    assert lake.rows() == [{"id": 1, "v": "c"}, {"id": 2, "v": "b"}]


def test_tables_of_others_at_the_location_do_not_block_changes_of_offsets(
    lake: IcebergLake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    location = tmp_path / "lake"
    lake.props = {k: v for k, v in lake.props.items() if k != "table.catalog"} | {"table.location": str(location)}
    lake.start(write_mode="upsert", key_columns="id", **{"table.name.format": "renamed"})
    lake.write({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    lake.task_run.task.close()
    lake.props |= {"table.name.format": "${table}"}
    for name, before, after in (("cut", '"format-version"', ""), ("other", "", ""), ("types", '"string"', '"new"')):
        metadata = location / name / "metadata"
        shutil.copytree(location / "renamed" / "metadata", metadata)
        for path in metadata.glob(".*.crc"):
            path.unlink()
        for path in metadata.glob("v*.metadata.json"):
            text = path.read_text().replace("sluice.connector.lake", "sluice.connector.other").replace(before, after)
            path.write_text(text.replace("sluice.offsets.lake", "sluice.offsets.other"))
    assert SparkSink().alter_offsets(lake.props, {TP: 1})
    assert {message.partition(" at ")[0] for message in caplog.messages if "is skipped" in message} == {
        "Table cut",
        "Table types",
    }
    lake.props |= {"table.name.format": "renamed"}
    lake.start()
    assert lake.task_run.position == {TP: 1}


def test_offsets_survive_other_writers_and_expired_snapshots(lake: IcebergLake) -> None:
    lake.start(write_mode="upsert", key_columns="id")
    lake.write({"id": 1, "v": "a"})
    lake.sql(f"INSERT INTO {lake.access.name} VALUES (7, 'other')")
    # Offsets are written again on top of the other writer's snapshot.
    lake.task_run.task.sink.tables.queue("t").writer.maintain(lambda: False)
    lake.sql(EXPIRE)
    lake.group.clear()
    lake.restart()
    assert lake.task_run.position == {TP: 1}
    lake.write({"id": 7, "v": "mine"})
    assert lake.rows() == [{"id": 1, "v": "a"}, {"id": 7, "v": "mine"}]


@pytest.mark.long
@pytest.mark.usefixtures("no_maintenance_thread")
def test_a_new_task_expires_the_snapshots_that_the_table_no_longer_keeps(lake: IcebergLake) -> None:
    properties = {"max-snapshot-age-ms": "1", "min-snapshots-to-keep": "1"}
    more = {f"table.properties.history.expire.{name}": value for name, value in properties.items()}
    lake.start(**more, **{"vacuum.interval.ms": "1"})
    for number in range(3):
        lake.write({"id": number, "v": "a"})
    first = snapshots(lake)[0]
    table = lake.spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lake.spark._jsparkSession, lake.access.name)
    table.manageSnapshots().createTag("kept", first).commit()
    lake.restart()
    lake.write({"id": 3, "v": "a"})
    before = snapshots(lake)
    lake.task_run.task.sink.tables.queue("t").writer.maintain(lambda: False)
    assert len(before) == 4
    assert snapshots(lake) == [before[0], before[3]]
    assert [row["id"] for row in lake.rows()] == [0, 1, 2, 3]


def snapshots(lake: IcebergLake) -> list[int]:
    return [row["snapshot_id"] for row in lake.sql(f"SELECT snapshot_id FROM {lake.access.name}.snapshots ORDER BY committed_at")]


@pytest.mark.long
def test_a_snapshot_may_expire_while_an_upsert_is_prepared(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task has taken over and commits the same changes."""
    lake.start(write_mode="upsert", key_columns="id")
    lake.write({"id": 1, "v": "a"})
    others: list[Any] = []

    def take_over(point: str) -> None:
        if point == "spark.staged" and not others:
            others.append(lake._new_run(lake.props, [lake.topic], raw=True, group=lake.group))
            others[0].deliver()
            others[0].task.close()
            lake.sql(EXPIRE)

    monkeypatch.setattr(crash_points, "point", take_over)
    lake.write({"id": 1, "v": "b"})
    assert others
    lake.write({"id": 2, "v": "c"})
    assert lake.rows() == [{"id": 1, "v": "b"}, {"id": 2, "v": "c"}]


@pytest.mark.long
def test_files_may_be_rewritten_while_an_upsert_is_prepared(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vector of the upsert is for a file that another writer has just replaced."""
    lake.props["table.properties.format-version"] = "3"
    lake.start(write_mode="upsert", key_columns="id")
    lake.write(*({"id": id_, "v": "a"} for id_ in range(4)))
    lake.write(*({"id": id_, "v": "a"} for id_ in range(4, 8)))
    rewritten: list[None] = []

    def rewrite(point: str) -> None:
        if point == "spark.staged" and not rewritten:
            rewritten.append(None)
            IcebergAccess(lake.warehouse / "t").change(lake.spark, "OPTIMIZE")

    monkeypatch.setattr(crash_points, "point", rewrite)
    lake.write({"id": 1, "v": "b"})
    assert rewritten
    lake.write({"id": 2, "v": "b"}, {"id": 5, "v": "b"})
    assert lake.rows() == [{"id": id_, "v": "b" if id_ in (1, 2, 5) else "a"} for id_ in range(8)]


@pytest.mark.long
def test_a_snapshot_may_expire_while_its_files_are_listed(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task has taken over, as above; this one has no index of the table yet."""
    lake.start(write_mode="upsert", key_columns="id")
    lake.write({"id": 1, "v": "a"})
    lake.restart()
    others: list[Any] = []
    files = IcebergHandle.files

    def take_over(handle: IcebergHandle, snapshot: int) -> Any:
        if not others:
            others.append(lake._new_run(lake.props, [lake.topic], raw=True, group=lake.group))
            others[0].deliver()
            others[0].task.close()
            lake.sql(EXPIRE)
        return files(handle, snapshot)

    monkeypatch.setattr(IcebergHandle, "files", take_over)
    lake.write({"id": 1, "v": "b"})
    assert others
    lake.write({"id": 2, "v": "c"})
    assert lake.rows() == [{"id": 1, "v": "b"}, {"id": 2, "v": "c"}]


@pytest.mark.long
def test_offsets_that_are_lost_while_an_upsert_is_prepared_are_noticed(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have been those of another task."""
    lake.start(write_mode="upsert", key_columns="id")
    lake.write({"id": 1, "v": "a"})
    statements = [f"INSERT INTO {lake.access.name} VALUES (7, 'other')", EXPIRE]

    def change(point: str) -> None:
        while point == "spark.staged" and statements:
            lake.sql(statements.pop(0))

    monkeypatch.setattr(crash_points, "point", change)
    lake.refuses({"id": 1, "v": "b"}, match=r"table lake\.t has rows of connector lake, but .*\(PATCH")


@pytest.mark.long
def test_lost_offsets_are_noticed_until_they_are_set(lake: IcebergLake) -> None:
    lake.write({"id": 1, "v": "a"})
    lake.task_run.task.close()
    lake.sql(f"INSERT INTO {lake.access.name} VALUES (7, 'other')")
    lake.sql(EXPIRE)
    with pytest.raises(ConnectError, match=r"table lake\.t has rows of connector lake, but .*\(PATCH"):
        lake.start()
    assert SparkSink().alter_offsets(lake.props, {TP: 1})
    lake.group[TP] = 1  # by the worker
    lake.start()
    lake.write({"id": 2, "v": "b"})
    assert [row["id"] for row in lake.rows()] == [1, 2, 7]
    lake.restart()
    assert lake.task_run.position == {TP: 2}


def test_a_table_that_somebody_overwrites_is_written_before_the_first_offsets_and_after_they_are_set(lake: IcebergLake) -> None:
    def overwrite(number: int) -> None:
        lake.spark.sql(f"SELECT {number} AS id, 'other' AS v").writeTo(lake.access.name).overwritePartitions()

    lake.sql(f"CREATE TABLE {lake.access.name} (id INT, v STRING) USING iceberg")
    overwrite(7)
    lake.write({"id": 1, "v": "a"})
    assert [row["id"] for row in lake.rows()] == [1, 7]
    overwrite(8)
    lake.refuses({"id": 2, "v": "b"}, match="another writer replaced the table's rows")
    lake.task_run.task.close()
    assert SparkSink().alter_offsets(lake.props, {TP: 1})
    lake.group[TP] = 1  # by the worker
    lake.start()
    lake.write({"id": 3, "v": "c"})
    assert [row["id"] for row in lake.rows()] == [2, 3, 8]


def test_rollback_stops_the_task_and_the_next_one_writes_again(lake: IcebergLake) -> None:
    lake.write({"id": 1, "v": "a"})
    (first,) = lake.sql(f"SELECT snapshot_id FROM {lake.access.name}.snapshots")
    lake.write({"id": 2, "v": "b"})
    lake.sql(f"CALL {CATALOG}.system.rollback_to_snapshot('t', {first['snapshot_id']})")
    lake.refuses({"id": 3, "v": "c"}, match=r"table lake\.t was rolled back .* Restart the task")
    lake.restart()
    lake.write()
    assert [row["id"] for row in lake.rows()] == [1, 2, 3]


@pytest.mark.long
def test_rollback_is_noticed_behind_a_commit_of_another_writer(lake: IcebergLake) -> None:
    lake.write({"id": 1, "v": "a"})
    (first,) = lake.sql(f"SELECT snapshot_id FROM {lake.access.name}.snapshots")
    lake.write({"id": 2, "v": "b"})
    lake.sql(f"CALL {CATALOG}.system.rollback_to_snapshot('t', {first['snapshot_id']})")
    lake.sql(f"INSERT INTO {lake.access.name} VALUES (7, 'other')")
    lake.sql(f"INSERT INTO {lake.access.name} VALUES (8, 'other')")
    lake.refuses({"id": 3, "v": "c"}, match=r"table lake\.t was rolled back .* Restart the task")
    lake.restart()
    lake.write()
    assert [row["id"] for row in lake.rows()] == [1, 2, 3, 7, 8]


@pytest.mark.parametrize("version", first_fast(["3", "2"]))
def test_a_branch_has_rows_and_offsets_of_its_own(lake: IcebergLake, version: str) -> None:
    lake.start(write_mode="upsert", key_columns="id", **{"table.properties.format-version": version})
    lake.write({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    lake.restart(**{"table.branch": "audit", "compaction.min.files": "2"})
    assert lake.task_run.position == {TP: 2}  # the branch will begin with the rows of main
    lake.write({"id": 2, "v": "c"}, {"id": 3, "v": "d"})
    lake.write({"id": 3, "v": "e"})
    writer = lake.task_run.task.sink.tables.queue("t").writer
    writer.maintain(lambda: False)
    lake.group.clear()
    lake.restart()
    assert lake.task_run.position == {TP: 5}
    lake.write({"id": 1, "v": "f"})

    def rows(what: str) -> list[tuple[int, str]]:
        return [(row["id"], row["v"]) for row in lake.sql(f"SELECT * FROM {lake.access.name} {what} ORDER BY id")]

    assert rows("VERSION AS OF 'audit'") == [(1, "f"), (2, "c"), (3, "e")]
    assert rows("") == [(1, "a"), (2, "b")]
    assert SparkSink().alter_offsets(lake.props, {TP: 4})
    lake.restart()
    assert lake.task_run.position == {TP: 4}
    lake.sql(f"CALL {CATALOG}.system.fast_forward('t', 'main', 'audit')")
    lake.restart(**{"table.branch": "main"})
    assert lake.task_run.position == {TP: 4}
    assert rows("") == [(1, "f"), (2, "c"), (3, "e")]


def test_a_tag_is_no_branch(lake: IcebergLake) -> None:
    lake.write({"id": 1, "v": "a"})
    assert lake.rows() == [{"id": 1, "v": "a"}]
    table = lake.spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lake.spark._jsparkSession, lake.access.name)
    table.manageSnapshots().createTag("release", table.currentSnapshot().snapshotId()).commit()
    lake.task_run.task.close()
    with pytest.raises(ConnectError, match="release is a tag of the table"):
        lake.start(**{"table.branch": "release"})


def test_a_table_that_was_dropped_is_named(lake: IcebergLake) -> None:
    lake.write({"id": 1, "v": "a"})
    lake.sql(f"DROP TABLE {lake.access.name}")
    lake.refuses({"id": 2, "v": "b"}, match=r"table lake\.t was dropped while the connector was writing it")


def test_a_table_that_was_dropped_and_created_again_is_named(lake: IcebergLake) -> None:
    lake.write({"id": 1, "v": "a"})
    lake.sql(f"DROP TABLE {lake.access.name}")
    lake.sql(f"CREATE TABLE {lake.access.name} (id INT, v STRING) USING iceberg")
    lake.refuses({"id": 2, "v": "b"}, match=r"table lake\.t was dropped and created again")
    # A task that is stopping commits once more.
    lake.refuses(match=r"table lake\.t was dropped and created again")
    assert lake.rows() == []


def test_a_table_of_somebody_else_must_fit(lake: IcebergLake) -> None:
    lake.sql(f"CREATE TABLE {lake.access.name} (id DATE, v STRING NOT NULL) USING iceberg")
    lake.refuses({"id": 1, "v": "a"}, match=r"column id is DATE in the table, but INT in the records")


def test_a_record_without_a_required_value_is_named_and_errant(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql(f"CREATE TABLE {lake.access.name} (id INT, v STRING NOT NULL) USING iceberg")
    lake.refuses({"id": 1, "v": None}, match=r"offset 0: column v is required in the table")
    reporter = MemoryReporter()
    monkeypatch.setattr(Context, "errant_record_reporter", reporter)
    lake.restart(errors_tolerance="all")
    lake.write({"id": 2, "v": "a"}, {"id": 3, "v": None})
    assert lake.rows() == [{"id": 2, "v": "a"}]
    assert [record.offset for record, _ in reporter.reported_raw] == [0, 2]


def test_equality_deletes_are_refused(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    from connectors.spark.tables.iceberg.library import IcebergHandle

    lake.start(write_mode="upsert", key_columns="id")
    lake.write({"id": 1, "v": "a"})
    files = IcebergHandle.files

    def with_deletes(handle: IcebergHandle, snapshot: int) -> list[Any]:
        delete = {"content": "EQUALITY_DELETES", "format": "PARQUET", "path": "d.parquet"}
        return [{**entry, "deletes": [delete]} for entry in files(handle, snapshot)]

    # No engine here writes them.
    monkeypatch.setattr(IcebergHandle, "files", with_deletes)
    lake.restart()
    lake.refuses({"id": 1, "v": "b"}, match=r"equality deletes in d\.parquet .* rewrite the data files")


@pytest.mark.parametrize(
    ("own", "match"),
    [
        ({"table.catalog": "nowhere"}, r"there is no catalog nowhere: set spark\.conf\.spark\.sql\.catalog\.nowhere="),
        (
            {
                "table.catalog": "down.db",
                "spark.conf.spark.sql.catalog.down": "org.apache.iceberg.spark.SparkCatalog",
                "spark.conf.spark.sql.catalog.down.type": "rest",
                "spark.conf.spark.sql.catalog.down.uri": "http://127.0.0.1:1",
            },
            r"the catalog down cannot be opened: .*Connect.* check the properties spark\.conf\.spark\.sql\.catalog\.down",
        ),
        (
            {
                "table.catalog": "odd",
                "spark.conf.spark.sql.catalog.odd": "org.apache.iceberg.spark.SparkCatalog",
                "spark.conf.spark.sql.catalog.odd.type": "unheard-of",
            },
            r"the catalog odd cannot be opened: .*unheard-of",
        ),
    ],
)
def test_a_catalog_that_cannot_be_opened_is_named(lake: IcebergLake, own: dict[str, str], match: str) -> None:
    lake.props |= own
    lake.refuses({"id": 1, "v": "a"}, match=match)


def test_tables_at_a_location_need_no_catalog(lake: IcebergLake, tmp_path: Path, read: Callable[..., Any]) -> None:
    del lake.props["table.catalog"]
    lake.props["table.location"] = str(tmp_path / "place")
    lake.start(write_mode="upsert", key_columns="id")
    lake.write({"id": 1, "v": "a"}, {"id": 1, "v": "b"})
    lake.write({"id": 2, "v": "c"})
    found = lake.spark.read.format("iceberg").load(str(tmp_path / "place" / "t")).toArrow().to_pylist()
    assert sorted(row["v"] for row in found) == ["b", "c"]


def test_offsets_are_in_the_summary_of_each_snapshot(lake: IcebergLake) -> None:
    lake.write({"id": 1, "v": "a"})
    lake.write({"id": 2, "v": "b"})
    summaries = [row["summary"] for row in lake.sql(f"SELECT summary FROM {lake.access.name}.snapshots ORDER BY committed_at")]
    ends = [list(json.loads(summary["sluice.offsets.lake"]).values()) for summary in summaries]
    assert ends == [[1], [2]]
