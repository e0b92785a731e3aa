"""Reads the database's catalog: tables, columns, types, keys, and replica identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.types.column_type import CatalogType


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A column, as far as it affects events."""

    name: str
    type_oid: int
    typmod: int
    not_null: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A version of a table. ``identity`` is pg_class.relreplident (d, n, f, i); ``rows`` is an estimate, -1 if unknown.

    Equal tables give equal events: attributes that do not affect events are not compared.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[CapturedColumn, ...]
    key: tuple[str, ...]
    identity: str = field(compare=False)
    kind: str = field(compare=False)
    rows: int = field(compare=False)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


_TABLES = """
select c.oid, n.nspname, c.relname, c.relkind, c.relreplident, c.reltuples::bigint, c.relispartition
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence = 'p' and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname
"""

_COLUMNS = """
select a.attrelid, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
       case when a.attidentity <> '' then 'nextval()' else pg_get_expr(d.adbin, d.adrelid) end
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = any($1::oid[]) and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
order by a.attrelid, a.attnum
"""

# The key of a table without a primary key is its replica identity index, else its first unique index whose columns are all
# NOT NULL, as in Debezium.
_KEYS = """
select i.indrelid, a.attname
from pg_index i
join pg_class ic on ic.oid = i.indexrelid
cross join lateral unnest(i.indkey::int2[]) with ordinality k(attnum, position)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indexrelid = (
    select x.indexrelid from pg_index x join pg_class xc on xc.oid = x.indexrelid
    where x.indrelid = i.indrelid and x.indisunique and x.indisvalid and x.indpred is null and x.indexprs is null and
    x.indimmediate
      and not exists (select 1 from pg_attribute n where n.attrelid = x.indrelid and n.attnum = any(x.indkey) and not
      n.attnotnull)
    order by x.indisprimary desc, x.indisreplident desc, xc.relname limit 1)
  and k.position <= i.indnkeyatts and i.indrelid = any($1::oid[])
order by i.indrelid, k.position
"""

_TYPES = """
select t.oid, n.nspname, t.typname, t.typtype,
       case when t.typcategory = 'A' and t.typlen = -1 then t.typelem else 0 end, t.typbasetype, t.typtypmod
from pg_type t join pg_namespace n on n.oid = t.typnamespace
"""
_LABELS = "select enumtypid, enumlabel from pg_enum order by enumtypid, enumsortorder"


def _oids(oids: list[int]) -> str:
    return "{" + ",".join(map(str, oids)) + "}"


def read_tables(connection: Connection, wanted: Callable[[str, str], bool], *, via_root: bool = False) -> list[CapturedTable]:
    """Reads the tables whose (schema, name) are wanted, ordered by name.

    A partitioned table and its partitions have the same rows: with ``via_root``, returns the roots, else the leaves, as the
    publication names the changes.
    """
    found = [
        (int(oid or 0), schema or "", name or "", kind or "", identity or "", int(rows or -1))
        for oid, schema, name, kind, identity, rows, is_partition in connection.query(_TABLES)
        if wanted(schema or "", name or "") and (is_partition == "f" if via_root else kind == "r")
    ]
    return _with_columns(connection, found)


def read_table(connection: Connection, oid: int) -> CapturedTable | None:
    """Reads the current version of a table; None if it does not exist."""
    sql = (
        "select c.oid, n.nspname, c.relname, c.relkind, c.relreplident, c.reltuples::bigint "
        "from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = $1::oid"
    )
    found = [
        (int(row[0] or 0), row[1] or "", row[2] or "", row[3] or "", row[4] or "", int(row[5] or -1))
        for row in connection.query(sql, [oid])
    ]
    tables = _with_columns(connection, found)
    return tables[0] if tables else None


def _with_columns(connection: Connection, found: list[tuple[int, str, str, str, str, int]]) -> list[CapturedTable]:
    if not found:
        return []
    oids = _oids([entry[0] for entry in found])
    columns: dict[int, list[CapturedColumn]] = {}
    for relation, name, type_oid, typmod, not_null, default in connection.query(_COLUMNS, [oids]):
        columns.setdefault(int(relation or 0), []).append(
            CapturedColumn(name or "", int(type_oid or 0), int(typmod or -1), not_null == "t", default)
        )
    keys: dict[int, list[str]] = {}
    for relation, name in connection.query(_KEYS, [oids]):
        keys.setdefault(int(relation or 0), []).append(name or "")
    return [
        CapturedTable(oid, schema, name, tuple(columns.get(oid, ())), tuple(keys.get(oid, ())), identity, kind, rows)
        for oid, schema, name, kind, identity, rows in found
    ]


def read_types(connection: Connection) -> dict[int, CatalogType]:
    """Reads all types of the database, by OID."""
    labels: dict[int, list[str]] = {}
    for oid, label in connection.query(_LABELS):
        labels.setdefault(int(oid or 0), []).append(label or "")
    return {
        int(oid or 0): CatalogType(
            int(oid or 0), schema or "", name or "", kind or "", int(element or 0), int(base or 0), int(typmod or -1),
            tuple(labels.get(int(oid or 0), ())),
        )
        for oid, schema, name, kind, element, base, typmod in connection.query(_TYPES)
    }  # fmt: skip


def estimated_rows(connection: Connection, table: CapturedTable) -> int:
    """Estimates the number of rows from statistics; for a table that was never analyzed, counts up to 100,000."""
    if table.rows >= 0:
        return table.rows
    name = f"{quote_identifier(table.schema)}.{quote_identifier(table.name)}"
    rows = connection.query(f"select count(*) from (select 1 from {name} limit 100000) t")
    return int(rows[0][0] or 0)
