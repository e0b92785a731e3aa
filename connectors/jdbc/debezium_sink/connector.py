"""The Debezium JDBC sink connector and its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from connect.config.definition import ConfigDef
from connectors.jdbc.debezium_sink.config import (
    OPEN_PREFIXES,
    DebeziumPlannerConfig,
    config_def,
    find_key_conflicts,
    parse_debezium_config,
    warn_about_hibernate_keys,
)
from connectors.jdbc.debezium_sink.naming import IdentifierCase
from connectors.jdbc.debezium_sink.planner import DebeziumPlanner
from connectors.jdbc.debezium_sink.table_plans import TargetDatabase
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.sink.config import SinkWriterConfig
from connectors.jdbc.sink.connector import BaseJdbcSink
from connectors.jdbc.sink.task import BaseJdbcSinkTask

if TYPE_CHECKING:
    from connect.verification import VerifiableSink


class DebeziumJdbcSinkTask(BaseJdbcSinkTask):
    """Task of :class:`DebeziumJdbcSink`."""

    def _parse_config(self, config: Mapping[str, str]) -> tuple[SinkWriterConfig, Callable[[Dialect], DebeziumPlanner]]:
        settings, self._planner_config = parse_debezium_config(config)
        return settings, _planner_for(settings, self._planner_config)

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._require_tables()

    def _require_tables(self) -> None:
        """``schema.evolution=validate-only``: raises ConnectError if the table of a topic is missing."""
        if not self._planner_config.required_topics or self._planner_config.names.source_fields:
            return
        assert self._writer is not None
        assert isinstance(self._planner, DebeziumPlanner)
        self._writer.require(self._planner.table(topic) for topic in self._planner_config.required_topics)


def _planner_for(settings: SinkWriterConfig, config: DebeziumPlannerConfig) -> Callable[[Dialect], DebeziumPlanner]:
    backend = settings.connection.target.url.get_backend_name()
    target = TargetDatabase(backend, IdentifierCase(backend, config.preserves_case))
    return lambda dialect: DebeziumPlanner(config, target, dialect.parse_name)


class DebeziumJdbcSink(BaseJdbcSink):
    """Writes change events and plain rows to tables, with the keys of ``io.debezium.connector.jdbc.JdbcSinkConnector``."""

    open_prefixes = OPEN_PREFIXES

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        warn_about_hibernate_keys(config)

    def task_class(self) -> type[DebeziumJdbcSinkTask]:
        return DebeziumJdbcSinkTask

    def config_def(self) -> ConfigDef:
        return config_def()

    def problems(self, values: Mapping[str, Any], config: Mapping[str, str]) -> list[tuple[str, str]]:
        return find_key_conflicts(values, config)

    def settings(self, config: Mapping[str, str]) -> SinkWriterConfig:
        return parse_debezium_config(config)[0]

    def verification(self, config: Mapping[str, str]) -> VerifiableSink:
        from connectors.jdbc.sink.verification import JdbcVerification

        settings, planner = parse_debezium_config(config)
        return JdbcVerification(settings, _planner_for(settings, planner), deletes=planner.deletes)
