"""The connector and its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect.config.definition import ConfigDef
from connectors.jdbc.debezium_sink.config import parse_debezium, problems_between_keys, warn_of_hibernate
from connectors.jdbc.debezium_sink.config_keys import OPEN_PREFIXES, config_def
from connectors.jdbc.debezium_sink.naming import Folding
from connectors.jdbc.debezium_sink.planner import DebeziumPlanner
from connectors.jdbc.debezium_sink.table_plans import Target
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.sink.database_connector import DatabaseSink
from connectors.jdbc.sink.database_task import DatabaseSinkTask
from connectors.jdbc.sink.writer_config import SinkSettings


class DebeziumJdbcSinkTask(DatabaseSinkTask):
    """A task of :class:`DebeziumJdbcSink`."""

    def _prepared(self, config: Mapping[str, str]) -> tuple[SinkSettings, Callable[[Dialect], DebeziumPlanner]]:
        settings, self._rules = parse_debezium(config)
        backend = settings.connection.target.url.get_backend_name()
        target = Target(backend, Folding(backend, self._rules.keeps_case))
        return settings, lambda dialect: DebeziumPlanner(self._rules, target, dialect.parse_name)

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._look_for_tables()

    def _look_for_tables(self) -> None:
        """``schema.evolution=validate-only``: raises ConnectError when a topic's table is not there."""
        if not self._rules.looks_at_start or self._rules.names.source_fields:
            return
        assert self._engine is not None
        assert isinstance(self._planner, DebeziumPlanner)
        self._engine.require(self._planner.table(topic) for topic in self._rules.looks_at_start)


class DebeziumJdbcSink(DatabaseSink):
    """Writes change events and rows into tables, with the keys of ``io.debezium.connector.jdbc.JdbcSinkConnector``."""

    open_prefixes = OPEN_PREFIXES

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        warn_of_hibernate(config)

    def task_class(self) -> type[DebeziumJdbcSinkTask]:
        return DebeziumJdbcSinkTask

    def config_def(self) -> ConfigDef:
        return config_def()

    def problems(self, values: Mapping[str, Any], config: Mapping[str, str]) -> list[tuple[str, str]]:
        return problems_between_keys(values, config)

    def settings(self, config: Mapping[str, str]) -> SinkSettings:
        return parse_debezium(config)[0]
