"""Describes tables through SQLAlchemy's inspector.

A SQLAlchemy dialect that cannot list views, keys, or indexes raises NotImplementedError; tables are then described without them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy
from sqlalchemy.exc import CompileError, NoSuchTableError

from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.table_name import TableName

_SYSTEM = re.compile(
    r"information_schema|pg_.*|sys|sysibm.*|syscat|sysstat|systools|sysproc|sysfun|nullid|sqlj|db_\w+|guest|system|outln|dbsnmp|"
    r"xdb|ctxsys|mdsys|ordsys|orddata|olapsys|wmsys|lbacsys|dvsys|gsmadmin_internal|appqossys|audsys|_sys_.*|mysql|performance_schema",
    re.IGNORECASE,
)


def compile_like(pattern: str) -> re.Pattern[str]:
    """Compiles a JDBC pattern: % is any text, _ any character, a backslash escapes them."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    special = {"%": ".*", "_": "."}
    return re.compile("".join(special.get(p) or re.escape(p[-1]) for p in parts), re.DOTALL)


class GenericCatalog:
    """One lookup in the catalog. The inspector caches results, so create a new instance for each lookup."""

    def __init__(self, session: DriverSession) -> None:
        self._session = session
        with session.guarded("looking up the tables"):
            self._inspector: Any = sqlalchemy.inspect(session.connection)
        self._dialect: Any = session.connection.dialect

    def tables(self, kinds: Collection[str], schema: str | None) -> list[tuple[TableName, str]]:
        found: list[tuple[TableName, str]] = []
        with self._session.guarded("looking up the tables"):
            for name in self._schemas(schema):
                if "TABLE" in kinds:
                    found += [(self._name(table, name), "TABLE") for table in self._inspector.get_table_names(name)]
                if "VIEW" in kinds:
                    with contextlib.suppress(NotImplementedError):
                        found += [(self._name(view, name), "VIEW") for view in self._inspector.get_view_names(name)]
        return sorted(found, key=lambda entry: str(entry[0]))

    def _schemas(self, pattern: str | None) -> Iterator[str | None]:
        if self._inspector.default_schema_name is None or pattern == "":
            yield None
            return
        wanted = None if pattern is None else compile_like(pattern)
        for name in self._inspector.get_schema_names():
            if _SYSTEM.fullmatch(name):
                continue
            if wanted is None or wanted.fullmatch(name) or wanted.fullmatch(self._stored(name)):
                yield name

    def describe(self, name: TableName) -> JdbcTable | None:
        table, schema = self._asked(name.name), None if name.schema is None else self._asked(name.schema)
        with self._session.guarded(f"looking up {name}"):
            try:
                columns = self._inspector.get_columns(table, schema)
            except NoSuchTableError:
                return None
            if not columns:
                return None
            with contextlib.suppress(NotImplementedError, NoSuchTableError):
                return self._table(name, table, schema, columns, self._inspector.get_pk_constraint(table, schema))
            return self._table(name, table, schema, columns, {})

    def _table(self, name: TableName, table: str, schema: str | None, columns: list[Any], key: Any) -> JdbcTable:
        keys = tuple(self._stored(column) for column in key.get("constrained_columns") or ())
        kind = "TABLE"
        with contextlib.suppress(NotImplementedError):
            kind = "VIEW" if table in self._inspector.get_view_names(schema) else "TABLE"
        return JdbcTable(
            TableName(self._stored(table), schema and self._stored(schema), name.catalog),
            tuple(self._column(column, keys) for column in columns),
            keys,
            kind,
            self._unique_keys(table, schema),
        )

    def _column(self, found: Any, keys: tuple[str, ...]) -> JdbcColumn:
        try:
            type_name = found["type"].compile(dialect=self._dialect)
        except CompileError:
            type_name = type(found["type"]).__name__
        name = self._stored(found["name"])
        identity = found.get("identity") is not None
        computed = found.get("computed") is not None
        counts = identity or found.get("autoincrement") is True
        return JdbcColumn(
            name, type_name, nullable=bool(found.get("nullable", True)), autoincrement=counts,
            has_default=found.get("default") is not None or counts or computed,
            generated=computed, native=found["type"],
        )  # fmt: skip

    def _unique_keys(self, table: str, schema: str | None) -> tuple[tuple[str, ...], ...]:
        found: list[tuple[str, ...]] = []
        with contextlib.suppress(NotImplementedError, NoSuchTableError):
            found += [tuple(entry["column_names"]) for entry in self._inspector.get_unique_constraints(table, schema)]
        with contextlib.suppress(NotImplementedError, NoSuchTableError):
            for index in self._inspector.get_indexes(table, schema):
                if index.get("unique") and None not in index["column_names"]:
                    found.append(tuple(index["column_names"]))
        return tuple(dict.fromkeys(tuple(self._stored(column) for column in columns) for columns in found))

    def _name(self, table: str, schema: str | None) -> TableName:
        return TableName(self._stored(table), None if schema is None else self._stored(schema))

    def _stored(self, name: str) -> str:
        """Returns a name as the database stores it: SQLAlchemy converts uppercase names of Oracle and similar databases to
        lowercase."""
        return str(self._dialect.denormalize_name(name)) if self._dialect.requires_name_normalize else str(name)

    def _asked(self, name: str) -> str:
        return str(self._dialect.normalize_name(name)) if self._dialect.requires_name_normalize else name
