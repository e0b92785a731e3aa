"""Tables that Spark writes: locks, the sequence of commits, and tables that the worker has written before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.config import WantedLayout
from connectors.spark.decode.change_batch import OLD_KEY
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.plan.truncates import TruncatePoint
from connectors.spark.tables.application_ids import spark_writer_id
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import UnsuitableTable
from connectors.spark.tables.delta.sql_table import DeltaSqlTable
from connectors.spark.tables.delta.transaction import transaction_action
from connectors.spark.tables.staging import Staging, local_folder
from connectors.spark.tables.table import Upsert
from connectors.spark.tables.table_lock import commit_lock
from tests.unit.connectors.spark.tables.delta.fake_delta import SCHEMA, TP, FakeDelta, offsets, rows

WRITER = spark_writer_id("c", "t")


class FakeSpark:
    """A session that commits to the table's log, and remembers whether the lock of commits was held meanwhile."""

    def __init__(self, delta: FakeDelta) -> None:
        self._delta = delta
        self._settings: dict[str, str] = {}
        self.has_history = True
        self.commits: list[tuple[str, bool]] = []
        self.sequences: list[str] = []
        self.schemas: list[str] = []
        """Of the rows that are written."""
        self.merges: list[str] = []
        self.before_commit: Callable[[], object] = lambda: None
        """What another writer does after the table was read."""
        self.conf = SimpleNamespace(
            set=self._settings.__setitem__, unset=lambda key: self._settings.pop(key, None), get=self._settings.get
        )
        self.catalog = SimpleNamespace(dropTempView=lambda name: None)

    @property
    def read(self) -> Any:
        staged = SimpleNamespace(write=_Writer(self), createOrReplaceTempView=lambda name: None)

        def with_schema(schema: str) -> Any:
            self.schemas.append(schema)
            return SimpleNamespace(parquet=lambda uri: staged)

        return SimpleNamespace(schema=with_schema)

    def createDataFrame(self, rows: list[Any], schema: str) -> Any:
        assert rows == []
        self.schemas.append(schema)
        return SimpleNamespace(write=_Writer(self))

    def sql(self, statement: str) -> Any:
        if statement.startswith("DESCRIBE HISTORY"):
            newest_first = [info.get("userMetadata") for info in self._delta.actions("commitInfo")][::-1]
            return _Answer([{"userMetadata": text} for text in newest_first if self.has_history])
        self.merges += [statement] if statement.startswith("MERGE") else []
        prefix = "spark.databricks.delta."
        settings = {name: self._settings.get(prefix + name, "") for name in ("write.txnVersion", "commitInfo.userMetadata")}
        return self.committed(statement.split()[0], *settings.values())

    def committed(self, what: str, sequence: str, user_metadata: str) -> None:
        with commit_lock(local_folder(f"{self._delta.folder}/_delta_log")).tried() as is_free:
            self.commits.append((what, not is_free))
        self.sequences.append(sequence)
        read_version = self._delta.version
        self.before_commit()
        # ALTER TABLE neither compares nor records a transaction identifier.
        records = [transaction_action(WRITER, int(sequence))] if sequence and what != "ALTER" else []
        if records and self._delta.transactions().get(WRITER, 0) >= int(sequence):
            return
        version = self._delta.commit(records, operation=what, readVersion=read_version, userMetadata=user_metadata)
        self._settings["spark.databricks.delta.lastCommitVersionInSession"] = str(version)


class _Answer:
    def __init__(self, found: list[Any]) -> None:
        self._found = found

    def select(self, *names: str) -> _Answer:
        return self

    def collect(self) -> list[Any]:
        return self._found


class _Writer:
    def __init__(self, spark: FakeSpark) -> None:
        self._spark = spark
        self._options: dict[str, str] = {}

    def format(self, name: str) -> _Writer:
        return self

    mode = format

    def option(self, name: str, value: str) -> _Writer:
        self._options[name] = value
        return self

    def save(self, path: str) -> None:
        assert self._options["partitionOverwriteMode"] == "static"
        self._spark.committed("WRITE", self._options["txnVersion"], self._options["userMetadata"])


