"""Decodes FORMAT_DESCRIPTION, the first event of a file."""

from __future__ import annotations

import re
import struct

from connectors.mysql.binlog.events import HEADER_LENGTH, EventHeader, FormatDescription

_fixed = struct.Struct("<H50sIB").unpack_from
_FIXED_LENGTH = 57
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)")
_CHECKSUM_LENGTH = 5  # the algorithm and the checksum, even if the algorithm is none
_SUPPORTED_VERSION = 4


def decode_format_description(data: bytes, header: EventHeader) -> FormatDescription:
    """Decodes the event, whose checksum ``data`` includes. Raises ValueError for logs of servers before MySQL 5.0."""
    binlog_version, raw_version, created, header_length = _fixed(data, 0)
    version = raw_version.rstrip(b"\0").decode()
    if binlog_version != _SUPPORTED_VERSION:
        raise ValueError(f"binary log version {binlog_version} of server {version} is not supported; MySQL 5.0 and later write 4")
    if header_length != HEADER_LENGTH:
        raise ValueError(f"event headers have {header_length} bytes; expected {HEADER_LENGTH}")
    lengths, algorithm = data[_FIXED_LENGTH:], None
    if _has_checksum(version):
        if len(lengths) < _CHECKSUM_LENGTH:
            raise IndexError("the event has no checksum algorithm")
        lengths, algorithm = lengths[:-_CHECKSUM_LENGTH], lengths[-_CHECKSUM_LENGTH]
        if algorithm not in (0, 1, 255):
            raise ValueError(f"checksum algorithm {algorithm} is unknown; expected 0 (none) or 1 (CRC32)")
    return FormatDescription(header, binlog_version, version, created, header_length, lengths, algorithm)


def _has_checksum(server_version: str) -> bool:
    """Since MySQL 5.6.1 and MariaDB 5.3.0. A version that cannot be read is one of a later server."""
    match = _VERSION.search(server_version)
    if match is None:
        return True
    version = tuple(map(int, match.groups()))
    return version >= ((5, 3, 0) if "mariadb" in server_version.lower() else (5, 6, 1))
