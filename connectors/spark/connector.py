"""The Spark sink connector: writes topics into lake tables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import SinkConnector
from connect.errors import BadRequestError, ConfigError
from connect.record import TopicPartition
from connect.sink import SinkTask
from connectors.spark.config import CONF_PREFIX, PARQUET, config_def, parse_config


def _version() -> str:
    try:
        return metadata.version("sluice-connect")
    except metadata.PackageNotFoundError:
        return "unknown"


class SparkSink(SinkConnector):
    """Writes change events or plain records into Delta tables, or appends them to Parquet tables; one table per topic."""

    version = _version()
    open_prefixes = (CONF_PREFIX,)

    def __init__(self) -> None:
        self._props: dict[str, str] = {}

    def start(self, config: Mapping[str, str]) -> None:
        parse_config(config)
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
                parse_config(config)
            except ConfigError as e:
                named = next((v for v in values if v.name == e.key), values[0])
                named.errors.append(e.message)
        return values

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Writes the new offsets into the tables, which would otherwise reset the group to their own offsets (promise 6).

        Existing rows stay: after moving offsets back, an append table gets the rows a second time, as requested; an upsert
        table ends up the same.
        """
        parsed = parse_config(config)
        if parsed.names_need_source:
            raise BadRequestError(
                f"offsets of a sink whose table.name.format is {parsed.name_format} cannot be changed: the tables of a "
                "topic are known only from its records. Delete the tables, or rename the connector"
            )
        if parsed.table_format == PARQUET:
            raise BadRequestError(
                "offsets of a sink that writes Parquet files cannot be changed: delete the files, or rename the connector"
            )
        from connectors.spark import session
        from connectors.spark.tables.staging import Staging
        from connectors.spark.task import make_writer

        lease = session.lease(parsed.spark)
        try:
            for topic in sorted({tp.topic for tp in offsets}):
                writer = make_writer(
                    parsed, parsed.table_name(topic, None, None, None), lease, Staging(parsed.location, parsed.connector)
                )
                writer.reset({tp: offset for tp, offset in offsets.items() if tp.topic == topic})
        finally:
            lease.release()
        return True
