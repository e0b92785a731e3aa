"""Decodes the events with global transaction IDs (GTIDs) of MySQL and MariaDB."""

from __future__ import annotations

import struct
from typing import NamedTuple
from uuid import UUID

from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.binlog.gtid_set import GtidSet
from connectors.mysql.binlog.mariadb_gtid import MariaDbGtid
from connectors.mysql.binlog.wire import packed_int, signed_varint, take, u32, u64, unsigned_varint

_untagged = struct.Struct("<B16sq").unpack_from
_clocks = struct.Struct("<Bqq").unpack_from
_LOGICAL_TIMESTAMP = 2
_HAS_ORIGINAL_TIMESTAMP = 1 << 55
_HAS_ORIGINAL_VERSION = 1 << 31


class Gtid(NamedTuple):
    """Begins a transaction of MySQL: GTID, GTID_TAGGED, or ANONYMOUS_GTID, whose ``uuid`` is empty.

    Timestamps are microseconds since 1970: of the commit on the server that sends the log, and on the one where the transaction
    began. ``transaction_length`` counts the bytes of all events of the transaction, this one included. Server versions are
    like 80036. What older servers do not write is None.
    """

    header: EventHeader
    uuid: str
    tag: str
    sequence: int
    flags: int
    last_committed: int | None
    sequence_number: int | None
    immediate_commit_us: int | None
    original_commit_us: int | None
    transaction_length: int | None
    immediate_server_version: int | None
    original_server_version: int | None
    commit_group_ticket: int | None

    @property
    def is_anonymous(self) -> bool:
        return not self.uuid

    @property
    def may_have_statements(self) -> bool:
        """Whether some changes may be logged as statements."""
        return bool(self.flags & 1)

    def __str__(self) -> str:
        """Returns the GTID in MySQL's format; empty if it is anonymous."""
        return ":".join(part for part in (self.uuid, self.tag, str(self.sequence)) if part) if self.uuid else ""


class PreviousGtids(NamedTuple):
    """All GTIDs in the files before this one."""

    header: EventHeader
    gtids: GtidSet


class MariaDbGtidEvent(NamedTuple):
    """Begins a transaction or DDL statement of MariaDB.

    ``xa_id`` is the format, global ID, and branch of an XA transaction. ``start_alter_sequence`` refers to the event that began
    an ALTER in two phases.
    """

    header: EventHeader
    gtid: MariaDbGtid
    flags: int
    commit_id: int | None
    xa_id: tuple[int, bytes, bytes] | None
    flags_extra: int
    extra_engines: int
    start_alter_sequence: int | None
    thread_id: int | None

    @property
    def is_standalone(self) -> bool:
        """Whether one event follows instead of a transaction with its end."""
        return bool(self.flags & 0x01)

    @property
    def is_ddl(self) -> bool:
        return bool(self.flags & 0x20)

    @property
    def is_prepared_xa(self) -> bool:
        return bool(self.flags & 0x40)

    @property
    def is_completed_xa(self) -> bool:
        return bool(self.flags & 0x80)


class MariaDbGtidList(NamedTuple):
    """The last GTID of each domain and server in the files before this one. The highest four bits of its count are ``flags``."""

    header: EventHeader
    gtids: tuple[MariaDbGtid, ...]
    flags: int


def decode_gtid(data: bytes, at: int, end: int, header: EventHeader, *, anonymous: bool) -> Gtid:
    """Decodes GTID and ANONYMOUS_GTID. The parts after the sequence were added one by one since MySQL 5.7."""
    flags, uuid, sequence = _untagged(data, at)
    at += 25
    committed = number = immediate = original = length = version = original_version = ticket = None
    if end - at >= 17 and data[at] == _LOGICAL_TIMESTAMP:
        _, committed, number = _clocks(data, at)
        at += 17
        if end - at >= 7:
            immediate, at = _sized_int(data, at, 7, end)
            original = immediate = int(immediate)
            if immediate & _HAS_ORIGINAL_TIMESTAMP:
                immediate ^= _HAS_ORIGINAL_TIMESTAMP
                original, at = _sized_int(data, at, 7, end)
            if at < end:
                length, at = packed_int(data, at, end)
            if end - at >= 4:
                version, at = _sized_int(data, at, 4, end)
                original_version = version = int(version)
                if version & _HAS_ORIGINAL_VERSION:
                    version ^= _HAS_ORIGINAL_VERSION
                    original_version, at = _sized_int(data, at, 4, end)
                if end - at >= 8:
                    ticket = u64(data, at)[0]
    return Gtid(
        header, "" if anonymous else str(UUID(bytes=uuid)), "", sequence, flags, committed, number, immediate, original, length,
        version, original_version, ticket,
    )  # fmt: skip


