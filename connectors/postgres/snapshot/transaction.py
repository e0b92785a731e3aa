"""The transaction in which a snapshot reads all tables as of one point in time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from connect.errors import ConnectError
from connectors.cdc.errors import TablesChangedError
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.errors import ServerError, ServerSetupError
from connectors.postgres.schema.catalog import CapturedTable, ancestors, read_parents
from connectors.postgres.schema.row_decoder import TableRows

log = logging.getLogger(__name__)

BEGIN_SNAPSHOT = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_LOCK_ATTEMPT_MS = 500
"""How long one attempt waits for locks: shorter than the server's deadlock_timeout, so that no other session is canceled."""
_LOCK_NOT_AVAILABLE = "55P03"
_CHANGED = ("42P01", "42703", "3F000")
"""Undefined table, undefined column, undefined schema."""

_REWRITTEN = """
select c.oid::regclass from pg_class c
where c.relkind = 'r' and c.relfilenode is distinct from pg_relation_filenode(c.oid)
  and (c.oid = any($1::oid[]) or c.oid in (select t.relid from unnest($1::oid[]) r, pg_partition_tree(r) t))
"""
_DENIED = """
select n.nspname, c.relname, has_schema_privilege(n.oid, 'USAGE') from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = any($1::oid[]) and not (has_schema_privilege(n.oid, 'USAGE') and has_any_column_privilege(c.oid, 'SELECT'))
order by 1, 2
"""
_MOST_NAMED = 5
_PARTITIONS = "select r, t.relid::oid from unnest($1::oid[]) r, pg_partition_tree(r) t where t.relid <> r"


def start_snapshot(
    connection: Connection,
    exported: str | None,
    read_tables: Callable[[Connection], list[TableRows]],
    settings: PostgresConfig,
) -> list[TableRows]:
    """Starts the transaction, and locks its tables in ACCESS SHARE mode; ``exported`` is the snapshot of a slot.

    A snapshot sees a table that ALTER TABLE or TRUNCATE rewrites later as empty. The locks prevent that; if it has already
    happened, or columns or partitions have changed since the snapshot, raises TablesChangedError: a new snapshot is needed. While
    ``exported`` exists, the session that exported it must remain open.
    """
    started = time.monotonic()
    attempts = 0
    while True:
        connection.execute(BEGIN_SNAPSHOT)
        if exported is not None:
            connection.execute("SET TRANSACTION SNAPSHOT '" + exported.replace("'", "''") + "'")
        # Row-level security would hide rows; with this setting, the server raises an error instead.
        connection.execute(f"SET LOCAL row_security = off; SET LOCAL lock_timeout = {_LOCK_ATTEMPT_MS}")
        try:
            tables = read_tables(connection)
            captured = [rows.table for rows in tables]
            check_access(connection, [t for t in captured if str(t) not in settings.snapshot.overrides])
            if tables:
                connection.execute("; ".join(f"{select_statement(rows, settings)} LIMIT 0" for rows in tables))
            if not (changed := _changed_tables(connection, captured)):
                connection.execute("SET LOCAL lock_timeout = 0")
                return tables
            reason = f"{', '.join(changed)} changed"
        except ServerError as e:
            if e.sqlstate == _LOCK_NOT_AVAILABLE:
                connection.execute("ROLLBACK")
                attempts += 1
                _check_lock_timeout(settings, time.monotonic() - started, e)
                if attempts == 1:
                    log.warning("cannot lock the captured tables for the snapshot yet; waiting. %s", e.message)
                continue
            if e.sqlstate not in _CHANGED:
                raise
            reason = e.message
        connection.execute("ROLLBACK")
        if exported is not None:
            raise TablesChangedError(f"tables changed at the start of the snapshot, so a new one is needed: {reason}")


def export_snapshot(connection: Connection) -> str:
    """Exports the snapshot of the connection's transaction, as long as that is open."""
    return connection.query("select pg_export_snapshot()")[0][0] or ""


def join_snapshot(connection: Connection, exported: str) -> None:
    """Starts a transaction with the snapshot of another one, which holds the locks of all tables.

    Another session may wait for a lock that excludes reads: then this one would wait for it, and it for the other transaction. So
    statements wait only a short time for locks, and raise ServerError; see :func:`is_lock_timeout`.
    """
    connection.execute(BEGIN_SNAPSHOT)
    connection.execute("SET TRANSACTION SNAPSHOT '" + exported.replace("'", "''") + "'")
    connection.execute(f"SET LOCAL row_security = off; SET LOCAL lock_timeout = {_LOCK_ATTEMPT_MS}")


