"""Events of MySQL's binary log, as bytes: transactions with GTIDs, and what a server sends when a stream begins."""

from __future__ import annotations

import struct
import uuid
import zlib

import zstandard

from tests.support.binlog_encoder import event, field, format_description, packed_int, row, rows_body, table_map

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
COMMIT_US = 1_700_000_000_123_456
FILE = "binlog.000007"


def gtid(sequence: int, at: int) -> bytes:
    body = struct.pack("<B16sq", 0, uuid.UUID(UUID).bytes, sequence) + b"\2" + struct.pack("<qq", 0, 1)
    return event(33, body + COMMIT_US.to_bytes(7, "little") + packed_int(200), next_position=at)


def query(sql: str, at: int) -> bytes:
    return event(2, struct.pack("<IIBHH", 77, 0, 2, 0, 0) + b"db\0" + sql.encode(), next_position=at)


def rows(code: int, *images: tuple[int, int | None], at: int = 0, is_update: bool = False) -> bytes:
    content = b"".join(row([struct.pack("<i", a), None if b is None else struct.pack("<i", b)]) for a, b in images)
    return event(code, rows_body(content, 2, after=b"\3" if is_update else None), next_position=at)


STATEMENT = "CALL change_rows()"
TABLE = [(3, b""), (3, b"")]
WRITE, UPDATE, DELETE = 30, 31, 32


def transaction(sequence: int, at: int, *, is_compressed: bool) -> list[bytes]:
    """Inserts two rows, updates one, and deletes one; it ends at the position ``at`` + 600."""
    nullable = table_map(TABLE).replace(b"\2\3\3\0\3", b"\2\3\3\0\2")  # the key is NOT NULL
    inner = [
        query("BEGIN", at + 200),
        event(29, bytes([len(STATEMENT)]) + STATEMENT.encode(), next_position=at + 220),
        nullable[:13] + (at + 250).to_bytes(4, "little") + nullable[17:],
        rows(WRITE, (1, 10), (2, None), at=at + 300),
        rows(UPDATE, (1, 10), (1, 11), at=at + 350, is_update=True),
        rows(DELETE, (2, None), at=at + 400),
        event(16, (9).to_bytes(8, "little"), next_position=at + 600),
    ]
    if not is_compressed:
        return [gtid(sequence, at + 100), *inner]
    content = b"".join(inner)
    packed = zstandard.ZstdCompressor().compress(content)
    fields = field(1, packed_int(len(packed))) + field(2, packed_int(0)) + field(3, packed_int(len(content)))
    return [gtid(sequence, at + 100), event(40, fields + b"\0" + packed, next_position=at + 600)]


EXPECTED = [
    ("t", "c", None, {"id": 1, "n": 10}),
    ("t", "c", None, {"id": 2, "n": None}),
    ("t", "u", {"id": 1, "n": 10}, {"id": 1, "n": 11}),
    ("t", "d", {"id": 2, "n": None}, None),
    ("t", "tombstone", {"id": 2}),
]
"""The changes of a transaction."""


def with_checksum(data: bytes) -> bytes:
    sized = data[:9] + (len(data) + 4).to_bytes(4, "little") + data[13:]
    return sized + zlib.crc32(sized).to_bytes(4, "little")


def stream_start(position: int, file: str = FILE) -> list[bytes]:
    """The first events of a stream, which say what the server reads: with GTIDs, a file from its beginning."""
    rotate = event(4, position.to_bytes(8, "little") + file.encode(), next_position=0, flags=0x20)
    return [with_checksum(rotate), format_description(algorithm=1)]


def heartbeat(position: int, file: str = FILE) -> bytes:
    """The server has sent everything up to a position."""
    return with_checksum(event(27, file.encode(), next_position=position, flags=0x20))
