"""Values of config providers in the configurations of connectors and tasks: putting them in, taking them out again, and when they
run out (KIP-297)."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.providers.references import Expiry, Resolution, find_references
from worker.config.providers import ConfigProviders
from worker.config.reload_timer import ReloadTimer

_ACTION = "config.action.reload"


class ResolvedConfigs:
    """What the connectors of a worker get from its config providers. Safe from any thread."""

    def __init__(self, providers: ConfigProviders, timer: ReloadTimer) -> None:
        self._providers = providers
        self._timer = timer
        self._expiries: dict[str, tuple[Expiry, ...]] = {}
        self._given_out: dict[str, dict[str, str]] = {}

    def resolve_for_validation(self, config: Mapping[str, str | None]) -> Resolution:
        """The configuration with values. Raises ConfigError when a provider cannot answer."""
        return self._providers.resolve(config)

    def resolve_for_start(self, connector: str, given: Mapping[str, str], *, again: bool = False) -> dict[str, str]:
        """The same for a connector that is being started, or with ``again`` may have to be: it will be reloaded when the values
        run out, unless it says ``config.action.reload=none``."""
        if not self._providers:
            return dict(given)
        values = self._given_out[connector] = self._resolved(connector, given, again)
        return dict(values)

    def changed(self, connector: str, given: Mapping[str, str]) -> bool:
        """Whether the values are others than those that were given out for the last start. Raises ConfigError."""
        return self._resolved(connector, given, again=True) != self._given_out.get(connector)

    def _resolved(self, connector: str, given: Mapping[str, str], again: bool) -> dict[str, str]:
        found = self._providers.resolve(given, None if again else f"Connector {connector}")
        values = {key: value for key, value in found.values.items() if value is not None}
        reloads = values.get(_ACTION, "restart").strip().lower() != "none"
        self._expiries[connector] = found.expiries if reloads else ()
        self._timer.schedule(connector, self._expiries[connector])
        return values

    def reschedule(self, connector: str) -> None:
        """Waits once more for as long as the last values were to hold: a provider did not answer."""
        self._timer.schedule(connector, self._expiries.get(connector, ()))

    def forget(self, connector: str) -> None:
        """The connector is gone."""
        self._timer.schedule(connector, ())
        self._expiries.pop(connector, None)
        self._given_out.pop(connector, None)


def restore_references(config: Mapping[str, str], given: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """A task's configuration as it is stored and shown: where it repeats a value of the connector's configuration that stands for
    a reference, the reference."""
    return {key: given[key] if _stands_for(key, value, given, values) else value for key, value in config.items()}


def restore_values(config: Mapping[str, str], given: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """The way back: a task's configuration as the task gets it."""
    return {key: values[key] if key in values and given.get(key) == value else value for key, value in config.items()}


def _stands_for(key: str, value: str, given: Mapping[str, str], values: Mapping[str, str]) -> bool:
    return values.get(key) == value and next(find_references(given.get(key, "")), None) is not None
