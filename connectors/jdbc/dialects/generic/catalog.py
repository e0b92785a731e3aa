"""Describes tables through SQLAlchemy's inspector.

Not every dialect can list views, keys, and indexes. Tables are described without them then, with a warning, because most tasks
need only the columns.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import sqlalchemy
from sqlalchemy.exc import CompileError, NoSuchTableError

from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

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


@functools.cache
def _warn_once(dialect: str, what: str) -> None:
    log.warning("SQLAlchemy's dialect %s cannot list %s: tables are described without them", dialect, what)


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
                    found += [(self._name(view, name), "VIEW") for view in self._views(name)]
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
            return self._table(name, table, schema, columns)

    def _table(self, name: TableName, table: str, schema: str | None, columns: list[Any]) -> JdbcTable:
        key: Any = self._ask("primary keys", lambda: self._inspector.get_pk_constraint(table, schema), {})
        keys = tuple(self._stored(column) for column in key.get("constrained_columns") or ())
        kind = "VIEW" if table in self._views(schema) else "TABLE"
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
        constraints = self._ask("unique keys", lambda: self._inspector.get_unique_constraints(table, schema), [])
        indexes = self._ask("indexes", lambda: self._inspector.get_indexes(table, schema), [])
        found = [tuple(entry["column_names"]) for entry in constraints]
        found += [tuple(index["column_names"]) for index in indexes if index.get("unique") and None not in index["column_names"]]
        return tuple(dict.fromkeys(tuple(self._stored(column) for column in columns) for columns in found))

    def _views(self, schema: str | None) -> Collection[str]:
        names: list[str] = self._ask("views", lambda: self._inspector.get_view_names(schema), [])
        return names

    def _ask(self, what: str, read: Callable[[], Any], otherwise: Any) -> Any:
        """What the inspector reads; ``otherwise`` if the dialect cannot list it."""
        try:
            return read()
        except NotImplementedError:  # SQLAlchemy's answer for what a dialect cannot list; the log names it, and tables still work
            _warn_once(self._dialect.name, what)
        except NoSuchTableError:
            pass  # a view or a synonym: some dialects know only its columns
        return otherwise

    def _name(self, table: str, schema: str | None) -> TableName:
        return TableName(self._stored(table), None if schema is None else self._stored(schema))

    def _stored(self, name: str) -> str:
        """Returns a name as the database stores it: SQLAlchemy converts uppercase names of Oracle and similar databases to
        lowercase."""
        return str(self._dialect.denormalize_name(name)) if self._dialect.requires_name_normalize else str(name)

    def _asked(self, name: str) -> str:
        return str(self._dialect.normalize_name(name)) if self._dialect.requires_name_normalize else name
