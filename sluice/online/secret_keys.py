"""Hides the secrets of configurations that commands show."""

from __future__ import annotations

from collections.abc import Collection

from connect.config.parsing import HIDDEN
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
