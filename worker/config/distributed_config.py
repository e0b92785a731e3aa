"""The keys of distributed workers that standalone ones do not have, and their typed form: Apache's DistributedConfig 4.3."""

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
from worker.config.extension_keys import CLUSTER_KEYS

_INT, _LONG, _SHORT, _STRING, _LIST = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.STRING, ConfigType.LIST


def _key(name: str, type: ConfigType, default: Any, doc: str, validator: Validator | None = None) -> ConfigKey:
    importance = Importance.HIGH if default is NO_DEFAULT else Importance.LOW
    return ConfigKey(name, type, default, validator, importance, doc)


class _TopicName:
    def __call__(self, name: str, value: Any) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", value) or value in (".", ".."):
            raise ConfigError.invalid(name, value, f"it is the name of a topic: {self}")

    def __str__(self) -> str:
        return "1 to 249 letters of ASCII, digits, dots, underscores and hyphens, and neither . nor .."


class _PositiveOrDefault:
    """Apache's rule for numbers of partitions and of replicas."""

    def __call__(self, name: str, value: Any) -> None:
        if value < 1 and value != -1:
            raise ConfigError.invalid(name, value, f"expected {self}")

    def __str__(self) -> str:
        return "at least 1, or -1 for the broker's default"


def _storage(what: str, partitions: int | None) -> tuple[ConfigKey, ...]:
    keys = [
        _key(f"{what}.storage.topic", _STRING, NO_DEFAULT, f"The topic in which {_HELD[what]} are kept.", _TopicName()),
        _key(
            f"{what}.storage.replication.factor",
            _SHORT,
            3,
            "Its replication factor; -1 is the broker's default.",
            _PositiveOrDefault(),
        ),
    ]
    if partitions is not None:
        keys.append(
            _key(
                f"{what}.storage.partitions",
                _INT,
                partitions,
                "Its partitions; -1 is the broker's default.",
                _PositiveOrDefault(),
            )
        )
    return tuple(keys)


_HELD = {"config": "configurations", "offset": "source offsets", "status": "states"}

DISTRIBUTED_KEYS: tuple[ConfigKey, ...] = (
    _key("group.id", _STRING, NO_DEFAULT, "The name of the cluster: workers with the same one share connectors."),
    *_storage("config", None),
    *_storage("offset", 25),
    *_storage("status", 5),
    _key("session.timeout.ms", _INT, 10_000, "After how long without a heartbeat a worker counts as gone."),
    _key("heartbeat.interval.ms", _INT, 3_000, "How often a worker shows that it is there."),
    _key("rebalance.timeout.ms", _INT, 60_000, "How long workers have to join again once a rebalance has begun."),
    _key(
        "exactly.once.source.support", _STRING, "disabled", "Whether source connectors can be exactly-once.",
        one_of("DISABLED", "PREPARING", "ENABLED", ignore_case=True),
    ),
    _key("worker.sync.timeout.ms", _INT, 3_000, "How long a worker that is behind may take to catch up."),
    _key("worker.unsync.backoff.ms", _INT, 300_000, "How long a worker that did not catch up stays out of the group."),
    _key(
        "connect.protocol", _STRING, "sessioned", "The protocol of the group.",
        one_of("eager", "compatible", "sessioned", ignore_case=True),
    ),
    _key(
        "scheduled.rebalance.max.delay.ms", _INT, 300_000, "How long the work of a worker that left waits for its return.",
        Range(minimum=0, maximum=2**31 - 1),
    ),
    _key("inter.worker.key.generation.algorithm", _STRING, "HmacSHA256", "The algorithm of keys for requests between workers."),
    _key("inter.worker.key.size", _INT, None, "The size of those keys in bits."),
    _key("inter.worker.key.ttl.ms", _INT, 3_600_000, "How long such a key is used.", Range(minimum=0, maximum=2**31 - 1)),
    _key("inter.worker.signature.algorithm", _STRING, "HmacSHA256", "How requests between workers are signed."),
    _key("inter.worker.verification.algorithms", _LIST, "HmacSHA256", "Which signatures are accepted."),
    *CLUSTER_KEYS,
)  # fmt: skip

STORAGE_PREFIXES = ("config.storage.", "offset.storage.", "status.storage.")
"""Below these a distributed worker has settings of topics too."""


class ExactlyOnce(Enum):
    """``exactly.once.source.support``: preparing workers write as enabled ones do, but start no task so."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """One of the three topics; -1 leaves a number to the broker."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    """Settings of the topic that the worker's file adds."""


@dataclass(frozen=True, slots=True)
class DistributedSettings:
    """What a distributed worker has beyond a standalone one, typed. Times in ms."""

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
        """From parsed values of the table, and the text they came from. Raises ConfigError."""
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
        topics = {what: _storage_topic(what, parsed, props) for what in _HELD}
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
"""Of Java's names for message authentication codes those that sign requests here."""


def hash_name(algorithm: str) -> str | None:
    """Python's name of the hash in one of :data:`MAC_ALGORITHMS`, in any case; None for others."""
    known = {name.lower(): name.removeprefix("Hmac").lower() for name in MAC_ALGORITHMS}
    return known.get(algorithm.lower())


def _storage_topic(what: str, parsed: Mapping[str, Any], props: Mapping[str, str]) -> StorageTopic:
    prefix = f"{what}.storage."
    own = {f"{prefix}topic", f"{prefix}partitions", f"{prefix}replication.factor"}
    configs = {
        key.removeprefix(prefix): value
        for key, value in props.items()
        # The policy is not to be chosen: config_notices tells of it.
        if key.startswith(prefix) and key not in own and key != f"{prefix}cleanup.policy" and not key.startswith(f"{prefix}file.")
    }
    return StorageTopic(
        parsed[f"{prefix}topic"], parsed.get(f"{prefix}partitions", 1), parsed[f"{prefix}replication.factor"], configs
    )
