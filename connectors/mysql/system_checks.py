"""Checks a server for a configuration: its kind and settings, the user's privileges, and the captured tables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from connect.errors import ConfigError
from connect.suggestions import similar_names
from connectors.cdc.schema.checks import check_collection_count, check_table_topics
from connectors.cdc.schema.filters import Filters
from connectors.mysql.catalog import TableInfo, read_tables
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.server import ServerInfo, check_server, read_end, read_server

log = logging.getLogger(__name__)

_MOST_NAMED = 5


def check_on_server(connection: MySqlConnection, settings: MySqlConfig, filters: Filters, *, is_new: bool) -> ServerInfo:
    """Raises ConfigError for the first problem.

    ``is_new``: the configuration was just written. Then the position must be readable, and ``table.include.list`` must match a
    table; those of a running connector may be created later.
    """
    server = read_server(connection)
    check_server(connection, server)
    check_reselection(connection, server, settings)
    if is_new:
        read_end(connection, server)  # names a missing privilege
    tables = read_tables(connection)
    captured = filter_tables(tables, filters)
    if is_new:
        check_table_list(tables, captured, settings)
    check_captured_tables(captured, settings)
    return server


def check_reselection(connection: MySqlConnection, server: ServerInfo, settings: MySqlConfig) -> None:
    """Raises ConfigError if events lack values that ``post.processors`` should read again. With complete row images there are
    none, and only nulls could be newer."""
    if settings.reselection is None:
        return
    if server.row_image != "FULL":
        raise ConfigError(
            f"this source does not read values again that the log lacks, and {connection.address.where} has "
            f"binlog_row_image={server.row_image}: set it to FULL, or remove post.processors",
            key="post.processors",
        )
    log.warning("post.processors has no effect: with binlog_row_image=FULL, the log has all values; nulls are not read again")


def filter_tables(tables: Iterable[TableInfo], filters: Filters) -> list[TableInfo]:
    """Returns the captured tables."""
    return [table for table in tables if filters.captures_table(table.database, table.name)]


def check_table_list(tables: Iterable[TableInfo], captured: Sequence[TableInfo], settings: MySqlConfig) -> None:
    """Raises ConfigError if ``table.include.list`` matches no table."""
    if not captured and settings.capture.table_include:
        listed = ",".join(settings.capture.table_include)
        raise ConfigError.invalid("table.include.list", listed, describe_no_table(tables, settings.capture.table_include))


def check_captured_tables(captured: Sequence[TableInfo], settings: MySqlConfig) -> None:
    """Raises ConfigError if there are too many tables, or two have the same topic."""
    check_collection_count(len(captured), settings.tables_max, settings.tables_limit_action)
    check_table_topics([(table.database, table.name) for table in captured], settings.topic_naming)


def describe_no_table(tables: Iterable[TableInfo], patterns: Iterable[str]) -> str:
    """Says that no table is captured, and which tables have similar names."""
    names = [str(table) for table in tables]
    near = similar_names(next(iter(patterns), "").replace("\\", ""), names, _MOST_NAMED, cutoff=0.5)
    listed = near or names[:_MOST_NAMED]
    if not listed:
        return "the user sees no tables; does it have SELECT for them?"
    return f"no table matches; there {'is' if len(listed) == 1 else 'are'} for example {', '.join(listed)}"
