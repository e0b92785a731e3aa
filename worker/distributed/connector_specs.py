"""Configurations with the values of config providers."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from worker.config.resolved_config import ResolvedConfigs
from worker.executor import ConnectorSpec


class ConnectorSpecs:
    """Resolves configurations on a thread pool, because config providers may take a while. Any thread."""

    def __init__(self, values: ResolvedConfigs, pool: ThreadPoolExecutor) -> None:
        self._values = values
        self._pool = pool

    def resolve(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        """Resolves a configuration for a start."""
        given = without_nulls(config)
        return self._pool.submit(lambda: ConnectorSpec(name, given, self._values.resolve_for_start(name, given)))

    def resolve_for_request(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        """Resolves a configuration of a connector that is not started with it."""
        given = without_nulls(config)
        return self._pool.submit(
            lambda: ConnectorSpec(name, given, without_nulls(self._values.resolve_for_validation(given).values))
        )


def without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    """Returns a configuration without the keys that are null."""
    return {key: value for key, value in config.items() if value is not None}
