"""Identifies the server: whether a position is of its WAL, or of another one."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.postgres.connection import Connection
from connectors.postgres.errors import ServerError
from connectors.postgres.offsets import ServerTimeline, parse_lsn

_PROMOTED_TIMELINE = """
select case when not pg_is_in_recovery() then ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end
"""
_UNDEFINED_FILE = "58P01"


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server and the end of its WAL: flushed on a primary, received on a standby."""

    timeline: ServerTimeline
    lsn: int


def identify_system(replication: Connection) -> ServerState:
    """Identifies the server of a replication connection."""
    systemid, timeline, lsn, _ = replication.query("IDENTIFY_SYSTEM")[0]
    return ServerState(ServerTimeline(systemid or "", int(timeline or 0)), parse_lsn(lsn or "0/0"))


def read_promoted_timeline(connection: Connection) -> int | None:
    """Returns the timeline on which a server writes; None if it is a standby."""
    timeline = connection.query(_PROMOTED_TIMELINE)[0][0]
    return int(timeline) if timeline is not None else None


def read_ancestors(replication: Connection, known: ServerTimeline | None, server: ServerTimeline) -> dict[int, int]:
    """Returns the earlier timelines of a server, each with the LSN at which it left it; empty if there are none, and if a known
    position is of the server's own timeline, or of an unknown one."""
    if known in (None, server):
        return {}
    try:
        rows = replication.query(f"TIMELINE_HISTORY {server.timeline}")
    except ServerError as e:
        if e.sqlstate != _UNDEFINED_FILE:
            raise
        return {}  # the first timeline has no history
    return parse_timeline_history(rows[0][1] or "")


def parse_timeline_history(text: str) -> dict[int, int]:
    """Parses a timeline history file: a line per earlier timeline with its ID, the LSN of the switch, and a reason."""
    found: dict[int, int] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0].isdigit():
            found[int(fields[0])] = parse_lsn(fields[1])
    return found
