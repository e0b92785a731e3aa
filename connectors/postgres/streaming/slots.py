"""Publication and replication slot: what the server keeps for this connector."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from connect.errors import ConfigError, ConnectError
from connectors.postgres.config import SlotSettings
from connectors.postgres.connection import Connection, quoted
from connectors.postgres.errors import PositionGoneError, ServerError, SlotInUseError
from connectors.postgres.offsets import format_lsn, parse_lsn
from connectors.postgres.schema.catalog import Table
from connectors.postgres.schema.filters import name_matches

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as the server describes it. ``confirmed_lsn``: the stream starts there when nothing later is asked for."""

    name: str
    plugin: str
    database: str | None
    active_pid: int | None
    confirmed_lsn: int
    wal_status: str


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot just made. ``snapshot`` can be imported until the connection that made the slot runs its next command."""

    consistent_lsn: int
    snapshot: str | None


def check_server(connection: Connection) -> None:
    """Raises ConfigError when the server does not decode its WAL logically."""
    level = connection.query("show wal_level")[0][0]
    if level != "logical":
        raise ConfigError(
            f"PostgreSQL at {connection.address} has wal_level={level}; change data capture needs wal_level=logical: "
            "ALTER SYSTEM SET wal_level = 'logical' and restart the server (on Amazon RDS: rds.logical_replication=1)",
            key="database.hostname",
        )


def check_privileges(connection: Connection) -> None:
    """Raises ConfigError when the user may not replicate."""
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


def read_slot(connection: Connection, name: str) -> Slot | None:
    """The slot of that name, or None. Raises ConfigError when it belongs to another database or plugin."""
    rows = connection.query(
        "select plugin, database, active_pid, confirmed_flush_lsn, wal_status from pg_replication_slots where slot_name = $1",
        [name],
    )
    if not rows:
        return None
    plugin, database, pid, confirmed, wal_status = rows[0]
    if plugin != "pgoutput" or database != connection.address.database:
        raise ConfigError(
            f"replication slot {name} is there already, for database {database} and plugin {plugin}; this connector needs "
            "one for "
            f"{connection.address.database} and pgoutput: choose another slot.name",
            key="slot.name",
        )
    return Slot(name, plugin or "", database, int(pid) if pid else None, parse_lsn(confirmed or "0/0"), wal_status or "")


def check_slot_keeps_wal(slot: Slot) -> None:
    """Raises PositionGoneError when the server has removed WAL that the slot still needed."""
    if slot.wal_status == "lost":
        raise PositionGoneError(
            f"replication slot {slot.name} has lost WAL it needed (max_slot_wal_keep_size): changes since "
            f"{format_lsn(slot.confirmed_lsn)} are gone. Drop the slot and take a new snapshot: snapshot.mode=when_needed "
            "does both"
        )


def create_slot(
    connection: Connection, name: str, settings: SlotSettings, *, temporary: bool = False, export: bool = True
) -> NewSlot:
    """Makes a slot on a replication connection. Waits for transactions that are open, up to ``create_timeout_s``.

    Raises SlotInUseError for a temporary slot that is there already: it goes with the session of the try before, which takes the
    server a moment to end.
    """
    kind = "TEMPORARY " if temporary else ""
    if settings.failover and not temporary and connection.server_version >= 170000:
        options = f"(SNAPSHOT '{'export' if export else 'nothing'}', FAILOVER true)"
    else:
        options = "EXPORT_SNAPSHOT" if export else "NOEXPORT_SNAPSHOT"
    command = f"CREATE_REPLICATION_SLOT {quoted(name)} {kind}LOGICAL pgoutput {options}"
    try:
        rows = connection.query(command, timeout_s=settings.create_timeout_s)
    except ServerError as e:
        if e.sqlstate == "42710" and temporary:
            raise SlotInUseError(f"temporary replication slot {name} of another session is still there. {e}") from e
        if e.sqlstate == "53400":
            raise ConfigError(f"no replication slot is free for {name}: raise max_replication_slots on the server. {e}") from e
        if e.sqlstate == "42501":
            raise ConfigError(f"user {connection.address.user} may not make a replication slot: {e}", key="database.user") from e
        raise
    except ConnectError as e:
        if "took longer" in e.message:
            raise ConnectError(
                f"making replication slot {name} took longer than "
                f"create.slot.command.timeout={settings.create_timeout_s:g} s: the server "
                "waits for all transactions that are open (select pid, xact_start, query from pg_stat_activity where "
                "xact_start is not null)"
            ) from e
        raise
    _, lsn, snapshot, _ = rows[0]
    log.info("made %sreplication slot %s at %s", kind.lower(), name, lsn)
    return NewSlot(parse_lsn(lsn or "0/0"), snapshot)


def drop_slot(connection: Connection, name: str) -> None:
    """Drops the slot if it is there and nobody uses it."""
    connection.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1 and not active", [name]
    )


def ensure_publication(connection: Connection, settings: SlotSettings, tables: Sequence[Table]) -> None:
    """Makes or updates the publication as ``publication.autocreate.mode`` says, and warns of captured tables it leaves out.

    It must be there before the slot is: the server looks it up as of each change it decodes.
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
            connection.execute(f"ALTER PUBLICATION {quoted(name)} SET TABLE {_table_list(tables)}")
            log.info("publication %s now has %d tables", name, len(tables))
    if "f" in operations:
        log.warning("publication %s does not publish every operation: insert=%s update=%s delete=%s", name, *operations)
    published = set(connection.query("select schemaname, tablename from pg_publication_tables where pubname = $1", [name]))
    for table in tables:
        if (table.schema, table.name) not in published:
            log.warning(
                "table %s is captured but not in publication %s: its rows are read, its changes are not. ALTER "
                "PUBLICATION %s ADD TABLE %s",
                table, name, name, table,
            )  # fmt: skip