def _sized_int(data: bytes, at: int, size: int, end: int) -> tuple[int, int]:
    part, at = take(data, at, size, end)
    return int.from_bytes(part, "little"), at


_SIGNED_FIELDS = frozenset({2, 4, 5})
_FIELD_COUNT = 12


def decode_tagged_gtid(data: bytes, at: int, end: int, header: EventHeader) -> Gtid:
    """Decodes GTID_TAGGED: fields with numbers, in the format of MySQL's serialization library."""
    start = at
    version, at = unsigned_varint(data, at, end)
    if version != 1:
        raise ValueError(f"serialization format {version} is unknown; expected 1")
    size, at = unsigned_varint(data, at, end)
    end = start + size if start + size <= end else _refuse_size(size, end - start)
    needed, at = unsigned_varint(data, at, end)
    if needed > _FIELD_COUNT:
        raise ValueError(f"field {needed - 1} is unknown, and must not be ignored; this MySQL is newer than this reader")
    values: dict[int, int] = {}
    uuid, tag, last = bytes(16), "", -1
    while at < end:
        field, at = unsigned_varint(data, at, end)
        if field <= last:
            raise ValueError(f"field {field} after field {last}")
        last = field
        if field == 1:
            digits = []
            for _ in range(16):
                digit, at = unsigned_varint(data, at, end)
                digits.append(digit)
            uuid = bytes(digits)
        elif field == 3:
            length, at = unsigned_varint(data, at, end)
            part, at = take(data, at, length, end)
            tag = part.decode("ascii")
        elif field < _FIELD_COUNT:
            values[field], at = (signed_varint if field in _SIGNED_FIELDS else unsigned_varint)(data, at, end)
        else:
            break  # later fields may be ignored, and have no sizes
    immediate, server_version = values.get(6), values.get(9)
    return Gtid(
        header, str(UUID(bytes=uuid)), tag, values.get(2, 0), values.get(0, 0), values.get(4), values.get(5), immediate,
        values.get(7, immediate), values.get(8), server_version, values.get(10, server_version), values.get(11),
    )  # fmt: skip


def _refuse_size(size: int, available: int) -> int:
    raise ValueError(f"the event claims {size} bytes and has {available}")


def decode_mariadb_gtid(data: bytes, at: int, end: int, header: EventHeader) -> MariaDbGtidEvent:
    """Decodes MariaDB's GTID event. Short ones are padded with zeros to the length of the post-header."""
    sequence, domain, flags = struct.unpack_from("<QIB", data, at)
    at += 13
    commit_id = xa_id = start_alter = thread_id = None
    if flags & 0x02:
        commit_id = u64(data, at)[0]
        at += 8
    if flags & 0xC0:
        format_id, gtrid_length, bqual_length = struct.unpack_from("<IBB", data, at)
        gtrid, at = take(data, at + 6, gtrid_length, end)
        bqual, at = take(data, at, bqual_length, end)
        xa_id = (format_id, gtrid, bqual)
    flags_extra = engines = 0
    if at < end:
        flags_extra = data[at]
        at += 1
        if flags_extra & 0x01:
            engines = data[at]
            at += 1
        if flags_extra & 0x0C:
            start_alter = u64(data, at)[0]
            at += 8
        if flags_extra & 0x10:
            thread_id = u32(data, at)[0]
            at += 4
    if at > end:
        raise IndexError(f"the event ends at {end}, and its last part at {at}")
    gtid = MariaDbGtid(domain, header.server_id, sequence)
    return MariaDbGtidEvent(header, gtid, flags, commit_id, xa_id, flags_extra, engines, start_alter, thread_id)


def decode_mariadb_gtid_list(data: bytes, at: int, end: int, header: EventHeader) -> MariaDbGtidList:
    (packed,) = u32(data, at)
    count = packed & 0x0FFF_FFFF
    at += 4
    if at + 16 * count > end:
        raise IndexError(f"{count} GTIDs do not fit into {end - at} bytes")
    gtids = tuple(MariaDbGtid(*parts) for parts in struct.iter_unpack("<IIQ", data[at : at + 16 * count]))
    return MariaDbGtidList(header, gtids, packed >> 28)
