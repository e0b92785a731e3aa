"""Iceberg tables of a REST catalog: the sink as its client, next to another writer, and the catalog's troubles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink
from tests.integration.spark.lake import field, message
from tests.support.iceberg_rest import TOKEN, rest_catalog
from tests.support.s3 import EmbeddedS3

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KEY = "spark.conf.spark.sql.catalog.rest"
FIELDS = [field("id", "int32"), field("v", "string")]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[str]:
    with rest_catalog(tmp_path / "warehouse") as uri:
        yield uri


@pytest.fixture
def settings(props: dict[str, str], catalog: str) -> dict[str, str]:
    del props["table.location"]
    return {
        **props,
        KEY: "org.apache.iceberg.spark.SparkCatalog",
        f"{KEY}.type": "rest",
        f"{KEY}.uri": catalog,
        f"{KEY}.token": TOKEN,
        f"{KEY}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        f"{KEY}.cache-enabled": "false",
        "table.format": "iceberg",
        "table.catalog": "rest.shop",
        "table.properties.format-version": "2",
        "write.mode": "upsert",
        "key.columns": "id",
        "metadata.columns": "none",
    }


def add(topic: Any, id_: int, v: str) -> None:
    topic.add(None, message(FIELDS, {"id": id_, "v": v}))


def test_tables_of_a_rest_catalog(settings: dict[str, str], run: Any, topic: Any) -> None:
    t = topic("t", schemas=True)
    group: dict[TopicPartition, int] = {}
    add(t, 1, "a")
    add(t, 2, "b")
    task_run = run(settings, [t], raw=True, group=group)
    task_run.deliver()
    task_run.commit()
    lease = session.lease(parse_config(settings).spark)
    spark = lease.session()
    spark.sql("INSERT INTO rest.shop.t VALUES (3, 'other')")
    add(t, 2, "c")
    add(t, 3, "d")
    task_run.deliver()
    task_run.close()
    rows = spark.sql("SELECT * FROM rest.shop.t ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "a"), (2, "c"), (3, "d")]
    group.clear()
    again = run(settings, [t], raw=True, group=group)
    assert again.position == {TopicPartition("t", 0): 4}
    again.close()
    assert SparkSink().alter_offsets(settings, {TopicPartition("t", 0): 2})
    again = run(settings, [t], raw=True, group={})
    assert again.position == {TopicPartition("t", 0): 2}
    again.close()
    lease.release()


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.long
def test_tables_on_s3(settings: dict[str, str], run: Any, topic: Any, tmp_path: Path, scheme: str) -> None:
    server = EmbeddedS3()
    t = topic("t", schemas=True)
    properties = {
        "warehouse": f"{scheme}://{server.create_bucket()}/lake",
        "s3.endpoint": server.endpoint,
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
        "s3.region": "us-east-1",
    }
    prefix = "spark.conf.spark.hadoop.fs.s3a."
    with rest_catalog(tmp_path / "s3", properties) as uri:
        own = settings | {
            f"{KEY}.uri": uri,
            f"{prefix}endpoint": server.endpoint,
            f"{prefix}endpoint.region": "us-east-1",
            f"{prefix}access.key": "test",
            f"{prefix}secret.key": "test",
            "compaction.min.files": "2",
        }
        add(t, 1, "a")
        task_run = run(own, [t], raw=True, group={})
        for v in "bc":
            task_run.deliver()
            task_run.commit()
            add(t, 1, v)
            add(t, ord(v), v)
        task_run.deliver()
        task_run.commit()
        task_run.task.sink.tables.queue("t").writer.maintain(lambda: False)
        task_run.close()
        lease = session.lease(parse_config(own).spark)
        rows = lease.session().sql("SELECT v FROM rest.shop.t ORDER BY id").collect()
        lease.release()
    server.stop()
    assert [row.v for row in rows] == ["c", "b", "c"]


def refusal(settings: dict[str, str], run: Any, t: Any) -> str:
    add(t, 1, "a")
    with pytest.raises(ConnectError) as raised:
        run(settings, [t], raw=True, group={})
    assert TOKEN not in raised.value.message
    return str(raised.value.message)


def test_wrong_credentials_are_named(settings: dict[str, str], run: Any, topic: Any) -> None:
    found = refusal({**settings, f"{KEY}.token": "wrong"}, run, topic("t", schemas=True))
    assert "the catalog rest cannot be opened: NotAuthorizedException" in found
    assert "check the properties spark.conf.spark.sql.catalog.rest.*" in found
    assert "wrong" not in found


def test_a_catalog_that_goes_down_is_tried_again(props: dict[str, str], run: Any, topic: Any, tmp_path: Path) -> None:
    del props["table.location"]
    t = topic("t", schemas=True)
    own = {
        **props,
        KEY: "org.apache.iceberg.spark.SparkCatalog",
        f"{KEY}.type": "rest",
        f"{KEY}.token": TOKEN,
        f"{KEY}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        f"{KEY}.rest.client.max-retries": "1",
        "table.format": "iceberg",
        "table.catalog": "rest.shop",
        "table.properties.format-version": "2",
    }
    with rest_catalog(tmp_path / "warehouse") as uri:
        own[f"{KEY}.uri"] = uri
        task_run = run(own, [t], raw=True, group={})
        add(t, 1, "a")
        task_run.deliver()
        task_run.commit()
    add(t, 2, "b")
    task_run.deliver()
    with pytest.raises(ConnectError, match=r"table t at rest\.shop\.t: .*(Connect|refused)"):
        task_run.task.flush({})
    task_run.task.close()
