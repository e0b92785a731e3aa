"""``commit.scope=transaction``: the versions that a round names have whole transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect.errors import RetriableError
from connect.record import TopicPartition
from connectors.spark import session, task
from connectors.spark.config import parse_config
from connectors.spark.tables.iceberg.library import IcebergHandle
from tests.integration.spark.crashes import Crash, crash_at
from tests.integration.spark.table_access import catalog_props
from tests.integration.spark.transaction_source import (
    TABLES,
    TransactionSource,
    all_topics,
    commit,
    create_source,
    read_points,
    transaction_settings,
)
from tests.support.iceberg_rest import TOKEN, rest_catalog

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KEY = "spark.conf.spark.sql.catalog.rest"
FOREIGN = 7
"""A row of another writer."""


@pytest.fixture
def settings(props: dict[str, str]) -> dict[str, str]:
    return transaction_settings(props)


@pytest.fixture
def rest_settings(settings: dict[str, str]) -> dict[str, str]:
    del settings["table.location"]
    return {
        **settings,
        KEY: "org.apache.iceberg.spark.SparkCatalog",
        f"{KEY}.type": "rest",
        f"{KEY}.token": TOKEN,
        f"{KEY}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        f"{KEY}.cache-enabled": "false",
        "table.format": "iceberg",
        "table.catalog": "rest.shop",
        "table.properties.format-version": "2",
    }


def check(settings: dict[str, str], source: TransactionSource) -> list[str]:
    """Checks every point; returns their transactions."""
    found = []
    for row, rows in read_points(settings):
        rows["savings"].pop(FOREIGN, None)
        assert rows == source.history[row["transaction_id"]]
        found.append(row["transaction_id"])
    return found


def test_a_round_names_versions_with_whole_transactions(settings: dict[str, str], run: Any, topic: Any) -> None:
    source = create_source(topic)
    source.snapshot("accounts", 1, 100)
    source.snapshot("savings", 1, 0)
    first = source.commit([("accounts", 1, 90), ("savings", 1, 10)])
    group: dict[TopicPartition, int] = {}
    task_run = run(settings, all_topics(source), raw=True, group=group)
    task_run.deliver()
    commit(task_run)
    source.commit([("accounts", 1, 70), ("savings", 1, 20), ("savings", 2, 10)])
    third = source.commit([("savings", 2, None)], counted={"public.unread": 3})
    task_run.deliver()
    progress = task_run.task.progress()["transactions"]
    commit(task_run)
    task_run.close()
    assert (progress["round"], progress["waiting"], progress["incomplete"]) == (1, 2, 0)
    points = read_points(settings)
    assert [(row["transaction_id"], row["transactions"]) for row, _ in points] == [(first, 1), (third, 2)]
    for row, rows in points:
        assert rows == source.history[row["transaction_id"]]
    assert group[TopicPartition("shop.transaction", 0)] == 6


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@pytest.mark.long
def test_tables_are_brought_to_one_point_after_a_crash(
    settings: dict[str, str], run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table_format: str
) -> None:
    if table_format == "iceberg":
        del settings["table.location"]
        conf = {f"spark.conf.{key}": value for key, value in catalog_props(tmp_path / "lake").items()}
        settings |= {**conf, "table.format": "iceberg", "table.catalog": "lake.shop"}
    monkeypatch.setattr(task, "_MAX_THREADS", 1)  # the second table's commit does not start before the crash
    source = create_source(topic, partitions=2)
    group: dict[TopicPartition, int] = {}
    source.commit([("accounts", 1, 90), ("savings", 1, 10)])
    task_run = run(settings, all_topics(source), raw=True, group=group)
    task_run.deliver()
    commit(task_run)
    for number, (point, hits) in enumerate([("spark.committed", 1), ("transactions.committed", 1)]):
        source.commit([("accounts", 1, number), ("savings", 2, number)])
        source.commit([("savings", 1, number), ("accounts", 2, number), ("savings", 2, None)])
        task_run.deliver()
        with monkeypatch.context() as patch:
            crash_at(patch, point, hits)
            with pytest.raises(Crash):
                task_run.commit()
        task_run = run(settings, all_topics(source), raw=True, group=group)
    source.commit([("accounts", 3, 1)])
    task_run.deliver()
    commit(task_run)
    task_run.close()
    found = check(settings, source)
    assert len(found) == 2  # the second one was made up for together with the last transaction
    assert found[-1] == list(source.history)[-1]


@pytest.mark.long
def test_tables_of_a_rest_catalog_appear_at_once(
    rest_settings: dict[str, str], run: Any, topic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = create_source(topic)
    with rest_catalog(tmp_path / "warehouse") as uri:
        settings = {**rest_settings, f"{KEY}.uri": uri}
        source.commit([("accounts", 1, 100), ("savings", 1, 0)])
        task_run = run(settings, all_topics(source), raw=True, group={})
        task_run.deliver()
        commit(task_run)
        assert task_run.task.progress()["transactions"]["atomic"] is True
        before = snapshots(settings)
        # One of the tables is not committed, so the other one is not, either.
        source.commit([("accounts", 1, 80), ("savings", 1, 20)])
        task_run.deliver()
        stage = IcebergHandle.stage
        failures = ["savings"]

        def fail(handle: Any, name: Any, change: Any) -> Any:
            if name.name in failures:
                failures.remove(name.name)
                raise RetriableError("the disk is full")
            return stage(handle, name, change)

        monkeypatch.setattr(IcebergHandle, "stage", fail)
        task_run.commit()
        assert failures == []
        assert snapshots(settings) == before
        # Another writer commits in between: all tables stage again.
        lease = session.lease(parse_config(settings).spark)
        lease.session().sql(f"INSERT INTO rest.shop.savings VALUES ({FOREIGN}, 7)")
        lease.release()
        third = source.commit([("accounts", 1, 70), ("savings", 1, 30)])
        task_run.deliver()
        commit(task_run)
        task_run.close()
        assert check(settings, source)[-1] == third


def snapshots(settings: dict[str, str]) -> list[Any]:
    """The newest snapshot of each table."""
    lease = session.lease(parse_config(settings).spark)
    spark = lease.session()
    found = [
        spark.sql(f"SELECT snapshot_id FROM rest.shop.{name}.history ORDER BY made_current_at DESC LIMIT 1").collect()[0][0]
        for name in TABLES
    ]
    lease.release()
    return found


@pytest.mark.long
def test_a_rest_catalog_without_common_commits_is_written_table_by_table(
    rest_settings: dict[str, str], run: Any, topic: Any, tmp_path: Path
) -> None:
    source = create_source(topic)
    with rest_catalog(tmp_path / "warehouse", commits_together=False) as uri:
        settings = {**rest_settings, f"{KEY}.uri": uri}
        task_run = run(settings, all_topics(source), raw=True, group={})
        for v in (1, 2):
            last = source.commit([("accounts", 1, v), ("savings", 1, v)])
            task_run.deliver()
            commit(task_run)
        assert task_run.task.progress()["transactions"]["atomic"] is False
        task_run.close()
        assert check(settings, source)[-1] == last
