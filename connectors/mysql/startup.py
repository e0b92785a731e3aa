"""Decides how a task starts or continues, from the configuration, its position, its schema history, and the state of the server.

How snapshot and streaming join (snapshot.mode=initial):

- No offset is stored: read the structure and the rows of the tables as of one position of the binary log, then stream from it.
- No offset is stored, but the schema history ends with a snapshot that began a short time ago: as if its offset were stored.
- The stored snapshot is incomplete: its rows may be in the topics already, and rows deleted since then would stay there forever
  if it started over. So stream first, from the position of that snapshot to that of a new one, and read the rows as of the new
  one. Earlier commits precede the rows, later commits follow them. Rows that the attempt has completed are not read again: the
  stream has brought them up to the same position.
- An offset is stored: recover the structure at that position from the schema history, and continue streaming.
- An offset is stored, but the server does not have the log after it: it was removed, or the server is another one. Fail, because
  changes are missing. With when_needed, take a new snapshot.
- An offset is stored, but the schema history is empty: fail, because rows cannot be decoded without the structure that tables had
  then. With recovery, read the structure that they have now; with when_needed, take a new snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from connect.errors import ConfigError, ConnectError
from connectors.cdc.errors import PositionLostError
from connectors.mysql.history_keys import MEMORY, HistorySettings


class MySqlStart(Enum):
    """The first step of a connection."""

    SNAPSHOT = "read the structure and the rows, then stream from their position"
    STRUCTURE = "read the structure, then stream from its position"
    REBUILD = "read the structure, then stream from the stored position"
    CATCH_UP = "stream up to the position of a new snapshot, then read its rows"
    STREAM = "stream from the stored position"
    DONE = "nothing: the snapshot of initial_only is complete"


@dataclass(frozen=True, slots=True)
class MySqlStartPlan:
    """How to start. ``warning`` says what is given up, if anything."""

    action: MySqlStart
    warning: str | None = None


def plan_mysql_start(
    mode: str,
    *,
    snapshot_completed: bool | None,
    lost: PositionLostError | None,
    knows_structure: bool,
    history: HistorySettings,
) -> MySqlStartPlan:
    """Plans the start. ``snapshot_completed`` is that of the position, None without one. ``lost`` is why the server does not have
    the log after the position. ``knows_structure``: the schema history has the tables at the position.

    Raises PositionLostError or ConnectError if changes are missing, or cannot be decoded, and the mode does not replace them.
    """
    if snapshot_completed is None:
        return _first_start(mode)
    if not snapshot_completed:
        return _continued_snapshot(mode, lost, knows_structure=knows_structure)
    if mode == "initial_only":
        return MySqlStartPlan(MySqlStart.DONE)
    if lost is not None:
        if mode in ("when_needed", "always"):
            return MySqlStartPlan(MySqlStart.SNAPSHOT, f"{lost.message}; taking a new snapshot")
        raise lost
    if mode == "recovery":
        return MySqlStartPlan(
            MySqlStart.REBUILD,
            None
            if not knows_structure
            else "rebuilding a schema history that is not empty (snapshot.mode=recovery): set snapshot.mode back afterwards",
        )
    if mode == "always":
        return MySqlStartPlan(MySqlStart.CATCH_UP if knows_structure else MySqlStart.SNAPSHOT)
    if not knows_structure:
        if mode == "when_needed":
            return MySqlStartPlan(MySqlStart.SNAPSHOT, f"{_no_history(history)}; taking a new snapshot")
        raise ConnectError(
            f"{_no_history(history)}, so rows cannot be decoded. Rebuild it with snapshot.mode=recovery if no table was altered "
            "since the stored position, or take a new snapshot (snapshot.mode=when_needed)"
        )
    return MySqlStartPlan(MySqlStart.STREAM)


def _first_start(mode: str) -> MySqlStartPlan:
    if mode == "recovery":
        raise ConfigError(
            "snapshot.mode=recovery rebuilds the schema history of a stored offset, and none is stored; set it to initial",
            key="snapshot.mode",
        )
    return MySqlStartPlan(MySqlStart.STRUCTURE if mode == "no_data" else MySqlStart.SNAPSHOT)


def _continued_snapshot(mode: str, lost: PositionLostError | None, *, knows_structure: bool) -> MySqlStartPlan:
    if mode == "no_data":
        return MySqlStartPlan(MySqlStart.STRUCTURE)
    if mode == "initial_only":
        return MySqlStartPlan(MySqlStart.SNAPSHOT)
    if lost is not None:
        warning = f"{lost.message}; starting the incomplete snapshot over: rows that were deleted meanwhile may remain in topics"
        return MySqlStartPlan(MySqlStart.SNAPSHOT, warning)
    return MySqlStartPlan(MySqlStart.CATCH_UP if knows_structure else MySqlStart.SNAPSHOT)


def _no_history(history: HistorySettings) -> str:
    if history.kind == MEMORY:
        return "the schema history was in memory (MemorySchemaHistory), and is lost after a restart"
    place = f"file {history.file}" if history.file else f"topic {history.topic}"
    return f"the schema history in {place} has nothing for the stored position"
