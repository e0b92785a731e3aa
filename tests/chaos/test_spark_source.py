"""The worker of a Spark source is killed at random moments while its table changes. With exactly-once, the topic has every change
of every version once, in order. Promises 1, 3, and 5.
"""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.cluster import Cluster
from tests.cluster.topics import payload
from tests.support import randomness
from tests.support.background import BackgroundWriter
from tests.support.delta_writer import DeltaWriter, Row
from tests.support.replayed_events import in_json, read_all
from tests.support.replayed_topics import TopicFollower
from tests.support.waiting import WAIT_S

KILLS = randomness.size("SLUICE_KILLS", 2)
ROWS = 300


def commit_changes(table: DeltaWriter, stop: threading.Event) -> None:
    """Commits random versions until it is stopped."""
    chance = randomness.chance("table-changes")
    next_id = ROWS
    while not stop.wait(0.1):
        part = chance.randrange(7)

        def is_chosen(row: Row, part: int = part) -> bool:
            return bool(row["id"] % 7 == part)

        def is_deleted(row: Row, part: int = part) -> bool:
            return bool(row["id"] % 41 == part)

        match chance.randrange(5):
            case 0:
                table.delete(is_deleted)
            case 1:
                table.rewrite(is_chosen, lambda row: {**row, "v": f"rewritten {len(table.versions)}"})
            case 2:
                table.optimize()
            case 3:
                table.insert([{"id": next_id + i, "v": "new"} for i in range(10)])
                next_id += 10
            case _:
                table.update(is_chosen, lambda row: {**row, "v": f"updated {len(table.versions)}"})


@pytest.mark.long
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
    chance = randomness.chance("kills")
    changes = BackgroundWriter("table-changes", partial(commit_changes, table))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
    created.result(WAIT_S)
    with (
        Cluster(broker, tmp_path, 1, settings) as cluster,
        closing(TopicFollower(broker.bootstrap, name, isolation="read_uncommitted")) as written,
        closing(TopicFollower(broker.bootstrap, name)) as committed,
    ):
        (worker,) = cluster.workers

        def has_more(before: int) -> bool:
            return len(written.values()) > before

        cluster.start()
        cluster.create(name, connector)
        changes.start()

        for _ in range(KILLS):
            before = len(written.values())
            cluster.wait_for(partial(has_more, before), WAIT_S, "records after the start")
            worker.run_for(chance.uniform(0, 1.5))
            worker.kill()
            cluster.start(worker)
        changes.stop()
        records = read_all(table.folder, source_start="0", key_columns="id", name=name)
        expected = [_without_time(payload(in_json(record)[1])) for record in records]
        cluster.wait_for(lambda: len(committed.values()) >= len(expected), WAIT_S, "all changes")
        found = [_without_time(value) for value in committed.values()]
        cluster.stop()
    assert len(table.versions) > KILLS
    assert found == expected


def _without_time(event: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if event is None else {name: part for name, part in event.items() if name != "ts_ms"}
