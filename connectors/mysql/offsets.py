"""Positions in the binary log, and Debezium's offsets that store them.

An offset names where the transaction in progress begins, and how many of its events and rows are completed. Debezium counts
events from the transaction's BEGIN (MySQL) or GTID event (MariaDB) on, that event included. ``row`` counts completed rows of the
event after those; after its last row, that is all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from connect.errors import DataError
from connectors.cdc.offsets import INCREMENTAL, TRANSACTION_COUNT, TRANSACTION_ID
from connectors.mysql.binlog import GtidSet, MariaDbGtid, MariaDbGtidPosition

SERVER_ID, GTIDS, FILE, POSITION, EVENT, ROW = "server_id", "gtids", "file", "pos", "event", "row"
TIMESTAMP, SNAPSHOT, SNAPSHOT_COMPLETED = "ts_sec", "snapshot", "snapshot_completed"

# Our own keys in addition to Debezium's, which ignores and removes them.
TX_GTID = "tx_gtid"
"""The GTID of the transaction in progress: another server may have another one at its place."""
SERVER_UUID = "server_uuid"
"""The server that was read from: files and positions mean something only there. Stored offsets have it; those of records only
after a failover."""
SNAPSHOT_STATE = "snapshot_state"
"""What of an incomplete snapshot is completed."""

Gtids = GtidSet | MariaDbGtidPosition
_MARIADB = re.compile(r"\s*\d+-\d+-\d+\s*(,\s*\d+-\d+-\d+\s*)*")
_FILE = re.compile(r"(.*?)\.(\d+)")


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """Where to continue.

    What is before ``position`` of ``file`` is completed, and so are the transactions of ``gtids`` (canonical text, None without
    GTIDs). Of the transaction that begins there, whose GTID is ``tx_gtid`` if it is known, ``events`` events and the first
    ``rows`` rows of the next event are completed too.
    """

    file: str
    position: int
    gtids: str | None = None
    events: int = 0
    rows: int = 0
    tx_gtid: str | None = None

    @property
    def is_in_transaction(self) -> bool:
        """Whether a part of a transaction is completed."""
        return bool(self.events or self.rows)

    def at_transaction_start(self) -> BinlogPosition:
        """The position without the completed part of the transaction, for a server whose events may be divided differently."""
        return replace(self, events=0, rows=0, tx_gtid=None)


@dataclass(frozen=True, slots=True)
class StoredBinlogOffset:
    """A parsed offset. ``snapshot_completed`` is True for streaming offsets too; an offset may lack ``server_uuid``."""

    position: BinlogPosition
    snapshot_completed: bool
    server_id: int | None = None
    server_uuid: str | None = None
    ts_sec: int | None = None
    snapshot_state: str | None = None
    transaction: Mapping[str, Any] = field(default_factory=dict)
    """The members with the counts of a transaction in progress (``provide.transaction.metadata``)."""
    extras: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The whole offset, for those that add to it."""


def parse_offset(offset: Mapping[str, Any]) -> StoredBinlogOffset:
    """Parses an offset stored by Sluice or Debezium. Raises DataError if it has no position."""
    if not isinstance(offset.get(FILE), str):
        raise DataError(
            f"the stored offset {dict(offset)!r} has no {FILE!r}: it does not belong to a MySQL or MariaDB source; delete the "
            "connector's offsets"
        )
    in_snapshot = offset.get(SNAPSHOT) not in (None, False, "false", INCREMENTAL)
    completed = not in_snapshot or offset.get(SNAPSHOT_COMPLETED) in (True, "true")
    gtids = parse_gtids(offset.get(GTIDS))
    position = BinlogPosition(
        file=offset[FILE],
        position=_number(offset, POSITION),
        gtids=None if gtids is None else str(gtids),
        events=_number(offset, EVENT),
        rows=_number(offset, ROW),
        tx_gtid=offset.get(TX_GTID),
    )
    counts = {name: value for name, value in offset.items() if name == TRANSACTION_ID or name.startswith(TRANSACTION_COUNT)}
    return StoredBinlogOffset(
        position,
        completed,
        None if offset.get(SERVER_ID) is None else _number(offset, SERVER_ID),
        offset.get(SERVER_UUID),
        None if offset.get(TIMESTAMP) is None else _number(offset, TIMESTAMP),
        None if completed else offset.get(SNAPSHOT_STATE),
        counts,
        offset,
    )


