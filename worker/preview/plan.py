"""Reads the connector file to preview, and optionally its worker's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect.config.connector_file import ConnectorFile, parse_connector_file
from connect.config.properties import read_properties
from connect.connector import SinkConnector, SourceConnector
from connect.errors import ConfigError, ConnectError
from connect.plugins import Kind, Plugins
from connect.record import SourceRecord
from worker.config.providers import resolve_with_worker
from worker.config.secrets import SecretMask
from worker.preview.conversion import PreviewConverters, has_converters
from worker.preview.record_lines import RecordDefaults

_TOPIC = "records"
"""Topic of plain records if neither the configuration nor the user names one."""


@dataclass(slots=True)
class PreviewPlan:
    """One connector's configuration with everything that a preview needs. Close after use."""

    file: ConnectorFile
    worker: Mapping[str, str] | None
    plugins: Plugins
    defaults: RecordDefaults
    config: Mapping[str, str | None]
    """The connector's configuration. References are resolved if the worker has the config provider."""
    mask: SecretMask = field(default_factory=SecretMask)
    """Masks values from config providers."""
    _open: list[PreviewConverters] = field(default_factory=list)

    @classmethod
    def read(
        cls,
        path: str,
        worker_path: str | None,
        plugins: Plugins,
        *,
        topic: str | None = None,
        overrides: Mapping[str, str | None] | None = None,
    ) -> PreviewPlan:
        """Reads both files. The connector file may be incomplete: transformations suffice. Raises ConfigError."""
        file = parse_connector_file(path)
        config: Mapping[str, str | None] = {**file.config, **(overrides or {})}
        worker, mask = None, SecretMask()
        if worker_path is not None:
            worker, config = resolve_with_worker(read_properties(worker_path), worker_path, config, path, mask)
        defaults = RecordDefaults(topic or first_topic(config) or _TOPIC, is_sink(config, plugins))
        return cls(file, worker, plugins, defaults, config, mask)

    def location(self, error: ConnectError) -> str:
        """Returns the file of an error, and the line if known."""
        return self.file.location(error.key if isinstance(error, ConfigError) else None)

    def converters(self) -> PreviewConverters:
        """Creates the converters. Raises ConfigError if there are none or their settings are invalid."""
        converters = PreviewConverters(self.config, self.worker, self.plugins)
        self._open.append(converters)
        return converters

    def output_converters(self) -> PreviewConverters | None:
        """Creates the converters of a source, if they are set. Returns None for sinks."""
        if self.defaults.is_sink or not has_converters(self.config, self.worker):
            return None
        return self.converters()

    def samples(self, count: int) -> Sequence[SourceRecord]:
        """Returns sample records that the connector generates. Raises ConfigError if it cannot."""
        config = {key: value for key, value in self.config.items() if value is not None}
        name = config.get("connector.class")
        connector = self.plugins.new_connector(name) if name else None
        records = connector.sample_records(config, count) if isinstance(connector, SourceConnector) else []
        if not records:
            raise ConfigError(
                f"{self.file.path}: this connector has no sample records of its own: give some with --records FILE, "
                'one JSON value a line, as {"id": 1}'
            )
        return records

    def close(self) -> None:
        """Closes all converters."""
        for conversion in self._open:
            conversion.close()


def first_topic(config: Mapping[str, str | None]) -> str | None:
    """Returns the first topic that a configuration names, if any."""
    for key in ("topics", "topic", "kafka.topic"):
        if value := (config.get(key) or "").strip():
            return value.split(",")[0].strip()
    return None


def is_sink(config: Mapping[str, str | None], plugins: Plugins) -> bool:
    """Decides by the connector class or, if it is unavailable, by keys that only sinks have."""
    name = config.get("connector.class")
    if name:
        try:
            desc = plugins.resolve(Kind.CONNECTOR, name)
            if desc.type in ("source", "sink"):
                return desc.type == "sink"
            return issubclass(plugins.load(desc), SinkConnector)
        except ConnectError:
            pass
    return "topics" in config or "topics.regex" in config
