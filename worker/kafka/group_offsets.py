"""Reads and changes the committed offsets of a consumer group from outside of it.

Settings are those of a Java admin client. Each function opens and closes its own clients.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from connect.errors import ConnectError, UnreachableError
from connect.record import TopicPartition
from worker.kafka.admin import require_reachable
from worker.kafka.clients import kafka_error, make_admin, make_consumer

T = TypeVar("T")

log = logging.getLogger(__name__)

_TIMEOUT_S = 20.0
"""The timeout of one request. The first one about groups makes a cluster create its offsets topic, which takes time; four
requests, as many as a change needs, stay below the 90 seconds after which REST gives up."""
_AGAIN_S = 0.1
_WRITE_ATTEMPTS = 3

_IN_USE = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
_MOVING = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE})
_NO_PARTITION = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


class GroupInUseError(ConnectError):
    """The group has members, and only they may commit for it."""


class UnknownPartitionError(ConnectError):
    """An offset is for a partition that does not exist."""


class Committed(NamedTuple):
    """An offset with the metadata that was committed with it."""

    offset: int
    metadata: str | None


def committed(java: Mapping[str, str], group: str) -> dict[TopicPartition, Committed]:
    """Returns the group's committed offsets; empty if there is no such group. Raises UnreachableError, ConnectError."""
    return _retry_coordinator(lambda: _committed(java, group))


def partitions(java: Mapping[str, str]) -> list[TopicPartition]:
    """Returns those of all topics. Raises UnreachableError, ConnectError."""
    return _partitions(_admin(java), _bootstrap(java))


def require_partitions(java: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> None:
    """Raises UnknownPartitionError if a partition with an offset does not exist: the broker would commit the others."""
    new = [tp for tp, offset in offsets.items() if offset is not None]
    there = set(partitions(java)) if new else set()
    for tp in new:
        if tp not in there:
            raise UnknownPartitionError(f"there is no partition {tp.topic}-{tp.partition}")


def _committed(java: Mapping[str, str], group: str) -> dict[TopicPartition, Committed]:
    # A consumer that never joins is used: the admin client's list_consumer_group_offsets ends the process with a segmentation
    # fault if the group's coordinator does not exist yet (confluent-kafka 2.16.1, first group request to a fresh broker).
    every = [Position(tp.topic, tp.partition) for tp in _partitions(_admin(java), _bootstrap(java))]
    consumer = make_consumer({**java, "group.id": group, "enable.auto.commit": "false"}, log_level="0")
    try:
        found = consumer.committed(every, timeout=_TIMEOUT_S) if every else []
    except KafkaException as e:
        raise _convert_error(e.args[0], f"reading the offsets of consumer group {group}", java) from e
    finally:
        consumer.close()
    return {TopicPartition(one.topic, one.partition): Committed(one.offset, one.metadata) for one in found if one.offset >= 0}


def has_members(java: Mapping[str, str], group: str) -> bool:
    """Whether the group has members. Raises UnreachableError, ConnectError."""
    admin = _admin(java)  # kept until it has answered: its requests end with the client

    def ask() -> bool:
        request = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_S)
        return bool(_result(request[group], f"describing consumer group {group}", java).members)

    try:
        return _retry_coordinator(ask)
    except _BrokerError as e:
        if e.code == KafkaError.GROUP_ID_NOT_FOUND:
            return False
        raise


def delete_group(java: Mapping[str, str], group: str) -> None:
    """Deletes the group with its offsets; a missing group is no error. Raises GroupInUseError, UnreachableError, ConnectError."""
    admin = _admin(java)

    def delete() -> None:
        request = admin.delete_consumer_groups([group], request_timeout=_TIMEOUT_S)
        _result(request[group], f"deleting consumer group {group}", java)

    try:
        _retry_coordinator(delete)
    except _BrokerError as e:
        if e.code != KafkaError.GROUP_ID_NOT_FOUND:
            raise