def _number(offset: Mapping[str, Any], name: str) -> int:
    value = offset.get(name) or 0
    try:
        return int(value)
    except (TypeError, ValueError) as e:
        raise DataError(f"the position {dict(offset)!r} has {name}={value!r}; expected an integer") from e


def parse_gtids(text: str | None) -> Gtids | None:
    """Parses the GTIDs of an offset: MySQL's set or MariaDB's position; None if it has none. Raises DataError.

    Debezium stores a GTID per server of a MariaDB domain; the highest one is the position.
    """
    if text is None or not text.strip():
        return None
    if _MARIADB.fullmatch(text):
        return MariaDbGtidPosition.latest(MariaDbGtid.parse(part) for part in text.split(","))
    return GtidSet.parse(text)


def stream_offset(
    position: BinlogPosition, server_id: int, ts_sec: int | None, transaction: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the offset of a streamed record: ``server_id`` and ``ts_sec`` are those of its event."""
    offset: dict[str, Any] = {} if transaction is None else dict(transaction)
    if server_id:
        offset[SERVER_ID] = server_id
    if position.gtids is not None:
        offset[GTIDS] = position.gtids
    offset[FILE] = position.file
    offset[POSITION] = position.position
    if position.events:
        offset[EVENT] = position.events
    if position.rows:
        offset[ROW] = position.rows
    if ts_sec is not None:
        offset[TIMESTAMP] = ts_sec
    if position.tx_gtid is not None and position.is_in_transaction:
        offset[TX_GTID] = position.tx_gtid
    return offset


def snapshot_offset(
    position: BinlogPosition, ts_sec: int, *, last: bool, state: str | None = None, kind: str = "INITIAL"
) -> dict[str, Any]:
    """Returns the offset of snapshot rows. Only the offset of the last row marks the snapshot as complete.

    ``state`` says which rows are completed, those with this offset included. ``kind`` is INITIAL or BLOCKING.
    """
    offset = stream_offset(position, 0, ts_sec) | {SNAPSHOT: kind, SNAPSHOT_COMPLETED: last}
    return offset if state is None or last else offset | {SNAPSHOT_STATE: state}


def with_server(offset: Mapping[str, Any], server_uuid: str | None) -> dict[str, Any]:
    """The offset with the server that was read from, which it may have already."""
    return dict(offset) if server_uuid is None else {SERVER_UUID: server_uuid, **offset}


def is_at_or_before(
    recorded: Mapping[str, Any], desired: Mapping[str, Any], reads_source: Callable[[str], bool] | None = None
) -> bool:
    """Whether one offset is at or before another one, as Debezium orders them for the schema history.

    ``reads_source`` says which sources of GTIDs are read (``gtid.source.*``); None: all. Others count only if the desired offset
    has them: Debezium removes them at each start, and a server may lack them.

    With GTIDs in both, sets decide. An offset without GTIDs is before one with them, because they were enabled in between.
    Positions of different servers are ordered by time; an offset of a snapshot has no server. Files with another base name are
    before, because their numbers say nothing. Raises DataError for an offset that cannot be read.
    """
    ours, theirs = (parse_gtids(offset.get(GTIDS)) for offset in (recorded, desired))
    if ours is not None and theirs is not None and reads_source is not None:
        ours = _counted(ours, theirs, reads_source)
    if theirs is not None:
        return ours is None or _is_contained(recorded, ours, desired, theirs)
    if ours is not None:
        return False
    one, other = recorded.get(SERVER_ID), desired.get(SERVER_ID)
    if one is not None and other is not None and _number(recorded, SERVER_ID) != _number(desired, SERVER_ID):
        return _number(recorded, TIMESTAMP) <= _number(desired, TIMESTAMP)
    (base, number), (their_base, their_number) = _file_order(recorded), _file_order(desired)
    if base != their_base:
        return True
    return (number, *_within(recorded)) <= (their_number, *_within(desired))


def is_statement_at(recorded: Mapping[str, Any], before: BinlogPosition, after: BinlogPosition, server_id: int) -> bool:
    """Whether a position of Debezium's schema history is that of a statement between two positions of the log.

    ``server_id`` is that of the statement. With GTIDs, Debezium's records and its offset behind a statement do not have the GTID
    of the statement yet, so that the server sends it once more. Those of MySQL have the position behind the statement, those of
    MariaDB that of the GTID event, which is completed.
    """
    if _number(recorded, SERVER_ID) not in (0, server_id):
        return False
    place = recorded.get(FILE), _number(recorded, POSITION)
    if place == (after.file, after.position):
        return True
    return place == (before.file, before.position) and 0 < before.events <= _number(recorded, EVENT)


def keep_sources(gtids: Gtids, reads_source: Callable[[str], bool]) -> Gtids:
    """Returns the GTIDs of some sources: a server's UUID, or ``<domain>-<server>`` of MariaDB."""
    if isinstance(gtids, MariaDbGtidPosition):
        return MariaDbGtidPosition(gtid for gtid in gtids if reads_source(f"{gtid.domain}-{gtid.server_id}"))
    return GtidSet(part for part in gtids if reads_source(part[0]))


def _counted(ours: Gtids, theirs: Gtids, reads_source: Callable[[str], bool]) -> Gtids:
    """Our GTIDs, without those of sources that are not read and that they lack."""
    if isinstance(theirs, GtidSet):
        sources = set(theirs.sources)
        return keep_sources(ours, lambda source: reads_source(source) or source in sources)
    domains = {str(gtid.domain) for gtid in theirs}
    return keep_sources(ours, lambda source: reads_source(source) or source.partition("-")[0] in domains)


def _is_contained(recorded: Mapping[str, Any], ours: Gtids, desired: Mapping[str, Any], theirs: Gtids) -> bool:
    if ours == theirs:
        if _is_snapshot(desired) and not _is_snapshot(recorded):
            return False
        return _number(recorded, EVENT) <= _number(desired, EVENT)
    if isinstance(ours, GtidSet) and isinstance(theirs, GtidSet):
        return ours.is_subset(theirs)
    if isinstance(ours, MariaDbGtidPosition) and isinstance(theirs, MariaDbGtidPosition):
        return ours.is_subset(theirs)
    return True  # the database was migrated between MySQL and MariaDB


def _is_snapshot(offset: Mapping[str, Any]) -> bool:
    return offset.get(SNAPSHOT) not in (None, False, "false")


def _within(offset: Mapping[str, Any]) -> tuple[int, int, int]:
    return _number(offset, POSITION), _number(offset, EVENT), _number(offset, ROW)


def has_other_files(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two offsets without GTIDs are in files with different base names. Raises DataError."""
    return not one.get(GTIDS) and not other.get(GTIDS) and _file_order(one)[0] != _file_order(other)[0]


def split_file_name(name: str) -> tuple[str, int] | None:
    """Returns the base name and the number of a file: ``binlog.000012`` is ("binlog", 12). None for a name without a number."""
    found = _FILE.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


class LogPlace(Protocol):
    """A place in the log of one server."""

    @property
    def file(self) -> str: ...
    @property
    def position(self) -> int: ...


def is_place_at_or_before(one: LogPlace, other: LogPlace) -> bool:
    """Compares places in the log of one server; False if their files show that they are of different servers."""
    if one.file == other.file:
        return one.position <= other.position
    ours, theirs = split_file_name(one.file), split_file_name(other.file)
    return ours is not None and theirs is not None and ours[0] == theirs[0] and ours[1] < theirs[1]


def _file_order(offset: Mapping[str, Any]) -> tuple[str, int]:
    name = offset.get(FILE)
    found = split_file_name(name) if isinstance(name, str) else None
    if found is None:
        raise DataError(f"the position {dict(offset)!r} has {FILE}={name!r}; expected a name like mysql-bin.000003")
    return found
