"""Rows of a COPY as records that are still texts, so that converters write their bytes without values in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from connect.data.struct import Struct
from connect.record import SourceRecord
from connect.text_records import Cell, Fixed, Slot, StructTemplate, TextLines, TextRecords, TextRows
from connectors.cdc.schema.column_type import ColumnType
from connectors.databases.postgresql.text_format import unescape_copy
from connectors.postgres.schema.row_decoder import TableRows

_SPECIAL = bytes(b for b in range(0x20) if b not in b"\t\n") + b'"' + bytes(range(0xF0, 0xF5))
"""Control characters, quotes, and the first bytes of characters beyond U+FFFF."""
# The slots of an envelope; ``before`` and ``transaction`` are null.
_NULL, _SOURCE, _OP, _TS_MS, _TS_US, _TS_NS = range(6)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a block of lines contains somewhere."""

    has_nulls: bool
    has_escapes: bool
    has_special: bool

    @classmethod
    def of(cls, block: bytes) -> Traits:
        """Looks at a block of lines."""
        backslashes = block.count(b"\\")
        nulls = block.count(b"\\N") if backslashes else 0
        return cls(nulls > 0, backslashes != nulls, len(block.translate(None, _SPECIAL)) != len(block))

    def __or__(self, other: Traits) -> Traits:
        return Traits(
            self.has_nulls or other.has_nulls, self.has_escapes or other.has_escapes, self.has_special or other.has_special
        )


@dataclass(frozen=True, slots=True)
class EventTime:
    """When rows were read, as the envelope has it."""

    ms: int
    us: int
    ns: int


class TextBatches:
    """Builds the records of one table."""

    def __init__(self, table: TableRows) -> None:
        cells = [
            # A mask hides nulls, too.
            _cell(i, column.type) if column.null_value is None else Fixed(column.null_value)
            for i, column in enumerate(table.columns)
        ]
        key = tuple(_cell(i, table.columns[i].key_type) for i in table.key_indexes)
        schemas = table.schemas
        self._topic = table.topic
        self._key = None if schemas.key is None else StructTemplate(schemas.key, key)
        row = StructTemplate(schemas.value, tuple(cells))
        self._value = StructTemplate(
            schemas.envelope,
            (Slot(_NULL), row, Slot(_SOURCE), Slot(_NULL), Slot(_OP), Slot(_TS_MS), Slot(_TS_US), Slot(_TS_NS)),
        )

    def records(
        self,
        lines: Sequence[str],
        traits: Traits,
        source: Struct,
        time: EventTime,
        partition: Mapping[str, Any],
        offset: Mapping[str, Any],
        create: Callable[[], list[SourceRecord]],
    ) -> TextRecords:
        """Returns the 'r' events of lines; ``create`` creates their records."""
        has_nulls = traits.has_nulls or traits.has_escapes
        is_plain = not traits.has_special and not traits.has_escapes
        slots = None, source, "r", time.ms, time.us, time.ns

        def read(start: int, end: int) -> TextRows:
            return TextRows(split_rows(lines[start:end], traits), has_nulls, is_plain, slots)

        as_lines = None if traits.has_escapes else TextLines(lines, slots)
        return TextRecords(self._topic, self._key, self._value, len(lines), read, partition, offset, create, as_lines)


def _cell(column: int, mapped: ColumnType) -> Cell:
    return Cell(column, mapped.text_kind, mapped.decode)


def split_rows(lines: Sequence[str], traits: Traits) -> Sequence[Sequence[str | None]]:
    """The columns of lines, as texts without escapes."""
    if traits.has_escapes:
        return [line.split("\t") if "\\" not in line else _unescaped(line) for line in lines]
    if traits.has_nulls:
        return [
            line.split("\t") if "\\" not in line else [None if text == "\\N" else text for text in line.split("\t")]
            for line in lines
        ]
    return list(map(str.split, lines, repeat("\t")))


def _unescaped(line: str) -> list[str | None]:
    return [text if "\\" not in text else None if text == "\\N" else unescape_copy(text) for text in line.split("\t")]
