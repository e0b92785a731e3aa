"""What a worker tells at its start about its own file: keys that nobody knows, and keys that change nothing in this release."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigKey
from connect.config.parsing import parse_value
from connect.suggestions import did_you_mean
from worker.config.distributed_config import DISTRIBUTED_KEYS, STORAGE_PREFIXES
from worker.config.providers import unconfigured_providers
from worker.config.worker_config import CLIENT_PREFIXES, distributed_config_def, standalone_config_def
from worker.kafka.settings import java_names

UNUSED = frozenset(
    {
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    }
)
"""Keys of the table that nothing reads yet; their texts say so."""

_CONVERTERS = ("key.converter.", "value.converter.", "header.converter.")
_KNOWN_PREFIXES = (*CLIENT_PREFIXES, *_CONVERTERS, "config.providers.", "listeners.https.", "admin.listeners.https.")
_UNUSED_PREFIXES = ("metrics.context.",)
_DISTRIBUTED = frozenset(key.name for key in DISTRIBUTED_KEYS) - frozenset(java_names())
_STANDALONE = frozenset(standalone_config_def().keys) - frozenset(distributed_config_def().keys)
_NOT_CHOSEN = {
    "config.storage.partitions": "this topic always has one partition",
    **{f"{prefix}cleanup.policy": "these topics are always compacted" for prefix in STORAGE_PREFIXES},
}
"""Of settings of a distributed worker's topics those that are as they are."""


def config_notices(props: Mapping[str, str], *, distributed: bool = False) -> list[str]:
    """One sentence for each key that does not do what whoever set it may expect. Values are not told: they may be secrets."""
    known = {*_table(distributed), *java_names()}
    found = provider_notices(props)
    for key, value in props.items():
        if (notice := unused_notice(key, value, distributed=distributed)) is not None:
            found.append(notice)
        elif is_unknown(key):
            found.append(f"The setting {key} is not known and is ignored{did_you_mean(key, known, '; ')}")
    return found


def provider_notices(props: Mapping[str, str]) -> list[str]:
    """One sentence for each config provider that is listed and not set up."""
    return [
        f"config.providers lists {name}, but there is no config.providers.{name}.class: references to it are left as they are"
        for name in unconfigured_providers(props)
    ]


def unused_notice(key: str, value: str, *, distributed: bool = False) -> str | None:
    """What to say of a known key that does nothing here, None of any other. Raises ConfigError for a wrong value."""
    if key in UNUSED:
        return _unused(key) if _is_set(standalone_config_def().keys[key], value) else None
    if key.startswith(_UNUSED_PREFIXES):
        return _unused(key)
    if distributed:
        if key in _STANDALONE:
            return f"The setting {key} is of standalone workers: a distributed worker does not use it"
        if (instead := _NOT_CHOSEN.get(key)) is not None:
            return f"The setting {key} is ignored: {instead}"
    elif _is_of_cluster(key):
        return f"The setting {key} is of distributed workers: a standalone worker does not use it"
    return None


def is_unknown(key: str) -> bool:
    """Whether neither workers of any kind nor their Kafka clients know a key. Those of converters are not judged."""
    known = key in standalone_config_def().keys or key in java_names() or _is_of_cluster(key)
    return not known and not key.startswith((*_UNUSED_PREFIXES, *_KNOWN_PREFIXES))


def _is_of_cluster(key: str) -> bool:
    return key in _DISTRIBUTED or (key.startswith(STORAGE_PREFIXES) and key not in _STANDALONE)


def _table(distributed: bool) -> Mapping[str, ConfigKey]:
    return distributed_config_def().keys if distributed else standalone_config_def().keys


def _unused(key: str) -> str:
    return f"The setting {key} is not used by this release"


def _is_set(key: ConfigKey, value: str) -> bool:
    """True when the value is another than the default: a file that spells out defaults asks for nothing."""
    default = None if key.default is None else parse_value(key.name, key.default, key.type)
    return bool(parse_value(key.name, value, key.type) != default)
