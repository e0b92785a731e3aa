"""Follows the position in a stream of the binary log, and finds what was completed before a restart."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Final

from connectors.mysql.binlog import (
    Event,
    FormatDescription,
    Gtid,
    GtidSet,
    HeartbeatEvent,
    MariaDbGtid,
    MariaDbGtidEvent,
    MariaDbGtidPosition,
    Query,
    Rotate,
    TableMapEvent,
    TransactionPayload,
    XaPrepare,
    Xid,
)
from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.offsets import BinlogPosition, Gtids, is_place_at_or_before

_MOST_POSITION: Final = 0xFFFFFFFF
_ENDS: Final = (b"COMMIT", b"ROLLBACK")
_XA_ENDS: Final = (b"XA COMMIT", b"XA ROLLBACK")
_CREATE_SELECT: Final = b" START TRANSACTION"
"""Ends the statement with which MySQL since 8.0.21 logs CREATE TABLE ... SELECT: the rows follow, then an XID."""
_TAIL: Final = 30
_XA_BEGINS: Final = (b"XA START", b"XA BEGIN")


class BinlogPositionTracker:
    """Follows the events of a stream, which begins at a position. Not thread-safe.

    Use, in the order of the stream::

        if isinstance(event, RowsEvent):
            first = 0 if not tracker.is_replaying else tracker.skipped_rows(len(rows))
            for number in range(first, len(rows)):
                emit(rows[number], tracker.position_in_rows(number + 1))
            tracker.finish_rows(event.header)
        else:
            if not tracker.is_completed:
                ...                                    # handle the event; its records have tracker.position
            tracker.track(event)

    Track a TRANSACTION_PAYLOAD first, then each of its events.
    """

    def __init__(self, start: BinlogPosition, gtids: Gtids | None = None) -> None:
        """``gtids`` are the transactions that are completed, which the tracker adds to; None if the server has no GTIDs."""
        self._file, self._at, self._event_at = start.file, start.position, start.position
        self._gtids = None if gtids is None else gtids.copy()
        self._gtids_text = _text_of(self._gtids)
        self._start = start if start.is_in_transaction else None
        """The transaction in progress at the restart, until it ends or the stream is past it."""
        self._position = replace(start, gtids=self._gtids_text)
        self.is_placed = False
        """Whether the server has said where it begins. Until then, the file may be one of another server."""
        self._sent_at = 0
        """Up to where the server has sent the current file, as its last heartbeat says."""
        self._in_transaction = self._is_standalone = False
        self._replays = False
        self._events = 0
        self._gtid: Gtid | MariaDbGtid | None = None
        self._shown: tuple[Gtid | MariaDbGtid, str | None] | None = None
        """A GTID and its text, which is needed several times."""

    def copy(self) -> BinlogPositionTracker:
        """Returns a tracker that follows the same events from here on."""
        found = copy(self)
        found._gtids = None if self._gtids is None else self._gtids.copy()
        return found

    @property
    def position(self) -> BinlogPosition:
        """Where to continue after a restart, if all events that were tracked are completed."""
        return self._position_at(self._events, 0) if self._in_transaction else self._position

    @property
    def reached(self) -> BinlogPosition | None:
        """Up to where everything in the log of this server is completed, and the transactions that are.

        None inside a transaction, and until :attr:`is_placed`. It may be further than ``position``: the server says in heartbeats
        what it has passed.
        """
        if self._in_transaction or not self.is_placed:
            return None
        return BinlogPosition(self._file, max(self._at, self._sent_at), self._position.gtids)

    @property
    def file(self) -> str:
        """The current file."""
        return self._file

    @property
    def event_position(self) -> int:
        """Where the event that was tracked last begins in its file; that of the payload for an event in one."""
        return self._event_at

    @property
    def gtid(self) -> str | None:
        """The GTID of the current transaction; None without GTIDs, and between transactions."""
        if self._gtid is None:
            return None
        if self._shown is None or self._shown[0] is not self._gtid:
            self._shown = self._gtid, str(self._gtid) or None
        return self._shown[1]

    @property
    def is_in_transaction(self) -> bool:
        return self._in_transaction

    @property
    def is_replaying(self) -> bool:
        """Whether a part of the current transaction was completed before the restart."""
        return self._replays

    @property
    def is_completed(self) -> bool:
        """Whether the next event, as a whole, was completed before the restart: it must not have records. Its rows need not be
        decoded."""
        return self._replays and self._start is not None and self._events < self._start.events

    def skipped_rows(self, count: int) -> int:
        """Returns how many of the next event's rows were completed before the restart."""
        if not self._replays or self._start is None or self._events > self._start.events:
            return 0
        return count if self._events < self._start.events else min(count, self._start.rows)

    def position_in_rows(self, done: int) -> BinlogPosition:
        """The position after ``done`` rows of the current rows event."""
        return self._position_at(self._events, done) if self._in_transaction else self._position

    def position_of(self, header: EventHeader) -> int:
        """Where the next event, of which this is the header, begins in its file; that of the payload for an event in one."""
        return max(self._end_of(header) - header.event_size, 0) if header.next_position else self._event_at

    def finish_rows(self, header: EventHeader) -> None:
        """The current rows event is completed."""
        self._advance(header)
        self._count()

    def track(self, event: Event) -> None:
        """Follows any other event, after it was handled."""
        header = event.header
        if isinstance(event, TableMapEvent):
            self._advance(header)
            self._count()
            return
        if isinstance(event, Rotate):
            self._start_file(event)
            return
        if isinstance(event, HeartbeatEvent):
            if event.file == self._file:
                self._sent_at = event.position
            return
        if header.is_artificial:
            return
        if isinstance(event, FormatDescription):
            # It is sent again, without a position, at the beginning of a stream.
            if header.next_position > self._at:
                self._advance(header)
                self._move()
            return
        self._advance(header)
        match event:
            case MariaDbGtidEvent():
                self._gtid = event.gtid
                self._begin(is_standalone=event.is_standalone)
            case Gtid():
                self._gtid = event
            case Query():
                self._track_query(event.sql)
            case Xid() | XaPrepare():
                self._complete()
            case TransactionPayload():
                pass  # its own events count
            case _:
                self._count()

    def _track_query(self, sql: bytes) -> None:
        text = sql[:16].strip().upper() if len(sql) <= 16 else sql[:16].upper()
        if not self._in_transaction:
            if text == b"BEGIN" or text.startswith(_XA_BEGINS) or sql[-_TAIL:].rstrip().upper().endswith(_CREATE_SELECT):
                self._begin(is_standalone=False)
            else:
                self._complete()
        elif self._is_standalone or text in _ENDS or text.startswith(_XA_ENDS):
            self._complete()
        else:
            self._count()

    def _start_file(self, event: Rotate) -> None:
        """Continues in another file. A transaction never spans files: one without its end was lost in a crash of the server.

        What was completed of it must not be skipped of another one: the server may even assign its GTID again.
        """
        self._file, self._at, self._event_at = event.file, event.position, event.position
        self.is_placed, self._sent_at = True, 0
        if self._replays:
            self._start = None
        self._in_transaction = self._replays = False
        self._gtid = None
        self._move()

    def _advance(self, header: EventHeader) -> None:
        """Moves behind an event. Those in a payload have no positions."""
        if header.next_position:
            self._at = end = self._end_of(header)
            self._event_at = max(end - header.event_size, 0)

    def _end_of(self, header: EventHeader) -> int:
        """The position behind the next event: headers have 32 bits of it."""
        end = (self._at & ~_MOST_POSITION) + header.next_position
        return end if end >= self._at else end + _MOST_POSITION + 1

    def _begin(self, *, is_standalone: bool) -> None:
        self._position = BinlogPosition(self._file, self._event_at, self._gtids_text)
        self._in_transaction, self._is_standalone = True, is_standalone
        self._events = 1
        start = self._start
        # Only its place identifies the transaction in progress at the restart. Another server, or the same one after a crash that
        # lost it, may have a transaction with its GTID that consists of other events: that one is read as a whole (promise 5).
        if start is None:
            return
        if (self._file, self._event_at) == (start.file, start.position):
            if self._gtid is None and start.tx_gtid is not None and self._gtids is not None:
                # The stream begins behind the GTID event of MySQL.
                self._gtid = _parse_gtid(start.tx_gtid)
            self._replays = start.tx_gtid is None or self.gtid is None or start.tx_gtid == self.gtid
        elif start.tx_gtid is not None and start.tx_gtid == self.gtid:
            self._start = None

    def _count(self) -> None:
        if self._in_transaction:
            self._events += 1
        elif self._gtid is None:
            self._move()

    def _complete(self) -> None:
        if self._gtids is not None and self._gtid is not None:
            _add(self._gtids, self._gtid)
            self._gtids_text = _text_of(self._gtids)
        if self._replays:
            self._start, self._replays = None, False
        was_in_transaction, self._in_transaction = self._in_transaction, False
        self._gtid = None
        if self._at > _MOST_POSITION and self._gtids is None and was_in_transaction:
            # The protocol cannot start here. The file ends after this transaction, because it is too large.
            self._position = self._position_at(self._events + 1, 0)
        else:
            self._move()

    def _move(self) -> None:
        """Sets the position between transactions. It stays at the one in progress at the restart until that is passed."""
        if self._in_transaction:
            return
        if self._start is not None and not is_place_at_or_before(BinlogPosition(self._file, self._at), self._start):
            # Its place comes no more: the stream is past it, or reads another server, whose files have other names.
            self._start = None
        if self._start is None:
            self._position = BinlogPosition(self._file, self._at, self._gtids_text)
        else:
            self._position = replace(self._start, gtids=self._gtids_text)

    def _position_at(self, events: int, rows: int) -> BinlogPosition:
        begin = self._position
        if self._replays and self._start is not None:
            events, rows = max((events, rows), (self._start.events, self._start.rows))
        return BinlogPosition(begin.file, begin.position, begin.gtids, events, rows, self.gtid)


def _text_of(gtids: Gtids | None) -> str | None:
    return None if gtids is None else str(gtids) or None


def _add(gtids: Gtids, gtid: Gtid | MariaDbGtid) -> None:
    if isinstance(gtids, GtidSet) and isinstance(gtid, Gtid):
        if gtid.uuid:
            gtids.add(gtid.uuid, gtid.tag, gtid.sequence)
    elif isinstance(gtids, MariaDbGtidPosition) and isinstance(gtid, MariaDbGtid):
        gtids.advance(gtid)


def _parse_gtid(text: str) -> Gtid | MariaDbGtid:
    if ":" not in text:
        return MariaDbGtid.parse(text)
    ((uuid, tag, sequence, _),) = GtidSet.parse(text)
    header = EventHeader(0, 0, 0, 0, 0, 0)
    return Gtid(header, uuid, tag, sequence, 0, None, None, None, None, None, None, None, None)
