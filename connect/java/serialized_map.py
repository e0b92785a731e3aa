"""Codec of Apache's standalone offset file: a Java-serialized ``HashMap<byte[], byte[]>``.

Reads and writes this type only (Java Object Serialization Specification, version 5). Both directions are exact, so that Apache's
worker and Sluice's can continue with each other's file (promise 10).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from connect.errors import DataError

_HEADER = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY = 0x70, 0x71, 0x72, 0x73, 0x75
_BLOCK, _END = 0x77, 0x78
_FIRST_HANDLE = 0x7E0000

_MAP_CLASS = (
    b"r\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1"  # name, serialVersionUID
    b"\x03\x00\x02F\x00\x0aloadFactorI\x00\x09thresholdxp"  # writes its own data; two fields; no superclass
)
_BYTES_CLASS = b"r\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00xp"
# A writer numbers handles in the order of first use: the map's class, the map, the class of byte arrays.
_BYTES_CLASS_REFERENCE = b"q" + struct.pack(">i", _FIRST_HANDLE + 2)


def encode(entries: Mapping[bytes, bytes | None]) -> bytes:
    """Returns the file's bytes for these entries, in their order. None is Java's null."""
    capacity = 16
    while len(entries) > capacity * 3 // 4:
        capacity *= 2
    threshold = capacity * 3 // 4 if entries else 0
    parts = [_HEADER, b"s", _MAP_CLASS, struct.pack(">fi", 0.75, threshold), b"w\x08", struct.pack(">ii", capacity, len(entries))]
    class_description = _BYTES_CLASS
    for pair in entries.items():
        for data in pair:
            if data is None:
                parts.append(b"p")
                continue
            parts.append(b"u" + class_description + struct.pack(">i", len(data)) + data)
            class_description = _BYTES_CLASS_REFERENCE
    parts.append(b"x")
    return b"".join(parts)


def decode(stream: bytes) -> dict[bytes, bytes | None]:
    """Returns the entries of a file, in their order. Raises DataError with the position of the first invalid byte."""
    return _ObjectStreamReader(stream).read_map()


class _ObjectStreamReader:
    """Reads one stream from start to end."""

    def __init__(self, stream: bytes) -> None:
        self._stream = stream
        self._at = 0
        self._handles: list[object] = []

    def read_map(self) -> dict[bytes, bytes | None]:
        if self._take(4) != _HEADER:
            raise self._error("the file does not begin as a Java object stream does", at=0)
        if self._byte() != _OBJECT:
            raise self._error("a serialized object was expected")
        name = self._class_description()
        if name != "java.util.HashMap":
            raise self._error(f"a java.util.HashMap was expected, not a {name}")
        self._handles.append(None)  # the map itself
        self._take(8)  # loadFactor and threshold do not matter for the content
        if self._byte() != _BLOCK or self._byte() != 8:
            raise self._error("the size of the map was expected")
        _, size = struct.unpack(">ii", self._take(8))
        if size < 0:
            raise self._error("the size of the map is negative")
        entries: dict[bytes, bytes | None] = {}
        for _ in range(size):
            key = self._bytes_or_null()
            value = self._bytes_or_null()
            if key is not None:
                entries[key] = value
        if self._byte() != _END:
            raise self._error("the end of the map was expected")
        return entries

    def _bytes_or_null(self) -> bytes | None:
        kind = self._byte()
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            data = self._referenced()
            if not isinstance(data, bytes):
                raise self._error("a byte array was expected")
            return data
        if kind != _ARRAY or self._class_description() != "[B":
            raise self._error("a byte array was expected")
        handle = len(self._handles)
        self._handles.append(None)
        (size,) = struct.unpack(">i", self._take(4))
        if size < 0:
            raise self._error("the size of a byte array is negative")
        data = self._take(size)
        self._handles[handle] = data
        return data

    def _class_description(self) -> str:
        kind = self._byte()
        if kind == _REFERENCE:
            name = self._referenced()
            if not isinstance(name, str):
                raise self._error("a class was expected")
            return name
        if kind != _CLASS:
            raise self._error("a class was expected")
        name = self._text()
        self._take(8)  # serialVersionUID
        self._handles.append(name)
        self._take(1)  # flags
        (fields,) = struct.unpack(">H", self._take(2))
        for _ in range(fields):
            if self._byte() in b"L[":
                raise self._error(f"{name} has fields that such a file does not have")
            self._text()
        if self._byte() != _END:
            raise self._error("the end of a class was expected")
        if self._byte() != _NULL:
            raise self._error(f"{name} has a superclass, which was not expected")
        return name

    def _referenced(self) -> object:
        (handle,) = struct.unpack(">i", self._take(4))
        index = handle - _FIRST_HANDLE
        if not 0 <= index < len(self._handles):
            raise self._error("a reference points nowhere")
        return self._handles[index]

    def _text(self) -> str:
        (size,) = struct.unpack(">H", self._take(2))
        return self._take(size).decode("utf-8", "replace")

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._stream):
            raise self._error(f"the file ends after {len(self._stream)} bytes, in the middle of something")
        taken = self._stream[self._at : end]
        self._at = end
        return taken

    def _error(self, what: str, at: int | None = None) -> DataError:
        return DataError(f"{what} (at byte {self._at if at is None else at})")
