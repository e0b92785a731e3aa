"""Kafka clients made from Java-style settings."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from connect.errors import ConfigError, ConnectError, UnreachableError
from worker.kafka.settings import ClientKind, java_names, librdkafka_settings

T = TypeVar("T")

log = logging.getLogger(__name__)

_UNKNOWN_PROPERTY = re.compile(r'No such configuration property: "([^"]+)"')
_ABOUT_PROPERTY = re.compile(r'configuration property "([^"]+)"|"([\w.]+)"')

_NOTICE_EVERY_S = 30.0

UNREACHABLE = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE, KafkaError._TIMED_OUT_QUEUE}
)
UNAUTHORIZED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)


def make_producer(java: Mapping[str, str], **more: Any) -> Producer:
    """A producer; ``more`` is for the client itself (callbacks). Raises ConfigError for settings that cannot work."""
    return _made(Producer, ClientKind.PRODUCER, java, more)


def make_consumer(java: Mapping[str, str], **more: Any) -> Consumer:
    return _made(Consumer, ClientKind.CONSUMER, java, more)


def make_admin(java: Mapping[str, str], **more: Any) -> AdminClient:
    return _made(AdminClient, ClientKind.ADMIN, java, more)


def _made(make: Callable[[dict[str, Any]], T], kind: ClientKind, java: Mapping[str, str], more: Mapping[str, Any]) -> T:
    settings: dict[str, Any] = {"log.connection.close": "false", **librdkafka_settings(kind, java), **more}
    while True:
        try:
            return make({**settings, "logger": logging.getLogger(f"kafka.{kind.value}")})
        except KafkaException as e:
            text = e.args[0].str()
            unknown = _UNKNOWN_PROPERTY.search(text)
            if unknown is None or unknown[1] not in settings:
                # Only the name of the setting is told: its value may be a secret (promise 9).
                found = _ABOUT_PROPERTY.search(text)
                name = next((group for group in found.groups() if group), None) if found else None
                safe = text if name and not _is_secret(name) else f"Invalid value for configuration {name or kind.value}"
                raise ConfigError(f"Kafka {kind.value}: {safe}", key=name) from None
            settings.pop(unknown[1])
            near = get_close_matches(unknown[1], java_names(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            log.warning("Kafka %s: the setting %s is not known and is left out%s", kind.value, unknown[1], hint)


def _is_secret(name: str) -> bool:
    return any(part in name for part in ("password", "secret", "jaas", ".pem", "key"))


def kafka_error(error: KafkaError, what: str, bootstrap: str) -> ConnectError:
    """A client's error as one of ours. ``what`` says what was being done, as ``writing to topic orders``."""
    code = error.code()
    if code in UNREACHABLE:
        return UnreachableError(
            f"{what}: no Kafka broker answers at {bootstrap} ({error.name()}). Check bootstrap.servers and that the broker runs"
        )
    if code in UNAUTHORIZED:
        return ConnectError(f"{what}: not authorized by the broker at {bootstrap}: {error.str()} ({error.name()})")
    return ConnectError(f"{what}: {error.str()} ({error.name()})")


class BrokerNotices:
    """Turns what a client reports about its connections into one log line a disturbance, and into an error where waiting is no
    use."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._away_since: float | None = None

    def failure(self, error: KafkaError) -> ConnectError | None:
        """The error that must fail the task, or None when the client goes on by itself."""
        code = error.code()
        if error.fatal() or code in UNAUTHORIZED or code == KafkaError._SSL:
            return kafka_error(error, "talking to Kafka", self._bootstrap)
        if code == KafkaError._ALL_BROKERS_DOWN:
            now = time.monotonic()
            if self._away_since is None or now - self._away_since > _NOTICE_EVERY_S:
                self._away_since = now
                log.warning("No Kafka broker answers at %s; waiting until one does", self._bootstrap)
        else:
            log.debug("Kafka client: %s", error)
        return None
