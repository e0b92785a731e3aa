"""Changes that are still the server's text: they become bytes, or records when somebody looks at them.

A row consists of the cells of its columns, the text of its LSN, the number of changes at that LSN, the number of changes of its
transaction up to it, and the values of its transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from connect.record import SourceRecord
from connect.text_records import (
    Cell,
    Fixed,
    Joined,
    Part,
    RecordTemplate,
    Slot,
    StructTemplate,
    TextKind,
    TextRows,
)
from connectors.cdc.schema.row_keys import key_cells
from connectors.cdc.streaming.row_templates import envelope_template, struct_template, text_rows
from connectors.postgres.offsets import change_offset
from connectors.postgres.schema import source_block as block
from connectors.postgres.schema.row_decoder import TableRows, TupleDecoder
from connectors.postgres.schema.value_errors import ReplicaIdentityError
from connectors.postgres.streaming.cell_decoder import (
    CellDecoder,
    cell_values,
    complete_update_decoder,
    new_row_decoder,
    row_cells,
    value_cells,
)
from connectors.postgres.streaming.change_events import ChangeEventBuilder, StreamedTable, TransactionValues
from connectors.postgres.streaming.pgoutput import DELETE, INSERT, KEY_TUPLE, NEW_TUPLE, OLD_TUPLE, UPDATE, pad_message

_NUMBERS = {name: Slot(number) for number, name in enumerate(TransactionValues._fields)}


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """A kind of message that becomes one change event, perhaps with a tombstone."""

    op: str
    message_type: str
    has_before: bool
    has_after: bool


_KINDS = {
    (INSERT, NEW_TUPLE): ChangeKind("c", "INSERT", False, True),
    (UPDATE, NEW_TUPLE): ChangeKind("u", "UPDATE", False, True),
    (UPDATE, OLD_TUPLE): ChangeKind("u", "UPDATE", True, True),
    (UPDATE, KEY_TUPLE): ChangeKind("u", "UPDATE", True, True),
    (DELETE, OLD_TUPLE): ChangeKind("d", "DELETE", True, False),
    (DELETE, KEY_TUPLE): ChangeKind("d", "DELETE", True, False),
}


@dataclass(frozen=True, slots=True)
class ChangeTemplate:
    """``decode`` returns None for a change whose records depend on more than its texts: one that may change the key or may be
    skipped. It raises the errors of the table's decoders."""

    decode: CellDecoder
    records: RecordTemplate


def change_template(table: StreamedTable, builder: ChangeEventBuilder, message: int, marker: int) -> ChangeTemplate:
    """The template of a kind of message, with the mark of its first tuple."""
    kind = _KINDS[message, marker]
    records = _record_template(table, builder, kind, are_values=marker == KEY_TUPLE)
    return ChangeTemplate(_decoder(table, builder, message, marker), records)


def _decoder(table: StreamedTable, builder: ChangeEventBuilder, message: int, marker: int) -> CellDecoder:
    rows = table.rows
    if message != INSERT and not table.sends_key:
        return _refuse_without_key
    if message == UPDATE and marker != NEW_TUPLE:
        if marker == KEY_TUPLE or builder.settings.skip_unchanged:
            return lambda data, at: None
        return complete_update_decoder(rows)
    return partial(_decode_key, rows.decode_key_only) if marker == KEY_TUPLE else new_row_decoder(rows)


def _refuse_without_key(data: bytes, at: int) -> None:
    raise ReplicaIdentityError("the replica identity of the table does not contain the record key (message.key.columns)")


def _decode_key(decode: TupleDecoder, data: bytes, at: int) -> tuple[Any, ...]:
    try:
        return tuple(decode(data, at))
    except struct.error:
        return tuple(decode(pad_message(data), at))


