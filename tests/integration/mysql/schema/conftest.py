"""A database of the server, and the tables in it as DDL says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from connectors.mysql.connection import quote_identifier
from connectors.mysql.schema.ddl import DdlContext, apply, apply_changes, parse_create_table
from connectors.mysql.schema.model import Column, MySqlTable, TableId
from connectors.mysql.types import MySqlTypeSettings, column_type
from connectors.mysql.types.registry import sql_type
from sluice.embedded.mariadb import EmbeddedMariaDB


class ModeledDatabase:
    """Runs statements on the server, and applies those that it wrote to its binary log to the model."""

    def __init__(self, connection: Connection[Any], name: str) -> None:
        self._connection = connection
        self.name = name
        self.tables: dict[TableId, MySqlTable] = {}
        self.charsets = {name: "utf8mb4"}
        self.context = DdlContext(
            is_mariadb=True, server_version=110400, server_charset="utf8mb4", database_charsets=self.charsets
        )

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def execute(self, sql: str) -> None:
        """Runs DDL. Raises PyMySQL's error if the server refuses it; CREATE OR REPLACE may have dropped the table by then."""
        ((file, position, *_),) = self.query("SHOW MASTER STATUS")
        try:
            self.query(sql)
        except pymysql.err.MySQLError as e:
            self._apply_log(file, position, int(e.args[0]))
            raise
        self._apply_log(file, position, 0)

    def _apply_log(self, file: str, position: int, error_code: int) -> None:
        for event in self.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {position}"):
            if event[2] == "Query":
                statement = event[5].removeprefix(f"use `{self.name}`; ")
                apply_changes(
                    apply(self.tables, statement, self.name, self.context, error_code=error_code), self.tables, self.charsets
                )

    def table(self, name: str) -> MySqlTable:
        return self.tables[TableId(self.name, name)]

    def server_table(self, name: str) -> MySqlTable:
        """The table as SHOW CREATE TABLE has it."""
        ((_, text),) = self.query(f"SHOW CREATE TABLE {quote_identifier(name)}")
        return parse_create_table(text, self.name, self.context)

    def assert_equal(self, name: str) -> None:
        model, server = normalized(self.table(name)), normalized(self.server_table(name))
        for ours, theirs in zip(model["columns"], server["columns"], strict=False):
            assert ours == theirs
        assert model == server


_STORED_AS = {"BOOLEAN": "TINYINT", "JSON": "LONGTEXT", "GEOMCOLLECTION": "GEOMETRYCOLLECTION"}
_WIDTHS = {"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR"}


def normalized(table: MySqlTable) -> dict[str, Any]:
    """What a table is, without what SHOW CREATE TABLE writes in other words: synonyms, and sizes that do not matter."""
    columns = []
    for column in table.columns:
        type_ = sql_type(column)
        base = _STORED_AS.get(type_.name, type_.name)
        length, scale = column.length, column.scale
        if base in _WIDTHS:
            length = None
        elif base in ("CHAR", "BINARY"):
            length = length or 1
        elif base in ("FLOAT",) and scale is None:
            base, length = ("DOUBLE" if (length or 0) > 24 else "FLOAT"), None
        elif base.endswith(("TEXT", "BLOB")):
            length = None
        elif base in ("TIME", "DATETIME", "TIMESTAMP"):
            length = length or 0
        charset = "utf8" if column.charset == "utf8mb3" else column.charset
        if column.type_name == "JSON":
            charset = "utf8mb4"
        columns.append(
            {
                "name": column.name,
                "position": column.position,
                "type": (base, type_.unsigned, type_.zerofill),
                "length": length,
                "scale": scale,
                "charset": charset,
                "optional": column.optional,
                "default": _default(column, table.charset),
                # MariaDB 11.4 replaces the é of an ENUM by ? when it converts latin1.
                "enum": [value.encode("ascii", "replace") for value in column.enum_values],
                "assigned": column.is_auto_incremented and base in _WIDTHS,  # else it depends on how ON UPDATE is written
                "comment": column.comment or "",
            }
        )
    indexes = sorted((index.name, index.is_unique, index.columns) for index in table.indexes)
    return {"columns": columns, "key": table.key, "charset": table.charset, "indexes": indexes, "comment": table.comment or ""}


def _default(column: Column, charset: str | None) -> Any:
    """The value of a default, whose texts differ: the server writes 2001 for the 1 of a YEAR."""
    mapped = column_type(column, MySqlTypeSettings(), charset)
    found = None if mapped is None else mapped.schema.default
    return column.default if found is None and column.has_default else found


@pytest.fixture
def modeled(mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[ModeledDatabase]:
    connection = mariadb.connect(mariadb_database)
    try:
        database = ModeledDatabase(connection, mariadb_database)
        (charset,) = database.query("SELECT @@character_set_database")[0]
        database.charsets[mariadb_database] = charset
        yield database
    finally:
        connection.close()
