"""The worker's config providers: made from its properties, and asked whenever a configuration is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
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
    """The providers by name. What comes out of them is made known to the mask before anybody sees it (promise 9). Safe from any
    thread, as the providers have to be."""

    def __init__(self, providers: Mapping[str, ConfigProvider], mask: SecretMask) -> None:
        self._providers = providers
        self.mask = mask

    @classmethod
    def of_worker(cls, props: Mapping[str, str], mask: SecretMask) -> ConfigProviders:
        """The providers that a worker's properties name.

        A provider's own parameters may refer to other providers, as a token in a file. Raises ConfigError that names the key
        when a class is not found or does not take its parameters. A name without a class is left out, as in Kafka;
        :func:`unconfigured_providers` tells of it.
        """
        names = provider_names(props)
        waiting = [name for name in names if f"{NAMES}.{name}.class" in props]
        if not waiting:
            return cls({}, mask)
        # Before the first look for plugins: what is found is kept.
        extend_python_path(parse_value("plugin.path", props.get("plugin.path"), ConfigType.LIST) or ())
        plugins = Plugins.discover()
        made = cls({}, mask)
        while waiting:
            ready = [name for name in waiting if not _names_one_of(_parameters(props, name), waiting)] or waiting
            fresh = {name: _new_provider(name, props, plugins, made) for name in ready}
            made = cls({**made._providers, **fresh}, mask)
            waiting = [name for name in waiting if name not in fresh]
        return made

    def __bool__(self) -> bool:
        return bool(self._providers)

    def resolve(self, config: Mapping[str, str | None], used_by: str | None = None) -> Resolution:
        """The configuration with values in place of references.

        ``used_by`` says in the log whose references stay although their provider is there; without it, as for a check, nothing
        is logged. Raises ConfigError that names key, provider and path when a provider cannot answer.
        """
        found = resolve_references(config, self._providers)
        self.mask.add_provided(found.secrets)
        for key, reference in found.unresolved if used_by is not None else ():
            log.warning(
                "%s: %s of %s stays as it is: config provider '%s' has no key '%s'%s",
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
                log.exception("Config provider %s cannot be closed", name)


def provider_names(props: Mapping[str, str]) -> list[str]:
    """What ``config.providers`` lists."""
    return [name for name in dict.fromkeys(parse_value(NAMES, props.get(NAMES), ConfigType.LIST) or ()) if name]


def unconfigured_providers(props: Mapping[str, str]) -> list[str]:
    """Providers that are listed but have no class."""
    return [name for name in provider_names(props) if f"{NAMES}.{name}.class" not in props]


def _parameters(props: Mapping[str, str], name: str) -> dict[str, str]:
    prefix = f"{NAMES}.{name}.param."
    return {key: value for key, value in props.items() if key.startswith(prefix) and key != prefix}


def _names_one_of(parameters: Mapping[str, str], names: list[str]) -> bool:
    return any(reference.provider in names for value in parameters.values() for reference in find_references(value))


def _new_provider(name: str, props: Mapping[str, str], plugins: Plugins, others: ConfigProviders) -> ConfigProvider:
    key = f"{NAMES}.{name}.class"
    class_name = props[key].strip()
    try:
        provider = plugins.new_config_provider(class_name)
    except ConfigError as e:
        raise ConfigError.invalid(key, class_name, e.message) from e
    except Exception as e:
        raise ConfigError.invalid(key, class_name, f"the config provider cannot be made: {type(e).__name__}: {e}") from e
    prefix = f"{NAMES}.{name}.param."
    resolved = others.resolve(_parameters(props, name), "Worker").values
    try:
        provider.configure({param.removeprefix(prefix): value for param, value in resolved.items() if value is not None})
    except ConnectError as e:
        raise ConfigError(f"Config provider '{name}' ({prefix}*): {e.message}", key=key) from e
    except Exception as e:
        raise ConfigError(f"Config provider '{name}' cannot be configured ({prefix}*): {type(e).__name__}: {e}", key=key) from e
    return provider
