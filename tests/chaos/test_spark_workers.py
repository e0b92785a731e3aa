"""Workers of a Spark cluster are killed, with their executors, while they write a backlog. Every record is in the append table
once, and the upsert table has the last change of each key. Promises 5 and 6.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sluice.embedded import jars
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.spark_cluster import EmbeddedSparkCluster
from tests.chaos.test_lake_writers import KEYS, PARTITIONS, Lake, assert_append_table, assert_upsert_table
from tests.support import randomness
from tests.support.spark_cluster import fast_settings

pytestmark = [pytest.mark.long, pytest.mark.chaos, pytest.mark.timeout(20_000)]

KILLS = randomness.size("SLUICE_KILLS", 1)
READY_S = 900.0
"""Within which a table has another commit: first, Spark, its executors, and their Python start."""
JOB_RECORDS = 2_000
BACKLOG = 4 * JOB_RECORDS
"""Records per topic that are added when fewer are left in both."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedSparkCluster]:
    made = EmbeddedSparkCluster(tmp_path / "spark", dies_with_parent=True)
    made.start()
    yield made
    made.remove()


@pytest.fixture
def lake(
    tmp_path: Path, broker: EmbeddedBroker, cluster: EmbeddedSparkCluster, unique_name: Any, formats: dict[str, str]
) -> Iterator[Lake]:
    jars.ensure_jars("spark")
    jars.ensure_jars("spark-iceberg")
    settings = {
        **fast_settings(cluster),
        "spark.engine": "executors",
        "executors.max.records": str(JOB_RECORDS),
    }
    made = Lake(tmp_path, broker, unique_name("lake"), formats, "a", settings)
    yield made
    made.end()


class Backlog:
    """Produces events without keys, and changes of rows with tombstones, so that the worker always lags behind."""

    def __init__(self, broker: EmbeddedBroker, lake: Lake) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
        self._topics = lake.topics
        self._chance = randomness.chance("backlog")
        self._numbers = itertools.count()

    def produce(self) -> None:
        for n in itertools.islice(self._numbers, BACKLOG):
            id_ = self._chance.randrange(KEYS)
            self._producer.produce(self._topics["append"], json.dumps({"n": n}), partition=n % PARTITIONS)
            value = None if self._chance.random() < 0.1 else json.dumps({"id": id_, "n": n})
            self._producer.produce(self._topics["upsert"], value, json.dumps({"id": id_}), partition=id_ % PARTITIONS)
        assert self._producer.flush(120) == 0


def have_moved_on(lake: Lake, before: list[int]) -> bool:
    """Whether a table has further commits."""
    return any(now > then for now, then in zip(lake.versions(), before, strict=True))


@pytest.mark.parametrize(
    "formats",
    [
        pytest.param({"append": "delta", "upsert": "iceberg"}, id="upsert-iceberg"),
        pytest.param({"append": "iceberg", "upsert": "delta"}, id="upsert-delta", marks=pytest.mark.long),
    ],
)
def test_tables_are_exact_when_workers_of_the_cluster_are_killed_in_a_backlog(
    lake: Lake, cluster: EmbeddedSparkCluster, broker: EmbeddedBroker
) -> None:
    chance = randomness.chance("kills")
    backlog = Backlog(broker, lake)
    backlog.produce()
    worker = lake.workers[0]
    lake.start(worker)
    for _ in range(KILLS):
        lag = lake.lag()
        if lag is not None and lag < BACKLOG:
            backlog.produce()
        worker.wait_for(partial(have_moved_on, lake, lake.versions()), READY_S, "commits")
        worker.run_for(chance.uniform(0, 1.5))
        assert lake.lag() != 0, "the backlog has ended before the kill"
        killed = chance.choice(cluster.workers)
        assert killed.kill()
        killed.start(READY_S)
    worker.wait_for(lake.has_delivered_everything, READY_S, "everything to arrive")
    worker.stop()
    assert_append_table(lake, [lake.tables["append"].by_second_engine().to_pylist()])
    assert_upsert_table(lake, [lake.tables["upsert"].by_second_engine().to_pylist()])
    logs = [log for one in cluster.workers for log in one.executor_logs()]
    assert len(logs) > len(cluster.workers), "no executor was replaced"
