"""Resolves config provider references in connector and task configurations, restores them, and tracks expiry (KIP-297)."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.providers.references import Expiry, Resolution, find_references
from worker.config.providers import ConfigProviders
from worker.config.reload_timer import ReloadTimer

_ACTION = "config.action.reload"


class ResolvedConfigs:
    """The resolved configurations of a worker's connectors. Safe for use from any thread."""

    def __init__(self, providers: ConfigProviders, timer: ReloadTimer) -> None:
        self._providers = providers
        self._timer = timer
        self._expiries: dict[str, tuple[Expiry, ...]] = {}

    def resolve_for_validation(self, config: Mapping[str, str | None]) -> Resolution:
        """Resolves a configuration. Raises ConfigError if a provider fails."""
        return self._providers.resolve(config)

    def resolve_for_start(self, connector: str, given: Mapping[str, str], *, again: bool = False) -> dict[str, str]:
        """Resolves the configuration of a connector that starts, and schedules its reload for when the values expire.

        With ``config.action.reload=none`` no reload is scheduled. ``again`` means a possible restart: warnings are not repeated.
        """
        if not self._providers:
            return dict(given)
        return self._resolved(connector, given, again)

    def resolve_again(self, connector: str, given: Mapping[str, str]) -> dict[str, str]:
        """Resolves the configuration of a connector whose values have expired, and schedules the next reload. Raises ConfigError
        if a provider fails."""
        return self._resolved(connector, given, again=True)

    def _resolved(self, connector: str, given: Mapping[str, str], again: bool) -> dict[str, str]:
        found = self._providers.resolve(given, None if again else f"Connector {connector}")
        values = {key: value for key, value in found.values.items() if value is not None}
        reloads = values.get(_ACTION, "restart").strip().lower() != "none"
        self._expiries[connector] = found.expiries if reloads else ()
        self._timer.schedule(connector, self._expiries[connector])
        return values

    def reschedule(self, connector: str) -> None:
        """Schedules the reload again with the last TTLs, after a provider failed."""
        self._timer.schedule(connector, self._expiries.get(connector, ()))

    def forget(self, connector: str) -> None:
        """Discards the state of a deleted connector."""
        self._timer.schedule(connector, ())
        self._expiries.pop(connector, None)


def restore_references(config: Mapping[str, str], given: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Replaces values in a task configuration that come from references in the connector's configuration with the references.

    The result can be stored and shown; :func:`restore_values` reverses it.
    """
    return {key: given[key] if _comes_from_reference(key, value, given, values) else value for key, value in config.items()}


def restore_values(config: Mapping[str, str], given: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Replaces references in a stored task configuration with the connector's resolved values."""
    return {key: values[key] if key in values and given.get(key) == value else value for key, value in config.items()}


def _comes_from_reference(key: str, value: str, given: Mapping[str, str], values: Mapping[str, str]) -> bool:
    return values.get(key) == value and next(find_references(given.get(key, "")), None) is not None
