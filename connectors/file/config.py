"""Configuration of the file connectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty
from connect.paths import AllowedPath

FILE = "file"
TOPIC = "topic"
BATCH_SIZE = "batch.size"

SOURCE_CONFIG = (
    ConfigDef()
    .define(
        FILE, ConfigType.STRING, None, validator=AllowedPath(), importance=Importance.HIGH,
        doc="Source filename. If not specified, the standard input will be used",
    )
    .define(
        TOPIC, ConfigType.STRING, validator=NonEmpty(), importance=Importance.HIGH, doc="The topic to publish data to",
    )
    .define(
        BATCH_SIZE, ConfigType.INT, 2000, importance=Importance.LOW,
        doc="The maximum number of records the source task can read from the file each time it is polled",
    )
)  # fmt: skip

SINK_CONFIG = ConfigDef().define(
    FILE, ConfigType.STRING, None, validator=AllowedPath(), importance=Importance.HIGH,
    doc="Destination filename. If not specified, the standard output will be used",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileSourceConfig:
    """Configuration of a source task. ``file`` is None for the standard input."""

    file: str | None
    topic: str
    batch_size: int

    @classmethod
    def parse(cls, config: Mapping[str, str]) -> FileSourceConfig:
        values = SOURCE_CONFIG.parse(config)
        return cls(values[FILE] or None, values[TOPIC], max(values[BATCH_SIZE], 1))


def parse_sink_file(config: Mapping[str, str]) -> str | None:
    """The file to append to; None for the standard output."""
    return SINK_CONFIG.parse(config)[FILE] or None
