"""Manages the replication slot on the server."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from connect.errors import ConfigError, ConnectError
from connectors.cdc.errors import QueryTimeoutError
from connectors.cdc.interrupt import Interrupt
from connectors.postgres.config import Address, SlotSettings
from connectors.postgres.connection import Connection, is_standby, quote_identifier
from connectors.postgres.errors import ServerError, ServerSetupError, SlotInUseError, may_not_replicate
from connectors.postgres.offsets import parse_lsn

log = logging.getLogger(__name__)

_DROP_SLOT_TIMEOUT_S = 5.0

WAL_END = (
    "case when pg_is_in_recovery() then greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) "
    "else pg_current_wal_flush_lsn() end"
)
"""The end of the server's WAL, in SQL. A standby that replays an archive has received nothing."""


@dataclass(frozen=True, slots=True)
class ReplicationSlot:
    """A replication slot. The stream starts at ``confirmed_lsn`` unless a later position is requested."""

    name: str
    plugin: str
    database: str | None
    active_pid: int | None
    confirmed_lsn: int
    wal_status: str
    is_failover: bool = False
    invalidation: str = ""


@dataclass(frozen=True, slots=True)
class CreatedSlot:
    """A new slot. ``snapshot`` can be imported until the connection that created the slot runs its next command."""

    consistent_lsn: int
    snapshot: str | None


def check_server(connection: Connection) -> None:
    """Raises ConfigError when the server, or the user, cannot replicate logically."""
    check_wal_level(connection)
    check_standby(connection)
    check_privileges(connection)


def check_wal_level(connection: Connection) -> None:
    """Raises ServerSetupError when the server does not write what logical decoding needs."""
    level = connection.query("show wal_level")[0][0]
    if level != "logical":
        raise ServerSetupError(
            "wal-level",
            f"PostgreSQL at {connection.address} has wal_level={level}; change data capture needs wal_level=logical",
            "ALTER SYSTEM SET wal_level = 'logical' and restart the server (on Amazon RDS: rds.logical_replication=1)",
            key="database.hostname",
        )


def check_standby(connection: Connection) -> None:
    """Raises ConfigError when the server is a standby that cannot decode its WAL."""
    if connection.server_version < 160000 and is_standby(connection):
        raise ServerSetupError(
            "standby",
            f"PostgreSQL at {connection.address} is a standby; capturing from one needs PostgreSQL 16",
            "connect to the primary",
            key="database.hostname",
        )


def check_privileges(connection: Connection) -> None:
    """Raises ServerSetupError when the user may not replicate."""
    rows = connection.query(
        "select rolreplication or rolsuper or exists (select 1 from pg_roles r where r.rolname in ('rds_replication', "
        "'rds_superuser') and pg_has_role(current_user, r.oid, 'member')) from pg_roles where rolname = current_user"
    )
    if rows and rows[0][0] != "t":
        raise may_not_replicate(connection.address.user, f"PostgreSQL at {connection.address}")


def read_slot(connection: Connection, name: str) -> ReplicationSlot | None:
    """Reads a slot; None if it does not exist. Raises ConfigError when its database, plugin, or two_phase is wrong."""
    newer = "failover, invalidation_reason" if connection.server_version >= 170000 else "false, null"
    newer += ", two_phase" if connection.server_version >= 140000 else ", false"
    rows = connection.query(
        f"select plugin, database, active_pid, confirmed_flush_lsn, wal_status, {newer} from pg_replication_slots "
        "where slot_name = $1",
        [name],
    )
    if not rows:
        return None
    plugin, database, pid, confirmed, wal_status, failover, invalidation, two_phase = rows[0]
    if plugin != "pgoutput" or database != connection.address.database:
        use = "physical replication" if plugin is None else f"database {database} and plugin {plugin}"
        raise ServerSetupError(
            "slot-of-others",
            f"replication slot {name} already exists for {use}; this connector needs one for {connection.address.database} and "
            "pgoutput",
            "choose another slot.name",
            key="slot.name",
        )
    if two_phase == "t":
        raise ServerSetupError(
            "two-phase-slot",
            f"replication slot {name} was created with two_phase, so it sends transactions before they commit",
            "choose another slot.name, or drop the slot and let the connector create it",
            key="slot.name",
        )
    return ReplicationSlot(
        name,
        plugin or "",
        database,
        int(pid) if pid else None,
        parse_lsn(confirmed or "0/0"),
        wal_status or "",
        failover == "t",
        invalidation or "",
    )


