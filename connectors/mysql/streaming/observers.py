"""What the stream passes on to those who follow it: the changes of some tables, and the point at which a position is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from connectors.cdc.streaming.observers import ChangeObservers
from connectors.mysql.binlog import GtidSet, MariaDbGtidPosition
from connectors.mysql.offsets import BinlogPosition, Gtids, is_place_at_or_before, parse_gtids
from connectors.mysql.schema.model import TableId
from connectors.mysql.schema.table_rows import MySqlTableRows


class RowChange(NamedTuple):
    """A change of a row: its values before and after, as events have them; None for a row that is created or deleted.

    Both are None for a change whose values cannot be converted.
    """

    before: Sequence[Any] | None
    after: Sequence[Any] | None


@dataclass(frozen=True, slots=True)
class BinlogMark:
    """A position of the log between two transactions. ``gtids`` are those up to there, None without GTIDs."""

    file: str
    position: int
    gtids: Gtids | None = None

    @classmethod
    def at(cls, position: BinlogPosition) -> BinlogMark:
        return cls(position.file, position.position, parse_gtids(position.gtids))

    def is_at_or_before(self, position: BinlogPosition) -> bool:
        """Whether everything up to here is completed at a position of the same server.

        File and position decide. GTIDs do too: after a failover, the server sends nothing of what its files have and the client
        knows, so its position stays behind.
        """
        if position.is_in_transaction:
            return False
        if is_place_at_or_before(self, position):
            return True
        return self.gtids is not None and position.gtids is not None and _is_contained(self.gtids, parse_gtids(position.gtids))


NO_MARK: Final = BinlogMark("", 0)


class BinlogObservers(ChangeObservers[TableId, MySqlTableRows, RowChange, BinlogMark]):
    """Tables are identified by their names."""

    def __init__(self) -> None:
        super().__init__(NO_MARK)

    def change(self, rows: MySqlTableRows, change: RowChange) -> None:
        """Passes on a change of a watched table."""
        self.watched[rows.id].on_change(rows, change)


def _is_contained(ours: Gtids, theirs: Gtids | None) -> bool:
    if isinstance(ours, GtidSet) and isinstance(theirs, GtidSet):
        return bool(ours) and ours.is_subset(theirs)
    if isinstance(ours, MariaDbGtidPosition) and isinstance(theirs, MariaDbGtidPosition):
        return bool(len(ours)) and ours.is_subset(theirs)
    return False
