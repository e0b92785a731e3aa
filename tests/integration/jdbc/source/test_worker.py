"""The example in a worker process that is killed while tables are read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from connect.config.properties import read_properties
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.jdbc.source.conftest import Database
from tests.integration.worker.test_process import CONFIGS, Process
from tests.support.waiting import WAIT_S, eventually

JSON = "org.apache.kafka.connect.json.JsonConverter"
QUICK = {
    "key.converter": JSON, "value.converter": JSON, "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false", "offset.flush.interval.ms": "100", "task.executors": "0",
}  # fmt: skip


@pytest.fixture
def process(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Callable[[], Process]]:
    """Makes worker processes; what still runs at the end is killed."""
    made: list[Process] = []

    def make() -> Process:
        made.append(Process(tmp_path, broker.bootstrap, **QUICK))
        return made[-1]

    yield make
    for one in made:
        if one.popen is not None and one.popen.poll() is None:
            one.popen.kill()
            one.popen.wait(WAIT_S)


class Topic:
    """What is in a topic of one partition."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.name = name
        self.records: list[tuple[Any, Any]] = []
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(name, 0, 0)])

    def read(self) -> list[tuple[Any, Any]]:
        for message in self._consumer.consume(10_000, 0.2):
            if message.error() is None:
                self.records.append((json.loads(message.key() or b"null"), json.loads(message.value() or b"null")))
        return self.records

    def close(self) -> None:
        self._consumer.close()


def test_example_reads_all_rows_although_its_worker_is_killed(
    process: Callable[[], Process], postgres: Database, unique_name: Callable[[str], str], broker: EmbeddedBroker
) -> None:
    made = "id SERIAL PRIMARY KEY, name TEXT, updated_at TIMESTAMPTZ NOT NULL DEFAULT now() - interval '1 minute'"
    postgres.execute(f"CREATE TABLE customers ({made})", f"CREATE TABLE orders ({made})")
    postgres.execute(
        *(f"INSERT INTO {table} (name) SELECT 'n' || n FROM generate_series(1, 20000) n" for table in ("customers", "orders"))
    )
    prefix = unique_name("shop") + "-"
    own = {
        "topic.prefix": prefix, "name": prefix + "source", "snapshot.chunks": "2000", "batch.max.rows": "100",
        "poll.interval.ms": "50", "timestamp.delay.interval.ms": "0", "table.poll.interval.ms": "500",
        "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
    }  # fmt: skip
    example = dict(read_properties(CONFIGS / "jdbc-source.properties")) | postgres.config | own
    one = process()
    file = one.folder / "jdbc-source.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in example.items()))
    topics = [Topic(broker.bootstrap, prefix + table) for table in ("customers", "orders")]

    def count() -> int:
        return sum(len(topic.read()) for topic in topics)

    def all_there() -> bool:
        count()
        return all(len({record[1]["id"] for record in topic.records}) == 20_000 for topic in topics)

    def are_there(records: int) -> bool:
        return count() >= records

    one.start(file)
    for records in (2_000, 12_000):
        eventually(partial(are_there, records), "records come", explain=one.text)
        assert one.popen is not None
        one.popen.kill()
        one.popen.wait(WAIT_S)
        one.start(file)
    eventually(all_there, "all rows are there", explain=one.text)
    for topic in topics:
        assert all(key == {"id": value["id"]} for key, value in topic.records)
        # What comes again is what was sent and not yet stored, not what was done.
        again = Counter(value["id"] for _, value in topic.records)
        assert sum(again.values()) < 40_000
    postgres.execute("UPDATE orders SET name = 'changed', updated_at = now() WHERE id = 5")
    eventually(
        lambda: ({"id": 5}, "changed") in [(key, value["name"]) for key, value in topics[1].read()],
        "the change comes", explain=one.text,
    )  # fmt: skip
    assert postgres.config["connection.password"] not in one.text()
    assert one.end() == 0
    for topic in topics:
        topic.close()
