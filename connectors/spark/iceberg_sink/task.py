"""The task of the Iceberg sink."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.spark.config import SparkSinkConfig
from connectors.spark.iceberg_sink.config import parse_config
from connectors.spark.task import SparkSinkTask


class IcebergSinkTask(SparkSinkTask):
    """Only its configuration differs."""

    def parse(self, config: Mapping[str, str]) -> SparkSinkConfig:
        return parse_config(config)
