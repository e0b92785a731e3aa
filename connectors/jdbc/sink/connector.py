"""The sink connectors of Confluent and Aiven: every task writes the records of its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from connect.config.definition import ConfigDef
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.sink.config import parse_sink, problems_between_keys
from connectors.jdbc.sink.config_keys import OPEN_PREFIXES, config_def
from connectors.jdbc.sink.database_connector import DatabaseSink
from connectors.jdbc.sink.task import AivenJdbcSinkTask, JdbcSinkTask
from connectors.jdbc.sink.writer_config import SinkSettings


class JdbcSink(DatabaseSink):
    """Writes topics into tables, with the keys of ``io.confluent.connect.jdbc.JdbcSinkConnector``."""

    open_prefixes = OPEN_PREFIXES
    flavor: ClassVar[ConnectorFlavor] = ConnectorFlavor.CONFLUENT

    def task_class(self) -> type[JdbcSinkTask]:
        return JdbcSinkTask

    def config_def(self) -> ConfigDef:
        return config_def(self.flavor)

    def problems(self, values: Mapping[str, Any], config: Mapping[str, str]) -> list[tuple[str, str]]:
        return problems_between_keys(values, config, self.flavor)

    def settings(self, config: Mapping[str, str]) -> SinkSettings:
        return parse_sink(config, self.flavor)[0]


class AivenJdbcSink(JdbcSink):
    """The same with the keys and rules of ``io.aiven.connect.jdbc.JdbcSinkConnector``."""

    flavor = ConnectorFlavor.AIVEN

    def task_class(self) -> type[JdbcSinkTask]:
        return AivenJdbcSinkTask
