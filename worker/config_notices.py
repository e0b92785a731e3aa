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
    table = standalone_config_def().keys
    clients = set(java_names())
    found = [
        f"config.providers lists {name}, but there is no config.providers.{name}.class: references to it are left as they are"
        for name in unconfigured_providers(props)
    ]
    for key, value in props.items():
        if key in UNUSED:
            if _is_set(table[key], value):
                found.append(_unused(key))
        elif key.startswith(_UNUSED_PREFIXES):
            found.append(_unused(key))
        elif key in _DISTRIBUTED:
            found.append(f"The setting {key} is of distributed workers: a standalone worker does not use it")
        elif key not in table and key not in clients and not key.startswith(_KNOWN_PREFIXES):
            near = get_close_matches(key, [*table, *clients], n=1)
            found.append(f"The setting {key} is not known and is ignored" + (f"; did you mean {near[0]}?" if near else ""))
    return found


def _unused(key: str) -> str:
    instead = _INSTEAD.get(key)
    return f"The setting {key} is not used by this release" + (f": {instead}" if instead else "")


def _is_set(key: ConfigKey, value: str) -> bool:
    """True when the value is another than the default: a file that spells out defaults asks for nothing."""
    default = None if key.default is None else parse_value(key.name, key.default, key.type)
    return bool(parse_value(key.name, value, key.type) != default)
