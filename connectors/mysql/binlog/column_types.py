"""Column types as TABLE_MAP describes them: type codes and their metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TINY: Final = 1
SHORT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
NULL: Final = 6
TIMESTAMP: Final = 7
LONGLONG: Final = 8
INT24: Final = 9
DATE: Final = 10
TIME: Final = 11
DATETIME: Final = 12
YEAR: Final = 13
NEWDATE: Final = 14
VARCHAR: Final = 15
BIT: Final = 16
TIMESTAMP2: Final = 17
DATETIME2: Final = 18
TIME2: Final = 19
TYPED_ARRAY: Final = 20
BLOB_COMPRESSED: Final = 140
VARCHAR_COMPRESSED: Final = 141
VECTOR: Final = 242
JSON: Final = 245
NEWDECIMAL: Final = 246
ENUM: Final = 247
SET: Final = 248
TINY_BLOB: Final = 249
MEDIUM_BLOB: Final = 250
LONG_BLOB: Final = 251
BLOB: Final = 252
VAR_STRING: Final = 253
STRING: Final = 254
GEOMETRY: Final = 255

TYPE_NAMES: Final[dict[int, str]] = {
    0: "DECIMAL", TINY: "TINY", SHORT: "SHORT", LONG: "LONG", FLOAT: "FLOAT", DOUBLE: "DOUBLE", NULL: "NULL",
    TIMESTAMP: "TIMESTAMP", LONGLONG: "LONGLONG", INT24: "INT24", DATE: "DATE", TIME: "TIME", DATETIME: "DATETIME", YEAR: "YEAR",
    NEWDATE: "NEWDATE", VARCHAR: "VARCHAR", BIT: "BIT", TIMESTAMP2: "TIMESTAMP2", DATETIME2: "DATETIME2", TIME2: "TIME2",
    TYPED_ARRAY: "TYPED_ARRAY", BLOB_COMPRESSED: "BLOB_COMPRESSED", VARCHAR_COMPRESSED: "VARCHAR_COMPRESSED", VECTOR: "VECTOR",
    JSON: "JSON", NEWDECIMAL: "NEWDECIMAL", ENUM: "ENUM", SET: "SET", TINY_BLOB: "TINY_BLOB", MEDIUM_BLOB: "MEDIUM_BLOB",
    LONG_BLOB: "LONG_BLOB", BLOB: "BLOB", VAR_STRING: "VAR_STRING", STRING: "STRING", GEOMETRY: "GEOMETRY",
}  # fmt: skip

INTEGERS: Final = {TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8}
"""Sizes of the integer types."""
_BLOBS: Final = frozenset({BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, GEOMETRY, JSON, VECTOR, BLOB_COMPRESSED})
_FRACTIONAL: Final = frozenset({TIMESTAMP2, DATETIME2, TIME2})
_ONE_BYTE: Final = _BLOBS | _FRACTIONAL | {FLOAT, DOUBLE}
_TWO_BYTES: Final = frozenset({VARCHAR, VAR_STRING, VARCHAR_COMPRESSED, BIT, NEWDECIMAL, STRING, ENUM, SET})
_NO_BYTES: Final = frozenset({0, TINY, SHORT, LONG, LONGLONG, INT24, NULL, TIMESTAMP, DATE, TIME, DATETIME, YEAR, NEWDATE})
COMPRESSED: Final = frozenset({BLOB_COMPRESSED, VARCHAR_COMPRESSED})


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column as it is on the wire. ``type_code`` is ENUM or SET where TABLE_MAP hides these behind STRING.

    ``size`` is the largest size of characters in bytes, or the size of ENUM, SET, and BIT; ``length_bytes`` is the width of the
    length before a value, 0 for values of fixed size. ``precision`` and ``scale`` are those of NEWDECIMAL; ``scale`` is also the
    number of fractional digits of times, None where TABLE_MAP does not tell it (MariaDB with mysql56_temporal_format=OFF).
    """

    type_code: int
    size: int = 0
    length_bytes: int = 0
    precision: int = 0
    scale: int | None = None
    bits: int = 0

    @property
    def type_name(self) -> str:
        return TYPE_NAMES.get(self.type_code, f"type {self.type_code}")


def read_columns(types: bytes, metadata: bytes) -> tuple[WireColumn, ...]:
    """Reads the columns of a TABLE_MAP. Raises IndexError or ValueError for invalid metadata."""
    columns = []
    at = 0
    for code in types:
        column, at = _read_column(code, metadata, at)
        columns.append(column)
    if at != len(metadata):
        raise ValueError(f"the columns' metadata has {len(metadata)} bytes; the types need {at}")
    return tuple(columns)


def _read_column(code: int, metadata: bytes, at: int) -> tuple[WireColumn, int]:
    if code in _NO_BYTES:
        return WireColumn(code, scale=_old_scale(code)), at
    if code in _ONE_BYTE:
        return _with_one_byte(code, metadata[at]), at + 1
    if code in _TWO_BYTES:
        return _with_two_bytes(code, metadata[at], metadata[at + 1]), at + 2
    if code == TYPED_ARRAY:
        # The element's type and metadata follow; an array is stored as JSON.
        _, at = _read_column(metadata[at], metadata, at + 1) if metadata[at] != TYPED_ARRAY else _refuse_array()
        return WireColumn(TYPED_ARRAY, length_bytes=4), at
    raise ValueError(f"column type {code} is unknown")


def _refuse_array() -> tuple[WireColumn, int]:
    raise ValueError("a typed array contains typed arrays")


def _old_scale(code: int) -> int | None:
    return None if code in (TIMESTAMP, TIME, DATETIME) else 0


def _with_one_byte(code: int, value: int) -> WireColumn:
    if code in _FRACTIONAL:
        if value > 6:
            raise ValueError(f"{TYPE_NAMES[code]} has {value} fractional digits; at most 6 are possible")
        return WireColumn(code, scale=value)
    if code in (FLOAT, DOUBLE):
        return WireColumn(code, size=4 if code == FLOAT else 8)
    if not 1 <= value <= 4:
        raise ValueError(f"the length of {TYPE_NAMES[code]} has {value} bytes; expected 1 to 4")
    return WireColumn(code, length_bytes=value)


def _with_two_bytes(code: int, first: int, second: int) -> WireColumn:
    if code == NEWDECIMAL:
        if not 1 <= first <= 65 or second > min(first, 38):
            raise ValueError(f"no column is DECIMAL({first},{second})")
        return WireColumn(code, precision=first, scale=second)
    if code == BIT:
        bits = second * 8 + first
        if first > 7 or not 1 <= bits <= 64:
            raise ValueError(f"no column is BIT({bits})")
        return WireColumn(code, size=(bits + 7) // 8, bits=bits)
    if code in (VARCHAR, VAR_STRING, VARCHAR_COMPRESSED):
        size = first | second << 8
        return WireColumn(code, size=size, length_bytes=1 if size < 256 else 2)
    real, size = first, second
    if real & 0x30 != 0x30:  # CHAR of more than 255 bytes: two bits of its size are in the type
        size |= ((real & 0x30) ^ 0x30) << 4
        real |= 0x30
    if real in (ENUM, SET):
        if not 1 <= size <= (2 if real == ENUM else 8):
            raise ValueError(f"no {TYPE_NAMES[real]} has {size} bytes")
        return WireColumn(real, size=size)
    if real != STRING:
        raise ValueError(f"column type {real} inside STRING is unknown")
    return WireColumn(STRING, size=size, length_bytes=1 if size < 256 else 2)
