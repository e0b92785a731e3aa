"""Reads the first partition of a topic for a source task (:class:`connect.source.TopicReader`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, TopicPartition

from connect.source import TopicRecord
from worker.kafka.clients import make_consumer

log = logging.getLogger(__name__)

_BATCH = 500
_COMMIT_WAIT_S = 5.0
_DEFAULTS = {"auto.offset.reset": "earliest", "session.timeout.ms": "10000", "fetch.max.wait.ms": "1000"}
_FIXED = {"enable.auto.commit": "false"}
_TEMPORARY = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT)


class FirstPartitionReader:
    """Reads partition 0. A consumer with an assigned partition is no member of its group, so it waits for no other one."""

    def __init__(self, java: Mapping[str, str], topic: str, position: int | None) -> None:
        """``java`` are the consumer's settings. Raises ConfigError for settings that cannot work."""
        self._partition = TopicPartition(topic, 0)
        self._problem: int | None = None
        self._consumer: Consumer = make_consumer({**_DEFAULTS, **java, **_FIXED}, error_cb=self._on_error, log_level="0")
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_STORED if position is None else position)])

    def read(self) -> Sequence[TopicRecord]:
        found = []
        for message in self._consumer.consume(_BATCH, 0):
            error = message.error()
            if error is not None:
                self._on_error(error)
                continue
            self._problem = None
            found.append(TopicRecord(message.offset() or 0, message.key(), message.value()))
        return found

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != self._problem:
            self._problem = error.code()
            level = logging.INFO if error.code() in _TEMPORARY else logging.WARNING
            log.log(level, "topic %s cannot be read now: %s", self._partition.topic, error.str())

    def commit(self, position: int) -> None:
        try:
            self._consumer.commit(offsets=[TopicPartition(self._partition.topic, 0, position)], asynchronous=True)
        except KafkaException as e:
            log.warning("cannot commit offset %d of topic %s: %s", position, self._partition.topic, e.args[0].str())

    def close(self) -> None:
        self._consumer.close()
