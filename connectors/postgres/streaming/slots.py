"""Manages the publication and the replication slot on the server."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from connect.errors import ConfigError, ConnectError
from connectors.postgres.config import SlotSettings
from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.errors import PositionLostError, ServerError, SlotInUseError
from connectors.postgres.offsets import format_lsn, parse_lsn
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.schema.filters import name_matches

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicationSlot:
    """A replication slot. The stream starts at ``confirmed_lsn`` unless a later position is requested."""

    name: str
    plugin: str
    database: str | None
    active_pid: int | None
    confirmed_lsn: int
    wal_status: str


@dataclass(frozen=True, slots=True)
class CreatedSlot:
    """A new slot. ``snapshot`` can be imported until the connection that created the slot runs its next command."""

    consistent_lsn: int
    snapshot: str | None


def check_server(connection: Connection) -> None:
    """Raises ConfigError when wal_level is not logical."""
    level = connection.query("show wal_level")[0][0]
    if level != "logical":
        raise ConfigError(
            f"PostgreSQL at {connection.address} has wal_level={level}; change data capture needs wal_level=logical: "
            "ALTER SYSTEM SET wal_level = 'logical' and restart the server (on Amazon RDS: rds.logical_replication=1)",
            key="database.hostname",
        )


def check_privileges(connection: Connection) -> None:
    """Raises ConfigError when the user lacks the REPLICATION privilege."""
    rows = connection.query(
        "select rolreplication or rolsuper or exists (select 1 from pg_roles r where r.rolname in ('rds_replication', "
        "'rds_superuser') and pg_has_role(current_user, r.oid, 'member')) from pg_roles where rolname = current_user"
    )
    if rows and rows[0][0] != "t":
        user = connection.address.user
        raise ConfigError(
            f"user {user} may not replicate from PostgreSQL at {connection.address}: ALTER ROLE {user} REPLICATION "
            f"(on Amazon RDS: GRANT rds_replication TO {user})",
            key="database.user",
        )


def read_slot(connection: Connection, name: str) -> ReplicationSlot | None:
    """Reads a slot; None if it does not exist. Raises ConfigError when it belongs to another database or plugin."""
    rows = connection.query(
        "select plugin, database, active_pid, confirmed_flush_lsn, wal_status from pg_replication_slots where slot_name = $1",
        [name],
    )
    if not rows:
        return None
    plugin, database, pid, confirmed, wal_status = rows[0]
    if plugin != "pgoutput" or database != connection.address.database:
        raise ConfigError(
            f"replication slot {name} already exists for database {database} and plugin {plugin}; this connector needs one for "
            f"{connection.address.database} and pgoutput: choose another slot.name",
            key="slot.name",
        )
    return ReplicationSlot(
        name, plugin or "", database, int(pid) if pid else None, parse_lsn(confirmed or "0/0"), wal_status or ""
    )


def check_slot_has_wal(slot: ReplicationSlot) -> None:
    """Raises PositionLostError when the server has removed WAL that the slot needs."""
    if slot.wal_status == "lost":
        raise PositionLostError(
            f"replication slot {slot.name} has lost required WAL (max_slot_wal_keep_size): changes since "
            f"{format_lsn(slot.confirmed_lsn)} are lost. Drop the slot and take a new snapshot: snapshot.mode=when_needed "
            "does both"
        )


def create_slot(
    connection: Connection, name: str, settings: SlotSettings, *, temporary: bool = False, export: bool = True
) -> CreatedSlot:
    """Creates a slot on a replication connection. Waits for open transactions, up to ``create_timeout_s``.

    Raises SlotInUseError for a temporary slot that already exists: the server drops it when it ends the session of the previous
    attempt.
    """
    kind = "TEMPORARY " if temporary else ""
    if settings.failover and not temporary and connection.server_version >= 170000:
        options = f"(SNAPSHOT '{'export' if export else 'nothing'}', FAILOVER true)"
    else:
        options = "EXPORT_SNAPSHOT" if export else "NOEXPORT_SNAPSHOT"
    command = f"CREATE_REPLICATION_SLOT {quote_identifier(name)} {kind}LOGICAL pgoutput {options}"
    try:
        rows = connection.query(command, timeout_s=settings.create_timeout_s)
    except ServerError as e:
        if e.sqlstate == "42710" and temporary:
            raise SlotInUseError(f"temporary replication slot {name} of another session still exists. {e}") from e
        if e.sqlstate == "53400":
            raise ConfigError(
                f"all replication slots are in use, so {name} cannot be created: raise max_replication_slots on the server. {e}"
            ) from e
        if e.sqlstate == "42501":
            raise ConfigError(
                f"user {connection.address.user} may not create a replication slot: {e}", key="database.user"
            ) from e
        raise
    except ConnectError as e:
        if "took longer" in e.message:
            raise ConnectError(
                f"creating replication slot {name} took longer than "
                f"create.slot.command.timeout={settings.create_timeout_s:g} s: the server "
                "waits for all open transactions (select pid, xact_start, query from pg_stat_activity where "
                "xact_start is not null)"
            ) from e
        raise
    _, lsn, snapshot, _ = rows[0]
    log.info("created %sreplication slot %s at %s", kind.lower(), name, lsn)
    return CreatedSlot(parse_lsn(lsn or "0/0"), snapshot)


def drop_slot(connection: Connection, name: str) -> None:
    """Drops the slot if it exists and is not in use."""
    connection.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1 and not active", [name]
    )


def ensure_publication(connection: Connection, settings: SlotSettings, tables: Sequence[CapturedTable]) -> None:
    """Creates or updates the publication according to ``publication.autocreate.mode``; warns about tables that it lacks.

    It must exist before the slot: the server looks it up as of each change that it decodes.
    """
    name = settings.publication
    rows = connection.query("select puballtables, pubinsert, pubupdate, pubdelete from pg_publication where pubname = $1", [name])
    if not rows:
        _create_publication(connection, settings, tables)
        return
    all_tables, *operations = rows[0]
    if settings.autocreate == "filtered" and all_tables != "t":
        listed = set(connection.query("select schemaname, tablename from pg_publication_tables where pubname = $1", [name]))
        if listed != {(t.schema, t.name) for t in tables} and tables:
            connection.execute(f"ALTER PUBLICATION {quote_identifier(name)} SET TABLE {_table_list(tables)}")
            log.info("publication %s now has %d tables", name, len(tables))
    if "f" in operations:
        log.warning("publication %s does not publish all operations: insert=%s update=%s delete=%s", name, *operations)
    published = set(connection.query("select schemaname, tablename from pg_publication_tables where pubname = $1", [name]))
    for table in tables:
        if (table.schema, table.name) not in published:
            log.warning(
                "table %s is captured but not in publication %s: snapshots read its rows, but changes are missing. "
                "ALTER PUBLICATION %s ADD TABLE %s",
                table, name, name, table,
            )  # fmt: skip


def require_publication(connection: Connection, settings: SlotSettings) -> None:
    """Raises ConfigError when the publication does not exist."""
    if not connection.query("select 1 from pg_publication where pubname = $1", [settings.publication]):
        raise ConfigError(
            f"publication {settings.publication} does not exist in database {connection.address.database} and "
            f"publication.autocreate.mode=disabled: CREATE PUBLICATION {settings.publication} FOR TABLE ..., or choose "
            "another mode "
            "(filtered, all_tables)",
            key="publication.name",
        )


def _create_publication(connection: Connection, settings: SlotSettings, tables: Sequence[CapturedTable]) -> None:
    name = settings.publication
    match settings.autocreate:
        case "disabled":
            require_publication(connection, settings)
            return
        case "all_tables":
            what = " FOR ALL TABLES"
        case "filtered":
            if not tables:
                raise ConfigError(
                    f"no table matches, so publication {name} cannot be created: check table.include.list",
                    key="table.include.list",
                )
            what = f" FOR TABLE {_table_list(tables)}"
        case _:
            what = ""
    options = " WITH (publish_via_partition_root = true)" if settings.via_partition_root else ""
    try:
        connection.execute(f"CREATE PUBLICATION {quote_identifier(name)}{what}{options}")
    except ServerError as e:
        if e.sqlstate != "42501":
            raise
        raise ConfigError(
            f"user {connection.address.user} may not create publication {name}{what.lower()}: create it as its owner or a "
            "superuser and set "
            f"publication.autocreate.mode=disabled, or use filtered, which needs CREATE on the database and owned tables. {e}",
            key="publication.autocreate.mode",
        ) from e
    log.info("created publication %s%s", name, what.lower())


def _table_list(tables: Sequence[CapturedTable]) -> str:
    return ", ".join(f"{quote_identifier(t.schema)}.{quote_identifier(t.name)}" for t in tables)


def set_replica_identities(connection: Connection, settings: SlotSettings, tables: Sequence[CapturedTable]) -> None:
    """Sets the replica identities of ``replica.identity.autoset.values`` where they differ."""
    letters = {"default": "d", "nothing": "n", "full": "f"}
    for table in tables:
        for pattern, identity in settings.replica_identities:
            if not name_matches([pattern], str(table)):
                continue
            if letters.get(identity.lower()) != table.identity:
                word, _, index = identity.partition(" ")
                form = f"USING INDEX {quote_identifier(index.strip())}" if index else word.upper()
                connection.execute(
                    f"ALTER TABLE {quote_identifier(table.schema)}.{quote_identifier(table.name)} REPLICA IDENTITY {form}"
                )
                log.info("set replica identity of %s to %s", table, identity)
            break


def current_lsn(connection: Connection) -> int:
    """The end of the server's WAL, on a primary or standby."""
    sql = "select case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_flush_lsn() end"
    return parse_lsn(connection.query(sql)[0][0] or "0/0")
