"""The source connectors: validation against the real database, the watch over its tables, and how they are dealt to tasks."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector, SourceConnectorContext
from connect.errors import BadRequestError
from connectors.jdbc.config_checks import add_cross_key_errors, add_error_of, has_errors
from connectors.jdbc.database import Database, Session, StopRequested
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.source.config import Settings, parse_settings, problems_between_keys, require_file
from connectors.jdbc.source.config_keys import OPEN_PREFIXES, config_def
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.offsets import INCREMENTING, QUERY_PARTITION, TIMESTAMP, problem_with
from connectors.jdbc.source.table_discovery import TABLES, Surveyor, deal, list_tables
from connectors.jdbc.source.table_monitor import TableMonitor
from connectors.jdbc.source.table_queries import incremental_columns, require_non_null
from connectors.jdbc.source.task import AivenJdbcSourceTask, JdbcSourceTask

log = logging.getLogger(__name__)

_CHECKED_TABLES = 20
"""How many tables validation looks into."""


class JdbcSource(SourceConnector):
    """Rows of any SQL database, with the keys, offsets and topics of ``io.confluent.connect.jdbc.JdbcSourceConnector``."""

    flavor: ClassVar[ConnectorFlavor] = ConnectorFlavor.CONFLUENT
    open_prefixes = OPEN_PREFIXES

    def __init__(self) -> None:
        self._config: dict[str, str] = {}
        self._settings: Settings | None = None
        self._monitor: TableMonitor | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Waits for the first list of tables, so that what is wrong with it fails the start."""
        self.stop()
        settings = parse_settings(config, self.flavor)
        require_file(settings.connection.target)
        for notice in settings.connection.target.notices:
            log.warning("connection.url: %s", notice)
        self._config, self._settings = dict(config), settings
        if settings.query is not None:
            return
        offsets = None if settings.chunk_rows is None else cast("SourceConnectorContext", self.context).offset_reader()
        surveyor = Surveyor(settings, offsets)
        self._monitor = TableMonitor(settings, surveyor.look, self._tables_changed, self._looking_failed)
        self._monitor.start()
        try:
            self._monitor.survey(settings.tables_patience_s)
        except BaseException:
            self.stop()
            raise

    def _tables_changed(self) -> None:
        self.context.request_task_reconfiguration()

    def _looking_failed(self, error: Exception) -> None:
        self.context.raise_error(error)

    def task_class(self) -> type[JdbcSourceTask]:
        return JdbcSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One task for a query; for tables as many as there are tables (and chunks), ``max_tasks`` at most."""
        settings, monitor = self._settings, self._monitor
        assert settings is not None
        if settings.query is not None:
            return [{**self._config, TABLES: ""}]
        if monitor is None:
            return []
        survey = monitor.survey(settings.tables_patience_s)
        return [{**self._config, **share} for share in deal(survey, max_tasks)]

    def stop(self) -> None:
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            monitor.stop()

    def config_def(self) -> ConfigDef:
        return config_def(self.flavor)

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return add_cross_key_errors(
            super().check_config(config),
            lambda _: problems_between_keys(config, self.flavor),
            lambda: parse_settings(config, self.flavor),
        )

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then tries them: connects, lists the tables, and looks for the columns that the mode goes by."""
        values = self.check_config(config)
        if has_errors(values):
            return values
        known = {value.name: value for value in values}
        with contextlib.suppress(StopRequested):
            add_error_of(values, lambda: self._try_out(parse_settings(config, self.flavor), known))
        return values

    def _try_out(self, settings: Settings, known: Mapping[str, ConfigValue]) -> None:
        require_file(settings.connection.target)
        database = Database(replace(settings.connection, attempts=1, backoff_ms=0))
        try:
            session = database.session()
            try:
                self._look_at_tables(session, settings, known)
            finally:
                session.close()
        finally:
            database.close()

    def _look_at_tables(self, session: Session, settings: Settings, known: Mapping[str, ConfigValue]) -> None:
        names = session.dialect.tables(session, settings.kinds, catalog=settings.catalog, schema=settings.schema)
        for key in ("table.whitelist", "table.blacklist"):
            known[key].recommended_values = list(dict.fromkeys(name.name for name, _ in names))
        if settings.query is not None:
            return
        chosen = list_tables(session, settings)
        if settings.mode.mode is Mode.BULK:
            return
        for name in chosen[:_CHECKED_TABLES]:
            table = session.dialect.describe(session, name)
            if table is not None:
                found = incremental_columns(table, settings.mode)
                if settings.mode.validate_non_null:
                    require_non_null(table, found, settings.mode.mode)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Supported where each row has an offset of its own, with a number, alone or beside a time: a restart goes on with the
        row after the last that was stored. In timestamp mode rows of one time share an offset, and some come again after a
        restart in their midst; in bulk mode there is no offset at all."""
        mode = config.get("mode", "")
        supported = mode in (Mode.INCREMENTING.value, Mode.BOTH.value)
        return ExactlyOnceSupport.SUPPORTED if supported else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Checks the forms; whether the table is there shows when the tasks start."""
        settings = parse_settings(config, self.flavor)
        mode = settings.mode.mode
        needed = ((INCREMENTING,) if mode.by_number else ()) + ((TIMESTAMP,) if mode.by_time else ())
        for items, offset in offsets.items():
            if offset is None:
                continue  # whatever stands in the store may be removed
            partition = dict(items or ())
            problem = _partition_problem(partition, query=settings.query is not None)
            if problem is None and mode is Mode.BULK:
                problem = "mode=bulk has no offsets: every copy begins at the beginning"
            if problem is None:
                problem = problem_with(offset, needed)
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
    """The same with the keys and defaults of ``io.aiven.connect.jdbc.JdbcSourceConnector``."""

    flavor = ConnectorFlavor.AIVEN

    def task_class(self) -> type[JdbcSourceTask]:
        return AivenJdbcSourceTask