@pytest.fixture
def delta(tmp_path: Path) -> FakeDelta:
    return FakeDelta(tmp_path / "t")


@pytest.fixture
def spark(delta: FakeDelta) -> FakeSpark:
    return FakeSpark(delta)


@pytest.fixture
def new_table(delta: FakeDelta, spark: FakeSpark) -> Callable[[], DeltaSqlTable]:
    """Opens the table as a new task does."""
    staging = Staging(str(delta.folder.parent), "c-0")
    session: Any = spark
    return lambda: DeltaSqlTable(session, str(delta.folder), "t", "c", staging, WantedLayout(), fail_unavailable=False)


@pytest.fixture
def table(new_table: Callable[[], DeltaSqlTable]) -> DeltaSqlTable:
    return new_table()


def upsert(*, truncates: bool = False) -> Upsert:
    found = rows(1)
    deleted = pa.chunked_array([pa.array([False])])
    changes = DeduplicatedChanges(found, found, deleted, {}, TruncatePoint(found) if truncates else None)
    return Upsert(found, changes, ("id",), {"id": pa.int64()}, soft_deletes=True)


@pytest.mark.parametrize(
    ("commit", "statements"),
    [
        (lambda table: table.append(rows(1), offsets(0, 1)), ["WRITE"]),
        (lambda table: table.upsert(upsert(), offsets(0, 1)), ["MERGE"]),
        (lambda table: table.upsert(upsert(truncates=True), offsets(0, 1)), ["WRITE"]),
        (lambda table: table.add_columns([("`v`", pa.string())], {}, {}), ["ALTER"]),
        (lambda table: table.widen_columns([("`id`", pa.int64())]), ["ALTER", "ALTER"]),
        (lambda table: table.move_offsets({TP: 3}), ["WRITE"]),
    ],
    ids=["append", "merge", "truncate", "new columns", "wider columns", "offsets"],
)
def test_spark_commits_with_the_lock_that_the_worker_takes(
    table: DeltaSqlTable, spark: FakeSpark, commit: Callable[[DeltaSqlTable], Any], statements: list[str]
) -> None:
    table.load([TP])
    commit(table)
    assert spark.commits == [(name, True) for name in statements]


def test_sequence_goes_on_when_the_history_has_expired(table: DeltaSqlTable, delta: FakeDelta, spark: FakeSpark) -> None:
    delta.commit([transaction_action(WRITER, 57)])
    assert table.load([TP]).ends == {}
    assert table.append(rows(1), offsets(0, 1)) is not None
    assert table.load([TP]).ends == {TP: 1}
    spark.has_history = False
    assert table.load([TP]).ends == {}
    assert table.append(rows(1), offsets(9, 10)) is not None
    assert spark.sequences == ["58", "59"]


REPLACEMENTS: list[dict[str, Any]] = [
    {"operation": "RESTORE"},
    {"operation": "TRUNCATE"},
    {"operation": "CREATE OR REPLACE TABLE AS SELECT"},
    {"operation": "WRITE", "operationParameters": {"mode": "Overwrite", "predicate": "[]"}},
]


def replace_rows(delta: FakeDelta, info: dict[str, Any]) -> None:
    delta.commit([{"remove": {"path": "a.parquet", "dataChange": True}}], **info)


@pytest.mark.parametrize("info", REPLACEMENTS, ids=lambda info: info["operation"])
def test_replaced_rows_stop_the_task_and_those_after_it_until_offsets_are_set(
    new_table: Callable[[], DeltaSqlTable], delta: FakeDelta, spark: FakeSpark, info: dict[str, Any]
) -> None:
    table = new_table()
    table.load([TP])
    table.append(rows(1), offsets(0, 1))
    replace_rows(delta, info)
    calls: list[Callable[[], object]] = [
        lambda: table.append(rows(2), offsets(1, 2)),
        lambda: table.upsert(upsert(), offsets(1, 2)),
        lambda: table.upsert(upsert(truncates=True), offsets(1, 2)),
        lambda: table.add_columns([("`v`", pa.string())], {}, {}),
        lambda: table.widen_columns([("`id`", pa.int64())]),
        lambda: table.set_keys(["id"]),
        lambda: table.load([TP]),
        lambda: new_table().load([TP]),
    ]
    for call in calls:
        with pytest.raises(ConnectError, match=rf"{info['operation']} replaced the table's rows in version 2.*PATCH"):
            call()
    assert len(spark.commits) == 1
    assert new_table().stored_ends() == {TP: 1}
    new_table().move_offsets({TP: None})
    assert new_table().load([TP]).ends == {}


