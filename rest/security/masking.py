"""Hides secrets in configurations that REST shows, and keeps them when a client sends the hidden form back (promise 9)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from starlette.requests import Request

from connect.config.parsing import HIDDEN
from connect.config.providers.references import find_references
from connect.errors import BadRequestError, ConnectError, NotFoundError
from rest.security.access import access_of
from worker.config.secrets import is_secret_name, secrets_in_url
from worker.herder import ConnectorReader, PluginCatalog
from worker.model import ConnectorInfo

Config = Mapping[str, str | None]

KEPT_HEADER = "X-Sluice-Kept-Secrets"
"""Names the keys of a change whose hidden values were replaced by the stored ones."""

_CLASS = "connector.class"
_NESTED = {"transforms": "transforms.", "predicates": "predicates."}
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_PASSWORD = "PASSWORD"
ALWAYS_SHOWN = frozenset(
    {
        "name",
        _CLASS,
        "tasks.max",
        "topics",
        "topics.regex",
        "config.action.reload",
        "errors.tolerance",
        "transforms",
        "predicates",
    }
)
"""Shown although the connector's keys are unknown."""


class _Herder(ConnectorReader, PluginCatalog, Protocol):
    """The parts of the herder that masking uses."""


class ConfigMask:
    """Shows configurations without secrets: values of type PASSWORD or with a name such as ``db.password``, and those in URLs.

    References to config providers stay readable. Safe for use from any thread; may block for plugins."""

    def __init__(self, herder: _Herder) -> None:
        self._herder = herder
        self._lock = threading.Lock()
        self._known: dict[str, frozenset[str] | None] = {}

    def show(self, config: Config) -> dict[str, str | None]:
        """Returns a configuration as those may see it who may not know its secrets."""
        return self._shown(config, self._secret_keys(config))

    def show_task(self, task_config: Mapping[str, str], connector_config: Config) -> dict[str, str]:
        """Returns a task's configuration in the same way. Values of the connector's secrets are hidden under any key."""
        keys = self._secret_keys(connector_config)
        values = {
            value
            for key, value in connector_config.items()
            if value and (is_secret_name(key) or (keys is not None and key in keys)) and not _is_references(value)
        }
        return {key: HIDDEN if value in values else _shown_value(key, value, keys) or "" for key, value in task_config.items()}

    def _shown(self, config: Config, secret_keys: frozenset[str] | None) -> dict[str, str | None]:
        return {key: _shown_value(key, value, secret_keys) for key, value in config.items()}

    def keep_secrets(self, connector: str, given: Config) -> tuple[dict[str, str | None], list[str]]:
        """Replaces hidden values by those that the connector has, and returns the keys too.

        Raises BadRequestError for a hidden value without a stored one: it would overwrite a secret.
        """
        suspects = [key for key, value in given.items() if value is not None and HIDDEN in value]
        if not suspects:
            return dict(given), []
        try:
            stored: Config = self._herder.connector_info(connector).config
        except NotFoundError:
            stored = {}
        merged = {**stored, **given}
        secret_keys = self._secret_keys(merged)
        shown = self._shown(stored, secret_keys)
        kept, hidden = dict(given), []
        for key in suspects:
            value = given[key]
            if not _is_placeholder(key, value or "", secret_keys):
                continue  # for example the replacement of MaskField
            if stored.get(key) is None or value not in (shown.get(key), HIDDEN):
                raise BadRequestError(
                    f"The value of {key} contains {HIDDEN}, which stands for a secret that was not shown, and connector "
                    f"{connector} has no such value. Send the secret itself, or a reference to a config provider"
                )
            kept[key] = stored[key]
            hidden.append(key)
        return kept, hidden

    def _secret_keys(self, config: Config) -> frozenset[str] | None:
        """Returns the keys of type PASSWORD; None if the connector's class is unknown here."""
        own = self._keys_of(config.get(_CLASS))
        if own is None:
            return None
        found = set(own)
        for prefix, class_name in _plugins_of(config):
            nested = self._keys_of(class_name)
            if nested is None:
                # Unknown: everything below its prefix may be secret.
                found |= {key for key in config if key.startswith(prefix) and not key.endswith(".type")}
            else:
                found |= {f"{prefix}{key}" for key in nested}
        return frozenset(found)

    def _keys_of(self, class_name: str | None) -> frozenset[str] | None:
        if not class_name:
            return None
        with self._lock:
            if class_name in self._known:
                return self._known[class_name]
        try:
            definitions = self._herder.plugin_config(class_name)
        except ConnectError:
            return None  # not remembered: the plugin may be installed later, or an executor be busy
        found = frozenset(str(one["name"]) for one in definitions if one.get("type") == _PASSWORD)
        with self._lock:
            self._known[class_name] = found
        return found


def shown_info(info: ConnectorInfo, request: Request) -> ConnectorInfo:
    """Returns a connector's configuration as the caller may see it."""
    return info if access_of(request).sees_secrets(info.name) else replace(info, config=mask_of(request).show(info.config))


def mask_of(request: Request) -> ConfigMask:
    """Returns the mask of the server that a request came to."""
    mask: ConfigMask = request.app.state.mask
    return mask


def _plugins_of(config: Config) -> Iterable[tuple[str, str | None]]:
    for role in _CONVERTERS:
        if config.get(role):
            yield f"{role}.", config[role]
    for names, prefix in _NESTED.items():
        for name in (config.get(names) or "").split(","):
            if name.strip():
                yield f"{prefix}{name.strip()}.", config.get(f"{prefix}{name.strip()}.type")


def _shown_value(key: str, value: str | None, secret_keys: frozenset[str] | None) -> str | None:
    if not value:
        return value
    is_secret = is_secret_name(key) or (key not in ALWAYS_SHOWN if secret_keys is None else key in secret_keys)
    if is_secret:
        return value if _is_references(value) else HIDDEN
    for secret in secrets_in_url(value):
        value = value.replace(secret, HIDDEN)
    return value


def _is_placeholder(key: str, value: str, secret_keys: frozenset[str] | None) -> bool:
    """Returns whether a value with the hidden form stands for a secret: it would be hidden itself, or it is a URL with it."""
    return _shown_value(key, "secret", secret_keys) == HIDDEN or any(HIDDEN in part for part in secrets_in_url(value))


def _is_references(value: str) -> bool:
    """Returns whether a value consists of references to config providers and nothing else."""
    at = 0
    for reference in find_references(value):
        if reference.start != at:
            return False
        at = reference.end
    return at == len(value)
