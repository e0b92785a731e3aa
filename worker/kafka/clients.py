"""Creates Kafka clients from Java-style settings."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from connect.errors import ConfigError, ConnectError, UnreachableError
from connect.suggestions import did_you_mean
from worker.kafka.settings import ClientKind, java_names, librdkafka_settings

T = TypeVar("T")

log = logging.getLogger(__name__)

_UNKNOWN_PROPERTY = re.compile(r'No such configuration property: "([^"]+)"')
_NAMED_PROPERTY = re.compile(r'configuration property "([^"]+)"')
_ABOUT_PROPERTY = re.compile(r'"([\w.]+)"|`([\w.]+)`')

_END = "sluice.end.of.settings"
"""A setting that no client has."""
_NOTICE_EVERY_S = 30.0
_UNAVAILABLE_AFTER_S = 1.0
_SAME_OUTAGE_S = 60.0
"""The client repeats a failure after 30 seconds at the latest."""

_DEFAULTS = {
    "log.connection.close": "false",
    # Metrics for brokers that collect them from clients (KIP-714) cost 200 kB per client and periodic requests. To enable them,
    # set the key; it is the same in Java.
    "enable.metrics.push": "false",
}

UNREACHABLE = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE, KafkaError._TIMED_OUT_QUEUE}
)
UNAUTHORIZED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)
_AUTHENTICATION_FAILED = frozenset({KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION})
_CHECK_CREDENTIALS = (
    "Check sasl.mechanism and sasl.jaas.config of this client (with the prefix producer., consumer., or admin. in the worker's "
    "file, or .override. in the connector's, where it has its own)"
)
_NO_TOKEN = "OAUTHBEARER token"
_CHECK_TOKEN = (
    "Check sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.credentials.* and, if it has the client credentials, "
    "sasl.jaas.config of this client"
)
_CHECK_TLS = "Check ssl.truststore.*, ssl.keystore.* and ssl.endpoint.identification.algorithm, and security.protocol"
_NEEDED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "READ on the topic to read it, WRITE to write it, CREATE to create it",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "READ on the group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "WRITE and DESCRIBE on the transactional id",
}
_BROKER = re.compile(r"^(?:GroupCoordinator(?:/\w+)?: )?(?:\w+://)?(?P<address>[^\s/]+:\d+)(?:/\w+)?: ")
_CLOSED = " in state UP"
"""Says that a connection ended that had worked; the client connects again."""
_ADVICE = re.compile(r",? verify that .*?(?= \(after|$)|\s*\(after \d+ms in state \w+\).*$", re.S)


def make_producer(java: Mapping[str, str], **more: Any) -> Producer:
    """Creates a producer; ``more`` are parameters of the client itself (callbacks). Raises ConfigError for settings that
    cannot work."""
    return _made(Producer, ClientKind.PRODUCER, java, more)


def make_consumer(java: Mapping[str, str], **more: Any) -> Consumer:
    return _made(Consumer, ClientKind.CONSUMER, java, more)


def make_admin(java: Mapping[str, str], **more: Any) -> AdminClient:
    return _made(AdminClient, ClientKind.ADMIN, java, more)


def _made(make: Callable[[dict[str, Any]], T], kind: ClientKind, java: Mapping[str, str], more: Mapping[str, Any]) -> T:
    settings: dict[str, Any] = {**_DEFAULTS, **librdkafka_settings(kind, java), **more}
    while True:
        try:
            return make({**settings, "logger": logging.getLogger(f"kafka.{kind.value}")})
        except KafkaException as e:
            text = e.args[0].str()
            unknown = _UNKNOWN_PROPERTY.search(text)
            if unknown is None or unknown[1] not in settings:
                raise _invalid_setting(text, kind) from None
            settings.pop(unknown[1])
            hint = did_you_mean(unknown[1], java_names(), "; ")
            log.warning("Kafka %s: ignoring unknown setting %s%s", kind.value, unknown[1], hint)


def _invalid_setting(text: str, kind: ClientKind) -> ConfigError:
    # Promise 9: only the name of the setting is shown, because its value may be a secret.
    # A quoted value may come before the name.
    found = _NAMED_PROPERTY.search(text) or _ABOUT_PROPERTY.search(text)
    name = next((group for group in found.groups() if group), None) if found else None
    safe = text if name and not _is_secret(name) else f"Invalid value for configuration {name or kind.value}"
    return ConfigError(f"Kafka {kind.value}: {safe}", key=name)


def check_client_properties(properties: Mapping[str, str]) -> None:
    """Raises ConfigError, with its key, for the first property that no client knows, or whose value none accepts. Creates no
    client: for files that a user wrote for one command, where a typing error must not go unnoticed."""
    known = frozenset(java_names())
    for key, value in properties.items():
        if key not in known:
            _check_settings({key: value}, known)
    _check_settings(librdkafka_settings(ClientKind.ADMIN, properties), known)


def _check_settings(settings: Mapping[str, str], known: Collection[str]) -> None:
    try:
        # The client checks settings in their order before it starts anything, so it always stops at the last.
        AdminClient({**settings, _END: ""})
    except (KafkaException, TypeError, ValueError) as e:
        if not isinstance(e, KafkaException):  # a callback, which is no text
            name = next(iter(settings))
            raise ConfigError(f"{name} cannot be set in a file", key=name) from None
        text = e.args[0].str()
        unknown = _UNKNOWN_PROPERTY.search(text)
        if unknown is None:
            raise _invalid_setting(text, ClientKind.ADMIN) from None
        if unknown[1] != _END:
            hint = did_you_mean(unknown[1], known, "; ")
            raise ConfigError(f"Kafka clients have no property {unknown[1]}{hint}", key=unknown[1]) from None


def _is_secret(name: str) -> bool:
    return any(part in name for part in ("password", "secret", "jaas", ".pem", "key"))


def kafka_error(error: KafkaError, what: str, bootstrap: str, cause: KafkaError | None = None) -> ConnectError:
    """Converts a client's error. ``what`` says what was being done, such as ``writing to topic orders``; ``cause`` is the
    client's last report about its connections, for errors that only report a timeout."""
    if cause is not None and error.code() in UNREACHABLE:
        error = cause
    code, reason = error.code(), _reason(error)
    if code in _AUTHENTICATION_FAILED and _NO_TOKEN in reason:
        return ConnectError(f"{what}: no OAuth token for authentication at the broker at {bootstrap}: {reason}. {_CHECK_TOKEN}")
    if code in _AUTHENTICATION_FAILED:
        return ConnectError(f"{what}: the broker at {bootstrap} rejects authentication: {reason}. {_CHECK_CREDENTIALS}")
    if code == KafkaError._SSL or "SSL routines" in reason:
        return ConnectError(f"{what}: no TLS connection with the broker at {bootstrap}: {reason}. {_CHECK_TLS}")
    if code in UNREACHABLE:
        return UnreachableError(
            f"{what}: no Kafka broker answers at {bootstrap} ({error.name()}). Check bootstrap.servers and security.protocol, "
            "and that the broker runs"
        )
    if code in UNAUTHORIZED:
        needed = f". The client's principal needs {_NEEDED[code]}" if code in _NEEDED else ""
        return ConnectError(f"{what}: not authorized by the broker at {bootstrap}: {reason} ({error.name()}){needed}")
    return ConnectError(f"{what}: {error.str()} ({error.name()})")


