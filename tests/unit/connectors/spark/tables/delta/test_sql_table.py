"""Tables that Spark writes: locks, the sequence of commits, and tables that the worker has written before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connect.errors import ConnectError
from connectors.spark.config import WantedLayout
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.tables.application_ids import spark_writer_id
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import UnsuitableTable
from connectors.spark.tables.delta.sql_table import DeltaSqlTable
from connectors.spark.tables.delta.transaction import transaction_action
from connectors.spark.tables.staging import Staging, local_folder
from connectors.spark.tables.table import Upsert
from connectors.spark.tables.table_lock import commit_lock
from tests.unit.connectors.spark.tables.delta.fake_delta import TP, FakeDelta, offsets, rows

WRITER = spark_writer_id("c", "t")


class FakeSpark:
    """A session that remembers what it commits, and whether the lock of commits was held meanwhile."""

    def __init__(self, delta: FakeDelta) -> None:
        self._delta = delta
        self._settings: dict[str, str] = {}
        self.history: list[str | None] = []
        """User metadata, newest first."""
        self.commits: list[tuple[str, bool]] = []
        self.sequences: list[str] = []
        self.conf = SimpleNamespace(
            set=self._settings.__setitem__, unset=lambda key: self._settings.pop(key, None), get=self._settings.get
        )
        self.catalog = SimpleNamespace(dropTempView=lambda name: None)

    @property
    def read(self) -> Any:
        schema = SimpleNamespace(json=lambda: json.dumps({"fields": [{"name": "id", "type": "long"}]}))
        table = SimpleNamespace(load=lambda path: SimpleNamespace(schema=schema))
        staged = SimpleNamespace(write=_Writer(self), createOrReplaceTempView=lambda name: None)
        return SimpleNamespace(format=lambda name: table, schema=lambda text: SimpleNamespace(parquet=lambda uri: staged))

    def sql(self, statement: str) -> Any:
        if statement.startswith("DESCRIBE HISTORY"):
            return _Answer([{"userMetadata": text} for text in self.history])
        if statement.startswith("DESCRIBE DETAIL"):
            return _Answer([[[]]])
        return self.committed(statement.split()[0], self._settings.get("spark.databricks.delta.write.txnVersion", ""))

    def committed(self, what: str, sequence: str) -> None:
        with commit_lock(local_folder(f"{self._delta.folder}/_delta_log")).tried() as is_free:
            self.commits.append((what, not is_free))
        self.sequences.append(sequence)
        self._settings["spark.databricks.delta.lastCommitVersionInSession"] = "7"


class _Answer:
    def __init__(self, found: list[Any]) -> None:
        self._found = found

    def select(self, name: str) -> _Answer:
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
        self._spark.committed("WRITE", self._options["txnVersion"])


@pytest.fixture
def delta(tmp_path: Path) -> FakeDelta:
    return FakeDelta(tmp_path / "t")


@pytest.fixture
def spark(delta: FakeDelta) -> FakeSpark:
    return FakeSpark(delta)


@pytest.fixture
def table(delta: FakeDelta, spark: FakeSpark) -> DeltaSqlTable:
    staging = Staging(str(delta.folder.parent), "c-0")
    session: Any = spark
    return DeltaSqlTable(session, str(delta.folder), "t", "c", staging, WantedLayout(), fail_unavailable=False)


def upsert(*, truncates: bool = False) -> Upsert:
    found = rows(1)
    changes = SimpleNamespace(
        deleted=pa.array([False]), keep={}, unavailable=0, truncate=object() if truncates else None, rows=found
    )
    fake: DeduplicatedChanges = changes  # type: ignore[assignment]
    return Upsert(found, fake, ("id",), {"id": pa.int64()}, soft_deletes=True)


@pytest.mark.parametrize(
    ("commit", "statements"),
    [
        (lambda table: table.append(rows(1), offsets(0, 1)), ["WRITE"]),
        (lambda table: table.upsert(upsert(), offsets(0, 1)), ["MERGE"]),
        (lambda table: table.upsert(upsert(truncates=True), offsets(0, 1)), ["WRITE"]),
        (lambda table: table.add_columns([("`v`", pa.string())], {}, {}), ["ALTER"]),
        (lambda table: table.widen_columns([("`id`", pa.int64())]), ["ALTER", "ALTER"]),
        (lambda table: table.move_offsets({TP: 3}), ["ALTER"]),
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
    spark.history = [TableCommit("c", 12, {}, {TP: 9}).to_json()]
    assert table.load([TP]).ends == {TP: 9}
    assert table.append(rows(1), offsets(9, 10)) is not None
    assert spark.sequences == ["58", "58"]


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
    pq.write_table(pa.table({"txn": pa.array([None, *listed])}), log / f"{delta.version:020d}.checkpoint.parquet")
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
