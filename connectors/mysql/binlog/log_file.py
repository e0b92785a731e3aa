"""Splits the bytes of a binary log file into events."""

from __future__ import annotations

from collections.abc import Iterator

from connect.errors import DataError, UnsupportedError
from connectors.mysql.binlog.events import HEADER_LENGTH

MAGIC = b"\xfebin"
_ENCRYPTED_MAGIC = b"\xfdbin"


def split_file(data: bytes) -> Iterator[bytes]:
    """Yields the bytes of each event.

    Raises DataError if the file is damaged or truncated, UnsupportedError if it is encrypted.
    """
    if data[:4] == _ENCRYPTED_MAGIC:
        raise UnsupportedError(
            "the binary log file is encrypted (binlog_encryption=ON). Read it from the server, which decrypts it, instead"
        )
    if data[:4] != MAGIC:
        raise DataError(f"no binary log file begins with {data[:4].hex()}; expected {MAGIC.hex()}")
    at = len(MAGIC)
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        if size < HEADER_LENGTH or at + size > len(data):
            raise DataError(f"the event at position {at} of the binary log file claims {size} bytes; {len(data) - at} are left")
        yield data[at : at + size]
        at += size
