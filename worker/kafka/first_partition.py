"""Reads the first partition of a topic for a source task (:class:`connect.source.TopicReader`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, TopicPartition

from connect.errors import ConnectError
from connect.source import TopicRecord
from worker.kafka.clients import BrokerNotices, kafka_error, make_consumer

log = logging.getLogger(__name__)

_BATCH = 500
_CLOSE_S = 3.0
"""How long to wait for the last commit."""
_DEFAULTS = {
    "auto.offset.reset": "earliest",
    "session.timeout.ms": "10000",
    "fetch.max.wait.ms": "1000",
    "topic.metadata.propagation.max.ms": "5000",  # after this, a topic that does not exist is an error
}
_FIXED = {"enable.auto.commit": "false"}


class FirstPartitionReader:
    """Reads partition 0. A consumer with an assigned partition is no member of its group, so it waits for no other one."""

    def __init__(self, java: Mapping[str, str], topic: str, position: int | None) -> None:
        """``java`` are the consumer's settings. Raises ConfigError for settings that cannot work."""
        self._topic = topic
        self._bootstrap = java["bootstrap.servers"]
        self._notices = BrokerNotices(self._bootstrap)
        self._reported: str | None = None
        self._commits = 0
        self._consumer: Consumer = make_consumer(
            {**_DEFAULTS, **java, **_FIXED}, error_cb=self._on_client_error, on_commit=self._on_commit
        )
        self._start = TopicPartition(topic, 0, OFFSET_STORED if position is None else position)
        self._consumer.assign([self._start])

    def read(self) -> Sequence[TopicRecord]:
        found = []
        for message in self._consumer.consume(_BATCH, 0):
            error = message.error()
            if error is not None:
                self._report(kafka_error(error, f"reading topic {self._topic}", self._bootstrap))
                if error.code() == KafkaError.NOT_COORDINATOR:
                    self._consumer.assign([self._start])  # librdkafka does not ask again for the group's offset (its issue 5586)
                continue
            self._reported = None
            found.append(TopicRecord(message.offset() or 0, message.key(), message.value()))
        if found:
            self._start = TopicPartition(self._topic, 0, found[-1].offset + 1)
        return found

    def _on_client_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:  # the client keeps asking, so the topic may be created later
            self._report(kafka_error(error, f"reading topic {self._topic}", self._bootstrap))
        elif (failure := self._notices.failure(error)) is not None:
            self._report(failure)

    def _report(self, problem: ConnectError) -> None:
        """Logs a problem, once until something is read."""
        if problem.message != self._reported:
            self._reported = problem.message
            log.warning("topic %s cannot be read now: %s", self._topic, problem.message)

    def commit(self, position: int) -> None:
        try:
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, position)], asynchronous=True)
            self._commits += 1
        except KafkaException as e:
            self._report(kafka_error(e.args[0], f"committing offset {position} of topic {self._topic}", self._bootstrap))

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        self._commits -= 1
        if error is not None:
            self._report(kafka_error(error, f"committing an offset of topic {self._topic}", self._bootstrap))

    def close(self) -> None:
        deadline = time.monotonic() + _CLOSE_S
        while self._commits > 0 and time.monotonic() < deadline:
            self._consumer.poll(0.05)
        self._consumer.close()
