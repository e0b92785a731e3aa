"""The tasks of Confluent's and Aiven's connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.sink.config import parse_sink
from connectors.jdbc.sink.database_task import DatabaseSinkTask
from connectors.jdbc.sink.planner import FieldPlanner
from connectors.jdbc.sink.row_changes import Planner
from connectors.jdbc.sink.writer_config import SinkSettings


class JdbcSinkTask(DatabaseSinkTask):
    """A task of :class:`connectors.jdbc.JdbcSink`."""

    flavor: ClassVar[ConnectorFlavor] = ConnectorFlavor.CONFLUENT

    def _prepared(self, config: Mapping[str, str]) -> tuple[SinkSettings, Callable[[Dialect], Planner]]:
        settings, rules = parse_sink(config, self.flavor)
        return settings, lambda dialect: FieldPlanner(rules, dialect.parse_name)


class AivenJdbcSinkTask(JdbcSinkTask):
    """A task of :class:`connectors.jdbc.AivenJdbcSink`."""

    flavor = ConnectorFlavor.AIVEN
