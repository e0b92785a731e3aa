"""How far the server may forget: the book of what was sent on, and what of it is stored.

The server keeps its WAL from the confirmed position on. A transaction is confirmed by its end, once the offset of its last
record is stored; transactions without captured changes go with the one before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from connectors.postgres.offsets import TX_EVENTS, TX_LSN


class Confirmation:
    """``confirmed`` may be read from any thread; the rest is for the task's thread.

    ``stored``: tx_lsn and tx_events of the offset that the task began with.
    """

    def __init__(self, confirmed: int, stored: tuple[int, int] = (0, 0)) -> None:
        self._outstanding: deque[tuple[int, int, int]] = deque()
        self._stored = stored
        self.confirmed = confirmed

    @property
    def all_stored(self) -> bool:
        """Nothing was handed out that is not stored."""
        return not self._outstanding

    def snapshot_done(self, lsn: int) -> None:
        """Snapshot rows were handed out: until the last one's offset is stored, the stream before ``lsn`` is needed."""
        self._outstanding.append((0, 0, lsn))

    def completed(self, tx_lsn: int, tx_events: int, end_lsn: int) -> None:
        """A transaction ended at ``end_lsn``; the last record handed out by then has the offset (``tx_lsn``, ``tx_events``)."""
        if (tx_lsn, tx_events) > self._stored and not (self._outstanding and self._outstanding[-1][:2] == (tx_lsn, tx_events)):
            self._outstanding.append((tx_lsn, tx_events, end_lsn))
        else:
            self.passed(end_lsn)

    def passed(self, lsn: int) -> None:
        """Nothing captured happened up to ``lsn``: it may be confirmed with what was handed out last."""
        if self._outstanding:
            tx_lsn, tx_events, _ = self._outstanding[-1]
            self._outstanding[-1] = (tx_lsn, tx_events, lsn)
        else:
            self.confirmed = max(self.confirmed, lsn)

    def stored(self, offset: Mapping[str, Any]) -> bool:
        """An offset of ours is durable (promise 1). Returns whether more may be confirmed now."""
        if TX_LSN in offset:
            position = (int(offset[TX_LSN]), int(offset[TX_EVENTS]))
        elif offset.get("last_snapshot_record"):
            position = (0, 0)
        else:
            return False
        self._stored = max(self._stored, position)
        before = self.confirmed
        while self._outstanding and self._outstanding[0][:2] <= position:
            self.confirmed = max(self.confirmed, self._outstanding.popleft()[2])
        return self.confirmed > before
