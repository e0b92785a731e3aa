"""Scripted streams with a restart at every point: each row is emitted exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from connectors.mysql.binlog import (
    FormatDescription,
    Gtid,
    GtidSet,
    HeartbeatEvent,
    MariaDbGtid,
    MariaDbGtidEvent,
    MariaDbGtidPosition,
    OtherEvent,
    Query,
    Rotate,
    TransactionPayload,
    XaPrepare,
    Xid,
)
from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.offsets import BinlogPosition, Gtids, parse_gtids, parse_offset, stream_offset
from connectors.mysql.position_tracker import BinlogPositionTracker

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SIZE = 50
_ROWS, _OTHER = 30, 19


@dataclass(frozen=True)
class Rows:
    """A rows event."""

    header: EventHeader
    rows: tuple[int, ...]


@dataclass
class Script:
    """A server's log: events by file, in transactions. ``begin`` creates the events that begin one."""

    kind: str
    size: int = SIZE
    files: dict[str, list[tuple[str | None, Any, list[Any]]]] = field(default_factory=dict)
    """Of each file: the GTID of each event, the event, and those in it."""
    _sequence: int = 0
    _row: int = 0
    _at: int = 4
    _gtid: str | None = None

    def header(self, code: int = _OTHER) -> EventHeader:
        self._at += self.size
        return EventHeader(1, code, 1, self.size, self._at & 0xFFFFFFFF, 0)

    def add(self, event: Any, inner: list[Any] | None = None) -> None:
        list(self.files.values())[-1].append((self._gtid, event, inner or []))

    def file(self) -> None:
        if self.files:
            self.add(Rotate(self.header(), self._name(len(self.files) + 1), 4))
        self._at = 4
        self.files[self._name(len(self.files) + 1)] = []
        self.add(FormatDescription(self.header(), 4, "", 0, 19, b"", 1))
        self.add(OtherEvent(self.header(), True))

    @staticmethod
    def _name(number: int) -> str:
        return f"binlog.{number:06d}"

    def _begin(self, *, standalone: bool = False) -> list[Any]:
        self._sequence += 1
        if self.kind == "mariadb":
            self._gtid = f"0-1-{self._sequence}"
            self.add(mariadb_gtid(self.header(), self._gtid, standalone=standalone))
            return []
        self._gtid = f"{UUID}:{self._sequence}" if self.kind in ("mysql", "payload") else None
        if self._gtid is not None:
            self.add(mysql_gtid(self.header(), self._sequence))
        return [] if standalone else [b"BEGIN"]

    def transaction(self, *events: int, end: bytes | None = None, begin: bytes | None = None) -> None:
        """A transaction with a rows event of each number of rows, with a table map in front."""
        statements = self._begin()
        if begin is not None:
            statements = [begin]
        inner: list[Any] = []
        in_payload = self.kind == "payload"
        header = (lambda code=_OTHER: EventHeader(1, code, 1, self.size, 0, 0)) if in_payload else self.header
        place: Callable[[Any], None] = inner.append if in_payload else self.add
        for sql in statements:
            place(query(header(), sql))
        for count in events:
            place(OtherEvent(header(), True))
            place(Rows(header(_ROWS), tuple(range(self._row, self._row + count))))
            self._row += count
        if end == b"XA PREPARE":
            place(XaPrepare(header(), False, 1, b"g", b""))
        else:
            place(Xid(header(), 1) if end is None else query(header(), end))
        if in_payload:
            self.add(TransactionPayload(self.header(40), 255, None, b""), inner)
        self._gtid = None

    def ddl(self) -> None:
        self._begin(standalone=True)
        self.add(query(self.header(), b"CREATE TABLE t (id INT)"))
        self._gtid = None

    @property
    def rows(self) -> list[int]:
        return list(range(self._row))

    def send(self, position: BinlogPosition, gtids: Gtids | None) -> Iterator[tuple[Any, list[Any]]]:
        """Sends the events, as the server does: by position, or by what is completed."""
        found = False
        for name, events in self.files.items():
            if gtids is None and not found and name != position.file:
                continue
            yield Rotate(EventHeader(0, 4, 1, SIZE, 0, 0x20), name, 4 if gtids is not None or found else position.position), []
            yield FormatDescription(EventHeader(0, 15, 1, SIZE, 0, 0), 4, "", 0, 19, b"", 1), []
            at = 4
            for gtid, event, inner in events:
                at += self.size
                if gtids is None and not found and at - self.size < position.position:
                    continue
                if gtids is not None and gtid is not None and contains(gtids, gtid):
                    continue
                yield event, inner
            found = True
            yield HeartbeatEvent(EventHeader(0, 27, 1, SIZE, at & 0xFFFFFFFF, 0), name, at), []