def supports_failover(connection: Connection) -> bool:
    """Whether the server can have failover slots: a primary of PostgreSQL 17 or later. Warns otherwise."""
    if connection.server_version < 170000:
        log.warning("slot.failover needs PostgreSQL 17; PostgreSQL at %s is older", connection.address)
        return False
    if is_standby(connection):
        log.warning("slot.failover has no effect on a standby: PostgreSQL synchronizes only slots of a primary")
        return False
    return True


def enable_failover(connection: Connection, name: str) -> None:
    """Makes an existing slot a failover slot, on a replication connection; it must have no reader. Logs a failure.

    Raises SlotInUseError.
    """
    try:
        connection.execute(f"ALTER_REPLICATION_SLOT {quote_identifier(name)} (FAILOVER true)")
    except ServerError as e:
        log.warning("replication slot %s cannot become a failover slot: %s", name, e.message)
    else:
        log.info("replication slot %s is a failover slot now", name)


def create_slot(
    connection: Connection, name: str, settings: SlotSettings, *, temporary: bool = False, export: bool = True
) -> CreatedSlot:
    """Creates a slot on a replication connection. Waits for open transactions, up to ``create_timeout_s``.

    Raises SlotInUseError for a temporary slot that already exists: the server drops it when it ends the session of the previous
    attempt.
    """
    kind = "TEMPORARY " if temporary else ""
    if settings.failover and not temporary and supports_failover(connection):
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
    except QueryTimeoutError as e:
        raise ConnectError(
            f"creating replication slot {name} took longer than create.slot.command.timeout={settings.create_timeout_s:g} s: the "
            "server waits for all open transactions (select pid, xact_start, query from pg_stat_activity where xact_start is not "
            "null)"
        ) from e
    _, lsn, snapshot, _ = rows[0]
    log.info("created %sreplication slot %s at %s", kind.lower(), name, lsn)
    return CreatedSlot(parse_lsn(lsn or "0/0"), snapshot)


def drop_slot(connection: Connection, name: str) -> None:
    """Drops the slot if it exists and is not in use."""
    connection.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1 and not active", [name]
    )


def drop_slot_on_stop(address: Address, name: str) -> None:
    """Drops the slot once the server has released it, a moment after its reader disconnected. Logs a failure."""
    interrupt = Interrupt()
    try:
        connection = Connection.open(address, interrupt, timeout_s=_DROP_SLOT_TIMEOUT_S)
        try:
            deadline = time.monotonic() + _DROP_SLOT_TIMEOUT_S
            while slot := read_slot(connection, name):
                if slot.active_pid is None:
                    drop_slot(connection, name)
                elif time.monotonic() < deadline:
                    interrupt.wait(0.05)
                else:
                    raise ConnectError(
                        f"server process {slot.active_pid} still reads from it. The slot retains WAL until it is dropped: "
                        f"SELECT pg_drop_replication_slot('{name}')"
                    )
        finally:
            connection.close()
    except ConnectError as e:
        log.warning("slot.drop.on.stop: could not drop slot %s: %s", name, e.message)
    finally:
        interrupt.close()


def end_reader_and_drop_slot(connection: Connection, name: str, interrupt: Interrupt) -> None:
    """Ends the session that reads from the slot and drops the slot. Raises ConnectError if that takes too long."""
    deadline = time.monotonic() + _DROP_SLOT_TIMEOUT_S
    while slot := read_slot(connection, name):
        if slot.active_pid is None:
            drop_slot(connection, name)
            continue
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid = $1", [slot.active_pid])
        if time.monotonic() > deadline:
            raise ConnectError(f"replication slot {name} could not be dropped: server process {slot.active_pid} reads from it")
        interrupt.wait(0.05)


class SlotXmin:
    """Reads the slot's catalog_xmin every ``xmin.fetch.interval.ms``; None if that is 0. ``clock`` returns seconds."""

    def __init__(
        self, settings: SlotSettings, connect: Callable[[], Connection], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._clock = clock
        self._xmin: int | None = None
        self._next = 0.0

    def read(self) -> int | None:
        """Returns the latest value. Raises ConnectionLostError."""
        interval_s = self._settings.xmin_interval_s
        if not interval_s or (self._xmin is not None and self._clock() < self._next):
            return self._xmin
        sql = "select catalog_xmin from pg_replication_slots where slot_name = $1"
        rows = self._connect().query(sql, [self._settings.name])
        self._xmin = int(rows[0][0]) if rows and rows[0][0] else None
        self._next = self._clock() + interval_s
        return self._xmin


def current_lsn(connection: Connection) -> int:
    """The end of the server's WAL, on a primary or standby."""
    return parse_lsn(connection.query(f"select {WAL_END}")[0][0] or "0/0")
