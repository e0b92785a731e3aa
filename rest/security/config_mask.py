"""Hides secrets in configurations that are shown (promise 9). Needs no web framework: commands hide them in the same way."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from connect.config.parsing import HIDDEN
from connect.config.providers.references import find_references
from connect.errors import ConnectError, UnreachableError
from worker.config.secrets import SecretMask, is_secret_name, secrets_in_url

Config = Mapping[str, str | None]

_CLASS = "connector.class"
_NESTED = {"transforms": "transforms.", "predicates": "predicates."}
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_PASSWORD = "PASSWORD"
_ALWAYS_SHOWN = frozenset(
    {
        "name",
        _CLASS,
        "tasks.max",
        "topics",
        "topics.regex",
        "config.action.reload",
        "transforms",
        "predicates",
    }
)
"""Shown although the connector's keys are unknown, as all keys of error handling are."""
_ERROR_HANDLING = "errors."


class PluginDefinitions(Protocol):
    """A herder, or a client of a worker."""

    def plugin_config(self, plugin: str, /) -> Sequence[Mapping[str, Any]]:
        """Returns a plugin's keys in REST's form. Raises ConnectError."""


class ConfigMask:
    """Shows configurations without secrets: values of type PASSWORD or with a name such as ``db.password``, and those in URLs.

    References to config providers stay readable. Safe for use from any thread; may block for plugins. Raises UnreachableError if
    the client's worker does not answer."""

    def __init__(self, plugins: PluginDefinitions) -> None:
        self._plugins = plugins
        self._lock = threading.Lock()
        self._known: dict[str, frozenset[str] | None] = {}

    def show(self, config: Config) -> dict[str, str | None]:
        """Returns a configuration as those may see it who may not know its secrets."""
        secret_keys = self.secret_keys(config)
        return {key: shown_value(key, value, secret_keys) for key, value in config.items()}

    def add_secrets(self, config: Config, mask: SecretMask) -> None:
        """Has ``mask`` hide in any text what :meth:`show` hides; short numbers only where it is certain that they are secret."""
        mask.add(config, self._password_keys(config))
        shown = self.show(config)
        mask.add_provided([value for key, value in config.items() if value and shown[key] == HIDDEN])

    def show_task(self, task_config: Mapping[str, str], connector_config: Config) -> dict[str, str]:
        """Returns a task's configuration in the same way. Values of the connector's secrets are hidden under any key."""
        keys = self.secret_keys(connector_config)
        values = {
            value
            for key, value in connector_config.items()
            if value and (is_secret_name(key) or (keys is not None and key in keys)) and not _is_references(value)
        }
        return {key: HIDDEN if value in values else shown_value(key, value, keys) or "" for key, value in task_config.items()}

    def secret_keys(self, config: Config) -> frozenset[str] | None:
        """Returns the keys of type PASSWORD; None if the connector's class is unknown here."""
        if self._keys_of(config.get(_CLASS)) is None:
            return None
        found = self._password_keys(config)
        for prefix, class_name in _plugins_of(config):
            if self._keys_of(class_name) is None:
                # Unknown: everything below its prefix may be secret.
                found |= {key for key in config if key.startswith(prefix) and not key.endswith(".type")}
        return frozenset(found)

    def _password_keys(self, config: Config) -> set[str]:
        """Returns the keys of type PASSWORD of the plugins that are known."""
        plugins = [("", config.get(_CLASS)), *_plugins_of(config)]
        return {f"{prefix}{key}" for prefix, class_name in plugins for key in self._keys_of(class_name) or ()}

    def _keys_of(self, class_name: str | None) -> frozenset[str] | None:
        if not class_name:
            return None
        with self._lock:
            if class_name in self._known:
                return self._known[class_name]
        try:
            definitions = self._plugins.plugin_config(class_name)
        except UnreachableError:
            raise
        except ConnectError:
            return None  # not remembered: the plugin may be installed later, or an executor be busy
        found = frozenset(str(one["name"]) for one in definitions if one.get("type") == _PASSWORD)
        with self._lock:
            self._known[class_name] = found
        return found


def _plugins_of(config: Config) -> Iterable[tuple[str, str | None]]:
    for role in _CONVERTERS:
        if config.get(role):
            yield f"{role}.", config[role]
    for names, prefix in _NESTED.items():
        for name in (config.get(names) or "").split(","):
            if name.strip():
                yield f"{prefix}{name.strip()}.", config.get(f"{prefix}{name.strip()}.type")


def shown_value(key: str, value: str | None, secret_keys: Collection[str] | None) -> str | None:
    """Returns a value as those may see it who may not know secrets. ``secret_keys`` have type PASSWORD; None if they are
    unknown."""
    if not value:
        return value
    is_secret = is_secret_name(key) or (_is_unknown(key) if secret_keys is None else key in secret_keys)
    if is_secret:
        return value if _is_references(value) else HIDDEN
    for secret in secrets_in_url(value):
        value = value.replace(secret, HIDDEN)
    return value


def _is_unknown(key: str) -> bool:
    return key not in _ALWAYS_SHOWN and not key.startswith(_ERROR_HANDLING)


def _is_references(value: str) -> bool:
    """Returns whether a value consists of references to config providers and nothing else."""
    at = 0
    for reference in find_references(value):
        if reference.start != at:
            return False
        at = reference.end
    return at == len(value)