def require_publication(connection: Connection, settings: SlotSettings) -> None:
    """Raises ConfigError when the publication is not there."""
    if not connection.query("select 1 from pg_publication where pubname = $1", [settings.publication]):
        raise ConfigError(
            f"publication {settings.publication} does not exist in database {connection.address.database} and "
            f"publication.autocreate.mode=disabled: CREATE PUBLICATION {settings.publication} FOR TABLE ..., or choose "
            "another mode "
            "(filtered, all_tables)",
            key="publication.name",
        )


def _create_publication(connection: Connection, settings: SlotSettings, tables: Sequence[Table]) -> None:
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
                    f"no table matches, so publication {name} cannot be made for the captured tables: check table.include.list",
                    key="table.include.list",
                )
            what = f" FOR TABLE {_table_list(tables)}"
        case _:
            what = ""
    options = " WITH (publish_via_partition_root = true)" if settings.via_partition_root else ""
    try:
        connection.execute(f"CREATE PUBLICATION {quoted(name)}{what}{options}")
    except ServerError as e:
        if e.sqlstate != "42501":
            raise
        raise ConfigError(
            f"user {connection.address.user} may not make publication {name}{what.lower()}: make it as its owner or a "
            "superuser and set "
            f"publication.autocreate.mode=disabled, or use filtered, which needs CREATE on the database and owned tables. {e}",
            key="publication.autocreate.mode",
        ) from e
    log.info("made publication %s%s", name, what.lower())


def _table_list(tables: Sequence[Table]) -> str:
    return ", ".join(f"{quoted(t.schema)}.{quoted(t.name)}" for t in tables)


def set_replica_identities(connection: Connection, settings: SlotSettings, tables: Sequence[Table]) -> None:
    """Sets the replica identities that ``replica.identity.autoset.values`` asks for, where they differ."""
    letters = {"default": "d", "nothing": "n", "full": "f"}
    for table in tables:
        for pattern, identity in settings.replica_identities:
            if not name_matches([pattern], str(table)):
                continue
            if letters.get(identity.lower()) != table.identity:
                word, _, index = identity.partition(" ")
                form = f"USING INDEX {quoted(index.strip())}" if index else word.upper()
                connection.execute(f"ALTER TABLE {quoted(table.schema)}.{quoted(table.name)} REPLICA IDENTITY {form}")
                log.info("set replica identity of %s to %s", table, identity)
            break


def current_lsn(connection: Connection) -> int:
    """Where the server's WAL ends, primary or standby."""
    sql = "select case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_flush_lsn() end"
    return parse_lsn(connection.query(sql)[0][0] or "0/0")
