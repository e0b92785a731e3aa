"""Offsets: the number of the last change, when it was made, and which database has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connect.errors import ConnectError

SEQUENCE, TIME, DATABASE_ID = "seq", "ts_ms", "database_id"
SNAPSHOT_COMPLETED: Final = "snapshot_completed"
JOBS: Final = "snapshot_tables"
"""What snapshots still have to read: see :mod:`connectors.sqlite.snapshot.jobs`."""
PAUSED: Final = "snapshot_paused"
"""Whether a signal has paused incremental snapshots."""

_JULIAN_EPOCH: Final = 2440587.5
_DAY_MS: Final = 86_400_000


def julian_to_ms(day: float) -> int:
    """A Julian day, as the change table has it, as milliseconds since 1970."""
    return round((day - _JULIAN_EPOCH) * _DAY_MS)


@dataclass(frozen=True, slots=True)
class SequencePosition:
    """All changes up to ``sequence`` are emitted. The change table has that change, made at ``ts_ms``."""

    sequence: int
    ts_ms: int

    def members(self) -> dict[str, Any]:
        """The position as members of an offset."""
        return {SEQUENCE: self.sequence, TIME: self.ts_ms}


@dataclass(frozen=True, slots=True)
class SqliteOffset:
    """``position`` and ``database_id`` are None for the snapshot of ``initial_only``, which has no change table."""

    position: SequencePosition | None
    database_id: str | None
    snapshot_completed: bool
    jobs: str | None
    extras: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The whole offset, for those that add to it."""


def parse_offset(offset: Mapping[str, Any]) -> SqliteOffset:
    """Parses a stored offset. Raises ConnectError."""
    sequence, ts_ms, id_ = offset.get(SEQUENCE), offset.get(TIME), offset.get(DATABASE_ID)
    if sequence and not (_is_integer(sequence) and _is_integer(ts_ms) and isinstance(id_, str)):
        raise ConnectError(f"the offset has no integers {SEQUENCE} and {TIME} and no text {DATABASE_ID}: {dict(offset)}")
    position = SequencePosition(int(sequence), int(ts_ms or 0)) if sequence else None
    return SqliteOffset(position, id_, bool(offset.get(SNAPSHOT_COMPLETED)), offset.get(JOBS), offset)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
