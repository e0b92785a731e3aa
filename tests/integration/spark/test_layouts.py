"""Partitioned and clustered Delta tables, whose files the worker writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError, DataError
from connectors.spark import session
from connectors.spark.config import parse_config
from sluice.demo.delta_table import read_delta_table
from tests.support import randomness

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

UPSERT = {"write.mode": "upsert"}


@pytest.fixture
def spark(props: dict[str, str]) -> Iterator[Any]:
    lease = session.lease(parse_config(props).spark)
    yield lease.session()
    lease.release()


def add(topic: Any, id_: int, **columns: Any) -> None:
    topic.add(json.dumps({"id": id_}).encode(), json.dumps({"id": id_, **columns}).encode())


def actions(props: dict[str, str], table: str) -> list[dict[str, Any]]:
    log = Path(props["table.location"]) / table / "_delta_log"
    return [json.loads(line) for file in sorted(log.glob("*.json")) for line in file.read_text(encoding="utf-8").splitlines()]


def by_id(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


def read_twice(props: dict[str, str], read: Any, table: str) -> dict[int, dict[str, Any]]:
    """The rows by id, which Spark and delta-rs read alike."""
    rows = by_id(read(table))
    assert by_id(read_delta_table(f"{props['table.location']}/{table}").to_pylist()) == rows
    return rows


@pytest.mark.long
def test_random_changes_move_rows_between_partitions(props: Any, run: Any, topic: Any, read: Any) -> None:
    t, table = topic("pärt 100%/x", schemas=False), "pärt 100%_x"
    own = {"partition.columns": "region", "compaction.min.files": "2"}
    chosen = randomness.chance("partitions")
    model: dict[int, dict[str, Any]] = {}
    group: dict[Any, int] = {}
    task_run = run({**props, **UPSERT, **own}, [t], raw=True, group=group)
    for step in range(3):
        for _ in range(40):
            id_ = chosen.randrange(30)
            if id_ in model and chosen.random() < 0.3:
                del model[id_]
                t.add(json.dumps({"id": id_}).encode(), None)
                continue
            region = chosen.choice(["a b", "ü/%41=:", None])
            model[id_] = {"id": id_, "region": region, "v": chosen.randrange(99)}
            add(t, id_, region=region, v=model[id_]["v"])
        task_run.deliver(batch=17)
        task_run.commit()
        assert by_id(read_delta_table(f"{props['table.location']}/{table}").to_pylist()) == model
        if step == 0:
            # A new task reads the keys from the files.
            task_run.close()
            task_run = run({**props, **UPSERT, **own}, [t], raw=True, group=group)
        if step == 1:
            task_run.task.sink.tables.writer(table).maintain(lambda: False)
    task_run.close()
    assert read_twice(props, read, table) == model
    logged = actions(props, table)
    assert any(not a["remove"]["dataChange"] for a in logged if "remove" in a)  # compaction
    regions = {a["add"]["partitionValues"]["region"] for a in logged if "add" in a}
    assert regions == {"a b", "ü/%41=:", None}


def test_partition_columns_of_every_type_are_read_alike(props: Any, run: Any, topic: Any, read: Any, spark: Any) -> None:
    path = f"{props['table.location']}/t"
    columns = "id BIGINT, s STRING, n INT, d DECIMAL(20,3), f DOUBLE, b BOOLEAN, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ"
    names = ["s", "n", "d", "f", "b", "day", "at", "local"]
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta PARTITIONED BY ({', '.join(names)})"
              " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")  # fmt: skip
    spark.sql(
        f"INSERT INTO delta.`{path}` VALUES (1, 'ä %', -5, 1.5, 0.1, true, DATE'2026-01-02',"
        " TIMESTAMP'2026-01-02 03:04:05.000006', TIMESTAMP_NTZ'1969-12-31 23:59:59.5'),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    expected = by_id(read("t"))
    t = topic("t", schemas=False)
    sent = {"s": "ä %", "n": -5, "d": "1.5", "f": 0.1, "b": True, "day": "2026-01-02", "at": "2026-01-02T03:04:05.000006Z"}
    add(t, 3, **sent, local="1969-12-31T23:59:59.5")
    add(t, 4, n=9)
    # Keys among the partition columns are read from the log, or by Spark from its own directories of partitions.
    own = {**props, **UPSERT, "key.columns": "id,n"}
    group: dict[Any, int] = {}
    for max_keys, text in (("100", "between"), ("1", "moved")):
        task_run = run({**own, "upsert.index.max.keys": max_keys}, [t], raw=True, group=group)
        add(t, 1, **{**sent, "s": text})
        task_run.deliver()
        task_run.close()
    found = read_twice(props, read, "t")
    assert {k: v for k, v in found[3].items() if k != "id"} == {k: v for k, v in expected[1].items() if k != "id"}
    assert found[2] == expected[2]
    assert (found[1]["s"], found[1]["n"], len(found)) == ("moved", -5, 4)
    filters = "s = 'ä %' AND n = -5 AND d = 1.5 AND f = 0.1 AND b AND day = DATE'2026-01-02'"
    filters += " AND at = TIMESTAMP'2026-01-02 03:04:05.000006' AND local = TIMESTAMP_NTZ'1969-12-31 23:59:59.5'"
    assert [r.id for r in spark.sql(f"SELECT id FROM delta.`{path}` WHERE {filters}").collect()] == [3]


def test_empty_text_in_a_partition_column_is_rejected(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    add(t, 1, region="x")
    task_run = run({**props, **UPSERT, "partition.columns": "region"}, [t], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    add(t, 2, region="")
    task_run.deliver()
    with pytest.raises(DataError, match="partition 0, offset 1: partition column region is empty text"):
        task_run.commit()
    task_run.task.close()


def test_columns_of_a_layout_are_checked(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    add(t, 1, region="x")
    task_run = run({**props, "partition.columns": "regoin", "metadata.columns": "none"}, [t], raw=True, group={})
    task_run.deliver()
    with pytest.raises(ConfigError, match=r"regoin.*partition\.columns.*only the columns id, region"):
        task_run.commit()
    task_run.task.close()


@pytest.mark.long
def test_clustered_tables_stay_clustered(props: Any, run: Any, topic: Any, read: Any, spark: Any) -> None:
    t = topic("t", schemas=False)
    task_run = run({**props, **UPSERT, "cluster.columns": "city,at"}, [t], raw=True, group={})
    path = f"{props['table.location']}/t"
    for first in (0, 50):
        for id_ in range(first, first + 60):
            add(t, id_, at=id_ % 13, city=f"city {id_ % 7}", **{f"c{n}": n for n in range(40)})
        task_run.deliver()
        task_run.commit()
    spark.sql(f"OPTIMIZE delta.`{path}`")
    add(t, 5, city="last", at=1)
    task_run.deliver()
    task_run.close()
    rows = read("t")
    assert sorted(row["id"] for row in rows) == list(range(110))
    assert len(read_delta_table(path)) == len(rows)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0]
    assert list(detail["clusteringColumns"]) == ["city", "at"]
    optimized = [a["add"] for a in actions(props, "t") if a.get("add", {}).get("clusteringProvider") == "liquid"]
    assert optimized
    written = [a["add"] for a in actions(props, "t") if a.get("add", {}).get("path", "").endswith(".zstd.parquet")]
    assert all({"city", "at"} <= set(json.loads(w["stats"])["nullCount"]) for w in written)
