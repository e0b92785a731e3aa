"""The worker's own converters: whether they can be loaded, and which of a worker's properties are secret by their tables."""

from __future__ import annotations

from connect.errors import ConfigError
from connect.plugins import Kind, Plugins
from worker.config.secret_keys import worker_secret_keys
from worker.config.worker_config import WorkerConfig


def checked_secret_keys(config: WorkerConfig, plugins: Plugins) -> set[str]:
    """Loads the converters that the worker's properties name. Returns the secret keys of these properties; raises ConfigError
    that names the key when a converter cannot be loaded."""
    for key, kind, name in (
        ("key.converter", Kind.CONVERTER, config.key_converter),
        ("value.converter", Kind.CONVERTER, config.value_converter),
        ("header.converter", Kind.HEADER_CONVERTER, config.header_converter),
    ):
        try:
            plugins.load(plugins.resolve(kind, name))
        except ConfigError as e:
            raise ConfigError.invalid(key, name, e.message) from e
    return worker_secret_keys(config, plugins)
