"""Reads and writes records on a terminal, for ``sluice topic consume`` and ``produce``, like kafka-console-consumer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from connect.errors import NotFoundError
from worker.kafka.admin import KafkaAdmin, consumer, require_reachable, translated, unreachable
from worker.kafka.clients import make_producer
from worker.kafka.stored_records import KafkaRecord, kafka_record

_POLL_S = 0.1
_READ_RECORDS = 2000


def consume(
    properties: Mapping[str, str],
    topic: str,
    *,
    from_beginning: bool,
    partition: int | None = None,
    offset: int | None = None,
    max_messages: int | None = None,
    timeout_ms: int | None = None,
    on_start: Callable[[int], None] | None = None,
) -> Iterator[KafkaRecord]:
    """Yields records of ``topic`` as they arrive, in the order of each partition.

    Starts at the end, at the start, or for one ``partition`` at ``offset``. Ends after ``max_messages``, or when no record
    arrived for ``timeout_ms``; otherwise never. Joins no group and commits nothing. Raises `NotFoundError` and
    `UnreachableError`. ``on_start`` is called with the number of offsets between the start and the end that the topic has then.
    """
    admin = KafkaAdmin(properties)
    numbers = admin.partition_numbers(topic)
    if partition is not None:
        if partition not in numbers:
            raise NotFoundError(f"topic '{topic}' has no partition {partition}; it has {len(numbers)}")
        numbers = [partition]
    start = offset if offset is not None else OFFSET_BEGINNING if from_beginning else OFFSET_END
    if on_start is not None and start != OFFSET_END:
        ends = admin.offsets([(topic, number) for number in numbers])
        on_start(sum(max(0, end - max(first, start)) for first, end in ends.values()))
    client = consumer({**properties, "auto.offset.reset": "earliest"})
    try:
        client.assign([TopicPartition(topic, number, start) for number in numbers])
        yield from _poll(client, properties["bootstrap.servers"], topic, max_messages, timeout_ms)
    finally:
        client.close()


class PartitionReader:
    """Reads several partitions from given offsets on, as their records arrive. Joins no group and commits nothing."""

    def __init__(self, properties: Mapping[str, str], starts: Mapping[tuple[str, int], int]) -> None:
        self._client = consumer({**properties, "auto.offset.reset": "earliest"})
        self._client.assign([TopicPartition(topic, number, start) for (topic, number), start in starts.items()])

    def read(self, timeout_s: float) -> list[KafkaRecord]:
        """Returns some records that have arrived; waits this long at most. Errors of the connection are left to other clients."""
        return [kafka_record(message) for message in self._client.consume(_READ_RECORDS, timeout_s) if message.error() is None]

    def close(self) -> None:
        self._client.close()


def _poll(
    client: Consumer, bootstrap: str, topic: str, max_messages: int | None, timeout_ms: int | None
) -> Iterator[KafkaRecord]:
    seen = 0
    last = time.monotonic()
    while max_messages is None or seen < max_messages:
        room = 500 if max_messages is None else min(500, max_messages - seen)
        for message in client.consume(room, _POLL_S):
            if (error := message.error()) is None:
                yield kafka_record(message)
                seen += 1
                last = time.monotonic()
            elif error.code() != KafkaError._PARTITION_EOF and (error.fatal() or not error.retriable()):
                raise translated(error, f"topic '{topic}'", bootstrap)
        if timeout_ms is not None and (time.monotonic() - last) * 1000 > timeout_ms:
            return


def produce(
    properties: Mapping[str, str],
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    partition: int | None = None,
    timeout_s: float = 30.0,
) -> int:
    """Writes (key, value) pairs to ``topic``. Returns their number when all are acknowledged.

    Raises the error of the first record that was rejected, `UnreachableError` if the broker does not accept them in time.
    """
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    require_reachable(properties["bootstrap.servers"])
    settings = {"log_level": "0", "linger.ms": "5", "acks": "all", "enable.idempotence": "true"}
    settings["delivery.timeout.ms"] = str(int(timeout_s * 1000))
    client = make_producer({**settings, **properties})
    bootstrap = properties["bootstrap.servers"]
    where = {} if partition is None else {"partition": partition}
    count = 0
    for key, value in records:
        while True:
            try:
                client.produce(topic, value=value, key=key, on_delivery=delivered, **where)
                break
            except BufferError:  # the queue is full: handle acknowledgments
                client.poll(_POLL_S)
            except KafkaException as error:
                raise translated(error.args[0], f"topic '{topic}'", bootstrap) from error
            if failed:
                break
        count += 1
        client.poll(0)
        if failed:
            break
    left = client.flush(timeout_s)
    if failed:
        raise translated(failed[0], f"topic '{topic}'", bootstrap)
    if left:
        raise unreachable(bootstrap)
    return count
