"""Topics and consumer groups for the command line: list, describe, create, alter, delete, and reset offsets.

Takes values and returns plain dataclasses; raises errors of `connect.errors`. Each function opens and closes its own client, so
this is not for running tasks.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from connect.errors import (
    AlreadyExistsError,
    ConfigError,
    ConnectError,
    IllegalStateError,
    NotFoundError,
    UnreachableError,
)
from connect.suggestions import nearest
from worker.kafka.clients import make_admin, make_consumer

T = TypeVar("T")

_UNREACHABLE = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
_NOT_FOUND = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.GROUP_ID_NOT_FOUND,
}
_WRONG_REQUEST = {
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError._INVALID_ARG,
}


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition. ``earliest`` is the offset of the first record that a consumer may read, ``latest`` that of the next one."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its partitions and the configs that differ from the broker's defaults."""

    name: str
    partitions: tuple[Partition, ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """A group's committed offset for one partition. ``lag`` is None if nothing is committed."""

    topic: str
    partition: int
    committed: int | None
    latest: int
    lag: int | None
    consumer_id: str | None


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    state: str
    protocol: str
    members: int
    partitions: tuple[GroupPartition, ...]


class KafkaAdmin:
    """Administers one Kafka cluster. ``properties`` are settings of Java's clients or librdkafka, with ``bootstrap.servers``.

    Raises `UnreachableError` at once if no server accepts a connection, or later if none answers within ``timeout_s``.
    """

    def __init__(self, properties: Mapping[str, str], timeout_s: float = 10.0) -> None:
        self.bootstrap = properties["bootstrap.servers"]
        self._timeout_s = timeout_s
        quiet = {"log_level": "0", "socket.connection.setup.timeout.ms": "5000", "reconnect.backoff.ms": "20"}
        self._properties = {**quiet, **properties}
        require_reachable(self.bootstrap)
        self._client = make_admin(self._properties)

    def topic_names(self) -> list[str]:
        """Returns all topics, sorted, including internal ones."""
        return sorted(self._metadata().topics)

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        """Creates a topic. Raises `AlreadyExistsError`, or `ConfigError` with the broker's reason."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=dict(configs))
        self._one(self._client.create_topics([new], request_timeout=self._timeout_s), f"topic '{name}'")

    def delete_topic(self, name: str) -> None:
        self._one(self._client.delete_topics([name], request_timeout=self._timeout_s), f"topic '{name}'")

    def add_partitions(self, name: str, total: int) -> None:
        """Increases the number of partitions to ``total``."""
        request = self._client.create_partitions([NewPartitions(name, total)], request_timeout=self._timeout_s)
        self._one(request, f"topic '{name}'")

    def alter_configs(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Sets topic configs; None resets one to the broker's default. Other configs do not change."""
        entries = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        request = self._client.incremental_alter_configs([resource], request_timeout=self._timeout_s)
        self._one(request, f"topic '{name}'")

    def describe_topic(self, name: str) -> Topic:
        """Returns the topic with offsets and changed configs. Raises `NotFoundError`, which names the nearest topic."""
        found = self._require_topic(name)
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._one(self._client.describe_configs([resource], request_timeout=self._timeout_s), f"topic '{name}'")
        changed = {
            key: str(entry.value)
            for key, entry in sorted(entries.items())
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        offsets = self.offsets([(name, number) for number in found.partitions])
        partitions = tuple(
            Partition(name, number, one.leader, tuple(one.replicas), tuple(one.isrs), *offsets[name, number])
            for number, one in sorted(found.partitions.items())
        )
        return Topic(name, partitions, changed)

    def offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Returns the first and the next offset of each (topic, partition)."""
        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        earliest = self._list_offsets(wanted, OffsetSpec.earliest())
        latest = self._list_offsets(wanted, OffsetSpec.latest())
        return {key: (earliest[key], latest[key]) for key in earliest}

    def offsets_at(self, partitions: Iterable[tuple[str, int]], time_ms: int) -> dict[tuple[str, int], int]:
        """Returns the offset of the first record at or after a time (ms since 1970) of each (topic, partition); the next offset
        if there is none."""
        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        found = self._list_offsets(wanted, OffsetSpec.for_timestamp(time_ms))
        latest = self._list_offsets(wanted, OffsetSpec.latest())
        return {key: latest[key] if found[key] < 0 else found[key] for key in latest}

    def partition_numbers(self, topic: str) -> list[int]:
        return sorted(self._require_topic(topic).partitions)

    def group_names(self) -> list[tuple[str, str]]:
        """Returns all consumer groups with their states, sorted by name."""
        answer = self._wait(self._client.list_consumer_groups(request_timeout=self._timeout_s), "the consumer groups")
        if answer.errors:
            raise translated(answer.errors[0].args[0], "the consumer groups", self.bootstrap)
        return sorted((group.group_id, group.state.name) for group in answer.valid)

    def describe_group(self, name: str) -> Group:
        """Returns state, members, and lag of each partition. Raises `NotFoundError` if there is no such group."""
        if name not in (known := [group for group, _ in self.group_names()]):
            raise NotFoundError(_no_such("consumer group", name, known))
        request = self._client.describe_consumer_groups([name], request_timeout=self._timeout_s)
        described = self._one(request, f"consumer group '{name}'")
        owners = {
            (part.topic, part.partition): member.member_id
            for member in described.members
            if member.assignment
            for part in member.assignment.topic_partitions
        }
        committed = self._committed(name)
        keys = sorted({*committed, *owners})
        offsets = self.offsets(keys) if keys else {}
        partitions = tuple(
            _group_partition(key, committed.get(key), offsets[key][1], owners.get(key)) for key in keys if key in offsets
        )
        protocol = described.partition_assignor or ""
        return Group(name, described.state.name, protocol, len(described.members), partitions)

    def set_group_offsets(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits these offsets for a group without members. Raises `IllegalStateError` if it has members."""
        group = next((state for known, state in self.group_names() if known == name), "EMPTY")
        if group not in ("EMPTY", "DEAD"):
            raise IllegalStateError(f"consumer group '{name}' is {group}: its members must stop before offsets can be set")
        parts = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        request = self._client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, parts)])
        answer = self._one(request, f"consumer group '{name}'")
        for part in answer.topic_partitions:
            if part.error is not None:
                raise translated(part.error, f"{part.topic}:{part.partition} of consumer group '{name}'", self.bootstrap)

    def committed(self, name: str) -> dict[tuple[str, int], int]:
        """Returns the group's committed offsets; empty if it does not exist."""
        return self._committed(name)

    def _committed(self, name: str) -> dict[tuple[str, int], int]:
        # A consumer that never joins is used: the admin client's list_consumer_group_offsets ends the process with a segmentation
        # fault if the group's coordinator does not exist yet (confluent-kafka 2.16.1, first group request to a fresh broker).
        every = [TopicPartition(topic, number) for topic, found in self._metadata().topics.items() for number in found.partitions]
        consumer = make_consumer({**self._properties, "group.id": name, "enable.auto.commit": "false"})
        try:
            answer = consumer.committed(every, timeout=self._timeout_s)
        except KafkaException as error:
            raise translated(error.args[0], f"consumer group '{name}'", self.bootstrap) from error
        finally:
            consumer.close()
        return {(part.topic, part.partition): part.offset for part in answer if part.offset >= 0}

    def _metadata(self) -> Any:
        try:
            return self._client.list_topics(timeout=self._timeout_s)
        except KafkaException as error:
            raise translated(error.args[0], "the topics", self.bootstrap) from error

    def _require_topic(self, name: str) -> Any:
        # All topics are requested: a request for one topic would create it if the broker creates topics automatically.
        topics = self._metadata().topics
        if name not in topics:
            raise NotFoundError(_no_such("topic", name, list(topics)))
        return topics[name]

    def _list_offsets(self, wanted: Sequence[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
        if not wanted:
            return {}
        request = self._client.list_offsets(dict.fromkeys(wanted, spec), request_timeout=self._timeout_s)
        return {
            (part.topic, part.partition): self._wait(future, f"offsets of {part.topic}").offset
            for part, future in request.items()
        }

    def _one(self, request: Mapping[Any, Future[T]], what: str) -> T:
        (future,) = request.values()
        return self._wait(future, what)

    def _wait(self, future: Future[T], what: str) -> T:
        try:
            return future.result(self._timeout_s + 5)
        except KafkaException as error:
            raise translated(error.args[0], what, self.bootstrap) from error
        except TimeoutError as error:
            raise unreachable(self.bootstrap) from error


def _group_partition(key: tuple[str, int], committed: int | None, latest: int, owner: str | None) -> GroupPartition:
    # A committed offset may be beyond the end of a topic that was deleted and recreated.
    lag = None if committed is None else max(0, latest - committed)
    return GroupPartition(key[0], key[1], committed, latest, lag, owner)


def consumer(properties: Mapping[str, str]) -> Consumer:
    """Creates a consumer that joins no group and commits nothing."""
    settings = {"group.id": "sluice-console", "log_level": "0", "socket.connection.setup.timeout.ms": "5000"}
    fixed = {"enable.auto.commit": "false", "enable.partition.eof": "true", "allow.auto.create.topics": "false"}
    return make_consumer({**settings, **properties, **fixed})


def require_reachable(bootstrap: str) -> None:
    """Raises `UnreachableError` unless one of the servers accepts a TCP connection.

    The client itself would retry until its timeout, so that a mistyped port would take ten seconds to report.
    """
    for server in bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            # Brackets separate an IPv6 address from its port.
            socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
        except (OSError, ValueError):
            continue
        return
    raise unreachable(bootstrap)


def unreachable(bootstrap: str) -> UnreachableError:
    return UnreachableError(
        f"no Kafka broker answers at {bootstrap}; start one with 'sluice broker start', or name another with --bootstrap-server"
    )


def translated(error: KafkaError, what: str, bootstrap: str) -> ConnectError:
    """Converts a client's error."""
    code = error.code()
    if code in _UNREACHABLE:
        return unreachable(bootstrap)
    if code in _NOT_FOUND:
        return NotFoundError(f"{what} does not exist")
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return AlreadyExistsError(f"{what} already exists")
    if code in _WRONG_REQUEST:
        return ConfigError(f"{what}: {error.str()}")
    return ConnectError(f"{what}: {error.str()} ({error.name()})")


def _no_such(kind: str, name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    hint = f"; did you mean '{near}'?" if near else ""
    return f"there is no {kind} '{name}'{hint}"
