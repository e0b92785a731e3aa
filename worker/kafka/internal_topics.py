"""The topics in which a worker stores its own records: created if they are missing, otherwise checked.

A topic that deletes records by age, or has configs in two partitions, would lose connectors weeks later. Therefore a worker
refuses to start with one, as Apache's does, and says how to fix it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from connect.errors import ConfigError, ConnectError, UnreachableError
from worker.kafka.clients import UNAUTHORIZED, LastReport, kafka_error, make_admin
from worker.kafka.topic_creation import NewTopicSpec
from worker.kafka.topic_creator import create_topic

T = TypeVar("T")

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_FIRST_TIMEOUT_S = 2.0
"""The timeout of the first request: while no broker answers, callers wait this long before they can give up."""
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})

_TEMPORARY = frozenset(
    {
        # A broker has just started, the leader is changing, or the client does not know a new topic yet.
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._NOENT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The settings for creating a topic, and the words for messages about it."""

    name: str
    partitions: int
    """-1 leaves it to the broker."""
    replication_factor: int
    """-1 leaves it to the broker."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Further configs of the topic; ``cleanup.policy`` is always compact."""
    setting: str = "offset.storage.topic"
    """The config key that names the topic."""
    contents: str = "source connector offsets"
    single_partition: bool = False
    """Whether it must have exactly one partition because its records are ordered."""