def test_rows_that_are_replaced_during_a_commit_stop_the_task_afterwards(
    new_table: Callable[[], DeltaSqlTable], delta: FakeDelta, spark: FakeSpark
) -> None:
    table = new_table()
    table.load([TP])
    table.append(rows(1), offsets(0, 1))
    spark.before_commit = lambda: replace_rows(delta, {"operation": "RESTORE"})
    table.append(rows(2), offsets(1, 2))
    for call in (lambda: table.append(rows(3), offsets(2, 3)), lambda: new_table().load([TP])):
        with pytest.raises(ConnectError, match="RESTORE replaced the table's rows in version 2"):
            call()


def test_a_truncate_of_the_connector_and_commits_of_others_stop_nothing(
    new_table: Callable[[], DeltaSqlTable], delta: FakeDelta
) -> None:
    table = new_table()
    table.load([TP])
    table.upsert(upsert(truncates=True), offsets(0, 1))
    delta.commit([{"remove": {"path": "a.parquet"}}], operation="DELETE")
    delta.alter({"a": "b"})
    assert table.append(rows(2), offsets(1, 2)) is not None
    assert new_table().load([TP]).ends == {TP: 2}


@pytest.mark.parametrize("is_created", [True, False])
def test_a_table_that_is_dropped_while_the_task_runs_stops_it(table: DeltaSqlTable, delta: FakeDelta, is_created: bool) -> None:
    table.load([TP])
    table.append(rows(1), offsets(0, 1))
    for path in (delta.folder / "_delta_log").glob("*.json"):
        path.unlink()
    if is_created:
        metadata = {"id": "another", "schemaString": json.dumps(SCHEMA), "partitionColumns": [], "configuration": {}}
        delta.commit([{"metaData": metadata}])
        delta.commit([])
        delta.commit([])
    explained = "was dropped and created again while" if is_created else "was dropped while"
    for call in (lambda: table.append(rows(2), offsets(1, 2)), lambda: table.load([TP])):
        with pytest.raises(ConnectError, match=explained):
            call()


OF_OTHER = TopicPartition("u", 3)


def commit_of_other(delta: FakeDelta, sequence: int) -> None:
    document = TableCommit("other", sequence, {}, {OF_OTHER: 5, TopicPartition("reset", 0): None})
    delta.commit([transaction_action(spark_writer_id("other", "t"), sequence)], userMetadata=document.to_json())


def test_the_partitions_of_all_connectors_that_write_the_table_are_known(
    new_table: Callable[[], DeltaSqlTable], delta: FakeDelta, spark: FakeSpark
) -> None:
    table = new_table()
    assert table.load([TP]).feeds == frozenset()
    table.append(rows(1), offsets(0, 1))
    assert table.load([TP]).feeds == frozenset()
    commit_of_other(delta, 1)
    assert table.load([TP]).feeds == {OF_OTHER}
    delta.commit([transaction_action("sluice:third:cluster:id:0:w", 7)])
    by_worker = TopicPartition("w", 0)
    for _ in range(60):
        table.append(rows(1), offsets(1, 2))
    assert new_table().load([TP]).feeds == {OF_OTHER, by_worker}
    spark.has_history = False
    assert table.load([TP]).feeds == {OF_OTHER, by_worker}
    assert new_table().load([TP]).feeds == {TopicPartition("unknown topic of connector other", 0), by_worker}


