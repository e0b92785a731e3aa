"""Keys that only distributed workers have, and their typed values: Apache's DistributedConfig 4.3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.config.definition import NO_DEFAULT, ConfigKey, Importance, Validator
from connect.config.types import ConfigType
from connect.config.validators import Range, one_of
from connect.errors import ConfigError
from worker.config.extension_keys import DISTRIBUTED_EXTENSION_KEYS

_INT, _LONG, _SHORT, _STRING, _LIST = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.STRING, ConfigType.LIST


def _key(name: str, type: ConfigType, default: Any, doc: str, validator: Validator | None = None) -> ConfigKey:
    importance = Importance.HIGH if default is NO_DEFAULT else Importance.LOW
    return ConfigKey(name, type, default, validator, importance, doc)


class _TopicName:
    def __call__(self, name: str, value: Any) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", value) or value in (".", ".."):
            raise ConfigError.invalid(name, value, f"it must be a topic name: {self}")

    def __str__(self) -> str:
        return "1 to 249 ASCII letters, digits, dots, underscores, and hyphens, except . and .."


class _PositiveOrDefault:
    """Apache's rule for partition counts and replication factors."""

    def __call__(self, name: str, value: Any) -> None:
        if value < 1 and value != -1:
            raise ConfigError.invalid(name, value, f"expected {self}")

    def __str__(self) -> str:
        return "at least 1, or -1 for the broker's default"


def _storage(what: str, partitions: int | None) -> tuple[ConfigKey, ...]:
    keys = [
        _key(f"{what}.storage.topic", _STRING, NO_DEFAULT, f"Topic that stores {_STORED[what]}.", _TopicName()),
        _key(
            f"{what}.storage.replication.factor",
            _SHORT,
            3,
            "Replication factor of this topic; -1 means the broker's default.",
            _PositiveOrDefault(),
        ),
    ]
    if partitions is not None:
        keys.append(
            _key(
                f"{what}.storage.partitions",
                _INT,
                partitions,
                "Number of partitions of this topic; -1 means the broker's default.",
                _PositiveOrDefault(),
            )
        )
    return tuple(keys)


_STORED = {"config": "connector configurations", "offset": "source offsets", "status": "connector and task statuses"}

DISTRIBUTED_KEYS: tuple[ConfigKey, ...] = (
    _key("group.id", _STRING, NO_DEFAULT, "ID of the cluster. Workers with the same ID share connectors."),
    *_storage("config", None),
    *_storage("offset", 25),
    *_storage("status", 5),
    _key("session.timeout.ms", _INT, 10_000, "Time without a heartbeat after which a worker is removed from the group."),
    _key("heartbeat.interval.ms", _INT, 3_000, "Interval between heartbeats of a worker."),
    _key("rebalance.timeout.ms", _INT, 60_000, "How long workers may take to rejoin the group after a rebalance starts."),
    _key(
        "exactly.once.source.support", _STRING, "disabled", "Whether source connectors can have exactly-once delivery.",
        one_of("DISABLED", "PREPARING", "ENABLED", ignore_case=True),
    ),
    _key("worker.sync.timeout.ms", _INT, 3_000, "How long a worker may take to catch up with the config topic."),
    _key("worker.unsync.backoff.ms", _INT, 300_000, "How long a worker that did not catch up stays out of the group."),
    _key(
        "connect.protocol", _STRING, "sessioned", "Group protocol.",
        one_of("eager", "compatible", "sessioned", ignore_case=True),
    ),
    _key(
        "scheduled.rebalance.max.delay.ms", _INT, 300_000,
        "How long the connectors and tasks of a worker that left stay unassigned in case it returns.",
        Range(minimum=0, maximum=2**31 - 1),
    ),
    _key("inter.worker.key.generation.algorithm", _STRING, "HmacSHA256", "Key algorithm for requests between workers."),
    _key("inter.worker.key.size", _INT, None, "Size of these keys in bits."),
    _key("inter.worker.key.ttl.ms", _INT, 3_600_000, "How long a key is used.", Range(minimum=0, maximum=2**31 - 1)),
    _key("inter.worker.signature.algorithm", _STRING, "HmacSHA256", "Signature algorithm for requests between workers."),
    _key("inter.worker.verification.algorithms", _LIST, "HmacSHA256", "Signature algorithms that are accepted."),
    *DISTRIBUTED_EXTENSION_KEYS,
)  # fmt: skip

STORAGE_PREFIXES = ("config.storage.", "offset.storage.", "status.storage.")
"""Prefixes that a distributed worker also has topic settings below."""