def is_lock_timeout(error: ServerError) -> bool:
    """Whether a statement waited too long for a lock. Its transaction is aborted."""
    return error.sqlstate == _LOCK_NOT_AVAILABLE


def read_next_transaction_id(connection: Connection) -> int | None:
    """Reads the transaction ID for source blocks of the snapshot: the next one to be assigned, as in Debezium."""
    rows = connection.query("select txid_snapshot_xmax(txid_current_snapshot())")
    return int(rows[0][0]) if rows and rows[0][0] else None


def check_access(connection: Connection, tables: Iterable[CapturedTable]) -> None:
    """Raises ConfigError if the user may not read a table, or if row-level security hides rows of one."""
    oids, user = _oids(tables), connection.address.user
    denied = connection.query(_DENIED, [oids])
    if denied:
        grants = [
            f"GRANT USAGE ON SCHEMA {schema} TO {user}" for schema in {schema for schema, _, usage in denied if usage == "f"}
        ]
        grants += [f"GRANT SELECT ON {schema}.{table} TO {user}" for schema, table, _ in denied[:_MOST_NAMED]]
        if len(denied) > _MOST_NAMED:
            grants.append(f"the same for {len(denied) - _MOST_NAMED} more tables")
        raise ServerSetupError(
            "no-select-privilege",
            f"user {user} may not read all captured tables, as a snapshot must",
            f"{'; '.join(grants)}; or leave the tables out",
            key="database.user",
        )
    rows = connection.query(
        "select c.oid::regclass from pg_class c where c.oid = any($1::oid[]) and c.relrowsecurity and row_security_active(c.oid)",
        [oids],
    )
    if rows:
        raise ServerSetupError(
            "row-level-security",
            f"row-level security of {', '.join(name or '' for (name,) in rows)} applies to user {user}, so snapshots would lack "
            "rows",
            f"ALTER ROLE {user} BYPASSRLS, or leave the tables out of the snapshot (snapshot.include.collection.list)",
            key="database.user",
        )


def select_statement(rows: TableRows, settings: PostgresConfig, conditions: Sequence[str] = (), order: str = "") -> str:
    """SELECT of the captured columns and rows of a table (without tables that inherit from it), or of its override.

    ``conditions`` limit the rows further, and ``order`` has the columns to order by; neither is for overrides.
    """
    table = rows.table
    columns = ", ".join(quote_identifier(column.name) for column in rows.columns)
    override = settings.snapshot.overrides.get(str(table))
    if override is not None:
        return f"SELECT {columns} FROM ({override.strip().rstrip(';')}) AS selected"
    if table.row_filter:
        conditions = [f"({table.row_filter})", *conditions]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {columns} FROM {table.own_rows}{where}{f' ORDER BY {order}' if order else ''}"


def _changed_tables(connection: Connection, tables: Sequence[CapturedTable]) -> list[str]:
    """The tables whose files or partitions are not those of the snapshot; queries see the catalog as of the snapshot."""
    found = [name or "" for (name,) in connection.query(_REWRITTEN, [_oids(tables)])]
    roots = {table.oid: str(table) for table in tables if table.kind == "p"}
    if roots:
        parents = read_parents(connection)
        then = {(root, oid) for oid in parents for root in ancestors(oid, parents) if root in roots}
        now = {(int(root or 0), int(oid or 0)) for root, oid in connection.query(_PARTITIONS, [_oids(tables)])}
        found += sorted({roots[root] for root, _ in then ^ now if root in roots})
    return found


def _check_lock_timeout(settings: PostgresConfig, waited_s: float, error: ServerError) -> None:
    limit_s = settings.snapshot.lock_timeout_s
    if limit_s is not None and waited_s >= limit_s:
        raise ConnectError(
            f"cannot lock the captured tables within snapshot.lock.timeout.ms={limit_s * 1000:g}; "
            f"snapshot.locking.mode=none waits without a limit. {error.message}"
        ) from error


def _oids(tables: Iterable[CapturedTable]) -> str:
    return "{" + ",".join(str(table.oid) for table in tables) + "}"
