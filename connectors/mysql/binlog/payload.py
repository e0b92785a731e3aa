"""TRANSACTION_PAYLOAD: the events of a transaction, compressed (binlog_transaction_compression of MySQL)."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

from connect.errors import DataError
from connectors.mysql.binlog.compression import MAX_EVENT_BYTES, explain_zstandard_error, zstandard_reader
from connectors.mysql.binlog.events import HEADER_LENGTH, EventHeader
from connectors.mysql.binlog.wire import packed_int, take

ZSTANDARD, UNCOMPRESSED = 0, 255
_PIECE = 1 << 20


class TransactionPayload(NamedTuple):
    """A whole transaction except its GTID. ``BinlogDecoder.payload_events`` iterates over its events."""

    header: EventHeader
    compression: int
    uncompressed_size: int | None
    payload: bytes


def decode_payload(data: bytes, header: EventHeader) -> TransactionPayload:
    """Decodes the fields in front of the payload: a type, a size, and a value each, all length-encoded integers."""
    at, end = 0, len(data)
    values: dict[int, int] = {}
    while True:
        code, at = packed_int(data, at, end)
        if code == 0:
            break
        size, at = packed_int(data, at, end)
        content, at = take(data, at, size, end)
        if code in (1, 2, 3):
            values[code], _ = packed_int(content, 0, size)
    payload = data[at : at + values.get(1, end - at)]
    if len(payload) < values.get(1, 0):
        raise IndexError(f"the payload has {len(payload)} bytes, not {values[1]}")
    compression = values.get(2, UNCOMPRESSED)
    if compression not in (ZSTANDARD, UNCOMPRESSED):
        raise ValueError(f"compression type {compression} is unknown; expected 0 (Zstandard) or 255 (none)")
    return TransactionPayload(header, compression, values.get(3), payload)


def split_payload(event: TransactionPayload) -> Iterator[bytes]:
    """Yields the bytes of each event. Memory holds one event at a time.

    Raises DataError if the payload is damaged, MissingExtraError if it is compressed and ``zstandard`` is not installed.
    """
    stream: Any = BytesIO(event.payload) if event.compression == UNCOMPRESSED else zstandard_reader(event.payload)
    at = 0
    while head := _read(stream, HEADER_LENGTH, at):
        size = int.from_bytes(head[9:13], "little")
        if len(head) < HEADER_LENGTH or not HEADER_LENGTH <= size <= MAX_EVENT_BYTES:
            raise DataError(f"the event at byte {at} of a compressed transaction has a damaged header")
        content = head + _read(stream, size - HEADER_LENGTH, at)
        if len(content) < size:
            raise DataError(f"the event at byte {at} of a compressed transaction has {len(content)} bytes instead of {size}")
        yield content
        at += size
    if event.compression == ZSTANDARD and at != event.uncompressed_size:
        # Zstandard's reader takes a truncated frame for a whole one.
        raise DataError(f"a compressed transaction has {at} bytes instead of {event.uncompressed_size}")


def _read(stream: Any, size: int, at: int) -> bytes:
    """Reads in pieces, so that a size in damaged data allocates nothing."""
    pieces = []
    while size:
        try:
            piece = stream.read(min(size, _PIECE))
        except Exception as e:
            if (error := explain_zstandard_error(e)) is None:
                raise
            raise error from e
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
