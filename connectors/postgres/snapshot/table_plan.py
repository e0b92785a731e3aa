"""Plans how each table of a snapshot is read: by which key, in how many ranges, and how a later attempt notices a change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from connectors.cdc.snapshot.key_ranges import EVERYTHING, Key, KeyRange, fingerprint_of, split_range
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.snapshot.key_ranges import KeyColumn, key_order, range_condition
from connectors.postgres.snapshot.transaction import select_statement

RANGE_BYTES = 64 << 20
MIN_PARALLEL_BYTES = 8 << 20
"""A smaller table is not worth several connections."""
_MAX_RANGES = 256
_MAX_UNORDERED_RANGES = 4
"""Each range of a table that is not stored in the order of its key costs about one scan of the table."""
_MIN_CORRELATION = 0.9
_SAMPLED_PAGES = 50
"""Pages to sample per range."""
_PAGE_BYTES = 8192

# Sizes and files of tables with their partitions; and whether the partitions send the primary key with updates and deletes.
_FILES = """
select r.oid, sum(pg_table_size(m.oid))::bigint, sum(pg_relation_size(m.oid))::bigint,
       json_agg(array[m.oid, m.relfilenode] order by m.oid)::text,
       coalesce(bool_and(m.relreplident in ('d', 'f')) filter (where m.oid <> r.oid and m.relkind = 'r'), true)
from unnest($1::oid[]) r(oid)
cross join lateral (select r.oid union select relid::oid from pg_partition_tree(r.oid)) t(oid)
join pg_class m on m.oid = t.oid
group by r.oid
"""

# Columns that equal texts find again: rows that differ in a nondeterministic collation may be equal in an index.
_COLUMNS = """
select c.oid, a.attname, format_type(a.atttypid, -1), s.correlation,
       json_build_array(l.collname, (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e
                                     where e.enumtypid = a.atttypid))::text
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_collation l on l.oid = a.attcollation
left join pg_stats s on s.schemaname = n.nspname and s.tablename = c.relname and s.attname = a.attname
                    and s.inherited = (c.relkind = 'p')
where c.oid = any($1::oid[]) and coalesce(l.collisdeterministic, true)
"""

# Unique indexes whose order is that of their types: their columns, sorted.
_KEYS = """
select i.indrelid, json_agg(a.attname order by a.attname)::text
from pg_index i
cross join lateral unnest(i.indkey::int2[]) with ordinality k(attnum, position)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indrelid = any($1::oid[]) and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
  and k.position <= i.indnkeyatts and not exists (
    select from unnest(i.indclass::oid[]) o(oid) join pg_opclass c on c.oid = o.oid
    where not c.opcdefault and c.opcname not like '%pattern\\_ops')
group by i.indexrelid, i.indrelid
"""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How a table is read. ``key`` is empty if only all of it can be read at once."""

    rows: TableRows
    fingerprint: str
    key: tuple[KeyColumn, ...] = ()
    size_bytes: int = 0
    main_bytes: int = 0
    is_correlated: bool = False
    """Whether the rows are stored in the order of the key, more or less."""


def plan_tables(connection: Connection, tables: Sequence[TableRows], settings: PostgresConfig) -> list[TablePlan]:
    """Plans the tables as of the connection's transaction, which has locked them."""
    if not tables:
        return []
    oids = "{" + ",".join(str(rows.table.oid) for rows in tables) + "}"
    files = {int(row[0] or 0): row[1:] for row in connection.query(_FILES, [oids])}
    columns: dict[int, dict[str, tuple[str, float, str]]] = {}
    for oid, name, type_, correlation, order in connection.query(_COLUMNS, [oids]):
        columns.setdefault(int(oid or 0), {})[name or ""] = (type_ or "", abs(float(correlation or 0)), order or "")
    unique: dict[int, list[list[str]]] = {}
    for oid, names in connection.query(_KEYS, [oids]):
        unique.setdefault(int(oid or 0), []).append(orjson.loads(names or "[]"))
    plans: list[TablePlan] = []
    for rows in tables:
        table = rows.table
        size, main_size, file_names, sends_key = files.get(table.oid, (None, None, None, None))
        known = columns.get(table.oid, {})
        key: tuple[KeyColumn, ...] = ()
        if sends_key == "t" and sorted(table.key) in unique.get(table.oid, ()):
            key = _range_key(rows, settings, {name: type_ for name, (type_, _, _) in known.items()})
        fingerprint = _fingerprint(rows, settings, file_names or "", [known[column.name][2] for column in key])
        is_correlated = bool(key) and known[key[0].name][1] >= _MIN_CORRELATION
        plans.append(TablePlan(rows, fingerprint, key, int(size or 0), int(main_size or 0), is_correlated))
    return plans


