"""Asks a worker which keys are secret."""

from __future__ import annotations

from collections.abc import Mapping

from connect.errors import ConnectError, UnreachableError
from rest.client import ConnectClient


def secret_keys_of(client: ConnectClient, config: Mapping[str, str | None]) -> set[str]:
    """Asks the worker which keys of the connector have type PASSWORD. Raises UnreachableError."""
    try:
        definitions = client.plugin_config(str(config.get("connector.class")))
    except UnreachableError:
        raise
    except ConnectError:  # an unknown plugin; names of keys still tell
        return set()
    return {str(one["name"]) for one in definitions if one.get("type") == "PASSWORD"}
