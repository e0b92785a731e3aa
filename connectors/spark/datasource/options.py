"""The options of the data source: its own, those of the spool, and the configuration of the connector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.properties import read_properties
from connect.errors import ConfigError
from connect.spool.config import KEYS, SpoolSettings, parse_settings
from connect.suggestions import did_you_mean, nearest

TABLE = "table"
BOUNDS = "bounds"
NAMES = "names"
"""The names of options in lines, with their own case."""
MAX_ROWS = "maxRowsPerTrigger"
PARTITIONS = "numPartitions"
START = "startingOffsets"
FILE = "connector.properties"
SCHEMA_TIMEOUT = "schemaTimeoutSeconds"
CONFIRMED = "confirmed"
PLACEHOLDER = "unavailable.value.placeholder"
"""Of the connector, and of a sink."""
_OWN = (TABLE, BOUNDS, NAMES, MAX_ROWS, PARTITIONS, START, FILE, SCHEMA_TIMEOUT)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Typed values."""

    table: str | None
    """None reads records."""
    reads_bounds: bool
    """The only row of a batch says where its rows are in the spool (:class:`connectors.spark.datasource.SpoolTables`)."""
    max_rows: int | None
    partitions: int
    starts_at_confirmed: bool
    schema_timeout_s: float
    spool: SpoolSettings
    properties: Mapping[str, str] = field(repr=False)
    """What the spooler gets: the connector's configuration, and the settings of the spool."""
    lower_case: tuple[str, ...] = field(repr=False)
    """Those of ``properties`` that are in lower case, because Spark passes names of options so."""
    similar: Mapping[str, str]
    """By key of the connector: the option above that the user may have meant, if there is no such key."""

    @property
    def unavailable(self) -> str:
        """The placeholder with which the connector writes unavailable values."""
        return self.properties.get(PLACEHOLDER) or UNAVAILABLE_VALUE

    @property
    def reads_columns(self) -> bool:
        """Whether values can be columns in the spool: nobody reads records."""
        return self.table is not None or self.reads_bounds


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parses options. Spark passes their names in lower case; those of SpoolTables and of keys in the file have their own case.
    Raises ConfigError."""
    options = {name.lower(): value for name, value in given.items()}
    own = {name: options.pop(name.lower()) for name in _OWN if name.lower() in options}
    for name in options:
        if name.startswith("spool.") and name not in KEYS.keys:
            raise ConfigError(f"There is no option {name}; {did_you_mean(name, KEYS.keys) or 'see docs/spark-data-source.md'}")
    options.pop("path", None)
    file = dict(read_properties(own[FILE])) if FILE in own else {}
    names = {name.lower(): name for name in (*file, *own.get(NAMES, "").split("\n"))}
    properties = {**file, **{names.get(name, name): value for name, value in options.items()}}
    if "connector.class" not in properties:
        raise ConfigError(f"Set the option connector.class, or {FILE} to the file of a connector", key="connector.class")
    start = own.get(START, "").lower()
    if start not in ("", CONFIRMED):
        raise ConfigError.invalid(START, own[START], f"expected {CONFIRMED}, which continues where another query has committed")
    cores = len(os.sched_getaffinity(0))
    return SourceOptions(
        own.get(TABLE),
        own.get(BOUNDS, "").lower() == "true",
        _number(own, MAX_ROWS, None),
        _number(own, PARTITIONS, cores) or cores,
        start == CONFIRMED,
        _number(own, SCHEMA_TIMEOUT, 60) or 60,
        parse_settings(properties),
        properties,
        tuple(sorted(options.keys() - names.keys())),
        {name: near for name in options if (near := _similar(name)) is not None},
    )


def _similar(name: str) -> str | None:
    by_name = {own.lower(): own for own in _OWN}
    found = nearest(name, by_name)
    return None if found is None else by_name[found]


def _number(own: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = own.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not int(text):
        raise ConfigError.invalid(name, text, "expected a number above 0")
    return int(text)