def contains(gtids: Gtids, text: str) -> bool:
    if isinstance(gtids, MariaDbGtidPosition):
        return gtids.contains(MariaDbGtid.parse(text))
    return GtidSet.parse(text).is_subset(gtids)


def query(header: EventHeader, sql: bytes) -> Query:
    return Query(header, "db", sql, 1, 0, 0, False, *[None] * 14)


def mysql_gtid(header: EventHeader, sequence: int) -> Gtid:
    return Gtid(header, UUID, "", sequence, 0, *[None] * 8)


def mariadb_gtid(header: EventHeader, text: str, *, standalone: bool) -> MariaDbGtidEvent:
    return MariaDbGtidEvent(header, MariaDbGtid.parse(text), 1 if standalone else 0, None, None, 0, 0, None, None)


def read(
    script: Script, position: BinlogPosition, gtids: Gtids | None, most: int, *, late: bool = False
) -> tuple[list[int], BinlogPosition]:
    """Emits at most some rows; returns them, and the position in the offset of the last one, or of the end of the stream.

    ``late``: the position before the next row, which a heartbeat could have stored.
    """
    tracker = BinlogPositionTracker(position, gtids)
    emitted: list[int] = []
    last = tracker.position
    for event, inner in script.send(position, gtids):
        for one in (event, *inner):
            if not isinstance(one, Rows):
                tracker.track(one)
                continue
            first = tracker.skipped_rows(len(one.rows)) if tracker.is_replaying else 0
            assert not tracker.is_completed or first == len(one.rows)
            for number in range(first, len(one.rows)):
                if len(emitted) == most:
                    return emitted, last
                emitted.append(one.rows[number])
                last = tracker.position_in_rows(number + 1)
                if len(emitted) == most and not late:
                    return emitted, last
            tracker.finish_rows(one.header)
        last = tracker.position
    return emitted, tracker.position


def store(position: BinlogPosition) -> BinlogPosition:
    return parse_offset(stream_offset(position, 1, 1)).position


def full_script(kind: str) -> Script:
    script = Script(kind)
    script.file()
    script.transaction(3, 1, 2)
    script.ddl()
    script.transaction(1)
    script.file()
    script.transaction(2, 2, end=b"COMMIT")
    script.transaction(1, 3, begin=b"XA START 'x'" if kind != "mariadb" else None, end=b"XA PREPARE")
    script.transaction(2)
    return script


def first_gtids(kind: str) -> Gtids | None:
    if kind == "mariadb":
        return MariaDbGtidPosition()
    return None if kind == "file" else GtidSet()


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("by_gtid", [True, False])
@pytest.mark.parametrize("kind", ["mysql", "payload", "mariadb", "file"])
def test_each_row_is_emitted_once_with_a_restart_after_every_row(kind: str, by_gtid: bool, late: bool) -> None:
    script = full_script(kind)
    begin = BinlogPosition("binlog.000001", 4)
    for cut in range(len(script.rows) + 1):
        first, position = read(script, begin, first_gtids(kind) if by_gtid else None, cut, late=late)
        position = store(position)
        gtids = parse_gtids(position.gtids) or first_gtids(kind) if by_gtid else None
        rest, _ = read(script, position, gtids, 1000)
        assert first + rest == script.rows, (cut, position)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("kind", ["mysql", "payload", "mariadb", "file"])
