"""The point in time of a snapshot: transactions of several connections that see the same rows, and its position in the log.

MariaDB and Percona Server report the position that a consistent snapshot belongs to, so none of them needs a lock. MySQL does
not: its position is read while a lock stops commits. Without one, the position before and after the start must be the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
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
    places = [_snapshot_place(connection) for connection in connections]
    first = places[0]
    if first is not None:
        if not is_locked and any(place != first for place in places):
            return None
        return _position(connections[0], server, *first)
    position = read_position(connections[0], server)
    return position if is_locked or position == before else None


def _snapshot_place(connection: MySqlConnection) -> tuple[str, int] | None:
    """File and position of the connection's consistent snapshot; None if the server does not report them."""
    rows = connection.query("SHOW STATUS LIKE 'binlog_snapshot_%'")
    found = {str(name).lower(): value for name, value in rows}
    file, position = found.get("binlog_snapshot_file"), found.get("binlog_snapshot_position")
    return (file, int(position)) if file and position else None


def _position(connection: MySqlConnection, server: ServerInfo, file: str, position: int) -> BinlogPosition:
    if server.is_mariadb:
        text = connection.query("SELECT BINLOG_GTID_POS(%s, %s)", (file, position))[0][0]
        if text is None:
            raise ConfigError(
                f"{connection.address.where} has no GTIDs for its own position {file}:{position}: its binary log is not readable",
                key="database.hostname",
            )
        gtids = parse_gtids(text)
        return BinlogPosition(file, position, None if gtids is None else str(gtids))
    found = connection.query("SHOW STATUS LIKE 'binlog_snapshot_gtid_executed'")
    text = found[0][1] if found and server.uses_gtids else None
    return BinlogPosition(file, position, str(GtidSet.parse(text)) if text else None)
