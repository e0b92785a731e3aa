"""Queries of PostgreSQL's catalog: tables with their columns and keys, and types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.jdbc.catalog import JdbcColumn, JdbcTable, TableStatistics
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.postgres.libpq import ServerKind, server_kind
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A row of pg_type. ``name`` has no schema; ``sql`` is the type in SQL, without a length."""

    oid: int
    schema: str
    name: str
    kind: str
    """pg_type.typtype: b, c (composite), d (domain), e (enum), m (multirange), p (pseudo), r (range)."""
    element: PostgresType | None
    """The element type of an array."""
    delimiter: str
    sql: str

    @property
    def builtin(self) -> str:
        """The name of a built-in type, empty for others."""
        return self.name if self.schema == "pg_catalog" else ""


@dataclass(frozen=True, slots=True)
class PostgresColumnDetails:
    """The type of a column, with domains resolved, and its type modifier (precision, length)."""

    type: PostgresType
    typmod: int
    dimensions: int
    always_identity: bool = False


@dataclass(frozen=True)
class PostgresTable(JdbcTable):
    """``takes_copy``: whether COPY FROM can write to it (not a view, no row-level security, no rules)."""

    takes_copy: bool = False


# The table types of PostgreSQL's JDBC driver. Partitions are tables.
_TABLES = """
SELECT nspname, relname, kind FROM (
 SELECT n.nspname, c.relname, CASE
  WHEN n.nspname IN ('pg_catalog', 'information_schema') THEN
   CASE c.relkind WHEN 'r' THEN 'SYSTEM TABLE' WHEN 'v' THEN 'SYSTEM VIEW' END
  WHEN n.nspname = 'pg_toast' THEN CASE c.relkind WHEN 't' THEN 'SYSTEM TOAST TABLE' END
  WHEN n.nspname LIKE 'pg\\_%' THEN
   CASE WHEN c.relkind IN ('r', 'p') THEN 'TEMPORARY TABLE' WHEN c.relkind = 'v' THEN 'TEMPORARY VIEW' END
  ELSE CASE c.relkind
   WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
   WHEN 'f' THEN 'FOREIGN TABLE' END
 END AS kind
 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE {own}"""


def tables(
    session: DriverSession, kinds: Collection[str], catalog: str | None, schema: str | None
) -> list[tuple[TableName, str]]:  # fmt: skip
    """Returns the tables of these kinds. An empty pattern matches all, as in the JDBC driver."""
    redshift = server_kind(session) is ServerKind.REDSHIFT
    sql = Sql(_TABLES.replace("{own}", "1 = 1" if redshift else "NOT pg_catalog.pg_is_other_temp_schema(n.oid)"))
    sql += _matching(catalog, schema)
    sql += ") found WHERE kind IS NOT NULL"
    wanted = {kind.upper() for kind in kinds}
    rows = session.query(sql, "looking up the tables")
    return sorted(((TableName(name, space), kind) for space, name, kind in rows if kind in wanted), key=_by_name)


def _matching(catalog: str | None, schema: str | None) -> Sql:
    """Returns the conditions of JDBC's patterns."""
    sql = Sql()
    if schema:
        sql += Sql(" AND n.nspname LIKE ", Bind(schema))
    if catalog:
        sql += Sql(" AND pg_catalog.current_database() LIKE ", Bind(catalog))
    return sql


def _by_name(found: tuple[TableName, str]) -> tuple[str, str]:
    return found[0].schema or "", found[0].name