def test_each_row_is_emitted_once_with_restarts_after_each_row(kind: str, late: bool) -> None:
    script = full_script(kind)
    position, gtids, rows = BinlogPosition("binlog.000001", 4), first_gtids(kind), []
    for _ in range(len(script.rows) + 1):
        part, position = read(script, position, gtids, 1, late=late)
        position = store(position)
        gtids = parse_gtids(position.gtids) or first_gtids(kind)
        rows += part
    assert rows == script.rows


def test_offsets_count_events_and_rows_as_debezium_does() -> None:
    script = Script("mysql")
    script.file()
    script.transaction(2, 2)
    _, position = read(script, BinlogPosition("binlog.000001", 4), GtidSet(), 1)
    # BEGIN and one TABLE_MAP are completed, and one row of the event after them. The position is that of BEGIN, behind its GTID.
    assert stream_offset(position, 223344, 1700000000) == {
        "server_id": 223344,
        "file": "binlog.000001",
        "pos": 4 + 3 * SIZE,
        "event": 2,
        "row": 1,
        "ts_sec": 1700000000,
        "tx_gtid": f"{UUID}:1",
    }
    _, position = read(script, BinlogPosition("binlog.000001", 4), GtidSet(), 4)
    assert (position.events, position.rows, position.gtids) == (4, 2, None)
    _, position = read(script, BinlogPosition("binlog.000001", 4), GtidSet(), 100)
    assert (position.events, position.rows, position.gtids) == (0, 0, f"{UUID}:1")


def test_mariadb_counts_from_the_gtid_event() -> None:
    script = Script("mariadb")
    script.file()
    script.transaction(2)
    _, position = read(script, BinlogPosition("binlog.000001", 4), MariaDbGtidPosition(), 1)
    assert (position.position, position.events, position.rows) == (4 + 2 * SIZE, 2, 1)


@pytest.mark.parametrize(
    ("file", "tx_gtid"),
    [("other.000009", "0-1-2"), ("other.000009", None), ("binlog.000009", "0-1-2"), ("binlog.000001", "0-1-2")],
)
def test_nothing_is_skipped_after_a_failover(file: str, tx_gtid: str | None) -> None:
    script = Script("mariadb")
    script.file()
    script.transaction(3)
    script.transaction(3)
    # The other server may divide the transaction into other events.
    rows, end = read(script, BinlogPosition(file, 154, None, 2, 2, tx_gtid), MariaDbGtidPosition(), 100)
    assert rows == [0, 1, 2, 3, 4, 5]
    assert end == BinlogPosition("binlog.000001", script._at, "0-1-2")


def test_the_position_does_not_move_back_while_a_transaction_is_replayed() -> None:
    script = Script("mariadb")
    script.file()
    script.transaction(3, 3)
    start = BinlogPosition("binlog.000001", 4 + 2 * SIZE, None, 4, 1, "0-1-1")
    tracker = BinlogPositionTracker(start, MariaDbGtidPosition())
    assert tracker.position == start
    for event, _ in script.send(start, MariaDbGtidPosition()):
        if isinstance(event, Rows):
            break
        tracker.track(event)
        assert tracker.position == start if tracker.is_in_transaction else tracker.position.events == 4


def test_a_transaction_without_its_end_is_dropped_at_the_next_file() -> None:
    tracker = BinlogPositionTracker(BinlogPosition("binlog.000001", 4), MariaDbGtidPosition())
    tracker.track(mariadb_gtid(EventHeader(1, 162, 1, SIZE, 54, 0), "0-1-1", standalone=False))
    tracker.finish_rows(EventHeader(1, _ROWS, 1, SIZE, 104, 0))
    tracker.track(Rotate(EventHeader(0, 4, 1, SIZE, 0, 0x20), "binlog.000002", 4))
    assert tracker.position == BinlogPosition("binlog.000002", 4)


