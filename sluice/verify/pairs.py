"""Finds the source and the sink to compare, and their configurations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from connect.config.connector_file import parse_connector_file
from connect.config.properties import read_properties
from connect.connector import Connector, SinkConnector, SourceConnector
from connect.errors import ConfigError, NotFoundError
from connect.plugins import Plugins
from connect.suggestions import did_you_mean
from sluice.verify.pipeline_reader import PipelineReader
from worker.config.providers import resolve_with_worker
from worker.config.secrets import SecretMask

CONNECTOR_FILES = (".properties", ".json", ".yaml", ".yml")
"""Endings of files in place of connectors' names."""
_REFERENCE = re.compile(r"\$\{\w+:[^}]*\}")


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A connector with its configuration, in which references to config providers are resolved."""

    name: str
    config: Mapping[str, str]
    connector: Connector


@dataclass(frozen=True, slots=True)
class ConnectorPair:
    """A source and a sink that writes its records."""

    source: ConnectorConfig
    sink: ConnectorConfig


class PairFinder:
    """Looks up connectors of a worker. Names that are files are read from there."""

    def __init__(
        self, client: PipelineReader, worker: Mapping[str, str] | None, plugins: Plugins, *, reads_files: bool = True
    ) -> None:
        """``worker`` is the result of :func:`read_worker_config`, for its config providers; None if it is not known."""
        self._client = client
        self._worker = worker
        self._plugins = plugins
        self._reads_files = reads_files

    def find(self, name: str | None, source: str | None, sink: str | None) -> list[ConnectorPair]:
        """Returns the pairs of a connector: one for a sink, one per sink for a source. Raises ConfigError and NotFoundError."""
        if name is None:
            if source is None or sink is None:
                raise ConfigError("Give a connector, or both --source and --sink")
            return [ConnectorPair(self._source(source), self._sink(sink))]
        found = self._load(name)
        if isinstance(found.connector, SinkConnector):
            if sink is not None:
                raise ConfigError(f"{found.name} is a sink already; remove --sink")
            return [ConnectorPair(self._source(source) if source is not None else self._source_of(found), found)]
        if source is not None:
            raise ConfigError(f"{found.name} is a source already; remove --source")
        sinks = [self._sink(sink)] if sink is not None else self._sinks_of(found)
        return [ConnectorPair(found, one) for one in sinks]

    def _source(self, name: str) -> ConnectorConfig:
        found = self._load(name)
        if not isinstance(found.connector, SourceConnector):
            raise ConfigError(f"{name} is no source")
        return found

    def _sink(self, name: str) -> ConnectorConfig:
        found = self._load(name)
        if not isinstance(found.connector, SinkConnector):
            raise ConfigError(f"{name} is no sink")
        return found

    def _load(self, name: str) -> ConnectorConfig:
        if self._reads_files and name.endswith(CONNECTOR_FILES) and Path(name).is_file():
            file = parse_connector_file(name)
            config = {key: value for key, value in file.config.items() if value is not None}
            return self._configured(config.get("name", Path(name).stem), config)
        try:
            found = self._client.config(name)
        except NotFoundError as e:
            near = did_you_mean(name, self._client.connectors()) or "list them with sluice get"
            raise NotFoundError(f"There is no connector {name}; {near}") from e
        return self._configured(name, {key: value for key, value in found.items() if value is not None})

    def _configured(self, name: str, config: Mapping[str, str]) -> ConnectorConfig:
        if self._worker is not None:
            _, resolved = resolve_with_worker(self._worker, None, config, name, SecretMask())
            config = {key: value for key, value in resolved.items() if value is not None}
        unresolved = next((key for key, value in config.items() if _REFERENCE.search(value)), None)
        if unresolved is not None and self._worker is None:
            raise ConfigError(
                f"{name}: {unresolved} refers to a config provider of the worker; pass the worker's file with --worker-config"
            )
        class_name = config.get("connector.class")
        if not class_name:
            raise ConfigError(f"{name} has no connector.class")
        return ConnectorConfig(name, config, self._plugins.new_connector(class_name))

    def _source_of(self, sink: ConnectorConfig) -> ConnectorConfig:
        """The source whose topics the sink reads."""
        found = [name for name, topics in self._topics("source").items() if _reads(sink.config, topics)]
        if len(found) == 1:
            return self._load(found[0])
        if not found:
            raise ConfigError(f"No source of this cluster has written topics of {sink.name}; name it with --source")
        raise ConfigError(f"{sink.name} reads topics of several sources: {', '.join(found)}; choose one with --source")

    def _sinks_of(self, source: ConnectorConfig) -> list[ConnectorConfig]:
        topics = self._client.topics(source.name)
        candidates = [self._load(name) for name in self._names("sink")]
        found = [one for one in candidates if _reads(one.config, topics)]
        if not found:
            raise ConfigError(f"No sink of this cluster reads topics of {source.name}; name it with --sink")
        return found

    def _names(self, type_: str) -> list[str]:
        expanded = self._client.connectors_expanded("status", "info")
        return [
            name
            for name, one in sorted(expanded.items())
            if (one.get("status", {}).get("type") or one.get("info", {}).get("type")) == type_
        ]

    def _topics(self, type_: str) -> dict[str, list[str]]:
        return {name: self._client.topics(name) for name in self._names(type_)}


def _reads(config: Mapping[str, str], topics: Sequence[str]) -> bool:
    """Whether a sink reads one of these topics."""
    listed = {topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()}
    if listed:
        return not listed.isdisjoint(topics)
    pattern = config.get("topics.regex", "")
    return pattern != "" and any(re.fullmatch(pattern, topic) for topic in topics)


def reads_topic(config: Mapping[str, str], topic: str) -> bool:
    """Whether a sink reads a topic."""
    return _reads(config, [topic])


def read_worker_config(path: str | None) -> dict[str, str] | None:
    """Reads a worker's file, with its references to config providers resolved; None without one. Call it before plugin discovery:
    it makes the worker's ``plugin.path`` importable."""
    if path is None:
        return None
    worker, _ = resolve_with_worker(read_properties(path), path, {}, path, SecretMask())
    return worker
