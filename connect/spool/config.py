"""The settings of spools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty, at_least
from connect.errors import ConfigError
from connect.spool.locks import LOCATION_KEY
from connect.spool.segments import MAX_BYTES

PREFIX = "spool."
LOWER_CASE = f"{PREFIX}names.in.lower.case"
"""For the writer's process: the names, in lines, of keys whose own case the reader does not know. No setting of users."""

KEYS = (
    ConfigDef()
    .define(
        LOCATION_KEY,
        ConfigType.STRING,
        validator=NonEmpty(),
        importance=Importance.HIGH,
        doc="Directory of the spool. It belongs to one connector and one query, and all executors must reach it.",
    )
    .define(
        "spool.max.bytes",
        ConfigType.LONG,
        1 << 30,
        validator=at_least(1),
        importance=Importance.MEDIUM,
        doc="Size of the segments behind the last batch of a stream, above which the connector waits. The disk holds that batch, "
        "too, until Spark has committed it. There is no limit before a stream starts: the rows of a load stay until a stream has "
        "committed them.",
    )
    .define(
        "spool.segment.max.bytes",
        ConfigType.LONG,
        16 << 20,
        validator=at_least(1),
        importance=Importance.LOW,
        doc="Size of records from which a segment is written.",
    )
    .define(
        "spool.linger.ms",
        ConfigType.LONG,
        100,
        validator=at_least(0),
        importance=Importance.LOW,
        doc="How long records wait for others of their segment.",
    )
    .define(
        "spool.idle.timeout.ms",
        ConfigType.LONG,
        30_000,
        validator=at_least(0),
        importance=Importance.LOW,
        doc="How long the connector runs without a query that reads the spool.",
    )
)


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """Typed values."""

    location: Path
    max_bytes: int
    segment_max_bytes: int
    linger_s: float
    idle_timeout_s: float


def parse_settings(values: Mapping[str, str]) -> SpoolSettings:
    """Parses the keys of a spool. Raises ConfigError."""
    parsed = KEYS.parse({key: value for key, value in values.items() if key.startswith(PREFIX)})
    location = parsed[LOCATION_KEY].removeprefix("file://")
    if "://" in location:
        raise ConfigError.invalid(LOCATION_KEY, location, "expected a directory; on a cluster, one that all hosts mount")
    if parsed["spool.segment.max.bytes"] > MAX_BYTES:
        raise ConfigError.invalid("spool.segment.max.bytes", parsed["spool.segment.max.bytes"], f"expected at most {MAX_BYTES}")
    return SpoolSettings(
        Path(location).absolute(),
        parsed["spool.max.bytes"],
        parsed["spool.segment.max.bytes"],
        parsed["spool.linger.ms"] / 1000,
        parsed["spool.idle.timeout.ms"] / 1000,
    )