class InternalTopics:
    """Creates and checks internal topics, and looks up their offsets. Safe from any thread.

    Has its own client, which is closed with the object. A consumer is not used for offsets because requests on its connection
    wait behind its fetches (and ``offsets_for_times`` of confluent-kafka 2.16.1 was seen to wait forever while another thread
    polls).
    """

    def __init__(self, admin_settings: Mapping[str, str]) -> None:
        self._bootstrap = admin_settings["bootstrap.servers"]
        self._report = LastReport()
        self._admin: AdminClient = make_admin(admin_settings, log_level="0", error_cb=self._report)

    def ensure(self, topic: InternalTopic) -> int:
        """Creates the topic if it is missing and returns the number of its partitions.

        Raises ConfigError for an unsuitable topic, or if the broker refuses to create it; UnreachableError if no broker answers.
        """
        partitions = self.count_partitions(topic.name)
        if partitions is None:
            if self._create(topic) and topic.partitions > 0:
                return topic.partitions  # brokers show it a little later
            partitions = self.count_partitions(topic.name)
            if partitions is None:
                raise UnreachableError(
                    f"topic {topic.name} was created, but the broker at {self._bootstrap} does not show it yet"
                )
        self._check_policy(topic)
        if topic.single_partition and partitions != 1:
            raise ConfigError(
                f"Topic '{topic.name}' supplied via the '{topic.setting}' property is required to have a single partition in "
                f"order to guarantee consistency of {topic.contents}, but found {partitions} partitions. Partitions cannot be "
                f"removed: name another topic in {topic.setting}, or delete this one if its contents are not needed "
                f"(sluice topic delete {topic.name}) and it will be recreated",
                key=topic.setting,
            )
        return partitions

    def create(self, topic: str, spec: NewTopicSpec, timeout_s: float) -> None:
        """Creates a topic, of any policy, unless it exists. Raises like :meth:`begin_offsets`."""
        self._forget_reports()
        create_topic(self._admin, topic, spec, f"creating topic {topic}", self._bootstrap, max(0.05, timeout_s))

    def begin_offsets(self, topic: str, partitions: int, timeout_s: float) -> dict[int, int]:
        """Returns the first offset of each partition. Raises ConnectError; UnreachableError for temporary errors."""
        return self._offsets(topic, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED, timeout_s)

    def end_offsets(self, topic: str, partitions: int, timeout_s: float, *, committed: bool) -> dict[int, int]:
        """Returns the offset after the last record of each partition; with ``committed``, the last stable one, where the first
        open transaction starts. Raises like :meth:`begin_offsets`."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return self._offsets(topic, partitions, OffsetSpec.latest(), isolation, timeout_s)

    def _offsets(
        self, topic: str, partitions: int, spec: OffsetSpec, isolation: IsolationLevel, timeout_s: float
    ) -> dict[int, int]:
        self._forget_reports()
        asked = {TopicPartition(topic, number): spec for number in range(partitions)}
        request = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=max(0.05, timeout_s))
        try:
            found = {part.partition: int(self._answer(future, timeout_s).offset) for part, future in request.items()}
        except KafkaException as e:
            error = e.args[0]
            if error.code() in _TEMPORARY:
                # list_offsets uses the client's cached metadata and does not refresh it: after a broker's restart it would get
                # FENCED_LEADER_EPOCH forever. Requesting metadata of one topic might create it.
                with contextlib.suppress(KafkaException):
                    self._admin.list_topics(timeout=max(0.05, timeout_s))
                raise UnreachableError(
                    f"topic {topic} cannot be read at the moment: {error.str()} ({error.name()}). If this stays, check that the "
                    f"topic exists and that its brokers at {self._bootstrap} run"
                ) from e
            raise self._error(error, f"reading topic {topic}") from e
        # Seen in confluent-kafka 2.16.1 after a broker stopped: an answer without error and without offset.
        if any(offset < 0 for offset in found.values()):
            raise UnreachableError(f"the broker at {self._bootstrap} returned no end offset for topic {topic}")
        return found

    def count_partitions(self, topic: str, timeout_s: float = _FIRST_TIMEOUT_S) -> int | None:
        """Returns the number of partitions, None if the topic does not exist. Raises like :meth:`begin_offsets`."""
        self._forget_reports()
        # Describing a topic never creates it; requesting its metadata does if the broker creates topics automatically.
        request = self._admin.describe_topics(TopicCollection([topic]), request_timeout=max(0.05, timeout_s))
        try:
            return len(self._answer(request[topic], timeout_s).partitions)
        except KafkaException as e:
            if e.args[0].code() in _MISSING:
                return None
            raise self._error(e.args[0], f"looking for topic {topic}") from e

    def _create(self, topic: InternalTopic) -> bool:
        """Returns False if another client has just created it."""
        self._forget_reports()
        configs = {**topic.configs, "cleanup.policy": "compact"}
        new = NewTopic(
            topic.name, num_partitions=topic.partitions, replication_factor=topic.replication_factor, config=configs
        )  # fmt: skip
        what = f"creating topic {topic.name} ({topic.setting})"
        try:
            self._answer(self._admin.create_topics([new], request_timeout=_TIMEOUT_S)[topic.name])
        except KafkaException as e:
            error = e.args[0]
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
                key = f"{topic.setting.removesuffix('topic')}replication.factor"
                raise ConfigError(
                    f"{what}: the replication factor {topic.replication_factor} is more than the brokers that the cluster at "
                    f"{self._bootstrap} has: {error.str()} Set {key} to the number of brokers or less, or to -1 for the broker's "
                    "default",
                    key=key,
                ) from e
            if error.code() in (KafkaError.INVALID_PARTITIONS, KafkaError.INVALID_CONFIG, KafkaError.TOPIC_EXCEPTION):
                raise ConfigError(f"{what}: {error.str()}", key=topic.setting) from e
            raise self._error(error, what) from e
        except ValueError as e:
            raise ConfigError(f"{what}: {e}", key=topic.setting) from e  # a number that the client itself rejects
        log.info("Created topic %s (%s)", topic.name, topic.setting)
        return True

    def _check_policy(self, topic: InternalTopic) -> None:
        self._forget_reports()
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        request = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_S)
        try:
            (future,) = request.values()
            policy = str(self._answer(future)["cleanup.policy"].value)
        except KafkaException as e:
            if e.args[0].code() in UNAUTHORIZED:
                log.warning(
                    "Not allowed to look at the settings of topic %s (%s), which must have cleanup.policy=compact: not checked",
                    topic.name,
                    topic.setting,
                )
                return
            raise self._error(e.args[0], f"looking at the settings of topic {topic.name}") from e
        if policy != "compact":
            raise ConfigError(
                f"Topic '{topic.name}' supplied via the '{topic.setting}' property is required to have 'cleanup.policy=compact' "
                f"to guarantee consistency and durability of {topic.contents}, but found the topic currently has "
                f"'cleanup.policy={policy}'. Continuing would likely result in eventually losing {topic.contents}. To mend it: "
                f"sluice topic alter {topic.name} --config cleanup.policy=compact --bootstrap-server {self._bootstrap} (or "
                f"kafka-configs.sh --bootstrap-server {self._bootstrap} --alter --entity-type topics --entity-name {topic.name} "
                f"--add-config cleanup.policy=compact); or name another topic in {topic.setting}",
                key=topic.setting,
            )

    def _forget_reports(self) -> None:
        self._admin.poll(0)
        self._report.forget()

    def _error(self, error: KafkaError, what: str) -> ConnectError:
        self._admin.poll(0)  # runs the client's callbacks
        return kafka_error(error, what, self._bootstrap, self._report.error)

    def _answer(self, future: Future[T], timeout_s: float = _TIMEOUT_S) -> T:
        """Raises KafkaException, or UnreachableError if there is no answer."""
        try:
            failure = future.exception(timeout_s + 1)
        except TimeoutError as e:
            raise UnreachableError(f"the broker at {self._bootstrap} did not answer within {timeout_s:g} s") from e
        if failure is not None:
            # Not the failure itself: the future would be on its traceback, a cycle that keeps the client open for a while.
            raise type(failure)(*failure.args)
        self._report.worked()
        return future.result(0)
