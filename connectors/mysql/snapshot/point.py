"""The point in time of a snapshot: transactions of several connections that see the same rows, and its position in the log.

MariaDB and Percona Server report the position that a consistent snapshot belongs to, so none of them needs a lock. MySQL does
not: its position is read while a lock stops commits. Without one, the position before and after the start must be the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from connect.errors import ConfigError
from connectors.mysql.binlog import GtidSet
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import BinlogPosition, parse_gtids
from connectors.mysql.server import ServerInfo, read_position

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 20
"""Attempts to start all transactions between two commits."""
_ISOLATION: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_START: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


def start_transactions(connections: Sequence[MySqlConnection], server: ServerInfo, *, is_locked: bool) -> BinlogPosition | None:
    """Starts the transactions and returns their position; None if commits came between them at each attempt.

    ``is_locked``: no captured table can change meanwhile. Raises ConfigError if the server writes no log.
    """
    for connection in connections:
        connection.execute(_ISOLATION)
    attempts = 1 if is_locked else _ATTEMPTS
    for _ in range(attempts):
        position = _start_once(connections, server, is_locked=is_locked)
        if position is not None:
            return position
    return None


def start_behind(connections: Sequence[MySqlConnection], server: ServerInfo) -> BinlogPosition:
    """Starts the transactions; returns a position that is before their points: the stream repeats changes that rows have."""
    position = read_position(connections[0], server)
    for connection in connections:
        connection.execute(_ISOLATION)
        connection.execute(_START)
    log.warning("commits came between the start of the snapshot and its position: the stream repeats some changes of its rows")
    return position


def _start_once(connections: Sequence[MySqlConnection], server: ServerInfo, *, is_locked: bool) -> BinlogPosition | None:
    before = None
    if not is_locked and not server.is_mariadb:
        before = read_position(connections[0], server)
    for connection in connections:
        connection.execute(_START)
    positions = [read_snapshot_position(connection) for connection in connections]
    first = positions[0]
    if first is not None:
        if not is_locked and any(position != first for position in positions):
            return None
        return _with_gtids(connections[0], server, first)
    position = read_position(connections[0], server)
    return position if is_locked or position == before else None


def read_snapshot_position(connection: MySqlConnection) -> BinlogPosition | None:
    """Reads the position of the connection's consistent snapshot, with the GTIDs that Percona Server reports; None if the server
    reports none, such as MySQL, and MariaDB with Galera."""
    rows = connection.query("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'")
    status = {str(name).lower(): value for name, value in rows}
    file, position = status.get("binlog_snapshot_file"), status.get("binlog_snapshot_position")
    gtids = status.get("binlog_snapshot_gtid_executed")
    return BinlogPosition(file, int(position), gtids or None) if file and position else None


def _with_gtids(connection: MySqlConnection, server: ServerInfo, found: BinlogPosition) -> BinlogPosition:
    if not server.is_mariadb:
        text = found.gtids if server.uses_gtids else None
        return replace(found, gtids=str(GtidSet.parse(text)) if text else None)
    text = connection.query("SELECT BINLOG_GTID_POS(%s, %s)", (found.file, found.position))[0][0]
    if text is None:
        raise ConfigError(
            f"{connection.address.where} has no GTIDs for its own position {found.file}:{found.position}: its binary log is not "
            "readable",
            key="database.hostname",
        )
    gtids = parse_gtids(text)
    return replace(found, gtids=None if gtids is None else str(gtids))