def _reason(error: KafkaError) -> str:
    """Returns the client's text without its address prefix, its state, and advice about settings that have other names here."""
    return _ADVICE.sub("", _BROKER.sub("", str(error.str())))


class LastReport:
    """The last report of a client about its connections; pass it as ``error_cb``. The client reports during ``poll``."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None
        self._no_token: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # that does not say why
            self._error = error
        if error.code() == KafkaError._AUTHENTICATION and _NO_TOKEN in str(error.str()):
            self._no_token = error  # reported once, before there is a connection

    @property
    def error(self) -> KafkaError | None:
        """The reason why there is no answer, if known."""
        return self._error or self._no_token

    def forget(self) -> None:
        """Called before a request: earlier connection errors say nothing about it."""
        self._error = None

    def worked(self) -> None:
        """Called after a request was answered."""
        self._error = self._no_token = None


class BrokerNotices:
    """Turns a client's reports about its connections into log lines about outages, and into an error where waiting is useless."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._outages: dict[str, tuple[float, float]] = {}
        """When each broker's first and last failure was reported."""
        self._logged_at = float("-inf")

    def failure(self, error: KafkaError) -> ConnectError | None:
        """Returns the error that must fail the task, or None if the client recovers by itself."""
        code = error.code()
        if error.fatal() or code in UNAUTHORIZED or code == KafkaError._SSL:
            return kafka_error(error, "talking to Kafka", self._bootstrap)
        # The client's count of brokers that are down is sometimes missing and, for a name with two addresses such as localhost,
        # too early. What it says of a single broker is reliable.
        text = str(error.str())
        if code in UNREACHABLE and _CLOSED not in text and (broker := _BROKER.match(text)):
            self._unreachable(broker["address"], _reason(error))
        else:
            log.debug("Kafka client: %s", error)
        return None

    def _unreachable(self, address: str, reason: str) -> None:
        now = time.monotonic()
        first, last = self._outages.get(address, (now, now))
        if now - last > _SAME_OUTAGE_S:
            first = now
        self._outages[address] = (first, now)
        if now - first >= _UNAVAILABLE_AFTER_S and now - self._logged_at > _NOTICE_EVERY_S:
            self._logged_at = now
            log.warning("No Kafka broker answers at %s (%s); waiting until one does", address, reason)
