"""Reads the database's catalog: tables, columns, types, keys, and replica identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connectors.postgres.connection import Connection, quote_name
from connectors.postgres.types.catalog_type import CatalogType


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A column, as far as it affects events."""

    name: str
    type_oid: int
    typmod: int
    not_null: bool
    default: str | None
    is_generated: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """What a publication publishes of a table; None means all columns, or all rows."""

    columns: frozenset[str] | None = None
    row_filter: str | None = None


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A version of a table. ``identity`` is pg_class.relreplident (d, n, f, i), of a partitioned table FULL only if all its
    partitions have it; ``rows`` is an estimate, -1 if unknown.

    ``sends_key``: the key is the replica identity, so the server sends it with updates and deletes. ``row_filter`` is the SQL
    condition of the publication. Equal tables give equal events: attributes that do not affect events are not compared.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[CapturedColumn, ...]
    key: tuple[str, ...]
    identity: str = field(compare=False)
    kind: str = field(compare=False)
    rows: int = field(compare=False)
    sends_key: bool = field(default=False, compare=False)
    row_filter: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql_name(self) -> str:
        """The name in SQL."""
        return quote_name(self.schema, self.name)

    @property
    def own_rows(self) -> str:
        """The rows of the table in SQL, after FROM: those of its partitions, but not those of tables that inherit from it."""
        return self.sql_name if self.kind == "p" else f"ONLY {self.sql_name}"


_MOST_NAMED = 10
_TABLES = """
select c.oid, n.nspname, c.relname, c.relkind, c.relreplident, c.reltuples::bigint, c.relispartition
from pg_class c join pg_namespace n on n.oid = c.relnamespace
"""
_ALL_TABLES = f"""{_TABLES}
where c.relkind in ('r', 'p') and c.relpersistence = 'p' and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname
"""

_OTHERS = """
select n.nspname, c.relname, case c.relkind when 'v' then 'a view' when 'm' then 'a materialized view' when 'f' then
    'a foreign table' else case c.relpersistence when 'u' then 'unlogged' else 'temporary' end end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where (c.relkind in ('v', 'm', 'f') or (c.relkind in ('r', 'p') and c.relpersistence <> 'p'))
  and n.nspname not in ('pg_catalog', 'information_schema')
order by 1, 2
"""

# PostgreSQL 18 sets attnotnull for NOT NULL NOT VALID too, but such a column may still contain nulls.
_COLUMNS = """
select a.attrelid, a.attname, a.atttypid, a.atttypmod,
       a.attnotnull and not exists (
           select from pg_constraint k
           where k.conrelid = a.attrelid and k.contype = 'n' and a.attnum = any(k.conkey) and not k.convalidated),
       case when a.attidentity <> '' then 'nextval()' when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end,
       a.attgenerated <> ''
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = any($1::oid[]) and a.attnum > 0 and not a.attisdropped
order by a.attrelid, a.attnum
"""

# The key of a table is its replica identity index, because the server sends those columns with updates and deletes; else its
# primary key; else its first unique index whose columns are all NOT NULL, as in Debezium.
_KEYS = """
select i.indrelid, a.attname, i.indisreplident or (i.indisprimary and c.relreplident in ('d', 'f'))
from pg_index i
join pg_class c on c.oid = i.indrelid
cross join lateral unnest(i.indkey::int2[]) with ordinality k(attnum, position)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indexrelid = (
    select x.indexrelid from pg_index x join pg_class xc on xc.oid = x.indexrelid
    where x.indrelid = i.indrelid and x.indisunique and x.indisvalid and x.indpred is null and x.indexprs is null and
    x.indimmediate
      and not exists (select 1 from pg_attribute n where n.attrelid = x.indrelid and n.attnum = any(x.indkey) and not
      n.attnotnull)
    order by x.indisreplident desc, x.indisprimary desc, xc.relname limit 1)
  and k.position <= i.indnkeyatts and i.indrelid = any($1::oid[])
order by i.indrelid, k.position
"""

_PARTITIONS = """
select i.inhrelid, i.inhparent from pg_inherits i join pg_class c on c.oid = i.inhrelid where c.relispartition
"""

