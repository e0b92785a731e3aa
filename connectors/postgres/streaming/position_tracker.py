"""Tracks the position in the stream: which transactions and changes are completed, and which of them to skip after a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connectors.postgres.offsets import COMMIT_LSN, TX_EVENTS, TX_LSN, StreamPosition, change_offset
from connectors.postgres.streaming import pgoutput

_SKIP_ALL = 1 << 62


class PositionTracker:
    """The position of a task. It lives across connections, on which the server sends whole transactions again.

    ``done_lsn``: all transactions that commit before it are completed. ``change`` counts the changes of the current transaction,
    and ``skip`` of them were emitted before. ``lsn`` is the newest LSN that was read. ``commit_lsn`` is the end of the last
    completed transaction: unlike ``done_lsn``, it does not depend on when the server was idle.
    """

    __slots__ = (
        "_emitted", "_event_lsn", "_resume", "_same_lsn", "_skip_at_lsn", "change", "commit_lsn",
        "commit_us", "done_lsn", "in_transaction", "lsn", "skip", "skip_lsn", "tx_lsn", "xid",
    )  # fmt: skip

    def __init__(self, position: StreamPosition) -> None:
        self._resume = position
        self.done_lsn = self.lsn = position.done_lsn
        self.commit_lsn = position.done_lsn if position.commit_lsn is None else position.commit_lsn
        self.commit_us: int | None = None
        self.in_transaction = False
        self.tx_lsn = position.tx_lsn
        self.xid: int | None = None
        self.change = position.tx_events
        self.skip = self.skip_lsn = self._skip_at_lsn = 0
        self._emitted = position.tx_lsn, position.tx_events
        self._event_lsn = self._same_lsn = 0

    def position(self) -> StreamPosition:
        """The position to continue from after a lost connection: behind the last emitted change."""
        if self.in_transaction:
            return StreamPosition(self.done_lsn, self.tx_lsn, self.change, commit_lsn=self.commit_lsn)
        return replace(self._resume, done_lsn=self.done_lsn, commit_lsn=self.commit_lsn)

    def read_lsn(self) -> int:
        """All changes of transactions that commit before it were read. A transaction may have started before it, and be large."""
        return min(self.done_lsn, self.lsn) if self.in_transaction else self.done_lsn

    def reset_connection(self) -> None:
        """Prepares for a new connection."""
        self._resume = self.position()
        self.in_transaction = False

    def skip_to(self, lsn: int) -> None:
        """Skips to ``lsn``: a snapshot contains everything that committed before."""
        self.done_lsn = max(self.done_lsn, lsn)
        self.lsn = max(self.lsn, lsn)
        self.commit_lsn = self.done_lsn
        self._emitted = lsn, 0
        self._resume = StreamPosition(self.done_lsn, lsn)
        self.in_transaction = False

    def pass_idle(self, wal_end: int) -> None:
        """Moves to ``wal_end``: every transaction that commits before it is completed."""
        if wal_end > self.done_lsn:
            self.done_lsn = self.lsn = wal_end

    def begin(self, begin: pgoutput.Begin) -> None:
        """Starts a transaction."""
        resume = self._resume
        self.skip = self.skip_lsn = self._skip_at_lsn = 0
        # Promise 5: skip exactly the changes that were already emitted. Only commit order decides; the LSN of a change does
        # not, because its transaction may have started long before.
        if begin.final_lsn < self.done_lsn:
            self.skip = _SKIP_ALL
        elif begin.final_lsn == resume.tx_lsn:
            self.skip = resume.tx_events
        elif resume.xid is not None and begin.xid == resume.xid:
            self.skip_lsn, self._skip_at_lsn = resume.event_lsn, resume.event_count
        self.in_transaction = True
        self.tx_lsn, self.xid = begin.final_lsn, begin.xid
        self.change = self._event_lsn = self._same_lsn = 0
        self.commit_us = begin.commit_us

    def commit(self, end_lsn: int) -> None:
        """Completes the transaction."""
        self.in_transaction = False
        if end_lsn > self.done_lsn:
            self.done_lsn = self.lsn = self.commit_lsn = end_lsn
            self._resume = StreamPosition(end_lsn, *self._emitted)

    def skip_change(self, lsn: int) -> None:
        """Counts a change that was emitted before: Debezium counts the changes at an LSN."""
        if self.skip != _SKIP_ALL:
            self._same_lsn = self._same_lsn + 1 if lsn == self._event_lsn else 1
            self._event_lsn = lsn

    def is_emitted(self, lsn: int) -> bool:
        """Whether Debezium emitted a change at or before ``skip_lsn``: changes at that LSN are told apart by their number."""
        if lsn == self.skip_lsn:
            if not self._skip_at_lsn:
                return False
            self._skip_at_lsn -= 1
        self.skip_change(lsn)
        return True

    def enter_change(self, lsn: int) -> None:
        """Notes the LSN of a change that is not skipped; several changes can share one."""
        if lsn == self._event_lsn:
            self._same_lsn += 1
        else:
            self._event_lsn, self._same_lsn = lsn, 1
        self.lsn = lsn

    @property
    def is_completed(self) -> bool:
        """Whether the current transaction was completed before."""
        return self.skip == _SKIP_ALL

    def enter_message(self, lsn: int) -> None:
        """Notes the LSN of a logical message of the transaction: unlike changes, Debezium does not count messages at an LSN."""
        self._event_lsn, self._same_lsn = lsn, 0
        self.lsn = lsn

    def message_offset(self, lsn: int) -> dict[str, Any]:
        """Moves behind a logical message without a transaction, and returns its offset. ``lsn`` is the end of its WAL record."""
        self.pass_idle(lsn)
        offset = self.position_offset() or self.record_offset("MESSAGE", last=True)
        offset.pop("txId", None)
        return offset | {"lsn": lsn, "lsn_proc": lsn, "messageType": "MESSAGE"}

    def record_offset(self, message_type: str, *, last: bool) -> dict[str, Any]:
        """The offset of a record that is being emitted.

        The offset of a record that is not the last of its change excludes the change: a restart repeats all of it.
        """
        done = self.change if last else self.change - 1
        self._emitted = self.tx_lsn, done
        processed = self._same_lsn if last else self._same_lsn - 1
        return self._with_commit(
            change_offset(self.lsn, message_type, self.commit_us, self.xid, self.done_lsn, processed, self.tx_lsn, done)
        )

    def complete_change(self, lsn: int) -> int:
        """Notes that the change at an LSN was emitted completely. Returns the number of changes at the LSN."""
        if lsn == self._event_lsn:
            self._same_lsn += 1
        else:
            self._event_lsn, self._same_lsn = lsn, 1
        self.lsn = lsn
        self._emitted = self.tx_lsn, self.change
        return self._same_lsn

    def position_offset(self) -> dict[str, Any] | None:
        """The offset of the position up to which the stream was read, in the form of Debezium's offset after a commit.

        None inside a transaction: then the offset of the last record is the position.
        """
        if self._emitted[0] > self.done_lsn or self._resume.xid is not None:
            return None
        done = self.done_lsn
        offset: dict[str, Any] = {"lsn": done, "lsn_proc": done, "lsn_commit": done, "messageType": "COMMIT"}
        if self.xid is not None:
            offset["txId"] = self.xid
        if self.commit_us is not None:
            offset["ts_usec"] = self.commit_us
        offset[TX_LSN], offset[TX_EVENTS] = self._emitted
        return self._with_commit(offset)

    def commit_members(self) -> dict[str, Any]:
        """More members of offsets."""
        return {} if self.commit_lsn == self.done_lsn else {COMMIT_LSN: self.commit_lsn}

    def _with_commit(self, offset: dict[str, Any]) -> dict[str, Any]:
        offset.update(self.commit_members())
        return offset
