"""The worker of a Spark source is killed at random moments while its table changes. With exactly-once, the topic has every change
of every version once, in order. Promises 1, 3, and 5.
"""

from __future__ import annotations

import json
import os
import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.embedded.broker import EmbeddedBroker
from tests.chaos.background import Background
from tests.cluster.cluster import Cluster
from tests.integration.worker.transactions import read_topic
from tests.support.delta_writer import DeltaWriter, Row
from tests.support.replayed_events import in_json, read_all

KILLS = int(os.environ.get("SLUICE_CHAOS_KILLS", "2"))
SEED = int(os.environ.get("SLUICE_CHAOS_SEED", "20261126"))
RECOVERY_S = 120.0
ROWS = 300


class Changes(Background):
    """Commits random versions to a table until it is stopped."""

    def __init__(self, table: DeltaWriter) -> None:
        super().__init__("table-changes")
        self._table = table
        self._next_id = ROWS

    def _run(self) -> None:
        chance = random.Random(SEED)
        while not self._stop.wait(0.1):
            self._commit(chance)

    def _commit(self, chance: random.Random) -> None:
        table, part = self._table, chance.randrange(7)

        def is_chosen(row: Row) -> bool:
            return bool(row["id"] % 7 == part)

        match chance.randrange(5):
            case 0:
                table.delete(lambda row: bool(row["id"] % 41 == part))
            case 1:
                table.rewrite(is_chosen, lambda row: {**row, "v": f"rewritten {len(table.versions)}"})
            case 2:
                table.optimize()
            case 3:
                table.insert([{"id": self._next_id + i, "v": "new"} for i in range(10)])
                self._next_id += 10
            case _:
                table.update(is_chosen, lambda row: {**row, "v": f"updated {len(table.versions)}"})


class Topic:
    """A topic with one partition."""

    def __init__(self, broker: EmbeddedBroker, name: str) -> None:
        self._partition = TopicPartition(name, 0)
        self._consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "watch"})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (created,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
        created.result(30)

    @property
    def end_offset(self) -> int:
        """Of all records, those of open transactions included."""
        return int(self._consumer.get_watermark_offsets(self._partition, timeout=30)[1])

    def is_longer(self, end_offset: int) -> bool:
        return self.end_offset > end_offset


@pytest.mark.chaos
@pytest.mark.timeout(20_000)
def test_topic_has_each_change_once_when_the_worker_is_killed(tmp_path: Path, broker: EmbeddedBroker, unique_name: Any) -> None:
    name = unique_name("feed")
    table = DeltaWriter(tmp_path / "orders", {"id": pa.int64(), "v": pa.string()}, group_rows=50)
    table.create([{"id": i, "v": "first"} for i in range(ROWS)])
    connector = {
        "connector.class": "SparkSource",
        "source.location": str(table.folder),
        "topic": name,
        "source.start": "0",
        "key.columns": "id",
        "batch.max.rows": "20",
        "poll.interval.ms": "20",
        "transaction.boundary": "connector",
        **{f"{role}.converter": "org.apache.kafka.connect.json.JsonConverter" for role in ("key", "value")},
        **{f"{role}.converter.schemas.enable": "false" for role in ("key", "value")},
    }
    settings = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "300", "session.timeout.ms": "3000",
                "heartbeat.interval.ms": "500", "scheduled.rebalance.max.delay.ms": "0"}  # fmt: skip
    chance = random.Random(SEED)
    changes, topic = Changes(table), Topic(broker, name)
    with Cluster(broker, tmp_path, 1, settings) as cluster:
        (worker,) = cluster.workers
        cluster.start()
        cluster.create(name, connector)
        changes.start()

        for _ in range(KILLS):
            before = topic.end_offset
            cluster.wait_for(partial(topic.is_longer, before), RECOVERY_S, "records after the start")
            assert not worker.wait_for_crash(chance.uniform(0, 1.5)), worker.log_tail()
            worker.kill()
            cluster.start(worker)
        changes.stop()
        records = read_all(table.folder, source_start="0", key_columns="id", name=name)
        expected = [_without_time(in_json(record)[1]) for record in records]
        cluster.wait_for(lambda: len(read_topic(broker.bootstrap, name)) >= len(expected), RECOVERY_S, "all changes")
        found = [_without_time(value) for _, value in read_topic(broker.bootstrap, name)]
        cluster.stop()
    assert len(table.versions) > KILLS
    assert found == expected


def _without_time(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    event = json.loads(value)
    payload = event.get("payload", event)
    return {name: part for name, part in payload.items() if name != "ts_ms"}
