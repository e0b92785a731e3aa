"""Iceberg tables of a Hive catalog: a metastore with and without locks, and one that cannot be reached for a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from connect.errors import RetriableError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from sluice.embedded.ports import LOOPBACK
from tests.cluster.proxy import TcpProxy
from tests.integration.spark.lake import field, message
from tests.support.hive_metastore import EmbeddedHiveMetastore

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KEY = "spark.conf.spark.sql.catalog.hive"
LOCKS = f"{KEY}.hadoop.iceberg.engine.hive.lock-enabled"
P0 = TopicPartition("t", 0)
ID, V, MORE = field("id", "int32"), field("v", "string"), field("more", "int64")


@pytest.fixture(scope="module")
def metastore(services_dir: Path) -> Iterator[EmbeddedHiveMetastore]:
    server = EmbeddedHiveMetastore(services_dir / "hive", dies_with_parent=True)
    server.start()
    yield server
    server.remove()


class HiveTable:
    """The topic ``t`` and the table ``t`` of a namespace, which does not exist yet."""

    def __init__(self, namespace: str, uri: str, metastore: EmbeddedHiveMetastore, props: dict[str, str]) -> None:
        self.folder = metastore.warehouse / f"{namespace}.db" / "t"
        self.name = f"hive.{namespace}.t"
        self.settings = {key: value for key, value in props.items() if key != "table.location"} | {
            KEY: "org.apache.iceberg.spark.SparkCatalog",
            f"{KEY}.type": "hive",
            f"{KEY}.uri": uri,
            f"{KEY}.warehouse": str(metastore.warehouse),
            f"{KEY}.cache-enabled": "false",
            f"{KEY}.hadoop.hive.metastore.client.connect.retry.delay": "0s",
            LOCKS: "false",
            "table.format": "iceberg",
            "table.catalog": f"hive.{namespace}",
            "metadata.columns": "none",
        }

    def check(self, *expected: tuple[Any, ...]) -> None:
        """Compares the rows that Spark and PyIceberg read."""
        lease = session.lease(parse_config(self.settings).spark)
        found = sorted(tuple(row) for row in lease.session().sql(f"SELECT * FROM {self.name}").collect())
        lease.release()
        newest = max((self.folder / "metadata").glob("*.metadata.json"))
        by_second_engine = StaticTable.from_metadata(str(newest)).scan().to_arrow()
        assert sorted(tuple(row.values()) for row in by_second_engine.to_pylist()) == found == list(expected)


def add(topic: Any, *rows: dict[str, Any], fields: tuple[dict[str, Any], ...] = (ID, V)) -> None:
    for row in rows:
        topic.add(None, message(list(fields), row))


def commit(task_run: Any) -> None:
    task_run.deliver()
    task_run.commit()


def test_tables_of_a_hive_catalog(metastore: EmbeddedHiveMetastore, props: dict[str, str], run: Any, topic: Any) -> None:
    table = HiveTable("shop", metastore.uri, metastore, props)
    del table.settings[LOCKS]
    table.settings["table.properties.engine.hive.lock-enabled"] = "false"
    t = topic("t", schemas=True)
    first = run(table.settings, [t], raw=True, group={})
    add(t, {"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    commit(first)
    add(t, {"id": 3, "v": "c", "more": 2**40}, fields=(ID, V, MORE))
    commit(first)
    table.check((1, "a", None), (2, "b", None), (3, "c", 2**40))
    first.task.close()
    # Without the consumer group's offsets.
    second = run({**table.settings, "write.mode": "upsert", "key.columns": "id"}, [t], raw=True, group={})
    assert second.position == {P0: 3}
    add(t, {"id": 2, "v": "d"}, {"id": 4, "v": "e"})
    commit(second)
    second.close()
    table.check((1, "a", None), (2, "d", None), (3, "c", 2**40), (4, "e", None))


def test_metastore_without_locks_is_named(metastore: EmbeddedHiveMetastore, props: dict[str, str], run: Any, topic: Any) -> None:
    table = HiveTable("unlocked", metastore.uri, metastore, props)
    with_locks = {LOCKS: "true", f"{KEY}.hadoop.iceberg.hive.lock-creation-timeout-ms": "1"}
    t = topic("t", schemas=True)
    for number, expected in enumerate(("another writer has created the table, but does not have it", "LockException")):
        add(t, {"id": number, "v": "a"})
        refused = run({**table.settings, **with_locks}, [t], raw=True, group={})
        refused.deliver()
        with pytest.raises(RetriableError, match=rf"t at hive\.unlocked\.t: .*{expected}.*hive\.lock-enabled=false"):
            refused.task.flush({})
        refused.task.close()
        written = run(table.settings, [t], raw=True, group={})
        written.deliver()
        written.close()
        assert len(list((table.folder / "data").iterdir())) == number + 1
    table.check((0, "a"), (1, "a"))


def test_metastore_that_cannot_be_reached_is_tried_again(
    metastore: EmbeddedHiveMetastore, props: dict[str, str], run: Any, topic: Any
) -> None:
    proxy = TcpProxy(metastore.port)
    proxy.start()
    table = HiveTable("down", f"thrift://{LOOPBACK}:{proxy.port}", metastore, props)
    table.settings[f"{KEY}.hadoop.hive.metastore.connect.retries"] = "1"
    t = topic("t", schemas=True)
    task_run = run(table.settings, [t], raw=True, group={})
    add(t, {"id": 1, "v": "a"})
    commit(task_run)
    proxy.close()
    add(t, {"id": 2, "v": "b"})
    task_run.deliver()
    with pytest.raises(RetriableError, match=r"table t at hive\.down\.t: .*Connection refused; start the Hive metastore, or"):
        task_run.task.flush({})
    again = TcpProxy(metastore.port)
    again.port = proxy.port
    again.start()
    task_run.close()
    table.check((1, "a"), (2, "b"))
    again.close()
