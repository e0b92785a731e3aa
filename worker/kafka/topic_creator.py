"""Creates a missing topic before a task writes to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from connect.errors import ConnectError, UnreachableError
from worker.kafka.clients import kafka_error, make_admin
from worker.kafka.topic_creation import NewTopicSpec, TopicCreationRules

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_TEMPORARY = frozenset({KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER, KafkaError.NETWORK_EXCEPTION})
"""Errors of a cluster that is just starting."""


class TopicCreator:
    """Creates topics by a connector's rules, and the topic of a dead letter queue. Checks each topic once. Used on one task's
    thread."""

    def __init__(self, admin_settings: Mapping[str, str], rules: TopicCreationRules, setting: str = "topic.creation.*") -> None:
        """``setting`` names the keys of the rules, for messages."""
        self._bootstrap = admin_settings["bootstrap.servers"]
        self._rules = rules
        self._setting = setting
        self._known: set[str] = set()
        self._settings = admin_settings
        self._admin: AdminClient | None = None

    def ensure(self, topic: str, wait: Callable[[float], bool]) -> bool:
        """Creates the topic unless it exists. Returns True when it exists; retries while no broker answers.

        ``wait`` waits that many seconds and returns True to give up; then the result is False. Raises ConnectError if the broker
        rejects the request.
        """
        warned = False
        while topic not in self._known:
            try:
                self._create_if_missing(topic)
                self._known.add(topic)
            except UnreachableError as e:
                if not warned:
                    log.warning("%s; trying again until it answers", e.message)
                    warned = True
                if wait(1.0):
                    return False
        return True

    def _create_if_missing(self, topic: str) -> None:
        if self._admin is None:
            self._admin = make_admin(self._settings)
        try:
            if topic in self._admin.list_topics(timeout=_TIMEOUT_S).topics:
                return
        except KafkaException as e:
            raise kafka_error(e.args[0], f"looking for topic {topic}", self._bootstrap) from e
        spec = self._rules.spec_for(topic)
        create_topic(self._admin, topic, spec, f"creating topic {topic} as {self._setting} says", self._bootstrap, _TIMEOUT_S)


def create_topic(admin: AdminClient, topic: str, spec: NewTopicSpec, what: str, bootstrap: str, timeout_s: float) -> None:
    """Creates a topic unless it exists; blocks for a second longer than the time at most. ``what`` begins error messages.

    Raises ConnectError if the broker rejects the request, UnreachableError for temporary errors.
    """
    new = NewTopic(topic, num_partitions=spec.partitions, replication_factor=spec.replication_factor, config=dict(spec.configs))
    try:
        admin.create_topics([new], request_timeout=timeout_s)[topic].result(timeout_s + 1)
    except KafkaException as e:
        error = e.args[0]
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        raise _creation_error(error, what, bootstrap) from e
    except ValueError as e:
        raise ConnectError(f"{what}: {e}") from e  # a number that the client itself rejects
    except TimeoutError as e:
        raise UnreachableError(f"{what}: the broker at {bootstrap} did not answer within {timeout_s:g} s") from e
    log.info("Created topic %s: %s", topic, spec)


def _creation_error(error: KafkaError, what: str, bootstrap: str) -> ConnectError:
    found = kafka_error(error, what, bootstrap)
    return UnreachableError(found.message) if error.code() in _TEMPORARY else found
