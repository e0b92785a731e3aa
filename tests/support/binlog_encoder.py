"""Writes binary log events and rows, for tests of their decoder."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

from connectors.mysql.binlog import column_types as types
from connectors.mysql.binlog.decimals import decimal_groups

MYSQL_POST_HEADERS = bytes.fromhex(
    "380d0008001200040404041200006200041a08000000080808020000000a0a0a2a2a001234000a280000"  # of MySQL 8.4
)


def packed_int(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + number.to_bytes(2, "little")
    if number < 1 << 24:
        return b"\xfd" + number.to_bytes(3, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def packed_bytes(value: bytes) -> bytes:
    return packed_int(len(value)) + value


def unsigned_varint(number: int) -> bytes:
    """A variable-length integer of MySQL's serialization library."""
    for width in range(1, 9):
        if number < 1 << 7 * width:
            return (number << width | (1 << width - 1) - 1).to_bytes(width, "little")
    return b"\xff" + number.to_bytes(8, "little")


def signed_varint(number: int) -> bytes:
    return unsigned_varint(number << 1 if number >= 0 else ~number << 1 | 1)


def event(
    code: int, body: bytes, *, checksum: bool = False, next_position: int = 1000, flags: int = 0, server_id: int = 7
) -> bytes:
    """An event with its header."""
    size = 19 + len(body) + 4 * checksum
    raw = struct.pack("<IBIIIH", 1_700_000_000, code, server_id, size, next_position, flags) + body
    return raw + zlib.crc32(raw).to_bytes(4, "little") if checksum else raw


def format_description(version: str = "8.4.3", *, algorithm: int = 0, in_use: bool = False) -> bytes:
    body = struct.pack("<H50sIB", 4, version.encode(), 0, 19) + MYSQL_POST_HEADERS + bytes([algorithm])
    raw = event(15, body, checksum=True)
    return raw[:17] + b"\1" + raw[18:] if in_use else raw


