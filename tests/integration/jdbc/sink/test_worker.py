"""The sink in a worker process: killed during a batch, without its database, with a dead letter queue."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from connect.config.properties import read_properties
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.jdbc.shops import PostgresShop, Shop
from tests.integration.jdbc.sink.conftest import Name
from tests.integration.worker.test_process import CONFIGS, Process, connector
from tests.support.waiting import WAIT_S, eventually

JSON = "org.apache.kafka.connect.json.JsonConverter"
# A killed worker cannot leave its group: the next one waits until the broker misses it.
QUICK = {
    "key.converter": JSON, "value.converter": JSON, "offset.flush.interval.ms": "200", "task.executors": "0",
    "consumer.session.timeout.ms": "3000", "consumer.heartbeat.interval.ms": "500", "consumer.max.poll.records": "100",
}  # fmt: skip
KEY = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
VALUE = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int32"},
        {"field": "name", "type": "string", "optional": True},
        {"field": "age", "type": "int32", "optional": True},
    ],
}


@pytest.fixture
def process(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Makes worker processes; what still runs at the end is killed."""
    made: list[Process] = []

    def make(**settings: str) -> Process:
        made.append(Process(tmp_path, broker.bootstrap, **(QUICK | settings)))
        return made[-1]

    yield make
    for one in made:
        if one.popen is not None and one.popen.poll() is None:
            one.popen.kill()
            one.popen.wait(WAIT_S)


class Topic:
    """Sends changes of people."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.name = name
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send(self, *people: tuple[int, str, int] | int) -> None:
        """A person's number alone is a tombstone."""
        for person in people:
            number = person if isinstance(person, int) else person[0]
            value = None
            if not isinstance(person, int):
                members = dict(zip(("id", "name", "age"), person, strict=True))
                value = json.dumps({"schema": VALUE, "payload": members})
            self._producer.produce(self.name, value, json.dumps({"schema": KEY, "payload": {"id": number}}))
        assert self._producer.flush(WAIT_S) == 0


def sink(one: Process, shop: Shop, topic: str, **config: str) -> Path:
    keys: dict[str, Any] = {
        "connector__class": "io.confluent.connect.jdbc.JdbcSinkConnector", "topics": topic, "table__name__format": "people",
        "auto__create": "true", "insert__mode": "upsert", "pk__mode": "record_key", "delete__enabled": "true",
        "retry__backoff__ms": "100", "connection__backoff__ms": "100",
        **{key.replace(".", "__"): value for key, value in shop.keys.items()}, **config,
    }  # fmt: skip
    return connector(one.folder, f"sink-{topic}", **keys)


def committed(one: Process, topic: str) -> int | None:
    offsets = one.get(f"/connectors/sink-{topic}/offsets")["offsets"]
    return offsets[0]["offset"]["kafka_offset"] if offsets else None


def test_worker_killed_during_or_after_a_batch_loses_nothing(
    process: Callable[..., Process], shop: PostgresShop, unique_name: Name
) -> None:
    one = process()
    topic = Topic(one.bootstrap, unique_name("people"))
    expected: dict[int, tuple[str, int]] = {}
    for turn in range(6):
        for number in range(turn * 20, turn * 20 + 100):
            expected[number] = (f"turn {turn}", number)
        gone = list(range(turn * 20, turn * 20 + 10))
        topic.send(*[(number, *expected[number]) for number in range(turn * 20, turn * 20 + 100)], *gone)
        for number in gone:
            del expected[number]
    file = sink(one, shop, topic.name)
    for point in ("jdbc.written:2", "jdbc.committed:2"):
        one.start(file, env={"SLUICE_CRASH_AT": f"worker/{point}"})
        assert one.exit_code() == -signal.SIGKILL, one.text()
    one.start(file).wait_ready()
    eventually(lambda: committed(one, topic.name) == 660, "all is committed", explain=one.text)
    assert {row[0]: row[1:] for row in shop.rows("SELECT id, name, age FROM people")} == expected
    assert one.end() == 0


