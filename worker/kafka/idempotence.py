"""Producers that number their batches (idempotence), so that no record overtakes another one (promise 3), and what they may meet.

One request in flight does not keep the order alone, as it does in Java: librdkafka makes the next request ready meanwhile, and
sends it before it sends again what was refused (seen in 2.16, of a broker that had just come back and did not lead the partition
yet). Numbered batches are refused out of their order. That costs nothing that can be measured, but the client's first record may
come half a second later: so long librdkafka waits before it asks for the number to begin with.

A numbered producer ends for good when the broker's numbers and its own do not agree, as after an election that lost records, or
when it is given none: brokers before 2.8 ask for a right of its own, IDEMPOTENT_WRITE on the cluster (KIP-679). Another one may
go on then, from what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException

_KEY = "enable.idempotence"
_MOST_IN_FLIGHT = 5
"""Brokers remember no more batches."""

PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
ENDED = PURGED | {
    KafkaError._FATAL,
    KafkaError._FENCED,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.UNKNOWN_PRODUCER_ID,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
"""What deliveries fail with when it is the client that can go on no more. It tells of that a moment later."""
_NOT_GIVEN = frozenset({KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError._UNSUPPORTED_FEATURE})

WITHOUT = "Without IDEMPOTENT_WRITE on the cluster the order of records can change when a broker refuses some for a while"


def with_order(java: Mapping[str, str]) -> dict[str, str]:
    """A producer's settings, with batches numbered.

    As in Java's client nothing is changed where ``enable.idempotence`` is set, or what does not go with it.
    """
    if _KEY in java or not _may_be_numbered(java):
        return dict(java)
    return {**java, _KEY: "true"}


def _may_be_numbered(java: Mapping[str, str]) -> bool:
    in_flight = java.get("max.in.flight.requests.per.connection", "1")
    return (
        java.get("acks", "all").strip().lower() in ("all", "-1")
        and java.get("retries", "").strip() != "0"
        and in_flight.strip().isdecimal()
        and int(in_flight) <= _MOST_IN_FLIGHT
    )


def no_numbers_given(error: KafkaError) -> bool:
    """Whether the client has ended because it may not number anything; nothing was written then."""
    return error.code() in _NOT_GIVEN


def raised_by_client(error: KafkaException | SystemError) -> KafkaError:
    """The error that a call into the client ended with.

    On a fatal error it goes on calling callbacks with its exception set, so that the first call of theirs into the client raises
    a SystemError in its place (seen in confluent-kafka 2.16). Raises ``error`` when there is nothing of the client behind it.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KafkaException):
        cause = cause.__cause__
    if cause is None:
        raise error
    found: KafkaError = cause.args[0]
    return found
