"""The Confluent and Aiven JDBC sink connectors, and the base that they share with the Debezium one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import SinkConnector
from connectors.jdbc.config_checks import add_cross_key_errors, add_error_of, has_errors
from connectors.jdbc.database import ConnectionSettings, Database
from connectors.jdbc.database_files import database_file, is_file_database, require_usable_file
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.sink.config import OPEN_PREFIXES, SinkWriterConfig, config_def, find_key_conflicts, parse_sink_config
from connectors.jdbc.sink.task import AivenJdbcSinkTask, JdbcSinkTask

if TYPE_CHECKING:
    from connect.external_system import ExternalSystem
    from connect.verification import VerifiableSink


class BaseJdbcSink(SinkConnector):
    """Checks and tries the configuration, and gives it to all tasks."""

    needs_schema = True

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    @abstractmethod
    def problems(self, values: Mapping[str, Any], config: Mapping[str, str]) -> list[tuple[str, str]]:
        """Returns conflicts between valid keys as (key, message). Invalid keys are None in ``values``."""

    @abstractmethod
    def settings(self, config: Mapping[str, str]) -> SinkWriterConfig:
        """Parses how records are written. Raises ConfigError."""

    def start(self, config: Mapping[str, str]) -> None:
        self.settings(config)
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config) for _ in range(max_tasks)]

    def stop(self) -> None:
        """Does nothing: only tasks run."""

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return add_cross_key_errors(
            super().check_config(config), lambda values: self.problems(values, config), lambda: self.settings(config)
        )

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then connects. A database file is not opened, which could create it or wait for its lock."""
        values = self.check_config(config)
        return values if has_errors(values) else add_error_of(values, lambda: _require_usable(self.settings(config).connection))

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem:
        from connect.external_system import parse_leniently
        from connectors.jdbc.external_system import SINK_KINDS, JdbcSystem, is_of_connection, sink_tables

        connection, problems = parse_leniently(
            config, self.config_def(), lambda usable: self.settings(usable).connection, is_of_connection, {}
        )
        advice = "Add one if the sink upserts or deletes: these need a primary key"
        return JdbcSystem(connection, SINK_KINDS, sink_tables, key_advice=advice, problems=problems)


def _require_usable(connection: ConnectionSettings) -> None:
    """Raises ConnectError if the database cannot be used."""
    url = connection.target.url
    if is_file_database(url):
        if (path := database_file(url)) is not None:
            require_usable_file(path, creates=True)
        return
    database = Database(
        ConnectionSettings(connection.target, attempts=1, statement_timeout_ms=connection.statement_timeout_ms, pool_size=1)
    )
    try:
        database.session().close()
    finally:
        database.close()


class JdbcSink(BaseJdbcSink):
    """Writes topics to tables, with the keys of ``io.confluent.connect.jdbc.JdbcSinkConnector``."""

    open_prefixes = OPEN_PREFIXES
    flavor: ClassVar[ConnectorFlavor] = ConnectorFlavor.CONFLUENT

    def task_class(self) -> type[JdbcSinkTask]:
        return JdbcSinkTask

    def config_def(self) -> ConfigDef:
        return config_def(self.flavor)

    def problems(self, values: Mapping[str, Any], config: Mapping[str, str]) -> list[tuple[str, str]]:
        return find_key_conflicts(values, config, self.flavor)

    def settings(self, config: Mapping[str, str]) -> SinkWriterConfig:
        return parse_sink_config(config, self.flavor)[0]

    def verification(self, config: Mapping[str, str]) -> VerifiableSink:
        from connectors.jdbc.sink.planner import JdbcSinkPlanner
        from connectors.jdbc.sink.verification import JdbcVerification

        settings, planner = parse_sink_config(config, self.flavor)
        return JdbcVerification(settings, lambda dialect: JdbcSinkPlanner(planner, dialect.parse_name), deletes=planner.deletes)


class AivenJdbcSink(JdbcSink):
    """Writes topics to tables, with the keys and rules of ``io.aiven.connect.jdbc.JdbcSinkConnector``."""

    flavor = ConnectorFlavor.AIVEN

    def task_class(self) -> type[JdbcSinkTask]:
        return AivenJdbcSinkTask
