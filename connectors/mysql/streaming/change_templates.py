"""Changes that become bytes, or records when somebody looks at them.

A row consists of the values of its columns, before and after the change as far as the log has them; the position of its event;
its number there; the position in front of the event; and the values that it shares with others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from connect.data.schema import Schema, Type
from connect.record import SourceRecord
from connect.text_records import Cell, Fixed, Part, RecordTemplate, Slot, StructTemplate, TextKind, TextRows
from connectors.cdc.schema.row_keys import key_cells
from connectors.mysql.binlog import RowsKind
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.streaming.change_events import BinlogEventBuilder, EventValues, RowPlace

_NUMBERS = {name: Slot(number) for number, name in enumerate(EventValues._fields)}
_SPECIAL = bytes(range(0x20)) + b'"\\' + bytes(range(0xF0, 0xF5))
"""Control characters, quotes, backslashes, and the first bytes of characters beyond U+FFFF."""
_SHARED = ("ts_ms", "ts_us", "ts_ns", "server_id", "gtid", "file", "thread", "query")
"""Fields of the source block that are values of :class:`EventValues`."""


@dataclass(frozen=True, slots=True)
class BinlogChangeKind:
    """A kind of change."""

    op: str
    has_before: bool
    has_after: bool


KINDS = {
    RowsKind.INSERT: BinlogChangeKind("c", False, True),
    RowsKind.UPDATE: BinlogChangeKind("u", True, True),
    RowsKind.DELETE: BinlogChangeKind("d", True, False),
}


def change_template(rows: MySqlTableRows, builder: BinlogEventBuilder, kind: BinlogChangeKind) -> RecordTemplate:
    """The template of a kind of change of one version of a table."""
    schemas, width = rows.schemas, len(rows.columns)
    before = _value_cells(rows, 0)
    after = _value_cells(rows, width if kind.has_before else 0)
    end = width * (kind.has_before + kind.has_after)
    parts: dict[str, Part] = {
        "source": _source_template(rows, builder, end),
        "op": Fixed(kind.op),
        "ts_ms": _NUMBERS["now_ms"],
        "ts_us": _NUMBERS["now_us"],
        "ts_ns": _NUMBERS["now_ns"],
    }
    if kind.has_before:
        parts["before"] = StructTemplate(schemas.value, before)
    if kind.has_after:
        parts["after"] = StructTemplate(schemas.value, after)
    latest = after if kind.has_after else before
    key = None if schemas.key is None else StructTemplate(schemas.key, key_cells(rows.row_columns, rows.key_indexes, latest))
    has_tombstones = kind.op == "d" and builder.settings.tombstones and key is not None
    reader = BinlogChangeReader(rows, builder, kind, end, has_tombstones=has_tombstones)
    value = _template(schemas.envelope, parts)
    return RecordTemplate(rows.topic, key, value, builder.context, 2 if has_tombstones else 1, reader)


def _value_cells(rows: MySqlTableRows, first: int) -> tuple[Cell, ...]:
    """Cells of values. Texts are known as such, because most of them need no escapes."""
    return tuple(
        Cell(first + i, TextKind.STRING if column.text.schema.type is Type.STRING else TextKind.VALUE, _same)
        for i, column in enumerate(rows.columns)
    )


def _same(value: Any) -> Any:
    return value


def _source_template(rows: MySqlTableRows, builder: BinlogEventBuilder, end: int) -> StructTemplate:
    names = [field.name for field in builder.source.fields or ()]
    constants = builder.source_constants(rows.table.database, rows.table.name)
    parts: dict[str, Part] = {name: Fixed(value) for name, value in zip(names, constants, strict=True)}
    parts |= {name: _NUMBERS[name] for name in _SHARED}
    parts |= {"pos": Cell(end, TextKind.VALUE, _same), "row": Cell(end + 1, TextKind.VALUE, _same)}
    return _template(builder.source, parts)


def _template(schema: Schema, parts: Mapping[str, Part]) -> StructTemplate:
    """A struct whose other fields are null."""
    return StructTemplate(schema, tuple(parts.get(field.name, Fixed(None)) for field in schema.fields or ()))


class BinlogChangeReader:
    """Reads the rows of one template (:class:`connect.text_records.RowReader`)."""

    def __init__(
        self, rows: MySqlTableRows, builder: BinlogEventBuilder, kind: BinlogChangeKind, end: int, *, has_tombstones: bool
    ) -> None:
        """``end`` is the number of values in a row."""
        self._rows = rows
        self._builder = builder
        self._kind = kind
        self._end = end
        self._has_tombstones = has_tombstones
        columns = rows.columns * (kind.has_before + kind.has_after)
        self._optional = [i for i, column in enumerate(columns) if column.text.schema.optional]
        self._strings = [i for i, column in enumerate(columns) if column.text.schema.type is Type.STRING]

    def text_rows(self, rows: Sequence[Sequence[Any]]) -> TextRows:
        columns = list(zip(*rows, strict=True))
        has_nulls = any(None in columns[i] for i in self._optional)
        strings = chain.from_iterable(columns[i] for i in self._strings)
        text = "".join(filter(None, strings) if has_nulls else strings).encode()
        return TextRows(rows, has_nulls, len(text.translate(None, _SPECIAL)) == len(text), None)

    def create(self, row: Sequence[Any]) -> list[SourceRecord]:
        kind, rows, width = self._kind, self._rows, len(self._rows.columns)
        latest = list(row[self._end - width : self._end])
        before = list(row[:width]) if kind.has_before else None
        after = latest if kind.has_after else None
        place, values = RowPlace(*row[self._end : -1]), row[-1]
        key = rows.key_of(latest)
        offset = place.offset(values, is_last=not self._has_tombstones)
        record = self._builder.change(rows, values, place, kind.op, before, after, key, offset)
        if not self._has_tombstones:
            return [record]
        return [record, self._builder.tombstone(record, place.offset(values, is_last=True))]

    def last_offset(self, row: Sequence[Any]) -> Mapping[str, Any]:
        return RowPlace(*row[self._end : -1]).offset(row[-1], is_last=True)