class ExactlyOnce(Enum):
    """``exactly.once.source.support``. PREPARING workers write like ENABLED ones, but run no exactly-once tasks."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """One of the three internal topics; -1 means the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    """Topic settings from the worker's file."""


@dataclass(frozen=True, slots=True)
class DistributedSettings:
    """Typed values of the keys that only distributed workers have. Times are in ms."""

    group_id: str
    client_id: str
    config_topic: StorageTopic
    offset_topic: StorageTopic
    status_topic: StorageTopic
    exactly_once: ExactlyOnce
    protocol: str
    """``eager``, ``compatible`` or ``sessioned``."""
    rebalance_timeout_ms: int
    rebalance_max_delay_ms: int
    sync_timeout_ms: int
    unsync_backoff_ms: int
    key_algorithm: str
    key_size_bits: int | None
    key_ttl_ms: int
    signature_algorithm: str
    verification_algorithms: tuple[str, ...]

    @classmethod
    def of(cls, parsed: Mapping[str, Any], props: Mapping[str, str]) -> DistributedSettings:
        """Converts parsed values; ``props`` is the text they came from. Raises ConfigError."""
        verification = tuple(parsed["inter.worker.verification.algorithms"])
        signature = parsed["inter.worker.signature.algorithm"]
        for key, algorithms in (
            ("inter.worker.key.generation.algorithm", (parsed["inter.worker.key.generation.algorithm"],)),
            ("inter.worker.signature.algorithm", (signature,)),
            ("inter.worker.verification.algorithms", verification),
        ):
            for algorithm in algorithms:
                if hash_name(algorithm) is None:
                    raise ConfigError.invalid(key, algorithm, f"expected one of {', '.join(MAC_ALGORITHMS)}")
        if not verification:
            raise ConfigError("At least one signature verification algorithm must be provided")
        if signature not in verification:
            raise ConfigError.invalid(
                "inter.worker.signature.algorithm",
                signature,
                f"it must be one of inter.worker.verification.algorithms ({', '.join(verification)})",
            )
        topics = {what: _storage_topic(what, parsed, props) for what in _STORED}
        names = [topic.name for topic in topics.values()]
        if len(set(names)) < len(names):
            raise ConfigError(
                "config.storage.topic, offset.storage.topic and status.storage.topic must be three different topics, but are "
                + ", ".join(names)
            )
        return cls(
            group_id=parsed["group.id"],
            client_id=props.get("client.id", ""),
            config_topic=topics["config"],
            offset_topic=topics["offset"],
            status_topic=topics["status"],
            exactly_once=ExactlyOnce(parsed["exactly.once.source.support"].lower()),
            protocol=parsed["connect.protocol"].lower(),
            rebalance_timeout_ms=parsed["rebalance.timeout.ms"],
            rebalance_max_delay_ms=parsed["scheduled.rebalance.max.delay.ms"],
            sync_timeout_ms=parsed["worker.sync.timeout.ms"],
            unsync_backoff_ms=parsed["worker.unsync.backoff.ms"],
            key_algorithm=parsed["inter.worker.key.generation.algorithm"],
            key_size_bits=parsed["inter.worker.key.size"],
            key_ttl_ms=parsed["inter.worker.key.ttl.ms"],
            signature_algorithm=signature,
            verification_algorithms=verification,
        )


MAC_ALGORITHMS = ("HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512", "HmacMD5")
"""Java's names of the message authentication codes that can sign requests here."""


def hash_name(algorithm: str) -> str | None:
    """Returns Python's hash name for one of :data:`MAC_ALGORITHMS`, ignoring case; None for others."""
    known = {name.lower(): name.removeprefix("Hmac").lower() for name in MAC_ALGORITHMS}
    return known.get(algorithm.lower())


def _storage_topic(what: str, parsed: Mapping[str, Any], props: Mapping[str, str]) -> StorageTopic:
    prefix = f"{what}.storage."
    own = {f"{prefix}topic", f"{prefix}partitions", f"{prefix}replication.factor"}
    configs = {
        key.removeprefix(prefix): value
        for key, value in props.items()
        # The cleanup policy cannot be changed; find_startup_warnings warns about it.
        if key.startswith(prefix) and key not in own and key != f"{prefix}cleanup.policy" and not key.startswith(f"{prefix}file.")
    }
    return StorageTopic(
        parsed[f"{prefix}topic"], parsed.get(f"{prefix}partitions", 1), parsed[f"{prefix}replication.factor"], configs
    )
