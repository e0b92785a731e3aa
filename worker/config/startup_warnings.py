"""Finds keys of a worker's file that are unknown, unused by this release, or for the other mode. Workers log them at startup."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigKey
from connect.config.parsing import parse_value
from connect.suggestions import did_you_mean
from worker.config.distributed_config import DISTRIBUTED_KEYS, STORAGE_PREFIXES
from worker.config.providers import unconfigured_providers
from worker.config.worker_config import CLIENT_PREFIXES, distributed_config_def, standalone_config_def
from worker.kafka.settings import java_names

UNUSED_KEYS = frozenset(
    {
        "metric.reporters",
        "metrics.recording.level",
    }
)
"""Keys of the ConfigDef that nothing reads yet; their documentation says so."""

_CONVERTERS = ("key.converter.", "value.converter.", "header.converter.")
_KNOWN_PREFIXES = (*CLIENT_PREFIXES, *_CONVERTERS, "config.providers.", "listeners.https.", "admin.listeners.https.")
_UNUSED_KEYS_PREFIXES = ("metrics.context.",)
_DISTRIBUTED = frozenset(key.name for key in DISTRIBUTED_KEYS) - frozenset(java_names())
_STANDALONE = frozenset(standalone_config_def().keys) - frozenset(distributed_config_def().keys)
_FIXED = {
    "config.storage.partitions": "this topic always has one partition",
    **{f"{prefix}cleanup.policy": "these topics are always compacted" for prefix in STORAGE_PREFIXES},
}
"""Settings of a distributed worker's topics that cannot be changed, with the reason."""


def find_startup_warnings(props: Mapping[str, str], *, distributed: bool = False) -> list[str]:
    """Returns a sentence for each key that may not do what the user expects. Values are omitted because they may be secret."""
    known = {*_table(distributed), *java_names()}
    warnings = find_provider_warnings(props)
    for key, value in props.items():
        if (warning := find_unused_key_warning(key, value, distributed=distributed)) is not None:
            warnings.append(warning)
        elif is_unknown_key(key):
            warnings.append(f"Ignoring unknown setting {key}{did_you_mean(key, known, '; ')}")
    return warnings


def find_provider_warnings(props: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each config provider that is listed but has no class."""
    return [
        f"config.providers lists {name}, but config.providers.{name}.class is missing; references to it will not be resolved"
        for name in unconfigured_providers(props)
    ]


def find_unused_key_warning(key: str, value: str, *, distributed: bool = False) -> str | None:
    """Returns a sentence about a known key that has no effect here; None for others. Raises ConfigError for an invalid value."""
    if key in UNUSED_KEYS:
        return _unused_warning(key) if _is_set(standalone_config_def().keys[key], value) else None
    if key.startswith(_UNUSED_KEYS_PREFIXES):
        return _unused_warning(key)
    if distributed:
        if key in _STANDALONE:
            return f"Ignoring setting {key}: it applies to standalone workers only"
        if (reason := _FIXED.get(key)) is not None:
            return f"Ignoring setting {key}: {reason}"
    elif _is_distributed_only(key):
        return f"Ignoring setting {key}: it applies to distributed workers only"
    return None


def is_unknown_key(key: str) -> bool:
    """Returns whether neither workers of either mode nor their Kafka clients have the key. Keys of converters count as known."""
    known = key in standalone_config_def().keys or key in java_names() or _is_distributed_only(key)
    return not known and not key.startswith((*_UNUSED_KEYS_PREFIXES, *_KNOWN_PREFIXES))


def _is_distributed_only(key: str) -> bool:
    return key in _DISTRIBUTED or (key.startswith(STORAGE_PREFIXES) and key not in _STANDALONE)


def _table(distributed: bool) -> Mapping[str, ConfigKey]:
    return distributed_config_def().keys if distributed else standalone_config_def().keys


def _unused_warning(key: str) -> str:
    return f"Ignoring setting {key}: this release does not use it"


def _is_set(key: ConfigKey, value: str) -> bool:
    """Returns whether the value differs from the default: a file may spell out defaults."""
    default = None if key.default is None else parse_value(key.name, key.default, key.type)
    return bool(parse_value(key.name, value, key.type) != default)