def _range_key(rows: TableRows, settings: PostgresConfig, types: dict[str, str]) -> tuple[KeyColumn, ...]:
    """The key by which the table can be read in ranges; empty if there is none.

    A row must not move from a missing range to a completed one unless the stream says so with all its values: a change of the key
    must be a change of the record key too.
    """
    table = rows.table
    if str(table) in settings.snapshot.overrides or not (table.sends_key or table.identity == "f"):
        return ()
    if not set(table.key) <= set(rows.key):
        return ()
    required = {column.name for column in table.columns if column.not_null}
    places = {column.name: i for i, column in enumerate(rows.columns)}
    if not all(name in required and name in types and name in places for name in table.key):
        return ()
    return tuple(KeyColumn(name, types[name], places[name]) for name in table.key)


def _fingerprint(rows: TableRows, settings: PostgresConfig, files: str, orders: Sequence[str]) -> str:
    """``orders``: on what the order of the key's columns depends besides their types, collations and the labels of enums."""
    table: CapturedTable = rows.table
    columns = [(column.name, column.type_oid, column.typmod) for column in table.columns]
    return fingerprint_of(table.oid, files, columns, table.key, rows.key, orders, select_statement(rows, settings))


def count_ranges(plan: TablePlan, settings: PostgresConfig) -> int:
    """The number of ranges to aim for."""
    snapshot = settings.snapshot
    if not plan.key:
        return 1
    by_size = math.ceil(plan.size_bytes / RANGE_BYTES)
    count = min(max(by_size, 1), _MAX_RANGES if plan.is_correlated else _MAX_UNORDERED_RANGES)
    if snapshot.max_threads > 1 and not snapshot.table_per_thread and plan.size_bytes >= MIN_PARALLEL_BYTES:
        count = max(count, snapshot.max_threads * snapshot.threads_multiplier)
    return 1 if snapshot.table_per_thread else count


def split_table(connection: Connection, plan: TablePlan, missing: Sequence[KeyRange], count: int) -> list[KeyRange]:
    """Splits what is missing of a table into about ``count`` ranges, by a sample of its pages."""
    if count <= len(missing) or not plan.key:
        return list(missing) or [EVERYTHING]
    each = math.ceil(count / len(missing))
    found: list[KeyRange] = []
    for bounds in missing:
        found += split_range(bounds, _sample_keys(connection, plan, bounds, each, count))
    return found


def _sample_keys(connection: Connection, plan: TablePlan, bounds: KeyRange, ranges: int, total_ranges: int) -> list[Key]:
    """Keys that divide a range into ``ranges`` of about the same number of rows; fewer if the sample is small."""
    if ranges < 2:
        return []
    pages = max(plan.main_bytes / _PAGE_BYTES, 1)
    percent = min(100.0, 100 * _SAMPLED_PAGES * total_ranges / pages)
    table = plan.rows.table
    columns = ", ".join(f"{quote_identifier(column.name)} AS c{i}" for i, column in enumerate(plan.key))
    conditions = " AND ".join(range_condition(plan.key, bounds)) or "true"
    rows = connection.query(
        f"SELECT {', '.join(f'c{i}::text' for i in range(len(plan.key)))} FROM (SELECT {columns}, row_number() OVER (ORDER BY "
        f"{key_order(plan.key)}) AS place, count(*) OVER () AS total FROM {table.own_rows} TABLESAMPLE SYSTEM ({percent:.6f}) "
        f"REPEATABLE (0) WHERE {conditions}) AS sampled "
        f"WHERE place * {ranges} / total > (place - 1) * {ranges} / total AND place < total ORDER BY place"
    )
    return [tuple(text or "" for text in row) for row in rows]
