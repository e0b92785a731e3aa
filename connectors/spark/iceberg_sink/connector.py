"""The Iceberg sink: the Spark sink behind the configuration of the Iceberg sink for Kafka Connect."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigDef
from connect.sink import SinkTask
from connectors.spark.config import SparkSinkConfig
from connectors.spark.connector import SparkSink
from connectors.spark.iceberg_sink.config import OPEN_PREFIXES, config_def, parse_config


class IcebergSink(SparkSink):
    """Writes topics into Iceberg tables with the configuration of the Iceberg sink for Kafka Connect; upserts if asked to."""

    open_prefixes = (*SparkSink.open_prefixes, *OPEN_PREFIXES)

    def parse(self, config: Mapping[str, str]) -> SparkSinkConfig:
        return parse_config(config)

    def task_class(self) -> type[SinkTask]:
        # Imported here because listing plugins must not import pyarrow and pyspark.
        from connectors.spark.iceberg_sink.task import IcebergSinkTask

        return IcebergSinkTask

    def config_def(self) -> ConfigDef:
        return config_def()
