"""What a worker tells at its start about its own file: keys that nobody knows, and keys that change nothing in this release."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from connect.config.definition import ConfigKey
from connect.config.parsing import parse_value
from worker.config import CLIENT_PREFIXES, standalone_config_def
from worker.config_providers import unconfigured_providers
from worker.kafka.settings import java_names

UNUSED = frozenset(
    {
        "access.control.allow.methods",
        "access.control.allow.origin",
        "admin.listeners",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "response.http.headers.config",
        "rest.advertised.listener",
        "rest.extension.classes",
        "ssl.client.auth",
        "task.executors",
        "topic.tracking.allow.reset",
        "topic.tracking.enable",
    }
)
"""Keys of the table that nothing reads yet; their texts say so."""

_CONVERTERS = ("key.converter.", "value.converter.", "header.converter.")
_KNOWN_PREFIXES = (*CLIENT_PREFIXES, *_CONVERTERS, "config.providers.")
_UNUSED_PREFIXES = ("listeners.https.", "admin.listeners.https.", "metrics.context.")
_DISTRIBUTED = frozenset(
    {
        "config.storage.replication.factor",
        "config.storage.topic",
        "connect.protocol",
        "exactly.once.source.support",
        "offset.storage.partitions",
        "offset.storage.replication.factor",
        "offset.storage.topic",
        "rebalance.timeout.ms",
        "scheduled.rebalance.max.delay.ms",
        "status.storage.partitions",
        "status.storage.replication.factor",
        "status.storage.topic",
        "worker.sync.timeout.ms",
        "worker.unsync.backoff.ms",
    }
)
_INSTEAD = {
    "task.executors": "tasks run as threads of the worker",
}


def config_notices(props: Mapping[str, str]) -> list[str]:
    """One sentence for each key that does not do what whoever set it may expect. Values are not told: they may be secrets."""
    known = {*standalone_config_def().keys, *java_names()}
    found = provider_notices(props)
    for key, value in props.items():
        if (notice := unused_notice(key, value)) is not None:
            found.append(notice)
        elif is_unknown(key):
            near = get_close_matches(key, known, n=1)
            found.append(f"The setting {key} is not known and is ignored" + (f"; did you mean {near[0]}?" if near else ""))
    return found


def provider_notices(props: Mapping[str, str]) -> list[str]:
    """One sentence for each config provider that is listed and not set up."""
    return [
        f"config.providers lists {name}, but there is no config.providers.{name}.class: references to it are left as they are"
        for name in unconfigured_providers(props)
    ]


def unused_notice(key: str, value: str) -> str | None:
    """What to say of a key of Apache's that does nothing here, None of any other. Raises ConfigError for a wrong value."""
    if key in UNUSED:
        return _unused(key) if _is_set(standalone_config_def().keys[key], value) else None
    if key.startswith(_UNUSED_PREFIXES):
        return _unused(key)
    if key in _DISTRIBUTED:
        return f"The setting {key} is of distributed workers: a standalone worker does not use it"
    return None


def is_unknown(key: str) -> bool:
    """Whether neither standalone workers nor their Kafka clients know a key. Those of converters are not judged."""
    known = key in standalone_config_def().keys or key in java_names() or key in _DISTRIBUTED
    return not known and not key.startswith((*_UNUSED_PREFIXES, *_KNOWN_PREFIXES))


def _unused(key: str) -> str:
    instead = _INSTEAD.get(key)
    return f"The setting {key} is not used by this release" + (f": {instead}" if instead else "")


def _is_set(key: ConfigKey, value: str) -> bool:
    """True when the value is another than the default: a file that spells out defaults asks for nothing."""
    default = None if key.default is None else parse_value(key.name, key.default, key.type)
    return bool(parse_value(key.name, value, key.type) != default)
