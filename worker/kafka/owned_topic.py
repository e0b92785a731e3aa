"""A topic that one source task keeps (:class:`connect.source.OwnedTopic`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from connect.errors import ConnectError, UnreachableError
from connect.source import OwnedTopicSettings, TopicRecord
from worker.kafka.clients import LastReport, kafka_error, make_admin, make_consumer, make_producer

log = logging.getLogger(__name__)

_BATCH = 500
_SLICE_S = 0.1
_CONSUMER = {"auto.offset.reset": "earliest", "group.id": "sluice-owned-topic", "session.timeout.ms": "10000"}
_CONSUMER_FIXED = {"enable.auto.commit": "false"}
_PRODUCER = {
    "max.in.flight.requests.per.connection": "1",
    # Debezium's: IDEMPOTENT_WRITE is not needed. One record at a time is in flight, or a batch that is read again as a whole.
    "enable.idempotence": "false",
    "linger.ms": "0",
}
_PRODUCER_FIXED = {"acks": "all"}
_APPEND_TIMEOUT_MS = 120_000
"""Java's delivery.timeout.ms."""


class KafkaOwnedTopic:
    """Partition 0 of a topic. Its clients are created when they are first needed."""

    def __init__(self, topic: str, settings: OwnedTopicSettings) -> None:
        self._topic = topic
        self._settings = settings
        self._bootstrap = settings.producer["bootstrap.servers"]
        self._producer: Producer | None = None
        self._admin: AdminClient | None = None
        self._last_report = LastReport()

    def exists(self) -> bool:
        return self._partition_count() > 0

    def _partition_count(self) -> int:
        try:
            # All topics: a broker would create one that is asked for by name.
            found = self._require_admin().list_topics(timeout=self._settings.query_timeout_s).topics.get(self._topic)
        except KafkaException as e:
            raise self._error(e.args[0], "looking for topic") from e
        return 0 if found is None else len(found.partitions)

    def create(self, configs: Mapping[str, str]) -> None:
        if self.exists():
            return
        timeout_s = self._settings.create_timeout_s
        new = NewTopic(self._topic, num_partitions=1, replication_factor=-1, config=dict(configs))
        try:
            self._require_admin().create_topics([new], request_timeout=timeout_s)[self._topic].result(timeout_s + 5)
        except KafkaException as e:
            if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._error(e.args[0], "creating topic") from e
        except TimeoutError as e:
            raise UnreachableError(f"creating topic {self._topic}: no answer from {self._bootstrap} in {timeout_s:g} s") from e
        else:
            log.info("created topic %s", self._topic)

    def is_empty(self) -> bool:
        if not self._has_one_partition():
            return True
        consumer = self._open_consumer()
        try:
            first, end = self._watermarks(consumer)
            return end <= first
        finally:
            consumer.close()

    def _has_one_partition(self) -> bool:
        """Returns False if the topic does not exist. Raises ConnectError for more partitions, whose records have no order."""
        count = self._partition_count()
        if count > 1:
            raise ConnectError(f"topic {self._topic} has {count} partitions; expected one, so that its records have an order")
        return count == 1

    def read(self) -> Iterator[TopicRecord]:
        if not self._has_one_partition():
            return
        consumer = self._open_consumer()
        try:
            first, end = self._watermarks(consumer)
            consumer.assign([TopicPartition(self._topic, 0, first)])
            deadline = time.monotonic() + self._settings.read_timeout_s
            while self._position(consumer, first) < end:
                messages = consumer.consume(_BATCH, _SLICE_S)
                for message in messages:
                    if (error := message.error()) is not None:
                        raise self._error(error, "reading topic")
                    offset = message.offset()
                    assert offset is not None
                    if offset < end:
                        yield TopicRecord(offset, message.key(), message.value())
                if messages:
                    deadline = time.monotonic() + self._settings.read_timeout_s
                elif time.monotonic() > deadline:
                    raise UnreachableError(
                        f"reading topic {self._topic}: no records for {self._settings.read_timeout_s:g} s at offset "
                        f"{self._position(consumer, first)} of {end}"
                    )
        finally:
            consumer.close()

    def _position(self, consumer: Consumer, first: int) -> int:
        """Returns the offset of the next record; transaction markers count, too."""
        offset = consumer.position([TopicPartition(self._topic, 0)])[0].offset
        return first if offset < 0 else int(offset)

    def _watermarks(self, consumer: Consumer) -> tuple[int, int]:
        timeout_s = self._settings.query_timeout_s
        try:
            found = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=timeout_s)
        except KafkaException as e:
            raise self._error(e.args[0], "reading topic") from e
        if found is None:
            raise UnreachableError(f"reading topic {self._topic}: no answer from {self._bootstrap} in {timeout_s:g} s")
        first, end = found
        return int(first), int(end)

    def append(self, values: Sequence[bytes]) -> None:
        if self._producer is None:
            settings = {**_PRODUCER, **self._settings.producer, **_PRODUCER_FIXED}
            self._producer = make_producer(settings, error_cb=self._last_report)
        timeout_s = int(self._settings.producer.get("delivery.timeout.ms", _APPEND_TIMEOUT_MS)) / 1000 + 5
        failures: list[KafkaError] = []
        acknowledged = 0

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            nonlocal acknowledged
            if error is None:
                acknowledged += 1
            else:
                failures.append(error)

        deadline = time.monotonic() + timeout_s
        for value in values:
            self._produce(self._producer, value, on_delivery, deadline)
        while acknowledged + len(failures) < len(values) and time.monotonic() < deadline:
            self._producer.poll(_SLICE_S)
        if failures:
            raise self._error(failures[0], "writing to topic")
        if acknowledged < len(values):
            raise UnreachableError(f"writing to topic {self._topic}: no acknowledgment in {timeout_s:g} s")

    def _produce(self, producer: Producer, value: bytes, on_delivery: object, deadline: float) -> None:
        while True:
            try:
                producer.produce(self._topic, value, None, 0, on_delivery=on_delivery)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise UnreachableError(f"writing to topic {self._topic}: the producer's buffer stays full") from None
                producer.poll(_SLICE_S)
            except KafkaException as e:
                raise self._error(e.args[0], "writing to topic") from e

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(0)
            self._producer = None
        self._admin = None

    def _require_admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = make_admin(self._settings.producer, error_cb=self._last_report)
        return self._admin

    def _open_consumer(self) -> Consumer:
        return make_consumer({**_CONSUMER, **self._settings.consumer, **_CONSUMER_FIXED}, error_cb=self._last_report)

    def _error(self, error: KafkaError, what: str) -> ConnectError:
        return kafka_error(error, f"{what} {self._topic}", self._bootstrap, self._last_report.error)
