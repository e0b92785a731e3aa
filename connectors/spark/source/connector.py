"""The Spark source connector: validates its tables and assigns them to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.errors import BadRequestError, ConfigError, ConnectError
from connect.source import SourceTask
from connect.suggestions import did_you_mean
from connect.version import sluice_version
from connectors.spark.config_keys import CATALOG, CONF_PREFIX
from connectors.spark.source.config import ASSIGNED_TABLES, LOCATION, config_def, parse_config
from connectors.spark.source.offsets import TABLE


class SparkSource(SourceConnector):
    """Reads lake tables, directories of Parquet files, and SQL queries: their rows, then their changes, in Debezium's format or
    as rows."""

    version = sluice_version()
    open_prefixes: ClassVar[tuple[str, ...]] = (CONF_PREFIX,)
    # As for other sources of backlogs: large requests save CPU.
    producer_defaults = MappingProxyType({"batch.size": "1000000", "linger.ms": "20"})

    def __init__(self) -> None:
        self._props: dict[str, str] = {}

    def start(self, config: Mapping[str, str]) -> None:
        parse_config(config)
        self._props = dict(config)

    def task_class(self) -> type[SourceTask]:
        # Imported here because listing plugins must not import pyarrow.
        from connectors.spark.source.task import SparkSourceTask

        return SparkSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One task per table; with fewer tasks, several tables each."""
        locations = [table.location for table in parse_config(self._props).tables]
        count = min(max_tasks, len(locations))
        return [{**self._props, ASSIGNED_TABLES: ",".join(locations[i::count])} for i in range(count)]

    def stop(self) -> None:
        """Does nothing: tasks own what is open."""

    def config_def(self) -> ConfigDef:
        return config_def()

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = super().check_config(config)
        if not any(value.errors for value in values):
            try:
                parse_config(config)
            except ConfigError as e:
                _add_error(values, e)
        return values

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then the tables that exist: their features, types, and key columns. A table may be created later."""
        values = self.check_config(config)
        if any(value.errors for value in values):
            return values
        from connectors.spark.source.formats import check_table

        settings = parse_config(config)
        for table in settings.tables:
            try:
                check_table(table, settings)
            except ConnectError as e:
                _add_error(values, e)
        return values

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported: each change has its own offset, and is read again as the same one."""
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        return True

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Checks the format, and that the connector has the table. Whether its version exists is checked when the task starts."""
        from connectors.spark.source.formats import find_problem

        settings = parse_config(config)
        locations = [table.location for table in settings.tables]
        for items, offset in offsets.items():
            if offset is None:
                continue  # any stored offset may be removed
            partition = dict(items or ())
            problem = _partition_problem(partition, locations) or find_problem(settings.format, offset)
            if problem is not None:
                raise BadRequestError(f"The offset {dict(offset)} of source partition {partition} makes no sense: {problem}")
        return True


def _partition_problem(partition: Mapping[str, Any], locations: list[str]) -> str | None:
    if set(partition) != {TABLE}:
        return f'the source partition of a table is {{"{TABLE}": "<location>"}}'
    location = str(partition[TABLE])
    if location in locations:
        return None
    return f"the connector has no table at {location}{did_you_mean(location, locations, '; ')}"


def _add_error(values: list[ConfigValue], error: ConnectError) -> None:
    key = error.key if isinstance(error, ConfigError) else None
    by_name = {value.name: value for value in values}
    key = key or (CATALOG if by_name[CATALOG].value else LOCATION)
    if key not in by_name:  # spark.conf.<key>
        by_name[key] = ConfigValue(key)
        values.append(by_name[key])
    by_name[key].errors.append(error.message)