@pytest.mark.long
def test_database_restart_loses_nothing(process: Callable[..., Process], shop: PostgresShop, unique_name: Name) -> None:
    one = process()
    topic = Topic(one.bootstrap, unique_name("people"))
    one.start(sink(one, shop, topic.name, connection__attempts="1", max__retries="1000")).wait_ready()
    topic.send(*[(number, "before", 1) for number in range(300)])
    eventually(lambda: committed(one, topic.name) == 300, "the first records are there", explain=one.text)
    shop.connection.close()
    shop.server.kill()
    topic.send(*[(number, "after", 2) for number in range(200, 500)])
    eventually(lambda: "remainingRetries" in one.text(), "the sink misses the database", explain=one.text)
    shop.server.start()
    eventually(lambda: committed(one, topic.name) == 600, "all is committed", explain=one.text)
    shop.reconnect()
    assert shop.rows("SELECT name, count(*) FROM people GROUP BY name ORDER BY name") == [("after", 300), ("before", 200)]
    assert one.end() == 0
    assert shop.server.password not in one.text()


def test_example_writes_changes_and_sends_rejected_records_to_the_dead_letter_queue(
    process: Callable[..., Process], shop: PostgresShop, unique_name: Name
) -> None:
    one, dlq = process(), unique_name("dlq")
    people, orders = (Topic(one.bootstrap, unique_name(stem)) for stem in ("customers", "orders"))
    shop.run(f"CREATE TABLE {people.name}(id int PRIMARY KEY, name text, age int CHECK (age < 100))")
    people.send(*[(number, "x", 200 if number % 50 == 7 else 1) for number in range(200)], 3)
    orders.send((1, "first", 1), (2, "second", 2), 1)
    own = {"name": f"sink-{people.name}", "topics": f"{people.name},{orders.name}", "errors.deadletterqueue.topic.name": dlq}
    example = dict(read_properties(CONFIGS / "jdbc-sink.properties")) | shop.keys | own
    file = one.folder / "jdbc-sink.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in example.items()))
    one.start(file).wait_ready()

    def offsets() -> dict[str, int]:
        found = one.get(f"/connectors/{own['name']}/offsets")["offsets"]
        return {entry["partition"]["kafka_topic"]: entry["offset"]["kafka_offset"] for entry in found}

    eventually(lambda: offsets() == {people.name: 201, orders.name: 3}, "all is committed", explain=one.text)
    assert shop.rows(f"SELECT count(*), max(age) FROM {people.name}") == [(195, 1)]
    assert shop.rows(f"SELECT * FROM {orders.name}") == [(2, "second", 2)]
    letters = dead_letters(one.bootstrap, dlq)
    assert [number for number, _ in letters] == [7, 57, 107, 157]
    assert all(f'violates check constraint "{people.name}_age_check"' in words for _, words in letters)
    assert [task["state"] for task in one.get(f"/connectors/{own['name']}/status")["tasks"]] == ["RUNNING", "RUNNING"]
    assert one.end() == 0


def dead_letters(bootstrap: str, topic: str) -> list[tuple[int, str]]:
    """Numbers of people, with what is said of them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "enable.auto.commit": False})
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)[1]
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[tuple[int, str]] = []
        while len(found) < end:
            for message in consumer.consume(end - len(found), 1.0):
                headers = dict(message.headers() or [])
                number = json.loads(message.value() or b"")["payload"]["id"]
                found.append((number, (headers["__connect.errors.exception.message"] or b"").decode()))
        return found
    finally:
        consumer.close()


@pytest.mark.long
def test_errant_record_without_tolerance_fails_the_task_and_is_named(
    process: Callable[..., Process], shop: PostgresShop, unique_name: Name
) -> None:
    one = process()
    topic = Topic(one.bootstrap, unique_name("people"))
    topic.send((1, "x", 1), 1)
    one.start(sink(one, shop, topic.name, delete__enabled="false")).wait_ready()

    def task() -> dict[str, Any]:
        found: dict[str, Any] = one.get(f"/connectors/sink-{topic.name}/status")["tasks"][0]
        return found

    eventually(lambda: task()["state"] == "FAILED", "FAILED", explain=one.text)
    first = task()["trace"]
    assert f"Record of topic {topic.name}, partition 0, offset 1 cannot be written: Sink connector" in first
    assert "set delete.enabled=true" in first
    assert shop.server.password not in one.text()
    assert one.end() == 0