def rows_after_crash(kind: str, *, by_gtid: bool, cut: int, knows_gtid: bool = True, truncates: bool = False) -> list[int]:
    """The rows after a restart within a transaction of two events with two rows, which a crash of the server removes: the file
    ends within it, or with ``truncates`` before it. The next file has a transaction of the same size, with the same GTID."""
    script = Script(kind)
    script.file()
    script.transaction(1)
    script.transaction(2, 2)
    gtids = first_gtids(kind) if by_gtid else None
    _, position = read(script, BinlogPosition("binlog.000001", 4), gtids, 1 + cut)
    position = replace(store(position), tx_gtid=position.tx_gtid if knows_gtid else None)
    events = script.files["binlog.000001"]
    begin = next(number for number, (_, event, _) in enumerate(events) if event.header.next_position > position.position)
    del events[begin if truncates else -2 :]
    script._sequence -= 1
    script._row = 100
    script.file()
    script.transaction(2, 2)
    gtids = parse_gtids(position.gtids) or first_gtids(kind) if by_gtid else None
    return [row for row in read(script, position, gtids, 1000)[0] if row >= 100]


@pytest.mark.parametrize("truncates", [True, False])
@pytest.mark.parametrize("knows_gtid", [True, False])
@pytest.mark.parametrize("by_gtid", [True, False])
@pytest.mark.parametrize("kind", ["mysql", "payload", "mariadb", "file"])
def test_no_row_is_lost_if_the_transaction_in_progress_is_gone(
    kind: str, by_gtid: bool, knows_gtid: bool, truncates: bool
) -> None:
    for cut in (1, 2, 3):
        found = rows_after_crash(kind, by_gtid=by_gtid, cut=cut, knows_gtid=knows_gtid, truncates=truncates)
        assert found == [100, 101, 102, 103], cut


def test_the_position_stays_until_the_transaction_in_progress_begins() -> None:
    script = Script("mysql")
    script.file()
    script.transaction(1)
    script.file()
    script.transaction(3)
    begin = BinlogPosition("binlog.000002", 4 + 3 * SIZE, f"{UUID}:1", 2, 2)
    tracker = BinlogPositionTracker(begin, GtidSet())
    # The filter of sources makes the server send a transaction that comes first.
    for event, _ in script.send(begin, GtidSet()):
        if isinstance(event, Rows):
            if tracker.is_replaying:
                assert tracker.skipped_rows(3) == 2
                break
            tracker.finish_rows(event.header)
        else:
            tracker.track(event)
        if not tracker.is_in_transaction:
            assert replace(tracker.position, gtids=None) == replace(begin, gtids=None)
    else:
        pytest.fail("the transaction in progress was not found")


def test_positions_beyond_4_gb_are_followed_and_not_requested() -> None:
    script = Script("file", size=1 << 30)
    script.file()
    script.transaction(1, 1, 1)
    script.file()
    script.transaction(1)
    rows, end = read(script, BinlogPosition("binlog.000001", 4), None, 1000)
    assert rows == [0, 1, 2, 3]
    rows, position = read(script, BinlogPosition("binlog.000001", 4), None, 3, late=True)
    assert position.position == 4 + (2 << 30)
    assert read(script, store(position), None, 1000)[0] == [3]
    assert end.file == "binlog.000002"
    tracker = BinlogPositionTracker(BinlogPosition("binlog.000001", 0xFFFFFFF0))
    tracker.track(query(EventHeader(1, 2, 1, SIZE, 0xFFFFFFF0 + SIZE & 0xFFFFFFFF, 0), b"BEGIN"))
    assert tracker.event_position == 0xFFFFFFF0
    tracker.track(Xid(EventHeader(1, 16, 1, SIZE, 0xFFFFFFF0 + 2 * SIZE & 0xFFFFFFFF, 0), 1))
    assert (tracker.position.position, tracker.position.events) == (0xFFFFFFF0, 2)
