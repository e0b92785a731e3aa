"""The JDBC source connectors: validate against the database, monitor its tables, and assign them to tasks."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, cast

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector, SourceConnectorContext
from connect.errors import BadRequestError
from connect.external_system import EntryForm, ExternalSystem
from connectors.jdbc.config_checks import add_cross_key_errors, add_error_of, has_errors
from connectors.jdbc.database import Database, Session, StopRequested
from connectors.jdbc.database_files import database_file, require_usable_file
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.source.config import JdbcSourceConfig, find_key_conflicts, parse_source_config
from connectors.jdbc.source.config_keys import OPEN_PREFIXES, config_def
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.offsets import INCREMENTING, QUERY_PARTITION, TIMESTAMP, find_offset_problem
from connectors.jdbc.source.table_discovery import TableDiscovery, list_tables
from connectors.jdbc.source.table_monitor import TableMonitor
from connectors.jdbc.source.table_queries import incremental_columns, require_non_null
from connectors.jdbc.source.task import AivenJdbcSourceTask, JdbcSourceTask
from connectors.jdbc.source.task_assignment import TABLES, assign_tasks

log = logging.getLogger(__name__)

_CHECKED_TABLES = 20
"""Maximum number of tables that validation describes."""


def _require_file(settings: JdbcSourceConfig) -> None:
    """Raises ConfigError if the database is a file that cannot be read. Opening a file that does not exist would create it and
    hide the mistake."""
    if (path := database_file(settings.connection.target.url)) is not None:
        require_usable_file(path, creates=False)


class JdbcSource(SourceConnector):
    """Reads rows of any SQL database, with the keys, offsets and topics of ``io.confluent.connect.jdbc.JdbcSourceConnector``."""

    flavor: ClassVar[ConnectorFlavor] = ConnectorFlavor.CONFLUENT
    open_prefixes = OPEN_PREFIXES
    caseless_prefixes = ("connection.",)
    """Names of driver properties are compared without case."""
    collection_keys = MappingProxyType(
        {
            "table.whitelist": EntryForm.NAME,
            "table.blacklist": EntryForm.NAME,
            "table.include.list": EntryForm.REGEX,
            "table.exclude.list": EntryForm.REGEX,
        }
    )

    def __init__(self) -> None:
        self._config: dict[str, str] = {}
        self._settings: JdbcSourceConfig | None = None
        self._monitor: TableMonitor | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Waits for the first list of tables, so that its errors fail the start."""
        self.stop()
        settings = parse_source_config(config, self.flavor)
        _require_file(settings)
        for notice in settings.connection.target.notices:
            log.warning("connection.url: %s", notice)
        self._config, self._settings = dict(config), settings
        if settings.query is not None:
            return
        offsets = None if settings.chunk_rows is None else cast("SourceConnectorContext", self.context).offset_reader()
        discovery = TableDiscovery(settings, offsets)
        self._monitor = TableMonitor(settings, discovery.discover, self._on_tables_changed, self._on_monitor_failed)
        self._monitor.start()
        try:
            self._monitor.wait_for_tables(settings.table_startup_timeout_s)
        except BaseException:
            self.stop()
            raise

    def _on_tables_changed(self) -> None:
        self.context.request_task_reconfiguration()

    def _on_monitor_failed(self, error: Exception) -> None:
        self.context.raise_error(error)

    def task_class(self) -> type[JdbcSourceTask]:
        return JdbcSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Returns one task for a query; otherwise one per table and chunk, at most ``max_tasks``."""
        settings, monitor = self._settings, self._monitor
        assert settings is not None
        if settings.query is not None:
            return [{**self._config, TABLES: ""}]
        if monitor is None:
            return []
        tables = monitor.wait_for_tables(settings.table_startup_timeout_s)
        return [{**self._config, **assignment} for assignment in assign_tasks(tables, max_tasks)]

    def stop(self) -> None:
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            monitor.stop()

    def config_def(self) -> ConfigDef:
        return config_def(self.flavor)

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return add_cross_key_errors(
            super().check_config(config),
            lambda _: find_key_conflicts(config, self.flavor),
            lambda: parse_source_config(config, self.flavor),
        )

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then connects, lists the tables, and looks for the columns that the mode needs."""
        values = self.check_config(config)
        if has_errors(values):
            return values
        known = {value.name: value for value in values}
        with contextlib.suppress(StopRequested):
            add_error_of(values, lambda: self._check_database(parse_source_config(config, self.flavor), known))
        return values

    def _check_database(self, settings: JdbcSourceConfig, known: Mapping[str, ConfigValue]) -> None:
        _require_file(settings)
        database = Database(replace(settings.connection, attempts=1, backoff_ms=0))
        try:
            session = database.session()
            try:
                self._check_tables(session, settings, known)
            finally:
                session.close()
        finally:
            database.close()

    def _check_tables(self, session: Session, settings: JdbcSourceConfig, known: Mapping[str, ConfigValue]) -> None:
        names = session.dialect.tables(session, settings.table_types, catalog=settings.catalog, schema=settings.schema)
        for key in ("table.whitelist", "table.blacklist"):
            known[key].recommended_values = list(dict.fromkeys(name.name for name, _ in names))
        if settings.query is not None:
            return
        selected = list_tables(session, settings)
        if settings.mode.mode is Mode.BULK:
            return
        for name in selected[:_CHECKED_TABLES]:
            table = session.dialect.describe(session, name)
            if table is not None:
                columns = incremental_columns(table, settings.mode)
                if settings.mode.validate_non_null:
                    require_non_null(table, columns, settings.mode.mode)

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem:
        from connectors.jdbc.source.external_system import open_source_system

        return open_source_system(config, self.flavor)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported in modes with an incrementing column, where each row has its own offset. In timestamp mode rows with the same
        timestamp share an offset, so a restart may read some again; bulk mode has no offsets."""
        mode = config.get("mode", "")
        supported = mode in (Mode.INCREMENTING.value, Mode.TIMESTAMP_INCREMENTING.value)
        return ExactlyOnceSupport.SUPPORTED if supported else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Checks the format only. Whether the table exists is checked when the tasks start."""
        settings = parse_source_config(config, self.flavor)
        mode = settings.mode.mode
        needed = ((INCREMENTING,) if mode.uses_incrementing else ()) + ((TIMESTAMP,) if mode.uses_timestamp else ())
        for items, offset in offsets.items():
            if offset is None:
                continue  # any stored offset may be removed
            partition = dict(items or ())
            problem = _partition_problem(partition, query=settings.query is not None)
            if problem is None and mode is Mode.BULK:
                problem = "mode=bulk has no offsets: every copy starts from scratch"
            if problem is None:
                problem = find_offset_problem(offset, needed)
            if problem is not None:
                raise BadRequestError(f"The offset {dict(offset)} of source partition {partition} makes no sense: {problem}")
        return True


def _partition_problem(partition: Mapping[str, Any], *, query: bool) -> str | None:
    if query:
        return None if partition == QUERY_PARTITION else 'the source partition of a query is {"query": "query"}'
    keys = set(partition)
    texts = all(isinstance(value, str) and value for value in partition.values())
    if texts and (keys == {"table"} or (keys == {"table", "protocol"} and partition["protocol"] == "1")):
        return None
    return 'the source partition of a table is {"protocol": "1", "table": "<schema.table>"}'


class AivenJdbcSource(JdbcSource):
    """Reads rows of any SQL database, with the keys and defaults of ``io.aiven.connect.jdbc.JdbcSourceConnector``."""

    flavor = ConnectorFlavor.AIVEN

    def task_class(self) -> type[JdbcSourceTask]:
        return AivenJdbcSourceTask
