"""Debezium's signal ``set-binlog-position``: the stream continues at another place of the binary log.

A request is part of offsets until the stream has moved, so a restart does not lose it. The IDs of signals that were carried out
stay there: a stream that goes back reads the row of the signal table again, and must not move once more.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from connect.errors import ConnectError, DataError
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.mysql.binlog import GtidSet, MariaDbGtidPosition
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import BinlogPosition, Gtids, parse_gtids
from connectors.mysql.server import BinlogFile, ServerInfo, read_executed, read_files, read_purged

log = logging.getLogger(__name__)

SIGNAL_TYPE: Final = "set-binlog-position"
_STATE: Final = "binlog_position_signals"
"""Our own key in offsets: the request that waits, and the IDs of those that are done."""
_MOST_IDS: Final = 20
_FILE, _POSITION, _GTIDS = "binlog_filename", "binlog_position", "gtid_set"
_FIRST: Final = 4
"""The position of the first event in a file."""
_NO_HISTORY: Final = ". Statements that alter tables are skipped, too, and missing in the schema history"
_BETWEEN_TRANSACTIONS: Final = frozenset(
    {
        "Format_desc", "Previous_gtids", "Gtid_list", "Binlog_checkpoint", "Start_encryption", "Rotate", "Stop", "Gtid",
        "Anonymous_Gtid",
    }
)  # fmt: skip
"""Events that begin a transaction, or that are in none, as SHOW BINLOG EVENTS names them."""


@dataclass(frozen=True, slots=True)
class PositionRequest:
    """Where a signal wants the stream: GTIDs, or a position in a file."""

    signal_id: str
    gtids: str | None
    file: str
    position: int

    def __str__(self) -> str:
        return self.gtids if self.gtids is not None else f"{self.file}:{self.position}"


def parse_request(signal_id: str, data: Mapping[str, Any]) -> PositionRequest:
    """Parses the data of a signal. Raises DataError."""
    gtids, file, position = data.get(_GTIDS) or None, data.get(_FILE) or None, data.get(_POSITION)
    if (gtids is None) == (file is None and position is None):
        raise DataError(f"it needs either {_GTIDS}, or {_FILE} and {_POSITION}")
    if gtids is not None:
        if not isinstance(gtids, str) or (parsed := parse_gtids(gtids)) is None:
            raise DataError(f"{_GTIDS} must be a text with GTIDs, not {gtids!r}")
        return PositionRequest(signal_id, str(parsed), "", 0)
    if not isinstance(file, str):
        raise DataError(f"{_FILE} must be the name of a file, such as binlog.000003, not {file!r}")
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        raise DataError(f"{_POSITION} must be a number of 0 or more, not {position!r}")
    return PositionRequest(signal_id, None, file, max(position, _FIRST))


class BinlogPositionSignal:
    """Keeps the request until it is carried out (a SourceSignal). Not thread-safe."""

    type = SIGNAL_TYPE

    def __init__(self, extras: OffsetExtras, stored: Mapping[str, Any]) -> None:
        """``stored`` is the stored offset."""
        self._extras = extras
        state = json.loads(stored.get(_STATE) or "{}")
        pending = state.get("pending")
        self.pending = None if pending is None else PositionRequest(**pending)
        self._done: list[str] = state.get("done") or []
        if state:
            self._store()

    def check(self, data: Mapping[str, Any]) -> None:
        parse_request("", data)

    def handle(self, signal_id: str, data: Mapping[str, Any]) -> None:
        request = parse_request(signal_id, data)
        if signal_id in self._done:
            log.info("signal %s: the stream has moved to %s already; use another ID to move it again", signal_id, request)
            return
        log.info("signal %s: the stream shall continue at %s", signal_id, request)
        self.pending = request
        self._store()

    def finish(self, request: PositionRequest) -> None:
        """The request is carried out, or refused."""
        self._done = [*self._done, request.signal_id][-_MOST_IDS:]
        self.pending = None
        self._store()

    def _store(self) -> None:
        state = {"pending": None if self.pending is None else asdict(self.pending), "done": self._done}
        self._extras.set_offset_extras(self, {_STATE: json.dumps(state, separators=(",", ":"))})


@dataclass(frozen=True, slots=True)
class StreamMove:
    """A place that the server has. ``effect`` says what is not read, or read again."""

    target: BinlogPosition
    effect: str


def plan_move(
    connection: MySqlConnection, server: ServerInfo, request: PositionRequest, current: BinlogPosition, settings: MySqlConfig
) -> StreamMove:
    """Finds the place of a request. Raises DataError if the server does not have it, or the stream cannot begin there."""
    if request.gtids is not None:
        return _move_to_gtids(connection, server, request.gtids, current, settings)
    if server.uses_gtids and not server.is_mariadb and not settings.binlog.ignores_gtids:
        raise DataError(f"the server has GTIDs (gtid_mode=ON), which decide where a stream begins: give {_GTIDS} instead")
    files = read_files(connection)
    _check_place(connection, request, files)
    gtids = None
    if server.is_mariadb:
        gtids = connection.query("SELECT BINLOG_GTID_POS(%s, %s)", (request.file, request.position))[0][0]
        gtids = None if gtids is None else str(parse_gtids(gtids) or "") or None
    target = BinlogPosition(request.file, request.position, gtids)
    return StreamMove(target, _describe_bytes(files, current, target))


def _move_to_gtids(
    connection: MySqlConnection, server: ServerInfo, text: str, current: BinlogPosition, settings: MySqlConfig
) -> StreamMove:
    if not server.uses_gtids:
        raise DataError(f"the server has no GTIDs (gtid_mode): give {_FILE} and {_POSITION} instead")
    if settings.binlog.ignores_gtids:
        raise DataError(f"gtid.ignore.on.recovery=true continues at positions in files: give {_FILE} and {_POSITION} instead")
    gtids, known = parse_gtids(text), parse_gtids(current.gtids)
    if isinstance(gtids, MariaDbGtidPosition) is not server.is_mariadb or gtids is None:
        example = "0-1-100" if server.is_mariadb else "<server_uuid>:1-100"
        raise DataError(f"{text} are not GTIDs of this kind of server; they are like {example}")
    if missing := str(_subtract(gtids, read_executed(connection, server))):
        raise DataError(f"the server has not executed {missing[:200]}")
    purged = _read_first_gtids(connection) if server.is_mariadb else read_purged(connection, server)
    if lost := str(_subtract(purged, gtids)):
        raise DataError(f"the server has removed transactions up to {lost[:200]} from its log, and those after {text} are needed")
    target = replace(current, gtids=text, events=0, rows=0, tx_gtid=None)
    if known is None:
        return StreamMove(target, f"changes in between are skipped, or emitted again{_NO_HISTORY}")
    skipped, repeated = str(_subtract(gtids, known)), str(_subtract(known, gtids))
    if server.is_mariadb:
        skipped, repeated = (f"up to {part}" if part else "" for part in (skipped, repeated))
    effect = f"skipped transactions: {skipped or 'none'}; transactions emitted again: {repeated or 'none'}"
    return StreamMove(target, effect + (_NO_HISTORY if skipped else ""))


def _subtract(one: Gtids, other: Gtids) -> Gtids:
    if isinstance(one, GtidSet) and isinstance(other, GtidSet):
        return one.subtract(other)
    if isinstance(one, MariaDbGtidPosition) and isinstance(other, MariaDbGtidPosition):
        return one.subtract(other)
    return one


def _read_first_gtids(connection: MySqlConnection) -> MariaDbGtidPosition:
    """The transactions of MariaDB that precede the oldest file."""
    oldest = read_files(connection)[0].name
    for row in connection.query("SHOW BINLOG EVENTS IN %s LIMIT 4", (oldest,)):
        if row[2] == "Gtid_list":
            found = parse_gtids(str(row[5]).strip("[]"))
            return found if isinstance(found, MariaDbGtidPosition) else MariaDbGtidPosition()
    return MariaDbGtidPosition()


def _check_place(connection: MySqlConnection, request: PositionRequest, files: Sequence[BinlogFile]) -> None:
    """Raises DataError unless a stream can begin at a position of a file: between two transactions."""
    sizes = {file.name: file.size_bytes for file in files}
    if request.file not in sizes:
        raise DataError(f"the server has no {request.file}; it has {', '.join(sizes)[:200]}")
    if request.position > sizes[request.file]:
        raise DataError(f"{request.file} has only {sizes[request.file]} bytes")
    try:
        rows = connection.query(f"SHOW BINLOG EVENTS IN %s FROM {request.position} LIMIT 1", (request.file,))
    except ConnectError as e:
        raise DataError(f"no event begins at position {request.position} of {request.file}: {e.message}") from e
    if rows and not _is_between_transactions(str(rows[0][2]), str(rows[0][5])):
        raise DataError(
            f"position {request.position} of {request.file} is inside a transaction ({rows[0][2]}): give one where a transaction "
            "begins, as SHOW BINLOG EVENTS lists them"
        )


def _is_between_transactions(event: str, info: str) -> bool:
    # Offsets of MySQL have the place of BEGIN, behind the GTID event.
    return event in _BETWEEN_TRANSACTIONS or (event == "Query" and info == "BEGIN")


def _describe_bytes(files: Sequence[BinlogFile], current: BinlogPosition, target: BinlogPosition) -> str:
    names = [file.name for file in files]
    if current.file not in names:
        return f"changes behind {current.file}:{current.position}, which the server no longer has, are skipped{_NO_HISTORY}"
    begins: dict[str, int] = {}
    total = 0
    for file in files:
        begins[file.name] = total
        total += file.size_bytes
    distance = begins[target.file] + target.position - begins[current.file] - current.position
    what = f"changes in {abs(distance)} bytes of the log"
    return f"{what} are skipped{_NO_HISTORY}" if distance > 0 else f"{what} are emitted again"
