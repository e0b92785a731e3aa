"""Hides the secrets of configurations that commands show."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect.config.parsing import HIDDEN
from connect.errors import ConnectError, UnreachableError
from rest.client import ConnectClient
from rest.security.masking import ALWAYS_SHOWN
from worker.config.secrets import is_secret_name, secrets_in_url


def shown_value(key: str, value: str | None, secret_keys: Collection[str]) -> str | None:
    """Returns a value as it may be shown. References to config providers stay readable. ``secret_keys`` have type PASSWORD."""
    if value is None:
        return None
    if (key in secret_keys or is_secret_name(key)) and "${" not in value:
        return HIDDEN
    for secret in secrets_in_url(value):
        value = value.replace(secret, HIDDEN)
    return value


def shown_config(config: Mapping[str, str | None], secret_keys: Collection[str]) -> dict[str, str | None]:
    """Returns a configuration as it may be shown, sorted by key."""
    return {key: shown_value(key, value, secret_keys) for key, value in sorted(config.items())}


def secret_keys_of(client: ConnectClient, config: Mapping[str, str | None]) -> set[str]:
    """Asks the worker which keys of the connector have type PASSWORD. Raises UnreachableError."""
    try:
        definitions = client.plugin_config(str(config.get("connector.class")))
    except UnreachableError:
        raise
    except ConnectError:  # an unknown plugin; names of keys still tell
        return set()
    return {str(one["name"]) for one in definitions if one.get("type") == "PASSWORD"}


def hidden_config_of(client: ConnectClient, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """Returns a configuration as it may be shown, sorted by key. If the worker does not know the keys of its class, all values
    but the common ones are hidden, as over REST. Raises UnreachableError."""
    try:
        definitions = client.plugin_config(str(config.get("connector.class")))
    except UnreachableError:
        raise
    except ConnectError:
        return shown_config(config, {key for key in config if key not in ALWAYS_SHOWN and not key.startswith("errors.")})
    return shown_config(config, {str(one["name"]) for one in definitions if one.get("type") == "PASSWORD"})
