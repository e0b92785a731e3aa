"""Idempotent producers, which keep records in order (promise 3), and their fatal errors.

Unlike in Java, one request in flight does not preserve the order: librdkafka prepares the next request meanwhile and sends it
before it resends a rejected one (seen in 2.16, when a broker had just restarted and did not lead the partition yet). The broker
rejects idempotent batches that are out of order. The cost is not measurable, except that the first record may take half a second
longer: librdkafka waits that long before it asks for a producer ID.

An idempotent producer fails for good if its sequence numbers and the broker's differ, as after a leader election that lost
records, or if it gets no producer ID: brokers before 2.8 require the permission IDEMPOTENT_WRITE on the cluster (KIP-679).
Another producer can then continue after the last acknowledged record.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException

from connect.errors import causes

_KEY = "enable.idempotence"
_MAX_IN_FLIGHT = 5
"""The number of batches per producer that brokers remember."""

PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
CLIENT_ENDED = PURGED | {
    KafkaError._FATAL,
    KafkaError._FENCED,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.UNKNOWN_PRODUCER_ID,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
"""The errors of deliveries when the client itself has failed. It reports its own error a moment later."""
_DENIED = frozenset({KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError._UNSUPPORTED_FEATURE})

NOT_IDEMPOTENT_HINT = (
    "Without IDEMPOTENT_WRITE on the cluster the order of records can change when a broker refuses some for a while"
)


def with_idempotence(java: Mapping[str, str]) -> dict[str, str]:
    """Returns a producer's settings with idempotence enabled.

    As in Java's client, nothing changes if ``enable.idempotence`` or a setting that contradicts it is configured.
    """
    if _KEY in java or not _may_be_idempotent(java):
        return dict(java)
    return {**java, _KEY: "true"}


def _may_be_idempotent(java: Mapping[str, str]) -> bool:
    in_flight = java.get("max.in.flight.requests.per.connection", "1")
    return (
        java.get("acks", "all").strip().lower() in ("all", "-1")
        and java.get("retries", "").strip() != "0"
        and in_flight.strip().isdecimal()
        and int(in_flight) <= _MAX_IN_FLIGHT
    )


def is_idempotence_denied(error: KafkaError) -> bool:
    """Whether the client has failed because it may not be idempotent. Nothing was written then."""
    return error.code() in _DENIED


def find_client_error(error: KafkaException | SystemError) -> KafkaError:
    """Returns the client's error behind an exception of a call into it. Raises the exception itself if there is none.

    After a fatal error the client calls callbacks with its exception set; their first call into the client then raises a
    SystemError instead (seen in confluent-kafka 2.16).
    """
    cause = next((cause for cause in causes(error) if isinstance(cause, KafkaException)), None)
    if cause is None:
        raise error
    found: KafkaError = cause.args[0]
    return found
