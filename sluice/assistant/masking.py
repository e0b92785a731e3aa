"""Hides secrets in what tools return (promise 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connect.config.connector_file import files_below, parse_connector_file
from connect.errors import ConfigError, UnreachableError
from rest.client import ConnectClient
from rest.security.config_mask import ConfigMask
from worker.config.secrets import SecretMask


class OutputMask:
    """Knows the secrets of the cluster's connectors and of the files that tools have read. Safe from any thread."""

    def __init__(self) -> None:
        self._mask = SecretMask()
        self._definitions: dict[str, Sequence[Mapping[str, Any]]] = {}
        """Keys by plugin, as workers have returned them."""

    def learn_cluster(self, client: ConnectClient) -> None:
        """Learns the secrets of all connectors, and of what a worker of Sluice remembers of them. Raises the client's errors."""
        for found in client.connectors_expanded("info").values():
            self.learn_config(client, found.get("info", {}).get("config", {}))

    def learn_config(self, client: ConnectClient | None, config: Mapping[str, str | None]) -> None:
        """Learns the secrets of one config; without a worker, by the names of its keys."""
        if client is None:  # nothing is remembered: a later call with a worker asks it
            self._mask.add(config)
            return
        ConfigMask(_WorkerDefinitions(client, self._definitions)).add_secrets(config, self._mask)

    def learn_files(self, client: ConnectClient | None, paths: list[Path]) -> None:
        """Learns the secrets of files, and of those in folders. One that cannot be read has none that a tool could show."""
        for path in (one for given in paths for one in (files_below(given) if given.is_dir() else [given])):
            try:
                self.learn_config(client, parse_connector_file(path).config)
            except (ConfigError, OSError):
                continue

    def text(self, text: str) -> str:
        return self._mask.mask(text)

    def value(self, value: Any) -> Any:
        """Masks all texts in a value."""
        return self._mask.mask_json(value)


class _WorkerDefinitions:
    """The keys of a worker's plugins, each asked for once. Without an answer, a plugin has none: the names of keys still tell."""

    def __init__(self, client: ConnectClient, known: dict[str, Sequence[Mapping[str, Any]]]) -> None:
        self._client = client
        self._known = known

    def plugin_config(self, plugin: str, /) -> Sequence[Mapping[str, Any]]:
        if plugin not in self._known:
            try:
                self._known[plugin] = self._client.plugin_config(plugin)
            except UnreachableError:
                return ()
        return self._known[plugin]
