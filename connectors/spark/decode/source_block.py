"""Reads the source block of change events: time, names, and position in the source's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.data.struct import Struct
from connect.errors import DataError
from connectors.spark.decode.exact_values import read_integer, read_string

_TIME = (("ts_ms", pa.int64()),)
_NAMES = (("db", pa.string()), ("schema", pa.string()), ("table", pa.string()))
_POSITION = (
    ("sequence", pa.string()),
    ("lsn", pa.int64()),
    ("file", pa.string()),
    ("pos", pa.int64()),
    ("row", pa.int64()),
)
_READERS = {pa.int64(): read_integer(-(1 << 63), (1 << 63) - 1, "int64"), pa.string(): read_string}
# Digits of the largest unsigned 64-bit number, and of a 32-bit one.
_LONG, _SHORT = 20, 10
_SEQUENCE = r'^\s*\[\s*(?:null|"(?P<commit>[0-9]{1,20})")\s*,\s*"(?P<lsn>[0-9]{1,20})"\s*\]\s*$'
_FILE_NUMBER = r"\.(?P<number>[0-9]{1,10})$"


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """What the source blocks of a batch say: milliseconds, database, schema, and table (None when not read), and positions."""

    ms: pa.Array
    names: Sequence[pa.Array] | None = None
    positions: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """Which fields of source blocks are read."""

    needs_names: bool
    needs_position: bool

    @property
    def type(self) -> pa.DataType:
        """The type of the fields that are read."""
        return pa.struct([*_TIME, *(_NAMES if self.needs_names else ()), *(_POSITION if self.needs_position else ())])

    def read(self, block: Any) -> dict[str, Any] | None:
        """Reads a source block, from parsed JSON or a struct; None for anything else. Raises DataError that names the field."""
        if isinstance(block, Struct):
            block = {name: block.get(name) for name, _ in (*_TIME, *_NAMES, *_POSITION) if block.schema.field(name) is not None}
        elif not isinstance(block, dict):
            return None
        values = {}
        for member in self.type:
            try:
                values[member.name] = _READERS[member.type](block.get(member.name))
            except DataError as e:
                if (member.name, member.type) not in _POSITION:
                    e.in_field("source." + member.name)
                    raise
                values[member.name] = None  # another connector's field of that name: the position is unknown
        return values

    def columns(self, blocks: pa.Array) -> SourceColumns:
        """The columns of source blocks with the fields of :attr:`type`."""
        names = [pc.struct_field(blocks, n) for n, _ in _NAMES] if self.needs_names else None
        positions = None
        if self.needs_position:
            positions = source_positions(*(pc.struct_field(blocks, n) for n, _ in _POSITION))
        return SourceColumns(pc.struct_field(blocks, "ts_ms"), names, positions)


def source_positions(sequences: pa.Array, lsns: pa.Array, files: pa.Array, positions: pa.Array, rows: pa.Array) -> pa.Array:
    """Positions in the source's log as texts whose order is the order of changes; null when a source block has none.

    All numbers are decimal and padded with zeros: for PostgreSQL ``<LSN of the last commit before>.<LSN>``, 20 digits each, from
    ``sequence``, or from ``lsn`` with a commit LSN of 0; for MySQL and MariaDB ``<number of the binlog file>.<pos>.<row>`` of 10,
    20, and 10 digits. A commit LSN of null, which snapshots have, is 0. Changes of one WAL record share a position.
    """
    parsed = pc.extract_regex(sequences, _SEQUENCE)
    lsn = pc.coalesce(pc.struct_field(parsed, "lsn"), _text(lsns))
    commit = pc.replace_with_mask(
        pc.struct_field(parsed, "commit"), pc.fill_null(pc.equal(pc.struct_field(parsed, "commit"), ""), False), "0"
    )
    postgres = pc.binary_join_element_wise(_padded(pc.fill_null(commit, "0"), _LONG), _padded(lsn, _LONG), ".")
    if files.null_count == len(files):
        return postgres
    number = pc.struct_field(pc.extract_regex(files, _FILE_NUMBER), "number")
    parts = _padded(number, _SHORT), _padded(_text(positions), _LONG), _padded(pc.fill_null(_text(rows), "0"), _SHORT)
    return pc.coalesce(pc.binary_join_element_wise(*parts, "."), postgres)


def _text(numbers: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(numbers, 0), None, numbers).cast(pa.string())


def _padded(digits: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(digits, width, "0")
