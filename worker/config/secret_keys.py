"""Finds the secret keys of connector and worker configurations: those of type PASSWORD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.plugins import Kind, Plugins
from worker.config.worker_config import WorkerConfig, standalone_config_def
from worker.kafka.client_keys import client_keys
from worker.kafka.settings import ClientKind


def find_secret_keys(response: Mapping[str, Any]) -> set[str]:
    """Returns the secret keys of a connector's configuration, given the response of its validation.

    They include keys of its converters, transformations, predicates, and client overrides.
    """
    definitions = (config["definition"] for config in response["configs"])
    return {one["name"] for one in definitions if one is not None and one["type"] == ConfigType.PASSWORD.value}


def load_worker_secret_keys(worker: WorkerConfig, plugins: Plugins) -> set[str]:
    """Loads the worker's converters; returns the secret keys of the worker, its converters, and its connectors' clients.

    Raises ConfigError that names the key if a converter cannot be loaded.
    """
    found = {name for name, key in standalone_config_def().keys.items() if key.type is ConfigType.PASSWORD}
    for client in ClientKind:
        found |= {f"{client.value}.{name}" for name, key in client_keys(client).items() if key.type is ConfigType.PASSWORD}
    for role, kind, class_name in (
        ("key.converter", Kind.CONVERTER, worker.key_converter),
        ("value.converter", Kind.CONVERTER, worker.value_converter),
        ("header.converter", Kind.HEADER_CONVERTER, worker.header_converter),
    ):
        try:
            converter = plugins.load(plugins.resolve(kind, class_name))
        except ConfigError as e:
            raise ConfigError.invalid(role, class_name, e.message) from e
        found |= {f"{role}.{name}" for name, key in converter.config_def().keys.items() if key.type is ConfigType.PASSWORD}
    return found
