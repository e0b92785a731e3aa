"""Tracks the LSN up to which the server may discard WAL.

The server retains WAL from the confirmed position. The end of a transaction is confirmed once the offset of its last record is
stored; transactions without captured changes are confirmed with the previous one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from connectors.postgres.offsets import TX_EVENTS, TX_LSN


class FlushTracker:
    """Tracks emitted transactions until their offsets are stored. ``confirmed_lsn`` may be read from any thread.

    ``stored``: tx_lsn and tx_events of the offset at the start of the task.
    """

    def __init__(self, confirmed_lsn: int, stored: tuple[int, int] = (0, 0)) -> None:
        self._outstanding: deque[tuple[int, int, int]] = deque()
        self._stored = stored
        self.confirmed_lsn = confirmed_lsn

    @property
    def all_stored(self) -> bool:
        """Whether the offsets of all emitted records are stored."""
        return not self._outstanding

    def snapshot_emitted(self, lsn: int) -> None:
        """Snapshot rows were emitted: until the offset of the last one is stored, the WAL before ``lsn`` is needed."""
        self._outstanding.append((0, 0, lsn))

    def transaction_completed(self, tx_lsn: int, tx_events: int, end_lsn: int) -> None:
        """A transaction ended at ``end_lsn``; the last record emitted so far has the offset (``tx_lsn``, ``tx_events``)."""
        if (tx_lsn, tx_events) > self._stored and not (self._outstanding and self._outstanding[-1][:2] == (tx_lsn, tx_events)):
            self._outstanding.append((tx_lsn, tx_events, end_lsn))
        else:
            self.position_passed(end_lsn)

    def position_passed(self, lsn: int) -> None:
        """There were no captured changes up to ``lsn``: it may be confirmed together with the last emitted record."""
        if self._outstanding:
            tx_lsn, tx_events, _ = self._outstanding[-1]
            self._outstanding[-1] = (tx_lsn, tx_events, lsn)
        else:
            self.confirmed_lsn = max(self.confirmed_lsn, lsn)

    def offset_stored(self, offset: Mapping[str, Any]) -> bool:
        """An offset is durable (promise 1). Returns whether ``confirmed_lsn`` has increased."""
        if TX_LSN in offset:
            position = (int(offset[TX_LSN]), int(offset[TX_EVENTS]))
        elif offset.get("last_snapshot_record"):
            position = (0, 0)
        else:
            return False
        self._stored = max(self._stored, position)
        before = self.confirmed_lsn
        while self._outstanding and self._outstanding[0][:2] <= position:
            self.confirmed_lsn = max(self.confirmed_lsn, self._outstanding.popleft()[2])
        return self.confirmed_lsn > before
