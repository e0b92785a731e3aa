"""Capturing from a standby: what must be written is written on its primary."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from connect.errors import ConfigError, ConnectError, UnreachableError
from connectors.cdc.errors import ConnectionLostError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import Address, PostgresConfig
from connectors.postgres.connection import Connection, is_standby
from connectors.postgres.errors import ServerError
from connectors.postgres.offsets import format_lsn, parse_lsn
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.streaming import publications, slots

log = logging.getLogger(__name__)

_READ_ONLY = "25006"
_REPLAY_POLL_S = 0.02
_REPLAY_TIMEOUT_S = 60.0
_LOG_INTERVAL_S = 0.5


def prepare_publication(
    sessions: DatabaseSessions, settings: PostgresConfig, filters: Filters, read_tables: Callable[[], Sequence[CapturedTable]]
) -> list[str]:
    """Sets replica identities, and creates or updates the publication; on a standby, on its primary. Returns the tables that were
    added to an existing publication.

    A primary that is unavailable is an error only if the publication does not exist. Raises ConfigError if the server is a
    standby, something must be written, and ``database.primary.hostname`` is not set.
    """
    try:
        writer = sessions.writer()
    except (ConnectionLostError, UnreachableError) as e:
        catalog = sessions.catalog()
        if publications.read_publication(catalog, settings.slot.publication, with_tables=False) is None:
            raise
        log.warning("the publication is used as it is, because the primary is unavailable: %s", e.message)
        return []
    try:
        publications.set_replica_identities(writer, settings.slot, read_tables())
        added = publications.ensure_publication(writer, settings.slot, filters)
    except ServerError as e:
        if e.sqlstate != _READ_ONLY:
            raise
        raise ConfigError(
            f"PostgreSQL at {settings.address} is a standby, where publication and replica identities cannot be changed: set "
            f"database.primary.hostname, or create publication {settings.slot.publication} on the primary. {e.message}",
            key="database.primary.hostname",
        ) from e
    if writer is not sessions.catalog():
        _wait_for_replay(sessions.catalog(), writer, sessions.interrupt)
    return added


def _wait_for_replay(standby: Connection, primary: Connection, interrupt: Interrupt) -> None:
    """Waits until the standby has replayed all that the primary has written. Raises ConnectError after a minute."""
    target = parse_lsn(primary.query("select pg_current_wal_flush_lsn()")[0][0] or "0/0")
    deadline = time.monotonic() + _REPLAY_TIMEOUT_S
    while (replayed := parse_lsn(standby.query("select pg_last_wal_replay_lsn()")[0][0] or "0/0")) < target:
        if interrupt.is_set:
            raise WaitInterrupted
        if time.monotonic() > deadline:
            raise ConnectionLostError(
                f"the standby at {standby.address} has replayed {format_lsn(replayed)}, but its primary at {primary.address} is "
                f"at {format_lsn(target)}: is the standby connected to this primary?"
            )
        interrupt.wait(_REPLAY_POLL_S)


def create_slot(
    settings: PostgresConfig, replication: Connection, name: str, *, temporary: bool = False, export: bool = True
) -> slots.CreatedSlot:
    """Creates a slot as :func:`slots.create_slot` does, on a primary or standby."""
    with _running_transactions_logged(settings, replication):
        return slots.create_slot(replication, name, settings.slot, temporary=temporary, export=export)


def create_snapshot_slot(settings: PostgresConfig, replication: Connection) -> slots.CreatedSlot:
    """Creates a temporary slot for a snapshot next to an existing slot; it exists as long as the connection."""
    return create_slot(settings, replication, f"{settings.slot.name[:54]}_snapshot", temporary=True)


@contextlib.contextmanager
def _running_transactions_logged(settings: PostgresConfig, server: Connection) -> Iterator[None]:
    """While a slot is being created on a standby, has the primary log its running transactions, which the slot waits for.

    Does nothing on a primary. Without ``database.primary.hostname``, the slot waits until the primary does so by itself.
    """
    if not is_standby(server):
        yield
        return
    if settings.primary is None:
        log.info(
            "creating a replication slot on a standby waits until the primary logs its running transactions: run SELECT "
            "pg_log_standby_snapshot() there, or set database.primary.hostname"
        )
        yield
        return
    logger = _TransactionsLogger(settings.primary)
    try:
        yield
    finally:
        logger.close()


class _TransactionsLogger:
    """Calls ``pg_log_standby_snapshot`` on the primary twice a second, on a thread of its own."""

    def __init__(self, primary: Address) -> None:
        self._primary = primary
        self._interrupt = Interrupt()
        self._thread = threading.Thread(target=self._run, name="postgres-standby-snapshots", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            connection = Connection.open(self._primary, self._interrupt)
            try:
                while not self._interrupt.is_set:
                    connection.execute("select pg_log_standby_snapshot()")
                    self._interrupt.wait(_LOG_INTERVAL_S)
            finally:
                connection.close()
        except WaitInterrupted:
            pass
        except ConnectError as e:
            log.warning("cannot have the primary log its running transactions, so creating the slot may take long: %s", e.message)

    def close(self) -> None:
        self._interrupt.set()
        self._thread.join()
        self._interrupt.close()
