"""Which converter a connector has in a role, and with which settings."""

from __future__ import annotations

from collections.abc import Mapping

from connect.strict import strict_settings


def converter_settings(
    role: str, config: Mapping[str, str | None], worker: Mapping[str, str]
) -> tuple[str, dict[str, str]] | None:
    """Class and settings for ``key.converter``, ``value.converter`` or ``header.converter``: the connector's own, or else the
    worker's with the worker's settings. They are never mixed, as in Kafka Connect. None when neither names a converter."""
    for source in (config, worker):
        if name := source.get(role):
            prefix = f"{role}."
            below = {key.removeprefix(prefix): value for key, value in source.items() if key.startswith(prefix)}
            return name, {**{key: value for key, value in below.items() if value is not None}, **strict_settings(config)}
    return None
