"""The connection test of the JDBC source: the tables that it selects, and the columns that its mode needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect.config.finding import Finding
from connect.errors import ConfigError, ConnectError
from connect.external_system import ConnectionStep, error_finding, parse_leniently, warning_finding
from connect.suggestions import list_names
from connectors.jdbc.database import Session
from connectors.jdbc.external_system import JdbcSystem, is_of_connection
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.source.config import JdbcSourceConfig, parse_source_config
from connectors.jdbc.source.config_keys import config_def
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.table_discovery import list_tables
from connectors.jdbc.source.table_queries import incremental_columns, require_non_null
from connectors.jdbc.table_name import TableName

_CHECKED_TABLES = 20
_REQUIRED = {"mode": Mode.BULK.value, "topic.prefix": "unset"}


def open_source_system(config: Mapping[str, str], flavor: ConnectorFlavor) -> JdbcSystem:
    """Opens the database of a source. Raises ConfigError if a key of the connection is wrong."""
    settings, problems = parse_leniently(
        config, config_def(flavor), lambda usable: parse_source_config(usable, flavor), is_of_connection, _REQUIRED
    )
    return JdbcSystem(
        settings.connection,
        settings.table_types,
        lambda session: _steps(session, settings),
        catalog=settings.catalog,
        schema=settings.schema,
        key_advice="Set key.columns if its records need keys",
        problems=problems,
    )


def _steps(session: Session, settings: JdbcSourceConfig) -> Iterator[ConnectionStep]:
    if settings.query is not None:
        yield ConnectionStep("Query", "the query is not run in a test", is_skipped=True)
        return
    try:
        selected = list_tables(session, settings)
    except ConnectError as e:
        yield ConnectionStep("Tables", findings=(_finding(e),))
        return
    missing = settings.table_filter.missing(selected, session.dialect)
    findings = [
        warning_finding("no-table", f"table.whitelist has {name}, which does not exist", "table.whitelist") for name in missing
    ]
    if not selected and not missing:
        key = "table.include.list" if settings.table_filter.include else "table.types"
        findings.append(warning_finding("no-table", f"the configuration selects no table of {session.label}", key))
    yield ConnectionStep("Tables", f"{len(selected)} selected: {list_names(selected)}" if selected else "none selected", findings)
    if settings.mode.mode is not Mode.BULK and selected:
        yield _columns_step(session, settings, selected)


def _columns_step(session: Session, settings: JdbcSourceConfig, selected: list[TableName]) -> ConnectionStep:
    mode, checked = settings.mode, selected[:_CHECKED_TABLES]
    findings: list[Finding] = []
    for name in checked:
        try:
            table = session.dialect.describe(session, name)
            if table is not None:
                columns = incremental_columns(table, mode)
                if mode.validate_non_null:
                    require_non_null(table, columns, mode.mode)
        except ConnectError as e:
            findings.append(_finding(e, "mode"))
    return ConnectionStep("Columns", f"{len(checked)} tables checked for mode={mode.mode.value}", findings)


def _finding(error: ConnectError, path: str | None = None) -> Finding:
    if isinstance(error, ConfigError):
        return error_finding("invalid-config", error.message, error.key or path)
    return error_finding("database-error", error.message, path)
