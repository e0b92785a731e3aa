"""The worker's config providers (KIP-297): creates them from its properties and resolves references in configurations."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from connect.config.parsing import parse_value
from connect.config.providers.api import ConfigProvider
from connect.config.providers.references import Resolution, find_references, resolve_references
from connect.config.types import ConfigType
from connect.errors import ConfigError, ConnectError
from connect.plugins import Plugins
from worker.config.plugin_path import extend_python_path
from worker.config.secrets import SecretMask

log = logging.getLogger(__name__)

NAMES: Final = "config.providers"


class ConfigProviders:
    """Config providers by name. The mask learns every value before it is returned (promise 9). Safe for use from any thread."""

    def __init__(self, providers: Mapping[str, ConfigProvider], mask: SecretMask) -> None:
        self._providers = providers
        self.mask = mask

    @classmethod
    def from_worker(cls, props: Mapping[str, str], mask: SecretMask) -> ConfigProviders:
        """Creates the providers that a worker's properties define.

        Parameters of a provider may refer to other providers, for example to a token in a file. Raises ConfigError that names the
        key if a class is not found or rejects its parameters. Like Kafka, skips a name without a class;
        :func:`unconfigured_providers` returns those.
        """
        names = provider_names(props)
        waiting = [name for name in names if f"{NAMES}.{name}.class" in props]
        if not waiting:
            return cls({}, mask)
        # Before plugin discovery, whose result is cached.
        extend_python_path(_plugin_path(props))
        plugins = Plugins.discover()
        created = cls({}, mask)
        while waiting:
            ready = [name for name in waiting if not _refers_to_any(_parameters(props, name), waiting)] or waiting
            new = {name: _new_provider(name, props, plugins, created) for name in ready}
            created = cls({**created._providers, **new}, mask)
            waiting = [name for name in waiting if name not in new]
        return created

    def __bool__(self) -> bool:
        return bool(self._providers)

    def resolve(self, config: Mapping[str, str | None], used_by: str | None = None) -> Resolution:
        """Replaces references in a configuration with values.

        ``used_by`` names the configuration in warnings about references to missing keys; without it, nothing is logged. Raises
        ConfigError that names the key, provider, and path if a provider fails.
        """
        found = resolve_references(config, self._providers)
        self.mask.add_provided(found.secrets)
        for key, reference in found.unresolved if used_by is not None else ():
            log.warning(
                "%s: cannot resolve %s in %s: config provider '%s' has no key '%s'%s",
                used_by, reference.text, key, reference.provider, reference.key,
                f" at {reference.path}" if reference.path else "",
            )  # fmt: skip
        return found

    def close(self) -> None:
        """Closes every provider."""
        for name, provider in self._providers.items():
            try:
                provider.close()
            except Exception:
                log.exception("Cannot close config provider %s", name)


def resolve_with_worker(
    worker: Mapping[str, str], path: str | None, config: Mapping[str, str | None], name: str, mask: SecretMask
) -> tuple[dict[str, str], dict[str, str | None]]:
    """Returns a worker's properties and the configuration of a connector, both with the values of the worker's config providers.

    For commands that read the worker's file: also makes its ``plugin.path`` importable, so call it before plugin discovery.
    ``path`` names the worker's file in warnings; without it, its references are not mentioned. Raises the errors of
    :class:`ConfigProviders`.
    """
    extend_python_path(_plugin_path(worker))
    providers = ConfigProviders.from_worker(worker, mask)
    try:
        resolved = providers.resolve(worker, path).values
        return {key: value for key, value in resolved.items() if value is not None}, dict(providers.resolve(config, name).values)
    finally:
        providers.close()


def _plugin_path(worker: Mapping[str, str]) -> Sequence[str]:
    return parse_value("plugin.path", worker.get("plugin.path"), ConfigType.LIST) or ()


def provider_names(props: Mapping[str, str]) -> list[str]:
    """Returns the names in ``config.providers``."""
    return [name for name in dict.fromkeys(parse_value(NAMES, props.get(NAMES), ConfigType.LIST) or ()) if name]


def unconfigured_providers(props: Mapping[str, str]) -> list[str]:
    """Returns the listed providers without a class."""
    return [name for name in provider_names(props) if f"{NAMES}.{name}.class" not in props]


def _parameters(props: Mapping[str, str], name: str) -> dict[str, str]:
    prefix = f"{NAMES}.{name}.param."
    return {key: value for key, value in props.items() if key.startswith(prefix) and key != prefix}


def _refers_to_any(parameters: Mapping[str, str], names: list[str]) -> bool:
    return any(reference.provider in names for value in parameters.values() for reference in find_references(value))


def _new_provider(name: str, props: Mapping[str, str], plugins: Plugins, others: ConfigProviders) -> ConfigProvider:
    key = f"{NAMES}.{name}.class"
    class_name = props[key].strip()
    try:
        provider = plugins.new_config_provider(class_name)
    except ConfigError as e:
        raise ConfigError.invalid(key, class_name, e.message) from e
    except Exception as e:
        raise ConfigError.invalid(key, class_name, f"cannot create the config provider: {type(e).__name__}: {e}") from e
    prefix = f"{NAMES}.{name}.param."
    resolved = others.resolve(_parameters(props, name), "Worker").values
    try:
        provider.configure({param.removeprefix(prefix): value for param, value in resolved.items() if value is not None})
    except ConnectError as e:
        raise ConfigError(f"Config provider '{name}' ({prefix}*): {e.message}", key=key) from e
    except Exception as e:
        raise ConfigError(f"Cannot configure config provider '{name}' ({prefix}*): {type(e).__name__}: {e}", key=key) from e
    return provider
