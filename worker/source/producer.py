"""What a source task's records are passed to: Kafka's producer, or the writer of a spool."""

from __future__ import annotations

from typing import Protocol

from confluent_kafka import KafkaError, Message

from worker.kafka.record_producer import DeliveryCallback, ProducerRun


class SourceProducer(Protocol):
    """Used by its task's thread only, except :meth:`cancel`. The contracts are those of
    :class:`worker.kafka.record_producer.RecordProducer`."""

    sent: int
    unavailable_at: float

    def __len__(self) -> int: ...

    def send_run(self, run: ProducerRun, on_delivery: DeliveryCallback | None = None) -> None: ...

    def send_one(self, run: ProducerRun, on_delivery: DeliveryCallback) -> None: ...

    def send_now(self) -> None: ...

    def serve(self) -> None: ...

    def drain(self, timeout_s: float) -> bool: ...

    def record_error(self, error: KafkaError, message: Message) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...
