"""The keys of distributed workers that standalone ones do not have: Apache's DistributedConfig 4.3."""

from __future__ import annotations

from typing import Any

from connect.config.definition import NO_DEFAULT, ConfigKey, Importance, Validator
from connect.config.types import ConfigType
from connect.config.validators import Range, at_least, one_of

_INT, _LONG, _SHORT, _STRING, _LIST = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.STRING, ConfigType.LIST


def _key(name: str, type: ConfigType, default: Any, doc: str, validator: Validator | None = None) -> ConfigKey:
    importance = Importance.HIGH if default is NO_DEFAULT else Importance.LOW
    return ConfigKey(name, type, default, validator, importance, doc)


def _storage(what: str, partitions: int | None) -> tuple[ConfigKey, ...]:
    keys = [
        _key(f"{what}.storage.topic", _STRING, NO_DEFAULT, f"The topic in which {_HELD[what]} are kept."),
        _key(
            f"{what}.storage.replication.factor", _SHORT, 3, "Its replication factor; -1 is the broker's default.", at_least(-1)
        ),
    ]
    if partitions is not None:
        keys.append(
            _key(f"{what}.storage.partitions", _INT, partitions, "Its partitions; -1 is the broker's default.", at_least(-1))
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
)  # fmt: skip

STORAGE_PREFIXES = ("config.storage.", "offset.storage.", "status.storage.")
"""Below these a distributed worker has settings of topics too."""
