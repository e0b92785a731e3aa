"""Which keys are secret by their tables: those of type PASSWORD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.types import ConfigType
from connect.plugins import Kind, Plugins
from worker.config.worker_config import WorkerConfig, standalone_config_def
from worker.kafka.client_keys import client_keys
from worker.kafka.settings import ClientKind


def secret_keys_of(answer: Mapping[str, Any]) -> set[str]:
    """The secret keys of a connector's configuration, whichever table has them: the connector's, those of its converters,
    transformations and predicates, those of its clients. ``answer`` is that of its validation."""
    definitions = (config["definition"] for config in answer["configs"])
    return {one["name"] for one in definitions if one is not None and one["type"] == ConfigType.PASSWORD.value}


def worker_secret_keys(worker: WorkerConfig, plugins: Plugins) -> set[str]:
    """The secret keys of a worker's properties: its own, and those of its converters and of connectors' clients.

    Raises ConfigError for a converter that cannot be loaded.
    """
    found = {name for name, key in standalone_config_def().keys.items() if key.type is ConfigType.PASSWORD}
    for client in ClientKind:
        found |= {f"{client.value}.{name}" for name, key in client_keys(client).items() if key.type is ConfigType.PASSWORD}
    for role, kind, class_name in (
        ("key.converter", Kind.CONVERTER, worker.key_converter),
        ("value.converter", Kind.CONVERTER, worker.value_converter),
        ("header.converter", Kind.HEADER_CONVERTER, worker.header_converter),
    ):
        table = plugins.load(plugins.resolve(kind, class_name)).config_def()
        found |= {f"{role}.{name}" for name, key in table.keys.items() if key.type is ConfigType.PASSWORD}
    return found