def alter(java: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Commits offsets for the group; None deletes a partition's offset. The caller has checked them with
    :func:`require_partitions`. Raises GroupInUseError, UnknownPartitionError, ConnectError.

    To delete the offset of a single partition, the group must be deleted and its other offsets committed again. The broker cannot
    do both in one step; if the second one fails, the group's offsets are logged.
    """
    new = {tp: Committed(offset, None) for tp, offset in offsets.items() if offset is not None}
    forgotten = {tp for tp, offset in offsets.items() if offset is None}
    if not forgotten:
        _commit(java, group, new)
        return
    had = committed(java, group)
    if forgotten.isdisjoint(had):
        if new:
            _commit(java, group, new)
        return
    delete_group(java, group)
    kept = {tp: one for tp, one in had.items() if tp not in forgotten}
    after = {**kept, **new}
    if after:
        _restore(java, group, after)


def _restore(java: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    for attempt in range(1, _WRITE_ATTEMPTS + 1):
        try:
            _commit(java, group, offsets)
            return
        except ConnectError as e:
            if attempt < _WRITE_ATTEMPTS:
                continue
            stored = ", ".join(f"{tp.topic}-{tp.partition}: {one.offset}" for tp, one in sorted(offsets.items()))
            log.error("Consumer group %s was deleted and its offsets could not be committed again. They are: %s", group, stored)
            raise ConnectError(
                f"{e.message}. The group has no offsets now; alter them once more, with all of these: {stored}"
            ) from e


def _retry_coordinator(ask: Callable[[], T]) -> T:
    """Returns the answer; retries while the group's coordinator is moving or being created, as on a cluster without any group."""
    deadline = time.monotonic() + _TIMEOUT_S
    pause = threading.Event()
    while True:
        try:
            return ask()
        except _BrokerError as e:
            if e.code not in _MOVING or time.monotonic() >= deadline:
                raise
        pause.wait(_AGAIN_S)


def _commit(java: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    _retry_coordinator(lambda: _commit_once(java, group, offsets))


def _commit_once(java: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    parts = [Position(tp.topic, tp.partition, one.offset, one.metadata or "") for tp, one in offsets.items()]
    what = f"committing offsets for consumer group {group}"
    admin = _admin(java)
    try:
        request = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, parts)], request_timeout=_TIMEOUT_S)
    except KafkaException as e:
        raise kafka_error(e.args[0], what, _bootstrap(java)) from e
    except ValueError as e:
        raise UnknownPartitionError(f"{what}: {e}") from e
    answer = _result(request[group], what, java)
    for part in answer.topic_partitions:
        if part.error is not None:
            raise _convert_error(part.error, f"{what}, {part.topic}-{part.partition}", java)


class _BrokerError(ConnectError):
    """Converts an error of the broker that has a special meaning for the caller."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def _convert_error(error: KafkaError, what: str, java: Mapping[str, str]) -> ConnectError:
    found = kafka_error(error, what, _bootstrap(java))
    if error.code() in _IN_USE:
        return GroupInUseError(found.message)
    if error.code() in _NO_PARTITION:
        return UnknownPartitionError(found.message)
    return found if isinstance(found, UnreachableError) else _BrokerError(found.message, error.code())


def _result(future: Future[T], what: str, java: Mapping[str, str]) -> T:
    try:
        return future.result(_TIMEOUT_S + 5)
    except KafkaException as e:
        raise _convert_error(e.args[0], what, java) from e
    except TimeoutError as e:
        raise UnreachableError(f"{what}: no answer from {_bootstrap(java)} within {_TIMEOUT_S + 5:g} s") from e


def _admin(java: Mapping[str, str]) -> AdminClient:
    bootstrap = _bootstrap(java)
    try:
        require_reachable(bootstrap)
    except UnreachableError as e:
        raise UnreachableError(
            f"no Kafka broker answers at {bootstrap}. Check bootstrap.servers and security.protocol, and that the broker runs"
        ) from e
    return make_admin(java, log_level="0")


def _partitions(admin: AdminClient, bootstrap: str) -> list[TopicPartition]:
    # All topics are requested: a request for one topic would create it if the broker creates topics automatically.
    try:
        topics: Mapping[str, Any] = admin.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as e:
        raise kafka_error(e.args[0], "reading the topics", bootstrap) from e
    return [TopicPartition(name, number) for name, found in topics.items() for number in found.partitions]


def _bootstrap(java: Mapping[str, str]) -> str:
    return java["bootstrap.servers"]
