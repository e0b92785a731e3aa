"""Reads the source block of change events: time, names, and position in the source's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
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
_PYTHON_TYPES = {pa.int64(): {int, type(None)}, pa.string(): {str, type(None)}}
# Digits of the largest unsigned 64-bit number, and of a 32-bit one.
_LONG, _SHORT = 20, 10
_SEQUENCE = r'^\s*\[\s*(?:null|"(?P<commit>[0-9]{1,20})")\s*,\s*"(?P<lsn>[0-9]{1,20})"\s*\]\s*$'
_FILE_NUMBER = r"\.(?P<number>[0-9]{1,10})$"


@lru_cache
def _fields(needs_names: bool, needs_position: bool) -> tuple[tuple[str, pa.DataType], ...]:
    return (*_TIME, *(_NAMES if needs_names else ()), *(_POSITION if needs_position else ()))


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """What the source blocks of a batch say: milliseconds, database, schema, and table (None when not read), and positions."""

    ms: pa.Array
    names: Sequence[pa.Array] | None = None
    positions: pa.Array | None = None

    def take(self, indices: pa.Array) -> SourceColumns:
        """The same for other rows."""
        names = None if self.names is None else [name.take(indices) for name in self.names]
        positions = None if self.positions is None else self.positions.take(indices)
        return SourceColumns(self.ms.take(indices), names, positions)


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """Which fields of source blocks are read."""

    needs_names: bool
    needs_position: bool

    @property
    def type(self) -> pa.DataType:
        """The type of the fields that are read."""
        return pa.struct(list(_fields(self.needs_names, self.needs_position)))

    def read(self, block: Any) -> dict[str, Any] | None:
        """Reads a source block, from parsed JSON or a struct; None for anything else. Raises DataError that names the field."""
        fields = _fields(self.needs_names, self.needs_position)
        if isinstance(block, Struct):
            block = {name: block.get(name) for name, _ in fields if block.schema.field(name) is not None}
        elif not isinstance(block, dict):
            return None
        values = {}
        for name, type_ in fields:
            try:
                values[name] = _READERS[type_](block.get(name))
            except DataError as e:
                if (name, type_) not in _POSITION:
                    e.in_field("source." + name)
                    raise
                values[name] = None  # another connector's field of that name: the position is unknown
        return values

    def read_structs(self, blocks: Sequence[Any]) -> pa.Array | None:
        """Reads source blocks of records; None if a field has an unusual type and needs :meth:`read`."""
        columns = []
        for name, type_ in _fields(self.needs_names, self.needs_position):
            values = [_member(block, name) for block in blocks]
            if not set(map(type, values)) <= _PYTHON_TYPES[type_]:
                return None
            columns.append(pa.array(values, type_))
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def columns(self, blocks: pa.Array) -> SourceColumns:
        """The columns of source blocks with the fields of :attr:`type`."""
        names = [pc.struct_field(blocks, n) for n, _ in _NAMES] if self.needs_names else None
        positions = None
        if self.needs_position:
            positions = source_positions(*(pc.struct_field(blocks, n) for n, _ in _POSITION))
        return SourceColumns(pc.struct_field(blocks, "ts_ms"), names, positions)


def _member(block: Any, name: str) -> Any:
    return block.get(name) if block is not None and block.schema.field(name) is not None else None


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
