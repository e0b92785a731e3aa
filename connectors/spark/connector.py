"""The Spark sink connector: writes topics into lake tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import SinkConnector
from connect.errors import ConfigError
from connect.record import TopicPartition
from connect.sink import SinkTask
from connect.version import sluice_version
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.config_keys import CONF_PREFIX, FRESHNESS_PREFIX, PARQUET, PROPERTIES_PREFIX, config_def
from connectors.spark.schema_settings import EVOLUTION_PREFIX, RENAMES_PREFIX

if TYPE_CHECKING:
    from connect.external_system import ExternalSystem
    from connect.verification import VerifiableSink


class SparkSink(SinkConnector):
    """Writes change events or plain records into Delta or Iceberg tables, or appends them to Parquet tables."""

    version = sluice_version()
    open_prefixes: ClassVar[tuple[str, ...]] = (
        CONF_PREFIX,
        PROPERTIES_PREFIX,
        FRESHNESS_PREFIX,
        EVOLUTION_PREFIX,
        RENAMES_PREFIX,
    )
    # Range assignment would give all topics with one partition to the first task.
    consumer_defaults = MappingProxyType({"partition.assignment.strategy": "roundrobin"})

    def __init__(self) -> None:
        self._props: dict[str, str] = {}

    def parse(self, config: Mapping[str, str]) -> SparkSinkConfig:
        """Parses the configuration. Raises ConfigError that names the key."""
        return parse_config(config)

    def start(self, config: Mapping[str, str]) -> None:
        self.parse(config)
        self._props = dict(config)

    def task_class(self) -> type[SinkTask]:
        # Imported here because listing plugins must not import pyarrow and pyspark.
        from connectors.spark.task import SparkSinkTask

        return SparkSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._props, "spark.sink.task": str(i)} for i in range(max_tasks)]

    def stop(self) -> None:
        self._props = {}

    def config_def(self) -> ConfigDef:
        return config_def()

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = super().check_config(config)
        if not any(v.errors for v in values):
            try:
                self.parse(config)
            except ConfigError as e:
                named = next((v for v in values if v.name == e.key), None)
                if named is None:  # freshness.<table>.ms
                    named = ConfigValue(e.key or values[0].name)
                    values.append(named)
                named.errors.append(e.message)
        return values

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Writes the new offsets into every table that has records of these partitions; the tables would otherwise reset the
        group to their own offsets (promise 6).

        Existing rows stay. An upsert table ends up the same after moving offsets back; an append table would get the rows a
        second time, which is refused unless ``append.replay=repeat``.
        """
        return self._move_offsets(config, offsets, reset=False)

    def reset_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Deletes the offsets of all partitions of these topics from the tables, also of those that a recreated topic lacks."""
        return self._move_offsets(config, offsets, reset=True)

    def _move_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None], *, reset: bool) -> bool:
        parsed = self.parse(config)
        from connectors.spark import session
        from connectors.spark.tables.move_offsets import move_offsets

        lease = None if parsed.table_format == PARQUET else session.lease(parsed.spark)
        try:
            move_offsets(parsed, lease, offsets, reset=reset)
        finally:
            if lease is not None:
                lease.release()
        return True

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem:
        from connectors.spark.external_system import LakeTables

        return LakeTables(self.parse(config))

    def verification(self, config: Mapping[str, str]) -> VerifiableSink:
        from connectors.spark.verification.sink import SparkVerification

        return SparkVerification(self.parse(config))
