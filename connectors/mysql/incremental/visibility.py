"""Decides whether a chunk may be used: whether its snapshot has everything that the stream has sent.

The stream sends a transaction as soon as it is in the log, a little before others see its rows. A chunk without them would
overwrite newer values. Three things tell:

- MariaDB says which position of the log a snapshot has, exactly.
- MySQL's ``gtid_executed`` has a transaction only after its rows are visible, so what it has before the snapshot is part of it.
- Transactions become visible in the order of the log (binlog_order_commits=ON). So what was sent before the connector's own
  watermark was written to the signal table is visible after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from connectors.cdc.incremental.chunks import ChunkDelayed, TableSkipped
from connectors.mysql.binlog import GtidSet
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import BinlogPosition, Gtids, is_place_at_or_before, parse_gtids
from connectors.mysql.server import ServerInfo, read_executed
from connectors.mysql.snapshot.point import read_snapshot_position


class FollowedPosition(Protocol):
    """How far the stream was read: a BinlogPositionTracker."""

    @property
    def position(self) -> BinlogPosition: ...
    @property
    def reached(self) -> BinlogPosition | None: ...
    @property
    def file(self) -> str: ...
    @property
    def event_position(self) -> int: ...
    @property
    def gtid(self) -> str | None: ...
    @property
    def is_in_transaction(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class SnapshotContents:
    """What a snapshot has: transactions up to ``position`` exactly, or at least those of ``executed``; both are None if the
    server does not say."""

    position: BinlogPosition | None
    executed: GtidSet | None

    def contains(self, stream: FollowedPosition) -> bool | None:
        """Whether it has everything that was sent, a transaction that was sent in part included; None if nobody knows, because
        server or stream have no GTIDs."""
        if self.position is not None:
            if stream.is_in_transaction:
                # It is between two transactions, so it is behind the current one if it is behind an event of it.
                sent = BinlogPosition(stream.file, stream.event_position)
                return is_place_at_or_before(sent, self.position) and not is_place_at_or_before(self.position, sent)
            return stream.reached is not None and is_place_at_or_before(stream.reached, self.position)
        completed = parse_gtids(stream.position.gtids)
        if self.executed is None or not isinstance(completed, GtidSet) or (stream.is_in_transaction and stream.gtid is None):
            return None
        if not completed.is_subset(self.executed):
            return False
        return stream.gtid is None or GtidSet.parse(stream.gtid).is_subset(self.executed)


def check_visibility(contents: SnapshotContents, stream: FollowedPosition, *, has_watermark: bool) -> None:
    """Raises ChunkDelayed if a snapshot lacks something that was sent, and TableSkipped if nobody will ever know.

    ``has_watermark``: the connector has written to the signal table before the snapshot.
    """
    contains = contents.contains(stream)
    if contains is None and not has_watermark:
        raise TableSkipped(
            "SQL_EXCEPTION",
            "the server does not say which transactions a snapshot has: enable GTIDs (gtid_mode=ON) and take a new snapshot, or "
            "let the connector write to a signal table (signal.data.collection, read.only=false)",
        )
    if contains is False:
        raise ChunkDelayed("a streamed transaction is not visible yet")


def start_transaction(connection: MySqlConnection, server: ServerInfo) -> SnapshotContents:
    """Starts a transaction whose snapshot is that of now, and returns what it has. It locks nothing."""
    executed: Gtids | None = None
    if not server.is_mariadb and server.uses_gtids:
        executed = read_executed(connection, server)
    connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    position = read_snapshot_position(connection) if server.is_mariadb else None
    return SnapshotContents(position, executed if isinstance(executed, GtidSet) else None)
