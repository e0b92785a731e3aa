"""Hides secrets in configurations that REST shows, and keeps them when a client sends the hidden form back (promise 9)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from starlette.requests import Request

from connect.config.parsing import HIDDEN
from connect.errors import BadRequestError, NotFoundError
from rest.security.access import access_of
from rest.security.config_mask import Config, ConfigMask, shown_value
from worker.config.secrets import secrets_in_url
from worker.herder import ConnectorReader
from worker.model import ConnectorInfo

KEPT_HEADER = "X-Sluice-Kept-Secrets"
"""Names the keys of a change whose hidden values were replaced by the stored ones."""


def shown_info(info: ConnectorInfo, request: Request) -> ConnectorInfo:
    """Returns a connector's configuration as the caller may see it."""
    return info if access_of(request).sees_secrets(info.name) else replace(info, config=mask_of(request).show(info.config))


def mask_of(request: Request) -> ConfigMask:
    """Returns the mask of the server that a request came to."""
    mask: ConfigMask = request.app.state.mask
    return mask


def keep_secrets(
    mask: ConfigMask, herder: ConnectorReader, connector: str, given: Config
) -> tuple[dict[str, str | None], list[str]]:
    """Replaces hidden values by those that the connector has, and returns the keys too.

    Raises BadRequestError for a hidden value without a stored one: it would overwrite a secret.
    """
    suspects = [key for key, value in given.items() if value is not None and HIDDEN in value]
    if not suspects:
        return dict(given), []
    try:
        stored: Config = herder.connector_info(connector).config
    except NotFoundError:
        stored = {}
    merged = {**stored, **given}
    secret_keys = mask.secret_keys(merged)
    kept, hidden = dict(given), []
    for key in suspects:
        value = given[key]
        if not _is_placeholder(key, value or "", secret_keys):
            continue  # for example the replacement of MaskField
        if stored.get(key) is None or value not in (shown_value(key, stored[key], secret_keys), HIDDEN):
            raise BadRequestError(
                f"The value of {key} contains {HIDDEN}, which stands for a secret that was not shown, and connector "
                f"{connector} has no such value. Send the secret itself, or a reference to a config provider"
            )
        kept[key] = stored[key]
        hidden.append(key)
    return kept, hidden


def _is_placeholder(key: str, value: str, secret_keys: Collection[str] | None) -> bool:
    """Returns whether a value with the hidden form stands for a secret: it would be hidden itself, or it is a URL with it."""
    return shown_value(key, "secret", secret_keys) == HIDDEN or any(HIDDEN in part for part in secrets_in_url(value))
