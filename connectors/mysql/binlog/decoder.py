"""Decodes the events of a binary log, from a server or a file."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from connect.errors import DataError, UnsupportedError
from connectors.mysql.binlog import event_types as codes
from connectors.mysql.binlog.events import (
    HEADER_LENGTH,
    BinlogCheckpoint,
    EventHeader,
    FormatDescription,
    HeartbeatEvent,
    Incident,
    LoadedData,
    OtherEvent,
    Query,
    Rotate,
    RowsQuery,
    StatementContext,
    XaPrepare,
    Xid,
    read_header,
)
from connectors.mysql.binlog.format_description import decode_format_description
from connectors.mysql.binlog.gtid_events import (
    Gtid,
    MariaDbGtidEvent,
    MariaDbGtidList,
    PreviousGtids,
    decode_gtid,
    decode_mariadb_gtid,
    decode_mariadb_gtid_list,
    decode_tagged_gtid,
)
from connectors.mysql.binlog.gtid_set import GtidSet
from connectors.mysql.binlog.payload import TransactionPayload, decode_payload, split_payload
from connectors.mysql.binlog.query_event import decode_query
from connectors.mysql.binlog.rows_event import ROWS_EVENTS, RowsEvent, decode_rows_event
from connectors.mysql.binlog.table_map import TableMap, TableMapEvent
from connectors.mysql.binlog.wire import packed_bytes, packed_int, take, u16, u32, u64

Event = (
    FormatDescription | Rotate | Query | RowsQuery | Xid | XaPrepare | Gtid | PreviousGtids | MariaDbGtidEvent |
    MariaDbGtidList | BinlogCheckpoint | TableMapEvent | RowsEvent | TransactionPayload | HeartbeatEvent | Incident |
    StatementContext | LoadedData | OtherEvent
)  # fmt: skip

_ERRORS = (struct.error, IndexError, ValueError, OverflowError)
_MOST_TABLES: Final = 10_000
"""Descriptions to remember. A server describes far fewer tables between two flushes of its table cache."""
_CHECKSUM_BYTES = 4
_OF_FILES: Final = frozenset(
    {codes.FORMAT_DESCRIPTION, codes.ROTATE, codes.PREVIOUS_GTIDS, codes.HEARTBEAT, codes.HEARTBEAT_V2, codes.TRANSACTION_PAYLOAD}
)
"""Events that say something about a file or the stream."""
_NO_DESCRIPTION = FormatDescription(EventHeader(0, codes.FORMAT_DESCRIPTION, 0, 0, 0, 0), 4, "", 0, HEADER_LENGTH, b"", None)


class BinlogDecoder:
    """Decodes events one after another. Keeps what later events need: the format, the file, and the tables.

    Not thread-safe. All errors are DataError and name the event, the file, and the position; UnsupportedError for an encrypted
    log. After an error in one event, the next one can be decoded.
    """

    def __init__(self, *, file: str = "", master_checksum: str | None = None, verify_checksums: bool = True) -> None:
        """``file`` is the name of the file, until a ROTATE event changes it.

        ``master_checksum`` is what the client assigned to @master_binlog_checksum: with NONE, the server removes checksums
        whatever FORMAT_DESCRIPTION says. None means a file, or a client that did not assign it. ``verify_checksums=False``
        removes checksums without a check.
        """
        if master_checksum is not None and master_checksum.upper() not in ("NONE", "CRC32"):
            raise ValueError(f"@master_binlog_checksum {master_checksum!r}; expected NONE or CRC32")
        self.file = file
        self.format = _NO_DESCRIPTION
        self._master_checksum = (master_checksum or "").upper()
        self._verify = verify_checksums
        self._has_checksums = self._master_checksum == "CRC32"
        self._tables: dict[int, TableMap] = {}
        self._known_tables: dict[bytes, TableMap] = {}
        self._position = 0

    def decode(self, data: bytes | memoryview, start: int = 0) -> Event:
        """Decodes the event in ``data`` from ``start`` to its end. A packet of the server has its event from 1 on."""
        try:
            header = read_header(data, start)
        except struct.error as e:
            raise DataError(f"an event in binary log {self.file!r} has {len(data) - start} bytes, fewer than its header") from e
        if header.event_size != len(data) - start:
            raise DataError(f"{self._label(header)} claims {header.event_size} bytes and has {len(data) - start}")
        end = len(data)
        if self._has_checksum(header, data, start):
            end -= _CHECKSUM_BYTES
            self._check(header, data, start, end)
        try:
            event = self._decode(header, bytes(data[start + HEADER_LENGTH : end]))
        except _ERRORS as e:
            raise DataError(f"{self._label(header)} cannot be read: {e}") from e
        self._position = header.next_position or self._position
        return event

    def payload_events(self, payload: TransactionPayload) -> Iterator[Event]:
        """Yields the events of a compressed transaction. Their headers have the position 0."""
        place, contents = self._label(payload.header), split_payload(payload)
        while True:
            try:
                content = next(contents, None)
            except DataError as e:
                raise DataError(f"{place} cannot be read: {e}") from e
            if content is None:
                return
            yield self._payload_event(content, place)

    def _payload_event(self, content: bytes, place: str) -> Event:
        header = read_header(content, 0)._replace(next_position=0)
        try:
            if header.type_code in _OF_FILES:
                raise ValueError("it cannot be part of a transaction")
            return self._decode(header, content[HEADER_LENGTH:])
        except (*_ERRORS, DataError) as e:
            raise DataError(f"{header.name} in {place} cannot be read: {e}") from e

    def _label(self, header: EventHeader) -> str:
        # Some events have no position: artificial ones, and ANNOTATE_ROWS of MariaDB.
        where = f"at position {header.position}" if header.next_position else f"after position {self._position}"
        return f"{header.name} {where} of binary log {self.file!r}"

    def _has_checksum(self, header: EventHeader, data: bytes | memoryview, start: int) -> bool:
        if header.type_code == codes.FORMAT_DESCRIPTION:
            return False  # it tells itself
        if header.type_code == codes.ROTATE and self.format is _NO_DESCRIPTION and self._master_checksum != "NONE":
            # The first event of a stream, before anything tells whether the file has checksums. Names of files end with digits.
            if header.event_size < HEADER_LENGTH + 8 + _CHECKSUM_BYTES:
                return False
            matches = self._matches(header, data, start, len(data) - _CHECKSUM_BYTES)
            return matches or (self._has_checksums and not bytes(data[-_CHECKSUM_BYTES:]).isdigit())
        return self._has_checksums

    def _matches(self, header: EventHeader, data: bytes | memoryview, start: int, end: int) -> bool:
        view = memoryview(data)
        checksum = zlib.crc32(view[start:end])
        if header.type_code == codes.FORMAT_DESCRIPTION and header.flags & codes.FLAG_IN_USE:
            clean = bytearray(view[start:end])
            clean[17] &= ~codes.FLAG_IN_USE
            checksum = zlib.crc32(clean)
        return checksum == int.from_bytes(view[end : end + _CHECKSUM_BYTES], "little")

    def _check(self, header: EventHeader, data: bytes | memoryview, start: int, end: int) -> None:
        if end < start + HEADER_LENGTH:
            raise DataError(f"{self._label(header)} has {header.event_size} bytes, too few for a checksum")
        if self._verify and not self._matches(header, data, start, end):
            raise DataError(
                f"{self._label(header)} has a wrong checksum: the log was damaged on disk or on the way; "
                "compare with mysqlbinlog --verify-binlog-checksum on the server"
            )

    def _decode(self, header: EventHeader, data: bytes) -> Event:
        code = header.type_code
        if (variant := ROWS_EVENTS.get(code)) is not None:
            size = 4 if self.format.post_header_length(code) == 6 else 6
            return decode_rows_event(data, header, variant, size, self._tables)
        if (decode := _DECODERS.get(code)) is not None:
            event: Event = decode(self, header, data)
            return event
        if code in codes.STATEMENT_CONTEXT:
            return StatementContext(header)
        if code in codes.LOADED_DATA:
            return LoadedData(header)
        return OtherEvent(header, code in codes.EVENT_NAMES and code != 0)

    def _format_description(self, header: EventHeader, data: bytes) -> FormatDescription:
        description = decode_format_description(data, header)
        has_checksums = description.checksum_algorithm == 1 and self._master_checksum != "NONE"
        if has_checksums and self._verify:
            raw = struct.pack("<IBIIIH", *header) + data
            self._check(header, raw, 0, len(raw) - _CHECKSUM_BYTES)
        self.format, self._has_checksums = description, has_checksums
        self._tables.clear()
        return description

    def _rotate(self, header: EventHeader, data: bytes) -> Rotate:
        (position,) = u64(data, 0)
        event = Rotate(header, data[8:].rstrip(b"\0").decode(), position)
        self.file = event.file
        return event

    def _query(self, header: EventHeader, data: bytes) -> Query:
        length = self.format.post_header_length(header.type_code) or 0
        compressed = header.type_code == codes.MARIADB_QUERY_COMPRESSED
        return decode_query(data, 0, len(data), header, length, compressed=compressed)

    def _rows_query(self, header: EventHeader, data: bytes) -> RowsQuery:
        # The byte in front is the length, as far as it fits into a byte.
        return RowsQuery(header, take(data, 1, max(len(data) - 1, 0), len(data))[0])

    def _annotate_rows(self, header: EventHeader, data: bytes) -> RowsQuery:
        return RowsQuery(header, data)

    def _xid(self, header: EventHeader, data: bytes) -> Xid:
        return Xid(header, u64(data, self.format.post_header_length(codes.XID) or 0)[0])

    def _xa_prepare(self, header: EventHeader, data: bytes) -> XaPrepare:
        one_phase, format_id, gtrid_length, bqual_length = struct.unpack_from("<?iII", data, 0)
        gtrid, at = take(data, 13, gtrid_length, len(data))
        return XaPrepare(header, one_phase, format_id, gtrid, take(data, at, bqual_length, len(data))[0])

    def _gtid(self, header: EventHeader, data: bytes) -> Gtid:
        return decode_gtid(data, 0, len(data), header, anonymous=header.type_code == codes.ANONYMOUS_GTID)

    def _gtid_tagged(self, header: EventHeader, data: bytes) -> Gtid:
        return decode_tagged_gtid(data, 0, len(data), header)

    def _previous_gtids(self, header: EventHeader, data: bytes) -> PreviousGtids:
        return PreviousGtids(header, GtidSet.decode(data, 0, len(data)))

    def _mariadb_gtid(self, header: EventHeader, data: bytes) -> MariaDbGtidEvent:
        return decode_mariadb_gtid(data, 0, len(data), header)

    def _mariadb_gtid_list(self, header: EventHeader, data: bytes) -> MariaDbGtidList:
        return decode_mariadb_gtid_list(data, 0, len(data), header)

    def _checkpoint(self, header: EventHeader, data: bytes) -> BinlogCheckpoint:
        return BinlogCheckpoint(header, take(data, 4, u32(data, 0)[0], len(data))[0].decode())

    def _table_map(self, header: EventHeader, data: bytes) -> TableMapEvent:
        size = 4 if self.format.post_header_length(codes.TABLE_MAP) == 6 else 6
        table_id = int.from_bytes(take(data, 0, size, len(data))[0], "little")
        description = data[size + 2 :]
        table = self._known_tables.get(description)
        if table is None:
            table = TableMap(description, is_mariadb=self.format.is_mariadb)
            if len(self._known_tables) >= _MOST_TABLES:
                self._known_tables.clear()
            self._known_tables[description] = table
        if len(self._tables) >= _MOST_TABLES:
            self._tables.clear()  # tables are described again in each statement
        self._tables[table_id] = table
        return TableMapEvent(header, table_id, u16(data, size)[0], table)

    def _payload(self, header: EventHeader, data: bytes) -> TransactionPayload:
        return decode_payload(data, header)

    def _heartbeat(self, header: EventHeader, data: bytes) -> HeartbeatEvent:
        return HeartbeatEvent(header, data.rstrip(b"\0").decode(), header.next_position)

    def _heartbeat_v2(self, header: EventHeader, data: bytes) -> HeartbeatEvent:
        file, position = "", header.next_position
        at, end = 0, len(data)
        while at < end:
            code, at = packed_int(data, at, end)
            if code == 0:
                break
            content, at = packed_bytes(data, at, end)
            if code == 1:
                file = content.decode()
            elif code == 2:
                position, _ = packed_int(content, 0, len(content))
        return HeartbeatEvent(header, file, position)

    def _incident(self, header: EventHeader, data: bytes) -> Incident:
        return Incident(header, u16(data, 0)[0], take(data, 3, data[2], len(data))[0].decode("utf-8", "replace"))

    def _start_encryption(self, header: EventHeader, data: bytes) -> Event:
        raise UnsupportedError(
            f"{self._label(header)}: the file is encrypted (encrypt_binlog=ON); read it from the server, which decrypts it"
        )


_DECODERS: dict[int, Callable[[BinlogDecoder, EventHeader, bytes], Any]] = {
    codes.FORMAT_DESCRIPTION: BinlogDecoder._format_description,
    codes.ROTATE: BinlogDecoder._rotate,
    codes.QUERY: BinlogDecoder._query,
    codes.MARIADB_QUERY_COMPRESSED: BinlogDecoder._query,
    codes.ROWS_QUERY: BinlogDecoder._rows_query,
    codes.MARIADB_ANNOTATE_ROWS: BinlogDecoder._annotate_rows,
    codes.XID: BinlogDecoder._xid,
    codes.XA_PREPARE: BinlogDecoder._xa_prepare,
    codes.GTID: BinlogDecoder._gtid,
    codes.ANONYMOUS_GTID: BinlogDecoder._gtid,
    codes.GTID_TAGGED: BinlogDecoder._gtid_tagged,
    codes.PREVIOUS_GTIDS: BinlogDecoder._previous_gtids,
    codes.MARIADB_GTID: BinlogDecoder._mariadb_gtid,
    codes.MARIADB_GTID_LIST: BinlogDecoder._mariadb_gtid_list,
    codes.MARIADB_BINLOG_CHECKPOINT: BinlogDecoder._checkpoint,
    codes.MARIADB_START_ENCRYPTION: BinlogDecoder._start_encryption,
    codes.TABLE_MAP: BinlogDecoder._table_map,
    codes.TRANSACTION_PAYLOAD: BinlogDecoder._payload,
    codes.HEARTBEAT: BinlogDecoder._heartbeat,
    codes.HEARTBEAT_V2: BinlogDecoder._heartbeat_v2,
    codes.INCIDENT: BinlogDecoder._incident,
}
