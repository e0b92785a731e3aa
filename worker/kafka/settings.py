"""Translates settings of Java's Kafka clients for librdkafka.

Users have properties files from Java, so Java's names, units, and values are accepted. A key that is meaningless outside Java is
dropped silently; one that neither these tables nor librdkafka knows causes a warning with the nearest name when the client is
created (:mod:`worker.kafka.clients`), never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from connect.errors import ConfigError
from worker.kafka.security import SASL_KEYS, TLS_KEYS, sasl_settings, tls_settings


class ClientKind(Enum):
    """The kind of client; ``value`` is its prefix in configs."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


_SAME = {
    ClientKind.ADMIN: (
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
    ),
    ClientKind.PRODUCER: (
        "acks",
        "batch.size",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "request.timeout.ms",
        "retries",
        "transaction.timeout.ms",
        "transactional.id",
    ),
    ClientKind.CONSUMER: (
        "allow.auto.create.topics",
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "enable.auto.commit",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "session.timeout.ms",
    ),
}

_RENAMED = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "partition.assignment.strategy": "partition.assignment.strategy",
    "partitioner.class": "partitioner",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

# Specific to Java, or handled by the worker.
_DROPPED = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
        "throw.on.fetch.stable.offset.unsupported",
        "transaction.two.phase.commit.enable",
        "value.deserializer",
        "value.serializer",
    }
)

_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
    # librdkafka has only the cooperative form of this strategy.
    "StickyAssignor": "cooperative-sticky",
}


def java_names() -> list[str]:
    """Returns every name in the tables, to suggest the nearest one."""
    same = {name for names in _SAME.values() for name in names}
    return sorted(same | set(_RENAMED) | _DROPPED | TLS_KEYS | SASL_KEYS)


def client_settings_of(worker: Mapping[str, str]) -> dict[str, str]:
    """Returns the worker settings that also apply to Kafka clients: connection and security."""
    shared = {*_SAME[ClientKind.ADMIN], *TLS_KEYS, *SASL_KEYS, "receive.buffer.bytes", "send.buffer.bytes"}
    return {key: value for key, value in worker.items() if key in shared}


def librdkafka_settings(kind: ClientKind, java: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings for librdkafka. Raises ConfigError for those that cannot be translated safely.

    Keys that are in no table are passed on unchanged: they may be librdkafka's own.
    """
    result: dict[str, str] = {}
    for key, raw in java.items():
        value = str(raw).strip()
        if key in TLS_KEYS or key in SASL_KEYS or key in _DROPPED:
            continue
        if key == "request.timeout.ms" and kind is not ClientKind.PRODUCER:
            result["socket.timeout.ms"] = _CONVERTED[key](value) or value
        elif not _belongs_to_another(kind, key):
            convert = _CONVERTED.get(key)
            translated = convert(value) if convert else value
            if translated is not None:
                result[_RENAMED.get(key, key)] = translated
    if java.get("partitioner.ignore.keys", "").strip().lower() == "true":
        result["partitioner"] = "random"
    if "metadata.max.age.ms" in result and kind is ClientKind.CONSUMER:
        result["topic.metadata.refresh.interval.ms"] = result["metadata.max.age.ms"]
    result.update(tls_settings(java))
    result.update(sasl_settings(java))
    return result


def _belongs_to_another(kind: ClientKind, key: str) -> bool:
    """Whether Java knows the key for another kind of client only: like Java, we warn and continue."""
    if key in _SAME[kind] or key in _SAME[ClientKind.ADMIN]:
        return False
    return any(key in names for names in _SAME.values())


def _kbytes(name: str) -> Callable[[str], str]:
    def convert(value: str) -> str:
        return str(max(1, _integer(name, value) // 1024))

    return convert


def _integer(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as e:
        raise ConfigError.invalid(name, value, "Not a number of type INT") from e


def _within(name: str, low: int, high: int) -> Callable[[str], str]:
    def convert(value: str) -> str:
        return str(min(high, max(low, _integer(name, value))))

    return convert


def _buffer_size(name: str) -> Callable[[str], str | None]:
    def convert(value: str) -> str | None:
        # In Java, -1 is the operating system's default; in librdkafka it is 0, which is also its default.
        size = _integer(name, value)
        return None if size < 0 else str(size)

    return convert


def _partitioner(value: str) -> str:
    name = value.rpartition(".")[2]
    if not value or name in ("DefaultPartitioner", "UniformStickyPartitioner"):
        return "murmur2_random"
    if name == "RoundRobinPartitioner":
        return "random"
    if "." in value:
        raise ConfigError.invalid(
            "partitioner.class", value, "a Java class cannot be used here; use one of consistent, consistent_random, murmur2, "
            "murmur2_random, fnv1a, fnv1a_random, random, or set the partition of each record in a transformation",
        )  # fmt: skip
    return value


def _assignors(value: str) -> str:
    names = [_ASSIGNORS.get(part.strip().rpartition(".")[2], part.strip()) for part in value.split(",") if part.strip()]
    eager = [name for name in names if name != "cooperative-sticky"]
    # A Java group offers [range, cooperative-sticky] while it migrates to the latter, and is eager until then. librdkafka rejects
    # the combination, so its eager half is used.
    return ",".join(dict.fromkeys(eager or names))


def _lower(value: str) -> str:
    return value.lower()


_CONVERTED: Mapping[str, Callable[[str], str | None]] = {
    "acks": _lower,
    "auto.offset.reset": _lower,
    "batch.size": _within("batch.size", 1, 2147483647),
    "buffer.memory": _kbytes("buffer.memory"),
    "compression.type": _lower,
    "delivery.timeout.ms": _within("delivery.timeout.ms", 1, 2147483647),
    "isolation.level": _lower,
    "linger.ms": _within("linger.ms", 0, 900000),
    "max.request.size": _within("max.request.size", 1000, 1000000000),
    "metadata.max.age.ms": _within("metadata.max.age.ms", 10, 3600000),
    "partition.assignment.strategy": _assignors,
    "partitioner.class": _partitioner,
    "receive.buffer.bytes": _buffer_size("receive.buffer.bytes"),
    "request.timeout.ms": _within("request.timeout.ms", 10, 300000),
    "retry.backoff.ms": _within("retry.backoff.ms", 1, 300000),
    "send.buffer.bytes": _buffer_size("send.buffer.bytes"),
}