_TYPES = """
select t.oid, n.nspname, t.typname, t.typtype,
       case when t.typcategory = 'A' and t.typlen = -1 then t.typelem else 0 end, t.typbasetype, t.typtypmod
from pg_type t join pg_namespace n on n.oid = t.typnamespace
"""
_LABELS = "select enumtypid, enumlabel from pg_enum order by enumtypid, enumsortorder"


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A row of pg_class: a table (``kind`` r) or a partitioned table (p)."""

    oid: int
    schema: str
    name: str
    kind: str
    identity: str
    rows: int
    is_partition: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def _class_rows(rows: Iterable[tuple[str | None, ...]]) -> list[CatalogTable]:
    return [
        CatalogTable(int(oid or 0), schema or "", name or "", kind or "", identity or "", int(count or -1), is_partition == "t")
        for oid, schema, name, kind, identity, count, is_partition in rows
    ]


def read_catalog_tables(connection: Connection) -> list[CatalogTable]:
    """Reads all tables except system, temporary, and unlogged tables, ordered by name."""
    return _class_rows(connection.query(_ALL_TABLES))


def read_tables(
    connection: Connection,
    wanted: Callable[[str, str], bool],
    *,
    via_root: bool = False,
    published: Mapping[int, PublishedTable] | None = None,
) -> list[CapturedTable]:
    """Reads the tables whose (schema, name) are wanted, ordered by name.

    A partitioned table and its partitions have the same rows: with ``via_root``, returns the roots, else the leaves, as the
    publication names the changes. ``published`` limits columns and rows of the tables in the publication, by OID.
    """
    published = published or {}
    everything = read_catalog_tables(connection)
    found = [row for row in everything if wanted(row.schema, row.name)]
    if via_root:
        parents = read_parents(connection)
        inner = {ancestor for oid in published for ancestor in ancestors(oid, parents)}
        # A partition can be published as a root of its own, in place of the tables above it.
        found = [row for row in found if row.oid in published or not (row.is_partition or row.oid in inner)]
        partial = {
            ancestor for row in everything if row.kind == "r" and row.identity != "f" for ancestor in ancestors(row.oid, parents)
        }
        found = [replace(row, identity="d") if row.identity == "f" and row.oid in partial else row for row in found]
    else:
        found = [row for row in found if row.kind == "r"]
    return _with_columns(connection, found, published)


def read_table(connection: Connection, oid: int) -> CapturedTable | None:
    """Reads the current version of a table, with generated columns; None if it does not exist."""
    tables = _with_columns(connection, _class_rows(connection.query(f"{_TABLES} where c.oid = $1::oid", [oid])), None)
    return tables[0] if tables else None


def read_parents(connection: Connection) -> dict[int, int]:
    """Reads the parent of each partition, by OID."""
    return {int(child or 0): int(parent or 0) for child, parent in connection.query(_PARTITIONS)}


def ancestors(oid: int, parents: Mapping[int, int]) -> list[int]:
    """The partitioned tables above a partition, the nearest first."""
    found: list[int] = []
    while (parent := parents.get(oid)) is not None:
        found.append(parent)
        oid = parent
    return found


def _with_columns(
    connection: Connection, found: Sequence[CatalogTable], published: Mapping[int, PublishedTable] | None
) -> list[CapturedTable]:
    if not found:
        return []
    oids = "{" + ",".join(str(row.oid) for row in found) + "}"
    columns: dict[int, list[CapturedColumn]] = {}
    for relation, name, type_oid, typmod, not_null, default, is_generated in connection.query(_COLUMNS, [oids]):
        columns.setdefault(int(relation or 0), []).append(
            CapturedColumn(name or "", int(type_oid or 0), int(typmod or -1), not_null == "t", default, is_generated == "t")
        )
    keys: dict[int, list[str]] = {}
    sent: set[int] = set()
    for relation, name, is_sent in connection.query(_KEYS, [oids]):
        keys.setdefault(int(relation or 0), []).append(name or "")
        if is_sent == "t":
            sent.add(int(relation or 0))
    tables: list[CapturedTable] = []
    for row in found:
        all_columns = columns.get(row.oid, ())
        entry = PublishedTable()
        if published is not None:
            entry = published.get(row.oid, entry)
            listed = entry.columns
            all_columns = [c for c in all_columns if (not c.is_generated if listed is None else c.name in listed)]
        tables.append(
            CapturedTable(
                row.oid, row.schema, row.name, tuple(all_columns), tuple(keys.get(row.oid, ())), row.identity, row.kind,
                row.rows, row.oid in sent, entry.row_filter,
            )
        )  # fmt: skip
    return tables


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
    rows = connection.query(f"select count(*) from (select 1 from {table.sql_name} limit 100000) t")
    return int(rows[0][0] or 0)


def describe_no_match(connection: Connection, wanted: Callable[[str, str], bool]) -> str:
    """Says why the include lists match no table: what they match instead, and which tables exist."""
    others = [
        f"{schema}.{name} is {what}" for schema, name, what in connection.query(_OTHERS) if wanted(schema or "", name or "")
    ]
    found = f"no table of database {connection.address.database} matches"
    if others:
        return f"{found} whose changes are in the log: {', '.join(others[:_MOST_NAMED])}"
    existing = ", ".join(str(table) for table in read_catalog_tables(connection)[:_MOST_NAMED]) or "none"
    return f"{found}; names are schema.table; existing tables: {existing}"
