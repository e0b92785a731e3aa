"""Changes that become bytes, or records when somebody looks at them.

A row consists of the values of its columns, before and after the change as far as the log has them; its number in its event; the
position of that; the position in front of the event; and the values that it shares with others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.data.schema import Type
from connect.record import SourceRecord
from connect.text_records import Cell, Fixed, Part, RecordTemplate, Slot, StructTemplate, TextKind, TextRows
from connectors.cdc.schema.row_keys import key_cells
from connectors.cdc.streaming.row_templates import envelope_template, struct_template, text_rows
from connectors.mysql.binlog import RowsKind
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.streaming.change_events import BinlogEventBuilder, EventValues, RowPlace

_NUMBERS = {name: Slot(number) for number, name in enumerate(EventValues._fields)}
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


def change_template(
    rows: MySqlTableRows, builder: BinlogEventBuilder, kind: BinlogChangeKind, *, are_values: bool
) -> RecordTemplate:
    """The template of a kind of change of one version of a table. ``are_values``: rows have values as events have them, and not
    those of :meth:`MySqlTableRows.cell_readers`."""
    schemas, width = rows.schemas, len(rows.columns)
    before = _cells(rows, 0, are_values=are_values)
    after = _cells(rows, width if kind.has_before else 0, are_values=are_values)
    end = width * (kind.has_before + kind.has_after)
    now = tuple(_NUMBERS[name] for name in ("now_ms", "now_us", "now_ns"))
    value = envelope_template(
        schemas,
        _source_template(rows, builder, end),
        kind.op,
        now,
        before if kind.has_before else None,
        after if kind.has_after else None,
    )
    latest = after if kind.has_after else before
    key = None if schemas.key is None else StructTemplate(schemas.key, key_cells(rows.row_columns, rows.key_indexes, latest))
    has_tombstones = kind.op == "d" and builder.settings.tombstones and key is not None
    reader = BinlogChangeReader(rows, builder, kind, end, has_tombstones=has_tombstones, are_values=are_values)
    return RecordTemplate(rows.topic, key, value, builder.context, 2 if has_tombstones else 1, reader)


def _cells(rows: MySqlTableRows, first: int, *, are_values: bool) -> tuple[Cell, ...]:
    return tuple((column.value_cell if are_values else column.log_cell)(first + i) for i, column in enumerate(rows.columns))


def _source_template(rows: MySqlTableRows, builder: BinlogEventBuilder, end: int) -> StructTemplate:
    names = [field.name for field in builder.source.fields or ()]
    constants = builder.source_constants(rows.table.database, rows.table.name)
    parts: dict[str, Part] = {name: Fixed(value) for name, value in zip(names, constants, strict=True)}
    parts |= {name: _NUMBERS[name] for name in _SHARED}
    parts |= {name: Cell(end + RowPlace._fields.index(name), TextKind.VALUE, int) for name in ("row", "pos")}
    return struct_template(builder.source, parts)


class BinlogChangeReader:
    """Reads the rows of one template (:class:`connect.text_records.RowReader`)."""

    def __init__(
        self,
        rows: MySqlTableRows,
        builder: BinlogEventBuilder,
        kind: BinlogChangeKind,
        end: int,
        *,
        has_tombstones: bool,
        are_values: bool,
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
        self._unscaled = [] if are_values else [(i, column.convert) for i, column in enumerate(columns) if column.keeps_unscaled]

    def text_rows(self, rows: Sequence[Sequence[Any]]) -> TextRows:
        return text_rows(rows, self._optional, self._strings)

    def create(self, row: Sequence[Any]) -> list[SourceRecord]:
        kind, rows, width = self._kind, self._rows, len(self._rows.columns)
        row = list(row)
        for i, convert in self._unscaled:
            if row[i] is not None:
                row[i] = convert(row[i])
        latest = row[self._end - width : self._end]
        before = row[:width] if kind.has_before else None
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