def _record_template(table: StreamedTable, builder: ChangeEventBuilder, kind: ChangeKind, *, are_values: bool) -> RecordTemplate:
    rows = table.rows
    schemas, width = rows.schemas, len(rows.columns)
    cells = value_cells(rows) if are_values else row_cells(rows)
    new_at = width if kind.has_before and kind.has_after else 0
    end = new_at + width
    latest = row_cells(rows, new_at) if new_at else cells
    now = tuple(_NUMBERS[name] for name in ("now_ms", "now_us", "now_ns"))
    value = envelope_template(
        schemas,
        _source_template(rows, builder, end),
        kind.op,
        now,
        cells if kind.has_before else None,
        latest if kind.has_after else None,
    )
    key = None if schemas.key is None else StructTemplate(schemas.key, key_cells(rows.columns, rows.key_indexes, latest))
    settings = builder.settings
    has_tombstones = kind.op == "d" and (settings.tombstones if key is not None else settings.null_key_tombstones)
    reader = ChangeReader(table, builder, kind, end, has_tombstones=has_tombstones, are_values=are_values)
    return RecordTemplate(rows.topic, key, value, builder.context, 2 if has_tombstones else 1, reader)


def _source_template(rows: TableRows, builder: ChangeEventBuilder, lsn_at: int) -> StructTemplate:
    names = [field.name for field in block.SOURCE.fields or ()]
    parts: dict[str, Part] = {name: Fixed(value) for name, value in zip(names, builder.source_constants(rows), strict=True)}
    parts |= {
        "ts_ms": _NUMBERS["commit_ms"],
        "ts_us": _NUMBERS["commit_us"],
        "ts_ns": _NUMBERS["commit_ns"],
        "sequence": Joined(_NUMBERS["sequence"].number, lsn_at, '"]'),
        "txId": _NUMBERS["tx_id"],
        "lsn": Cell(lsn_at, TextKind.INTEGER, int),
        "xmin": _NUMBERS["xmin"],
        "origin": _NUMBERS["origin"],
        "origin_lsn": _NUMBERS["origin_lsn"],
    }
    return struct_template(block.SOURCE, parts)


class ChangeReader:
    """Reads the rows of one template (:class:`connect.text_records.RowReader`)."""

    def __init__(
        self,
        table: StreamedTable,
        builder: ChangeEventBuilder,
        kind: ChangeKind,
        end: int,
        *,
        has_tombstones: bool,
        are_values: bool,
    ) -> None:
        """``end`` is the number of cells in a row."""
        self._table = StreamedTable(table.rows, table.sends_key)
        self._builder = builder
        self._kind = kind
        self._end = end
        self._has_tombstones = has_tombstones
        self._values: Callable[[Any, int], list[Any]] = (
            (lambda row, at: list(row[at : at + len(table.rows.columns)])) if are_values else cell_values(table.rows)
        )
        columns = table.rows.columns * (end // len(table.rows.columns)) if table.rows.columns else []
        kinds = [cell.kind for cell in row_cells(table.rows)] * 2
        self._optional = [i for i, column in enumerate(columns) if column.schema.optional]
        self._strings = [] if are_values else [i for i in range(end) if kinds[i] is TextKind.STRING]

    def text_rows(self, rows: Sequence[Sequence[Any]]) -> TextRows:
        return text_rows(rows, self._optional, self._strings)

    def create(self, row: Sequence[Any]) -> list[SourceRecord]:
        kind, table, values = self._kind, self._table, self._values
        new_at = self._end - len(table.rows.columns)
        before = values(row, 0) if kind.has_before else None
        after = values(row, new_at) if kind.has_after else None
        present = before if after is None else after
        assert present is not None
        offset = self._offset(row, is_last=not self._has_tombstones)
        record = self._builder.change(table, row[-1], offset, kind.op, before, after, table.rows.key_of(present))
        if not self._has_tombstones:
            return [record]
        return [record, self._builder.tombstone(record, self._offset(row, is_last=True))]

    def last_offset(self, row: Sequence[Any]) -> Mapping[str, Any]:
        return self._offset(row, is_last=True)

    def _offset(self, row: Sequence[Any], *, is_last: bool) -> dict[str, Any]:
        lsn, processed, done, transaction = row[self._end :]
        left = 0 if is_last else 1
        offset = change_offset(
            int(lsn),
            self._kind.message_type,
            transaction.commit_us,
            transaction.tx_id,
            transaction.done_lsn,
            processed - left,
            transaction.tx_lsn,
            done - left,
        )
        if transaction.offset_extras:
            offset.update(transaction.offset_extras)
        return offset
