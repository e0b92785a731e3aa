"""Writes Parquet files whose VARIANT columns have Parquet's annotation of that name, by which Iceberg recognizes them.

Arrow writes a VARIANT as a plain group. The annotation is therefore added to the footer, the last thing that a writer writes;
nothing refers to places in it, and the rest of the file keeps its place.

Format: ``FileMetaData``, ``SchemaElement``, and ``LogicalType`` in ``parquet.thrift`` of Apache Parquet, in Thrift's compact
protocol.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.spark.decode.variant import is_variant

Path = tuple[str, ...]
"""The names of schema elements below the root, as Parquet has them: an array has ``list`` and ``element`` inside."""

_FILE_SCHEMA = 2
_NAME, _NUM_CHILDREN, _LOGICAL_TYPE = 4, 5, 10
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_VARIANT = bytes.fromhex("0c20 1301 00 00")
"""A ``LogicalType`` with its member 16 (VARIANT), whose field 1 (``specification_version``) is 1; both structs end."""
_TAIL = 8
"""The length of the footer, and the magic number."""


@contextlib.contextmanager
def open_parquet_writer(stream: pa.NativeFile, schema: pa.Schema, **options: Any) -> Iterator[pq.ParquetWriter]:
    """A writer of a Parquet file into a stream that may be written only once, from its beginning to its end."""
    paths = variant_paths(schema)
    if not paths:
        with pq.ParquetWriter(stream, schema, **options) as parquet:
            yield parquet
        return
    held = _HeldStream(stream)
    parquet = pq.ParquetWriter(held, schema, **options)
    try:
        yield parquet
    finally:
        held.holds = True
        parquet.close()
    stream.write(annotate_variants(bytes(held.content), paths))


def variant_paths(schema: pa.Schema) -> list[Path]:
    """The VARIANTs of a schema, nested ones too."""
    return [path for member in schema for path in _paths_in(member.type, (member.name,))]


def _paths_in(type_: pa.DataType, path: Path) -> Iterator[Path]:
    t = pa.types
    if is_variant(type_):
        yield path
    elif t.is_struct(type_):
        for member in type_:
            yield from _paths_in(member.type, (*path, member.name))
    elif t.is_list(type_):
        yield from _paths_in(type_.value_type, (*path, "list", "element"))
    elif t.is_map(type_):
        yield from _paths_in(type_.key_type, (*path, "key_value", "key"))
        yield from _paths_in(type_.item_type, (*path, "key_value", "value"))


def annotate_variants(end: bytes, paths: Collection[Path]) -> bytes:
    """The end of a Parquet file, which contains its whole footer, with the groups at these paths annotated as VARIANT. Raises
    ValueError if the footer has no such group."""
    start = len(end) - _TAIL - int.from_bytes(end[-_TAIL:-4], "little")
    footer = _annotated(end[start:-_TAIL], set(paths))
    return end[:start] + footer + len(footer).to_bytes(4, "little") + end[-4:]


def _annotated(footer: bytes, paths: set[Path]) -> bytes:
    parts, copied = [], 0
    for path, last_field, stop in _schema_elements(footer):
        if path in paths:
            if last_field >= _LOGICAL_TYPE:
                raise ValueError(f"the schema element {'.'.join(path)} has a logical type, or fields of a newer Parquet")
            header = (_LOGICAL_TYPE - last_field) << 4 | _STRUCT
            parts += [footer[copied:stop], bytes([header]), _VARIANT]
            copied = stop
            paths = paths - {path}
    if paths:
        raise ValueError(f"the footer has no schema element {', '.join('.'.join(path) for path in sorted(paths))}")
    return b"".join([*parts, footer[copied:]])


def _schema_elements(footer: bytes) -> Iterator[tuple[Path, int, int]]:
    """The elements of the schema in their order: path, number of the last field, and place of the byte that ends it."""
    reader = _CompactReader(footer)
    for number, kind in reader.fields():
        if number != _FILE_SCHEMA:
            reader.skip(kind)
            continue
        open_: list[tuple[str, int]] = []  # the groups around the next element, and how many children they still have
        for _ in range(reader.list_header()[0]):
            name, children, last = "", 0, 0
            for last, inner in reader.fields():
                if last == _NAME:
                    name = reader.binary().decode()
                elif last == _NUM_CHILDREN:
                    children = reader.signed()
                else:
                    reader.skip(inner)
            yield tuple(group for group, _ in open_[1:]) + ((name,) if open_ else ()), last, reader.at - 1
            if open_:
                open_[-1] = (open_[-1][0], open_[-1][1] - 1)
            open_.append((name, children))
            while open_ and not open_[-1][1]:
                open_.pop()
        return


class _CompactReader:
    """Reads Thrift's compact protocol from its place ``at`` on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a struct. The caller reads or skips its value before it asks for the next one."""
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self.signed()
            yield number, header & 0xF

    def list_header(self) -> tuple[int, int]:
        """Length of a list, and type of its elements."""
        header = self._byte()
        size = header >> 4
        return (self._unsigned() if size == 0xF else size), header & 0xF

    def binary(self) -> bytes:
        size = self._unsigned()
        self.at += size
        return self._data[self.at - size : self.at]

    def signed(self) -> int:
        number = self._unsigned()
        return number >> 1 ^ -(number & 1)

    def skip(self, kind: int) -> None:
        """Skips the value of a field."""
        if kind == _BYTE:
            self.at += 1
        elif kind in (_I16, _I32, _I64):
            self._unsigned()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            self.binary()
        elif kind in (_LIST, _SET):
            size, inner = self.list_header()
            self._skip_elements(size, inner)
        elif kind == _MAP:
            if size := self._unsigned():
                kinds = self._byte()
                for _ in range(size):
                    self._skip_elements(1, kinds >> 4)
                    self._skip_elements(1, kinds & 0xF)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind not in (_TRUE, _FALSE):
            raise ValueError(f"the footer has a field of type {kind}, which Thrift does not have")

    def _skip_elements(self, count: int, kind: int) -> None:
        for _ in range(count):
            if kind in (_TRUE, _FALSE):  # in a field's header, but a byte in a list
                self.at += 1
            else:
                self.skip(kind)

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7


class _HeldStream:
    """Passes on what is written until it ``holds``, and keeps the rest."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.holds = False
        self.content = bytearray()

    def write(self, data: bytes) -> int:
        if self.holds:
            self.content += data
        else:
            self._stream.write(data)
        return len(data)

    def tell(self) -> int:
        return int(self._stream.tell()) + len(self.content)

    def flush(self) -> None: ...

    def close(self) -> None: ...