def test_a_truncate_is_planned_again_after_a_commit_of_another_connector(
    table: DeltaSqlTable, delta: FakeDelta, spark: FakeSpark
) -> None:
    table.load([TP])
    commit_of_other(delta, 1)
    alone = replace(offsets(0, 1), is_alone=True)
    assert table.upsert(upsert(truncates=True), alone) is None
    assert spark.commits == []
    assert table.load([TP]).feeds == {OF_OTHER}
    delta.commit([])
    assert table.upsert(upsert(truncates=True), alone) is not None


def test_a_table_that_forgets_its_writers_is_refused(table: DeltaSqlTable, delta: FakeDelta) -> None:
    delta.alter({"delta.setTransactionRetentionDuration": "interval 1 day"})
    with pytest.raises(ConnectError, match=r"UNSET TBLPROPERTIES \('delta.setTransactionRetentionDuration'\)"):
        table.load([TP])


def test_a_task_that_still_runs_does_not_undo_moved_offsets(new_table: Callable[[], DeltaSqlTable]) -> None:
    task = new_table()
    task.load([TP])
    task.append(rows(1, 2), offsets(0, 2))
    new_table().move_offsets({TP: 1})
    assert task.append(rows(3), offsets(2, 3)) is None
    assert new_table().load([TP]).ends == {TP: 1}


def test_offsets_are_not_moved_beside_a_commit(
    new_table: Callable[[], DeltaSqlTable], delta: FakeDelta, spark: FakeSpark
) -> None:
    task = new_table()
    task.load([TP])
    task.append(rows(1, 2), offsets(0, 2))
    spark.before_commit = lambda: delta.commit([transaction_action(WRITER, 2)])
    with pytest.raises(RetriableError, match="stop the connector first"):
        new_table().move_offsets({TP: 1})
    assert new_table().stored_ends() == {TP: 2}


def test_a_key_of_type_char_is_refused_with_the_statements_that_change_it(
    table: DeltaSqlTable, delta: FakeDelta, spark: FakeSpark
) -> None:
    padded = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
    delta.alter_schema([{"name": "id", "type": "string", "nullable": True, "metadata": padded}])
    table.load([TP])
    statements = r"ALTER TABLE delta\.`.*` ALTER COLUMN `id` TYPE STRING; UPDATE delta\.`.*` SET `id` = rtrim\(`id`\) and restart"
    for one in (upsert(), upsert(truncates=True)):
        with pytest.raises(ConnectError, match=rf"the key column id has the type CHAR, .* with {statements}"):
            table.upsert(one, offsets(0, 1))
    assert spark.commits == []
    delta.alter_schema([{"name": "id", "type": "string", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}}])
    table.load([TP])
    assert table.upsert(upsert(), offsets(0, 1)) is not None


COMPUTED = {"g": {"delta.generationExpression": "id * 2"}, "i": {"delta.identity.start": 1}, "d": {"CURRENT_DEFAULT": "1"}}


def test_computed_columns_are_left_to_spark_and_others_become_null(
    table: DeltaSqlTable, delta: FakeDelta, spark: FakeSpark
) -> None:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": more} for name, more in {"id": {}, **COMPUTED}.items()]
    delta.alter_schema(fields)
    columns = table.load([TP]).columns
    assert columns is not None
    assert list(columns) == ["id", "g", "i", "d"]
    table.append(pa.schema(list(columns.items())).empty_table(), offsets(0, 1))
    table.upsert(replace(upsert(), columns=columns), offsets(1, 2))
    table.upsert(replace(upsert(truncates=True), columns=columns), offsets(2, 3))
    table.move_offsets({TP: 0})
    assert spark.schemas == ["`id` BIGINT, `d` BIGINT", "`id` BIGINT", "`id` BIGINT, `d` BIGINT", "`id` BIGINT, `d` BIGINT"]
    kept = rows(1).append_column("g", pa.nulls(1, pa.int64()))  # missing.columns=keep
    keeping = replace(upsert().changes, keep={"g": pa.chunked_array([pa.array([True])])})
    table.load([TP])
    table.upsert(replace(upsert(), columns=columns, rows=kept, changes=keeping), offsets(3, 4))
    assert spark.schemas[-1] == "`id` BIGINT"
    assert len(spark.merges) == 2
    for merge in spark.merges:
        assert merge.endswith(
            "WHEN MATCHED THEN UPDATE SET t.`d` = CASE WHEN s.`__deleted` THEN t.`d` END "
            "WHEN NOT MATCHED THEN INSERT (`id`, `d`) VALUES (s.`id`, NULL)"
        )


