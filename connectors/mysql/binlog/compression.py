"""Compressed parts of events and columns: zlib in MariaDB, Zstandard in MySQL's TRANSACTION_PAYLOAD.

Sizes that the data claims are checked against limits, so that a few bytes cannot become gigabytes.
"""

from __future__ import annotations

import zlib
from typing import Any

from connect.errors import DataError, MissingExtraError

MAX_EVENT_BYTES = 1 << 30
"""The server's upper limit of max_allowed_packet, and so of an event."""


def decompress_event_part(data: bytes, at: int, end: int) -> bytes:
    """Decompresses what MariaDB's log_bin_compress wrote: a byte with algorithm and width, the length, zlib data."""
    head = data[at] if at < end else 0
    if head & 0x80 == 0:
        raise ValueError(f"no compressed data at {at}")
    if algorithm := head & 0x70:
        raise ValueError(f"compression algorithm {algorithm >> 4} is unknown; MariaDB has only zlib, 0")
    width = head & 7
    if not 1 <= width <= 4 or at + 1 + width > end:
        raise ValueError(f"the length of compressed data has {width} bytes")
    at += 1
    return inflate(data[at + width : end], int.from_bytes(data[at : at + width], "big"), zlib.MAX_WBITS)


def decompress_column(value: bytes) -> bytes:
    """Decompresses a value of a column with MariaDB's COMPRESSED attribute."""
    if not value:
        return value
    head = value[0]
    if head == 0:
        return value[1:]
    if head >> 4 != 8:
        raise ValueError(f"column compression method {head >> 4} is unknown; MariaDB has only zlib, 8")
    width = head & 7
    if not width or len(value) <= width:
        raise ValueError(f"the length of a compressed value has {width} bytes")
    length = int.from_bytes(value[1 : 1 + width], "big")
    return inflate(value[1 + width :], length, -zlib.MAX_WBITS if head & 8 else zlib.MAX_WBITS)


def inflate(data: bytes, length: int, window_bits: int) -> bytes:
    """Decompresses zlib data of a known length; raises ValueError if it has another one."""
    if length > MAX_EVENT_BYTES:
        raise ValueError(f"compressed data claims to be {length} bytes long; at most {MAX_EVENT_BYTES} are possible")
    inflater = zlib.decompressobj(window_bits)
    try:
        result = inflater.decompress(data, length + 1)
    except zlib.error as e:
        raise ValueError(f"compressed data is damaged: {e}") from e
    if len(result) != length:
        raise ValueError(f"compressed data has {len(result)} bytes, or more, instead of {length}")
    if not inflater.eof:
        raise ValueError("compressed data is truncated")
    return result


def zstandard_reader(data: bytes) -> Any:
    """Returns a reader of Zstandard data. Raises MissingExtraError if the package is not installed."""
    try:
        import zstandard
    except ModuleNotFoundError as e:
        raise MissingExtraError(
            "reading compressed transactions (binlog_transaction_compression=ON) needs zstandard, which is not installed; "
            "run: pip install zstandard"
        ) from e
    # The window of a frame is what decompression allocates; the server's levels need at most 128 MB.
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data, read_across_frames=True)


def explain_zstandard_error(error: Exception) -> DataError | None:
    """Returns the error to raise instead of Zstandard's, or None if it is another one."""
    if type(error).__module__.partition(".")[0] == "zstandard":
        return DataError(f"the compressed transaction is damaged: {error}")
    return None
