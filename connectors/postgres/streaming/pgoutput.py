"""The messages of PostgreSQL's pgoutput plugin, protocol versions 1 and 2. Pure.

Source: "Logical Replication Message Formats" in the PostgreSQL manual. The event emitter decodes rows with the generated decoders
of schema/row_decoder.py, which read the same bytes; this module decodes all other messages, and whole rows where needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from connect.errors import DataError

POSTGRES_EPOCH_US = 946_684_800_000_000
"""Microseconds from 1970-01-01 to 2000-01-01, the epoch of PostgreSQL's clock."""

BEGIN, COMMIT, ORIGIN, RELATION, TYPE, INSERT, UPDATE, DELETE, TRUNCATE, MESSAGE = b"BCORYIUDTM"
STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT = b"SEcA"
KEY_TUPLE, OLD_TUPLE, NEW_TUPLE = b"KON"

_u16 = struct.Struct("!H").unpack_from
_u32 = struct.Struct("!I").unpack_from
_i32 = struct.Struct("!i").unpack_from
_u64 = struct.Struct("!Q").unpack_from
_begin = struct.Struct("!QqI").unpack_from
_commit = struct.Struct("!BQQq").unpack_from
_PADDING = b"\0\0\0\0"


class _Unchanged:
    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = _Unchanged()
"""An unavailable value: a TOAST value that the update did not change and the server did not send."""

Value = bytes | None | _Unchanged
Tuple = list[Value]


@dataclass(frozen=True, slots=True)
class Begin:
    """``final_lsn`` is the start of the transaction's commit record; times are microseconds since 1970."""

    final_lsn: int
    commit_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    commit_lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    is_key: bool
    name: str
    type_oid: int
    typmod: int


@dataclass(frozen=True, slots=True)
class Relation:
    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class TypeName:
    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    relation: int
    new: Tuple


@dataclass(frozen=True, slots=True)
class Update:
    """``old`` has only the key columns if ``old_is_key``, else the whole old row; None if it was not sent."""

    relation: int
    old: Tuple | None
    old_is_key: bool
    new: Tuple


@dataclass(frozen=True, slots=True)
class Delete:
    relation: int
    old: Tuple
    old_is_key: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class StreamStart:
    xid: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    xid: int
    subtransaction_xid: int


Message = (
    Begin | Commit | Origin | Relation | TypeName | Insert | Update | Delete | Truncate | LogicalMessage | StreamStart |
    StreamStop | StreamCommit | StreamAbort
)  # fmt: skip


def pad_message(message: bytes) -> bytes:
    """Pads a message: row decoders read kind and length of a column in one step, and the last column may have no length."""
    return message + _PADDING


def decode(data: bytes, *, in_stream: bool = False) -> Message:
    """Decodes a message. ``in_stream``: between StreamStart and StreamStop, changes have a transaction ID (version 2).

    Raises DataError for a truncated or unknown message.
    """
    try:
        return _decode(data, in_stream)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as e:
        kind = chr(data[0]) if data else "empty"
        raise DataError(f"pgoutput message {kind!r} of {len(data)} bytes cannot be read: {e}") from e


def _decode(data: bytes, in_stream: bool) -> Message:
    kind = data[0]
    if kind == BEGIN:
        final_lsn, commit_us, xid = _begin(data, 1)
        return Begin(final_lsn, commit_us + POSTGRES_EPOCH_US, xid)
    if kind == COMMIT:
        _, commit_lsn, end_lsn, commit_us = _commit(data, 1)
        return Commit(commit_lsn, end_lsn, commit_us + POSTGRES_EPOCH_US)
    if kind == ORIGIN:
        return Origin(_u64(data, 1)[0], _string(data, 9)[0])
    if kind == STREAM_START:
        return StreamStart(_u32(data, 1)[0], data[5] == 1)
    if kind == STREAM_STOP:
        return StreamStop()
    if kind == STREAM_COMMIT:
        _, commit_lsn, end_lsn, commit_us = _commit(data, 5)
        return StreamCommit(_u32(data, 1)[0], commit_lsn, end_lsn, commit_us + POSTGRES_EPOCH_US)
    if kind == STREAM_ABORT:
        return StreamAbort(_u32(data, 1)[0], _u32(data, 5)[0])
    at = 5 if in_stream else 1
    if kind == RELATION:
        return _relation(data, at)
    if kind == TYPE:
        schema, after = _string(data, at + 4)
        return TypeName(_u32(data, at)[0], schema, _string(data, after)[0])
    if kind == INSERT:
        return Insert(_u32(data, at)[0], _tuple(data, at + 5)[0])
    if kind == UPDATE:
        return _update(data, at)
    if kind == DELETE:
        marker = data[at + 4]
        if marker not in (KEY_TUPLE, OLD_TUPLE):
            raise ValueError(f"marker {marker}")
        return Delete(_u32(data, at)[0], _tuple(data, at + 5)[0], marker == KEY_TUPLE)
    if kind == TRUNCATE:
        (count,), flags = _u32(data, at), data[at + 4]
        return Truncate(tuple(_u32(data, at + 5 + 4 * i)[0] for i in range(count)), bool(flags & 1), bool(flags & 2))
    if kind == MESSAGE:
        prefix, after = _string(data, at + 9)
        (length,) = _u32(data, after)
        return LogicalMessage(bool(data[at] & 1), _u64(data, at + 1)[0], prefix, _bytes(data, after + 4, length))
    raise ValueError("unknown kind")


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _bytes(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise IndexError(f"{length} bytes expected at {at}")
    return data[at : at + length]


def _relation(data: bytes, at: int) -> Relation:
    (oid,) = _u32(data, at)
    schema, at = _string(data, at + 4)
    name, at = _string(data, at)
    identity, (count,) = chr(data[at]), _u16(data, at + 1)
    at += 3
    columns: list[RelationColumn] = []
    for _ in range(count):
        is_key = bool(data[at] & 1)
        column, at = _string(data, at + 1)
        columns.append(RelationColumn(is_key, column, _u32(data, at)[0], _i32(data, at + 4)[0]))
        at += 8
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _update(data: bytes, at: int) -> Update:
    (relation,), marker = _u32(data, at), data[at + 4]
    old: Tuple | None = None
    at += 5
    if marker in (KEY_TUPLE, OLD_TUPLE):
        old, at = _tuple(data, at)
        if data[at] != NEW_TUPLE:
            raise ValueError(f"marker {data[at]}")
        at += 1
    elif marker != NEW_TUPLE:
        raise ValueError(f"marker {marker}")
    return Update(relation, old, marker == KEY_TUPLE, _tuple(data, at)[0])


def _tuple(data: bytes, at: int) -> tuple[Tuple, int]:
    (count,) = _u16(data, at)
    at += 2
    values: Tuple = []
    for _ in range(count):
        kind = data[at]
        if kind in b"tb":
            (length,) = _u32(data, at + 1)
            values.append(_bytes(data, at + 5, length))
            at += 5 + length
        elif kind in b"nu":
            values.append(None if kind == 110 else UNCHANGED)
            at += 1
        else:
            raise ValueError(f"column kind {kind}")
    return values, at


def skip_tuple(data: bytes, at: int) -> int:
    """Returns the position after the tuple whose column count is at ``at``."""
    (count,) = _u16(data, at)
    at += 2
    for _ in range(count):
        at += 5 + _u32(data, at + 1)[0] if data[at] in b"tb" else 1
    return at
