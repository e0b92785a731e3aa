"""The wire format: how a record names its schema.

A payload is a zero byte, the schema ID in four bytes, and the data. Newer serializers may put the ID into the record header
``__key_schema_id`` or ``__value_schema_id`` instead (a zero byte and the ID, or a one byte and the schema's 16-byte GUID); then
the payload is only the data. With Protobuf, the path to the message in its file follows the ID.
"""

from __future__ import annotations

import struct
import uuid

from connect.data.headers import Headers
from connect.errors import DataError

MAGIC = b"\x00"
_GUID_MAGIC = 1
PREFIX_SIZE = 5
_ID = struct.Struct(">i")
SchemaKey = int | str
"""An ID or a GUID."""


def build_prefix(schema_id: int) -> bytes:
    """The prefix of every payload with this schema."""
    return MAGIC + _ID.pack(schema_id)


def parse_prefix(data: bytes) -> int:
    """Parses the schema ID of a payload. Raises DataError that describes the actual bytes."""
    if data[:1] != MAGIC:
        raise DataError(
            f"Unknown magic byte! The data is not in the schema registry's wire format, which starts with a zero byte: "
            f"{_found(data)}. Was it written by another converter?"
        )
    if len(data) < PREFIX_SIZE:
        raise DataError(f"The data ends within the schema ID: {_found(data)}")
    schema_id: int = _ID.unpack_from(data, 1)[0]
    return schema_id


def _found(data: bytes) -> str:
    if not data:
        return "it is empty"
    shown = data[:1].decode("ascii") if data[:1].isascii() and data[:1].decode("ascii").isprintable() else ""
    text = f" ({shown!r})" if shown else ""
    return f"it has {len(data)} bytes and the first is 0x{data[0]:02x}{text}"


def parse_headers(headers: Headers | None, is_key: bool) -> tuple[SchemaKey, bytes] | None:
    """Parses the schema header: the schema key and the bytes after it, or None without such a header. Raises DataError."""
    if headers is None:
        return None
    name = "__key_schema_id" if is_key else "__value_schema_id"
    header = headers.last_with_name(name)
    if header is None:
        return None
    data = bytes(header.value) if isinstance(header.value, bytes | bytearray | memoryview) else b""
    if data[:1] == MAGIC and len(data) >= PREFIX_SIZE:
        return parse_prefix(data), data[PREFIX_SIZE:]
    if data and data[0] == _GUID_MAGIC and len(data) >= 17:
        return str(uuid.UUID(bytes=data[1:17])), data[17:]
    raise DataError(f"The header {name} holds no schema id: expected a byte 0 and 4 bytes, or a byte 1 and 16 bytes")