@pytest.mark.parametrize("deleted", [False, True])
def test_a_row_with_a_new_key_keeps_no_value_of_the_row_that_had_it(
    table: DeltaSqlTable, delta: FakeDelta, spark: FakeSpark, deleted: bool
) -> None:
    """A MERGE sees only that row."""
    names = "id", "x", "missing", "absent"
    fields: list[dict[str, Any]] = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    fields.append({"name": "computed", "type": "long", "nullable": True, "metadata": COMPUTED["g"]})
    delta.alter_schema(fields)
    columns = table.load([TP]).columns
    assert columns is not None
    nulls, true = pa.nulls(1, pa.int64()), pa.chunked_array([pa.array([True])])
    moved = rows(1).append_column("x", nulls).append_column("missing", nulls)
    meta = moved.append_column(OLD_KEY, pa.array([{"id": 7}]))
    flag = pa.chunked_array([pa.array([deleted])])
    changes = DeduplicatedChanges(moved, meta, flag, {"x": true, "missing": true}, None, missing={"missing": true})
    table.upsert(Upsert(moved, changes, ("id",), columns, soft_deletes=True), offsets(0, 1))
    (merge,) = spark.merges
    assert "__sluice_keep" not in merge
    assert "computed" not in merge
    assert "SET t.`x` = s.`x`, t.`missing` = s.`missing`, t.`absent` = s.`absent` WHEN" in merge
    assert table.progress() == {"unavailable": 1}


@pytest.mark.parametrize("is_in_checkpoint", [False, True])
def test_spark_does_not_go_on_with_a_table_that_the_worker_has_written(
    table: DeltaSqlTable, delta: FakeDelta, spark: FakeSpark, is_in_checkpoint: bool
) -> None:
    task = delta.open()
    task.load([TP])
    task.append(rows(1, 2), offsets(0, 2))
    if is_in_checkpoint:
        move_to_checkpoint(delta)
    for call in (lambda: table.load([TP]), table.stored_ends, lambda: table.move_offsets({TP: 1})):
        with pytest.raises(ConnectError, match=r"rows of the connector that the worker wrote.*remove spark\.remote"):
            call()
    assert spark.commits == []


def move_to_checkpoint(delta: FakeDelta) -> None:
    """Replaces the commits by a checkpoint."""
    listed = [{"appId": name, "version": version, "lastUpdated": 0} for name, version in delta.transactions().items()]
    log = delta.folder / "_delta_log"
    metadata = list(delta.actions("metaData"))[-1]
    types = pa.schema([("id", pa.string()), ("schemaString", pa.string()), ("partitionColumns", pa.list_(pa.string()))])
    described = pa.StructArray.from_arrays([pa.array([metadata[one.name]], one.type) for one in types], fields=list(types))
    actions = {"txn": pa.array([None, *listed]), "metaData": pa.concat_arrays([described, pa.nulls(len(listed), described.type)])}
    pq.write_table(pa.table(actions), log / f"{delta.version:020d}.checkpoint.parquet")
    for path in log.glob("*.json"):
        path.unlink()


def test_the_worker_does_not_go_on_with_a_table_that_both_have_written(delta: FakeDelta) -> None:
    task = delta.open()
    task.load([TP])
    task.append(rows(1, 2), offsets(0, 2))
    delta.commit([transaction_action(WRITER, 1)], userMetadata=TableCommit("c", 1, {}, {TP: 5}).to_json())
    with pytest.raises(ConnectError, match=r"t at .*offsets in two places.*DELETE /connectors/<name>/offsets"):
        delta.open().load([TP])
    assert task.stored_ends() == {TP: 2}
    task.move_offsets({TP: None})
    with pytest.raises(UnsuitableTable):  # Spark starts over
        delta.open().load([TP])
