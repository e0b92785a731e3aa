"""Tracks the position in the stream: which transactions and changes are completed, and which of them to skip after a restart."""

from __future__ import annotations

from typing import Any

from connectors.postgres.offsets import TX_EVENTS, TX_LSN, StreamPosition
from connectors.postgres.streaming import pgoutput

_SKIP_ALL = 1 << 62


class PositionTracker:
    """The position of a task. It lives across connections, on which the server sends whole transactions again.

    ``done_lsn``: all transactions that commit before it are completed. ``change`` counts the changes of the current transaction,
    and ``skip`` of them were emitted before. ``lsn`` is the newest LSN that was read.
    """

    __slots__ = (
        "_emitted_events", "_emitted_tx", "_event_lsn", "_resume", "_same_lsn", "change", "commit_us", "done_lsn",
        "in_transaction", "lsn", "skip", "skip_lsn", "tx_lsn", "xid",
    )  # fmt: skip

    def __init__(self, position: StreamPosition) -> None:
        self._resume = position
        self.done_lsn = self.lsn = position.done_lsn
        self.commit_us: int | None = None
        self.in_transaction = False
        self.tx_lsn = position.tx_lsn
        self.xid: int | None = None
        self.change = position.tx_events
        self.skip = self.skip_lsn = 0
        self._emitted_tx, self._emitted_events = position.tx_lsn, position.tx_events
        self._event_lsn = self._same_lsn = 0

    @property
    def emitted(self) -> tuple[int, int]:
        """The transaction of the last record, and how many of its changes are completed with that record."""
        return self._emitted_tx, self._emitted_events

    def position(self) -> StreamPosition:
        """The position to continue from after a lost connection: behind the last emitted change."""
        if self.in_transaction:
            return StreamPosition(self.done_lsn, self.tx_lsn, self.change)
        return StreamPosition(
            self.done_lsn, self._resume.tx_lsn, self._resume.tx_events, self._resume.xid, self._resume.event_lsn
        )

    def reset_connection(self) -> None:
        """Prepares for a new connection."""
        self._resume = self.position()
        self.in_transaction = False

    def skip_to(self, lsn: int) -> None:
        """Skips to ``lsn``: a snapshot contains everything that committed before."""
        self.done_lsn = max(self.done_lsn, lsn)
        self.lsn = max(self.lsn, lsn)
        self._resume = StreamPosition(self.done_lsn)
        self.in_transaction = False

    def pass_idle(self, wal_end: int) -> bool:
        """Moves to ``wal_end``: every transaction that commits before it is completed. Returns whether that is an advance."""
        if wal_end <= self.done_lsn:
            return False
        self.done_lsn = self.lsn = wal_end
        return True

    def begin(self, begin: pgoutput.Begin) -> None:
        """Starts a transaction."""
        resume = self._resume
        self.skip = self.skip_lsn = 0
        # Promise 5: skip exactly the changes that were already emitted. Only commit order decides; the LSN of a change does
        # not, because its transaction may have started long before.
        if begin.final_lsn < self.done_lsn:
            self.skip = _SKIP_ALL
        elif begin.final_lsn == resume.tx_lsn:
            self.skip = resume.tx_events
        elif resume.xid is not None and begin.xid == resume.xid:
            self.skip_lsn = resume.event_lsn
        self.in_transaction = True
        self.tx_lsn, self.xid = begin.final_lsn, begin.xid
        self.change = 0
        self.commit_us = begin.commit_us

    def commit(self, end_lsn: int) -> bool:
        """Completes the transaction. Returns whether that is an advance."""
        self.in_transaction = False
        if end_lsn <= self.done_lsn:
            return False
        self.done_lsn = self.lsn = end_lsn
        self._resume = StreamPosition(end_lsn)
        return True

    def enter_change(self, lsn: int) -> None:
        """Notes the LSN of a change that is not skipped; several changes can share one."""
        if lsn == self._event_lsn:
            self._same_lsn += 1
        else:
            self._event_lsn, self._same_lsn = lsn, 1
        self.lsn = lsn

    def record_offset(self, message_type: str, *, last: bool) -> dict[str, Any]:
        """The offset of a record that is being emitted.

        The offset of a record that is not the last of its change excludes the change: a restart repeats all of it.
        """
        done = self.change if last else self.change - 1
        self._emitted_events = done
        self._emitted_tx = self.tx_lsn
        lsn = self.lsn
        return {
            "ts_usec": self.commit_us,
            "txId": self.xid,
            "lsn": lsn,
            "lsn_proc": lsn,
            "lsn_commit": self.done_lsn,
            "messageType": message_type,
            "lsn_events_processed": self._same_lsn if last else self._same_lsn - 1,
            TX_LSN: self.tx_lsn,
            TX_EVENTS: done,
        }

    def heartbeat_offset(self) -> dict[str, Any]:
        """The offset for the position up to which the stream was read."""
        offset: dict[str, Any] = {
            "lsn": self.lsn,
            "lsn_proc": self.lsn,
            "lsn_commit": self.done_lsn,
            TX_LSN: self._emitted_tx,
            TX_EVENTS: self._emitted_events,
        }
        if self.commit_us is not None:
            offset["ts_usec"] = self.commit_us
        return offset
