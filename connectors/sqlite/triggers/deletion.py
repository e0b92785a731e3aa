"""Deletes changes whose offsets are stored, without keeping writers or the stream waiting."""

from __future__ import annotations

import logging
from typing import Final

from connect.errors import RetriableError
from connectors.cdc.errors import WaitInterrupted
from connectors.cdc.streaming.offset_tracker import OffsetPairs
from connectors.sqlite.offsets import DATABASE_ID, SEQUENCE
from connectors.sqlite.sessions import DatabaseFile
from connectors.sqlite.triggers.installation import DELETED_AT_ONCE, Installation

log = logging.getLogger(__name__)

_LOCK_WAIT_S: Final = 0.01


class ChangeDeletion:
    """Deletes changes in short transactions, more of them per read than a read returns, so that it keeps up with any writer."""

    def __init__(self, sessions: DatabaseFile, installation: Installation, max_rows: int) -> None:
        """``max_rows`` are the changes that a read returns at most."""
        self._sessions = sessions
        self._installation = installation
        self._most_transactions = 2 + 2 * max_rows // DELETED_AT_ONCE
        self._database_id: str | None = None
        self._stored = 0
        self._is_due = False
        self._is_locked = False

    def start(self, database_id: str | None) -> None:
        """A database is open, perhaps another one than before."""
        self._database_id, self._is_due = database_id, False

    def offsets_stored(self, offsets: OffsetPairs) -> None:
        """Offsets are durable: the changes up to them may be deleted."""
        # Promise 1: an offset of the database that was at the path before says nothing about the changes of this one.
        own = [int(offset.get(SEQUENCE) or 0) for _, offset in offsets if offset.get(DATABASE_ID) == self._database_id]
        if own:
            self._stored, self._is_due = max(own), True

    def advance(self) -> bool:
        """Deletes some changes, if there are any to delete. Returns False if a lock keeps it from that: the next call tries
        again."""
        if not self._is_due:
            return True
        connection = self._sessions.writer()
        try:
            with connection.waiting_for_locks(_LOCK_WAIT_S):
                for _ in range(self._most_transactions):
                    if not self._installation.delete_changes(connection, self._stored):
                        self._is_due = False
                        break
        except RetriableError as e:
            if not self._is_locked:
                log.info("cannot delete changes now, and will try again: %s", e.message)
            self._is_locked = True
            return False
        except WaitInterrupted:
            return False
        self._is_locked = False
        return True
