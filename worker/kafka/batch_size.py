"""Whether the topics take batches of a producer's ``batch.size``. Unlike Java's client, librdkafka does not split those that are
too large."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, Message


class BatchSizeCheck:
    """Finds refused batches by the errors of their records."""

    def __init__(self, java: Mapping[str, str], smaller_size: int) -> None:
        """``java`` are the producer's settings. ``smaller_size``, in bytes, is the ``batch.size`` of a producer that could
        replace it; 0: there is none."""
        self._size = java.get("batch.size")
        self._smaller_size = smaller_size
        self.refusal: str | None = None
        """What to tell the user of a refused batch that a smaller ``batch.size`` may avoid."""

    def is_to_blame(self, error: KafkaError, message: Message) -> bool:
        """Whether a record was not written because its batch was too large; then there is a :attr:`refusal`."""
        size = len(message.key() or b"") + len(message.value() or b"")
        if error.code() != KafkaError.MSG_SIZE_TOO_LARGE or size >= self._smaller_size:
            return False
        self.refusal = (
            f"topic {message.topic()} takes no batches of batch.size={self._size} (max.message.bytes of the topic, "
            "message.max.bytes of the broker)"
        )
        return True