_RELATION = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, {guarded}
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname = """

_COLUMNS = """
SELECT a.attnum, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.atttypid, a.atttypmod, a.attndims,
 a.attnotnull OR (t.typtype = 'd' AND t.typnotnull), {identity}, {generated},
 a.atthasdef OR t.typdefault IS NOT NULL, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = {oid} ORDER BY a.attnum"""

# Only indexes that ON CONFLICT can use: not partial, valid, checked immediately, over columns.
_KEYS = """
SELECT i.indisprimary, CAST(i.indkey AS text), {key_columns}
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
WHERE i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL {usable} AND i.indrelid = {oid}
ORDER BY i.indisprimary DESC, c.relname"""


def describe(session: DriverSession, name: TableName, types: PostgresTypeCache) -> PostgresTable | None:
    """Describes a table, view, or partitioned, foreign, or temporary table; without a schema, the one on the search path."""
    doing = f"looking up {name}"
    old = server_kind(session) is ServerKind.REDSHIFT
    relation = Sql(_RELATION.replace("{guarded}", "false" if old else "c.relrowsecurity OR c.relhasrules"), Bind(name.name))
    if name.schema is not None:
        relation += Sql(" AND n.nspname = ", Bind(name.schema))
    else:
        relation += " AND pg_catalog.pg_table_is_visible(c.oid)"
    if name.catalog is not None:
        relation += Sql(" AND pg_catalog.current_database() = ", Bind(name.catalog))
    found = session.query(relation, doing)
    if not found:
        return None
    oid, space, own_name, relkind, persistence, guarded = found[0]
    if own_name != name.name or name.schema not in (None, space):
        return None  # the server truncated the requested name
    text = _COLUMNS.replace("{oid}", str(int(oid)))
    text = text.replace("{identity}", "''" if old else "a.attidentity").replace("{generated}", "''" if old else "a.attgenerated")
    rows = session.query(Sql(text), doing)
    known = types.find(session, (row[3] for row in rows), doing)
    columns = tuple(_column(row, known[row[3]], types) for row in rows)
    primary, unique = _keys(session, int(oid), {row[0]: row[1] for row in rows}, old, doing)
    return PostgresTable(
        TableName(own_name, space),
        columns,
        primary,
        _kind(relkind, persistence),
        unique,
        takes_copy=relkind in ("r", "p") and not guarded and not old,
    )


def _kind(relkind: str, persistence: str) -> str:
    if persistence == "t":
        return "TEMPORARY VIEW" if relkind == "v" else "TEMPORARY TABLE"
    names = {"p": "PARTITIONED TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE"}
    return names.get(relkind, "TABLE")


def _column(row: Sequence[Any], known: tuple[PostgresType, int], types: PostgresTypeCache) -> JdbcColumn:
    _, name, type_name, _, typmod, dimensions, not_null, identity, generated, has_default, default = row
    type, domain_typmod = known
    native = PostgresColumnDetails(type, typmod if typmod >= 0 else domain_typmod, dimensions, identity == "a")
    return JdbcColumn(
        name,
        type_name,
        nullable=not not_null,
        autoincrement=bool(identity) or "nextval(" in (default or ""),
        has_default=bool(identity) or bool(has_default),
        generated=bool(generated),
        native=native,
    )


def _keys(
    session: DriverSession, oid: int, names: dict[int, str], old: bool, doing: str
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    text = _KEYS.replace("{oid}", str(oid)).replace("{key_columns}", "i.indnatts" if old else "i.indnkeyatts")
    text = text.replace("{usable}", "" if old else "AND i.indisvalid AND i.indimmediate")
    primary: tuple[str, ...] = ()
    unique: list[tuple[str, ...]] = []
    for is_primary, numbers, count in session.query(Sql(text), doing):
        columns = tuple(names[int(number)] for number in numbers.split()[:count])
        if is_primary:
            primary = columns
        else:
            unique.append(columns)
    return primary, tuple(unique)


_TYPES = """
SELECT t.oid, n.nspname, t.typname, t.typtype,
 CASE WHEN t.typlen = -1 AND t.typelem <> 0 AND t.typname LIKE '\\_%' THEN t.typelem ELSE 0 END,
 t.typbasetype, t.typtypmod, t.typdelim, pg_catalog.format_type(t.oid, -1)
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN ("""


class PostgresTypeCache:
    """Caches the types of one database. An OID is not reused for another type while connections last."""

    def __init__(self) -> None:
        self._rows: dict[int, Sequence[Any]] = {}
        self._found: dict[int, tuple[PostgresType, int]] = {}

    def find(self, session: DriverSession, oids: Iterable[int], doing: str) -> dict[int, tuple[PostgresType, int]]:
        """Returns each type, with domains resolved, and the domain's modifier (-1: none)."""
        wanted = {int(oid) for oid in oids}
        missing = {oid for oid in wanted if oid not in self._found}
        while missing:
            text = _TYPES + ",".join(map(str, sorted(missing))) + ")"
            got = {row[0]: row for row in session.query(Sql(text), doing)}
            for oid in missing:
                self._rows[oid] = got.get(oid, (oid, "", str(oid), "p", 0, 0, -1, ",", "unknown"))
            deeper = {inner for row in got.values() for inner in (row[4], row[5]) if inner}
            missing = {oid for oid in deeper if oid not in self._rows}
        for oid in wanted:
            if oid not in self._found:
                self._found[oid] = self._resolve(oid)
        return {oid: self._found[oid] for oid in wanted}

    def _resolve(self, oid: int) -> tuple[PostgresType, int]:
        number, schema, name, kind, element, base, base_typmod, delimiter, sql = self._rows[oid]
        if kind == "d":
            type, typmod = self._resolve(base)
            return type, base_typmod if base_typmod >= 0 else typmod
        inner = self._resolve(element)[0] if element else None
        return PostgresType(number, schema, name, kind, inner, delimiter, sql), -1


_STATISTICS = """
SELECT n.nspname, c.relname, CAST(c.reltuples AS bigint),
 CAST(c.relpages AS bigint) * CAST(pg_catalog.current_setting('block_size') AS bigint),
 EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')"""


def statistics(session: DriverSession, catalog: str | None, schema: str | None) -> dict[TableName, TableStatistics]:
    """Returns the estimates of ANALYZE; a table that was never analyzed has none."""
    if server_kind(session) is ServerKind.REDSHIFT:
        return {}
    rows = session.query(Sql(_STATISTICS) + _matching(catalog, schema), "looking up the sizes of tables")
    return {
        TableName(name, space): TableStatistics(
            int(count) if count >= 0 else None, int(size) if count >= 0 else None, bool(has_key)
        )
        for space, name, count, size, has_key in rows
    }