def bits(flags: Sequence[object]) -> bytes:
    """Bits from the lowest of each byte on."""
    number = sum(1 << i for i, flag in enumerate(flags) if flag)
    return number.to_bytes((len(flags) + 7) // 8, "little")


def high_bits(flags: Sequence[object]) -> bytes:
    """Bits from the highest of each byte on."""
    found = bytearray((len(flags) + 7) // 8)
    for i, flag in enumerate(flags):
        found[i >> 3] |= (0x80 >> (i & 7)) * bool(flag)
    return bytes(found)


def field(code: int, content: bytes) -> bytes:
    """A field of TABLE_MAP's optional metadata."""
    return bytes([code]) + packed_bytes(content)


def description(
    columns: Sequence[tuple[int, bytes]],
    *,
    optional: bytes = b"",
    table: str = "t",
    schema: str = "db",
    nullable: Sequence[int] | None = None,
) -> bytes:
    """TABLE_MAP without number and flags; a column is its type code and its metadata. By default, all are nullable."""
    metadata = b"".join(content for _, content in columns)
    codes, null_bits = bytes(code for code, _ in columns), bits([1] * len(columns) if nullable is None else nullable)
    return b"".join(
        [
            bytes([len(schema)]), schema.encode(), b"\0", bytes([len(table)]), table.encode(), b"\0",
            packed_int(len(columns)), codes, packed_bytes(metadata), null_bits, optional,
        ]
    )  # fmt: skip


def table_map(columns: Sequence[tuple[int, bytes]], *, table_id: int = 99, optional: bytes = b"", table: str = "t") -> bytes:
    return event(19, table_id.to_bytes(6, "little") + b"\1\0" + description(columns, optional=optional, table=table))


def rows_body(
    rows: bytes, columns: int, *, table_id: int = 99, present: bytes | None = None, after: bytes | None = None,
    extra: bytes | None = b"", flags: int = 1,
) -> bytes:  # fmt: skip
    """The body of a rows event; ``extra`` None means version 1."""
    head = table_id.to_bytes(6, "little") + flags.to_bytes(2, "little")
    if extra is not None:
        head += (len(extra) + 2).to_bytes(2, "little") + extra
    return head + packed_int(columns) + (bits([1] * columns) if present is None else present) + (after or b"") + rows


def row(values: Sequence[bytes | None]) -> bytes:
    """A row image: null bits, then the values. Bits beyond the columns are set, as MySQL does."""
    nulls = [value is None for value in values]
    nulls += [True] * (-len(nulls) % 8)
    return bits(nulls) + b"".join(value for value in values if value is not None)


def compressed(data: bytes) -> bytes:
    """MariaDB's compressed part of an event."""
    size = len(data).to_bytes(4, "big").lstrip(b"\0")
    return bytes([0x80 | len(size)]) + size + zlib.compress(data)


def decimal(unscaled: int, precision: int, scale: int) -> bytes:
    result, rest = b"", abs(unscaled)
    for digits, width in reversed(decimal_groups(precision, scale)):
        rest, group = divmod(rest, 10**digits)
        result = group.to_bytes(width, "big") + result
    if unscaled < 0:
        result = bytes(byte ^ 0xFF for byte in result)
    return bytes([result[0] ^ 0x80]) + result[1:]


def fraction(microseconds: int, digits: int) -> bytes:
    width = (digits + 1) // 2
    return int(microseconds // 10 ** (6 - 2 * width)).to_bytes(width, "big")


def time2(microseconds: int, digits: int) -> bytes:
    seconds, part = divmod(abs(microseconds), 1_000_000)
    width = (digits + 1) // 2
    whole = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    packed = whole << 8 * width | int.from_bytes(fraction(part, digits), "big")
    return ((0x800000 << 8 * width) + (packed if microseconds >= 0 else -packed)).to_bytes(3 + width, "big")


def datetime2(packed: int, digits: int) -> bytes:
    return ((packed >> 24) + 0x80_0000_0000).to_bytes(5, "big") + fraction(packed & 0xFF_FFFF, digits)


def timestamp2(microseconds: int, digits: int) -> bytes:
    return (microseconds // 1_000_000).to_bytes(4, "big") + fraction(microseconds % 1_000_000, digits)


def json_value(value: Any, *, large: bool = False) -> tuple[int, bytes]:
    """The type and bytes of a value in binary JSON. ``(code, bytes)`` is an opaque value."""
    if value is None or isinstance(value, bool):
        return 4, bytes([0 if value is None else 1 if value else 2])
    if isinstance(value, int):
        for code, form in ((5, "<h"), (6, "<H"), (7, "<i"), (8, "<I"), (9, "<q"), (10, "<Q")):
            try:
                return code, struct.pack(form, value)
            except struct.error:
                continue
        raise ValueError(value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        return 12, _json_length(len(value.encode())) + value.encode()
    if isinstance(value, tuple):
        return 15, bytes([value[0]]) + _json_length(len(value[1])) + value[1]
    return _json_container(value, large=large)


def json_document(value: Any, *, large: bool = False) -> bytes:
    code, content = json_value(value, large=large)
    return bytes([code]) + content


def _json_length(length: int) -> bytes:
    result = bytearray()
    while length > 0x7F:
        result.append(length & 0x7F | 0x80)
        length >>= 7
    result.append(length)
    return bytes(result)


def _json_container(value: dict[str, Any] | list[Any], *, large: bool) -> tuple[int, bytes]:
    width = 4 if large else 2
    keys: list[bytes] = []
    if isinstance(value, dict):
        keys = sorted((key.encode() for key in value), key=lambda key: (len(key), key))
        members = [value[key.decode()] for key in keys]
    else:
        members = value
    at = 2 * width + len(keys) * (2 + width) + len(members) * (1 + width)
    entries, texts = b"", b""
    for key in keys:
        entries += at.to_bytes(width, "little") + len(key).to_bytes(2, "little")
        texts += key
        at += len(key)
    values, contents = b"", b""
    for member in members:
        code, content = json_value(member, large=large)
        if code in (4, 5, 6) or (large and code in (7, 8)):
            # An inlined number keeps its sign, in the whole width.
            values += bytes([code]) + content.ljust(width, b"\xff" if code in (5, 7) and content[-1] >= 0x80 else b"\0")
        else:
            values += bytes([code]) + at.to_bytes(width, "little")
            contents += content
            at += len(content)
    content = len(members).to_bytes(width, "little") + at.to_bytes(width, "little") + entries + values + texts + contents
    return (0 if isinstance(value, dict) else 2) | large, content


def json_column(document: bytes) -> bytes:
    return len(document).to_bytes(4, "little") + document


def json_diffs(*diffs: tuple[int, str, bytes | None]) -> bytes:
    """A vector of changes: operation, path, binary JSON."""
    return b"".join(
        bytes([operation]) + packed_bytes(path.encode()) + (b"" if value is None else packed_bytes(value))
        for operation, path, value in diffs
    )


def opaque_time(microseconds: int) -> tuple[int, bytes]:
    seconds, part = divmod(abs(microseconds), 1_000_000)
    packed = (seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60) << 24 | part
    return types.TIME, (packed if microseconds >= 0 else -packed).to_bytes(8, "little", signed=True)
