"""A topic with records of which some are dead letters of a sink with a Cast transformation, and its queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from connect.plugins import Plugins
from tests.support.waiting import WAIT_S, Deadline
from worker.config.secrets import SecretMask
from worker.dead_letters.engine import answer
from worker.dead_letters.reader import LetterSource

JSON = "org.apache.kafka.connect.json.JsonConverter"
PREFIX = "__connect.errors."
CAST = "org.apache.kafka.connect.transforms.Cast$Value"
EDIT = {"transforms": "", "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
"""With it, every record passes."""


@dataclass
class QueueCase:
    """One connector's topic and queue."""

    bootstrap: str
    connector: str
    topic: str
    queue: str

    @classmethod
    def create(cls, bootstrap: str, unique_name: Callable[[str], str], partitions: int = 2) -> QueueCase:
        case = cls(bootstrap, unique_name("sink"), unique_name("topic"), unique_name("dlq"))
        admin = AdminClient({"bootstrap.servers": bootstrap})
        # Retention goes by the records' timestamps, which are old here.
        keep = {"retention.ms": "-1"}
        topics = [NewTopic(case.topic, partitions, 1, config=keep), NewTopic(case.queue, 1, 1, config=keep)]
        for future in admin.create_topics(topics).values():
            future.result(WAIT_S)
        return case

    @property
    def config(self) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSink",
            "topics": self.topic,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "transforms": "amount",
            "transforms.amount.type": CAST,
            "transforms.amount.spec": "amount:int32",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": self.queue,
            "errors.deadletterqueue.context.headers.enable": "true",
        }

    def produce(self, topic: str, records: list[dict[str, Any]]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for record in records:
            producer.produce(topic, **record)
        assert producer.flush(WAIT_S) == 0
        producer.close()

    def letter(self, offset: int, value: bytes | None, **more: Any) -> dict[str, Any]:
        """A dead letter as a worker writes it."""
        context = {
            "topic": self.topic, "partition": str(more.pop("origin_partition", 0)), "offset": str(offset),
            "connector.name": more.pop("connector", self.connector), "task.id": "0",
            "stage": more.pop("stage", "TRANSFORMATION"), "class.name": CAST,
            "exception.class.name": "org.apache.kafka.connect.errors.DataException",
            "exception.message": more.pop("message", f"Could not parse field 'amount': value {offset}"),
            "exception.stacktrace": "org.apache...",
        }  # fmt: skip
        headers = [("mine", b"\x00\xff"), ("none", None), *((PREFIX + name, text.encode()) for name, text in context.items())]
        return {"key": f"k{offset}", "value": value, "headers": headers, "timestamp": 1_700_000_000_000 + offset, **more}

    def answer(self, request: Mapping[str, Any], edits: Mapping[str, str] | None = None) -> dict[str, Any]:
        return answer(self.source(edits), request)

    def source(self, edits: Mapping[str, str] | None = None) -> LetterSource:
        clients = {"bootstrap.servers": self.bootstrap}
        config = {**self.config, **(edits or {})}
        return LetterSource(self.connector, config, None, Plugins.discover(), clients, clients, SecretMask())

    def committed(self, topic: str, count: int = 0) -> list[Any]:
        """All committed records of a topic by partition, in order; waits until there are ``count``.

        A broker answers a commit before readers see the records.
        """
        deadline = Deadline(f"{count} records of {topic}", lambda: found)
        while len(found := self._read_committed(topic)) < count:
            deadline.check()
        return found

    def _read_committed(self, topic: str) -> list[Any]:
        settings = {"enable.auto.commit": False, "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test-reader", "fetch.wait.max.ms": 20, **settings})
        try:
            numbers = sorted(consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
            found: list[Any] = []
            ended: set[int] = set()
            while len(ended) < len(numbers):
                for message in consumer.consume(500, 0.02):
                    if message.error() is None:
                        found.append(message)
                    else:
                        ended.add(message.partition())
            return sorted(found, key=lambda one: (one.partition(), one.offset()))
        finally:
            consumer.close()
