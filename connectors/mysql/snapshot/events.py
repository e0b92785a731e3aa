"""Converts rows of queries to 'r' events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import repeat
from operator import contains, itemgetter
from typing import Any, Final

from connect.data.struct import Struct
from connect.errors import DataError
from connect.generated_code import define_functions
from connect.record import SourceRecord
from connect.text_records import Cell, Fixed, Slot, StructTemplate, TextKind, TextRecords, TextRows
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.column_mapping import RowColumn, key_value
from connectors.cdc.schema.column_type import CONVERSION_ERRORS, Inline
from connectors.cdc.schema.errant_rows import errant_record
from connectors.cdc.schema.row_keys import key_cells, key_code
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.databases.mysql.row_decoder import Decode, compile_row_decoder
from connectors.mysql.config import MySqlConfig
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.schema import source_block as block
from connectors.mysql.schema.table_rows import CapturedMySqlColumn, MySqlTableRows, QueryColumnDecoder

# The slots of an envelope; ``before`` and ``transaction`` are null.
_NULL, _SOURCE, _OP, _TS_MS, _TS_US, _TS_NS = range(6)
_TEXT: Final = "x if (x := {x}).isascii() else {b}.decode()"
"""Code of a text, most of which are ASCII."""
_UTC_CLOCK: Final = "f'{{s[i:i + 10]}}T{{s[i + 11:j]}}Z' if d[i] != 48 else {c}({b})"
_ASCII: Final = frozenset({Inline.INT, Inline.FLOAT, Inline.DECIMAL, Inline.BOOL})

RowsDecoder = Callable[[Sequence[list[Any]], Struct, Mapping[str, Any], Mapping[str, Any], int, int, int], list[SourceRecord]]


def text_decoder(rows: MySqlTableRows) -> Decode:
    """Compiles the decoder of a query's rows to texts, and bytes where the server sends bytes."""
    if not rows.columns:
        return compile_row_decoder(["NULL"], [None])
    decoders = [_text_of(column, is_final=_is_final(rows, i)) for i, column in enumerate(rows.columns)]
    return compile_row_decoder([column.name for column in rows.columns], decoders)


def _is_final(rows: MySqlTableRows, index: int) -> bool:
    """Whether the texts of a column are those of events. Keys have those of the server, which statements contain."""
    return rows.columns[index].text.type.inline is Inline.UTC_CLOCK and rows.columns[index].name not in rows.table.key


def _text_of(column: CapturedMySqlColumn, *, is_final: bool) -> QueryColumnDecoder:
    if is_final:
        decode = column.text.type.decode
        return QueryColumnDecoder("text", lambda data: decode(data.decode()), _UTC_CLOCK)
    if column.is_bytes:
        return QueryColumnDecoder("bytes", bytes, "{b}")
    ascii_only = column.text.type.inline in _ASCII
    return QueryColumnDecoder("text", bytes.decode, "{x}" if ascii_only else _TEXT)


class MySqlTableEvents:
    """Converts the rows of one table, which have the texts of ``rows.columns``."""

    def __init__(self, rows: MySqlTableRows, position: BinlogPosition, settings: MySqlConfig, version: str) -> None:
        """``position`` is that of the snapshot."""
        self.rows = rows
        self._settings = settings
        self._partition = source_partition(settings.topic_prefix)
        self._source_schema = block.source_block(is_mariadb=settings.is_mariadb)
        connector = block.connector_name(is_mariadb=settings.is_mariadb)
        table = rows.table
        self._source_values = block.source_values(version, connector, settings.topic_prefix, table.database, table.name)
        self._source_values[block.FILE], self._source_values[block.POS] = position.file, position.position
        self._decode: RowsDecoder | None = None
        self._template: _RowTemplate | None = None

    def records(self, rows: Sequence[list[Any]], marker: str, offsets: OffsetStep) -> list[SourceRecord]:
        """The events of rows; ``marker`` is their ``source.snapshot``."""
        now_ns = time.time_ns()
        return self._decoded(rows, self._source(marker, now_ns), offsets, now_ns)

    def batch(self, rows: Sequence[list[Any]], offsets: OffsetStep) -> TextRecords | list[SourceRecord]:
        """The events of rows between the first and the last one of a table."""
        now_ns = time.time_ns()
        source = self._source("true", now_ns)
        if self.rows.judgment.error is not None:
            return self._decoded(rows, source, offsets, now_ns)
        if self._template is None:
            self._template = _RowTemplate(self.rows)

        def create() -> list[SourceRecord]:
            return self._decoded(rows, source, offsets, now_ns)

        slots = None, source, "r", now_ns // 1_000_000, now_ns // 1000, now_ns
        return self._template.records(rows, slots, self._partition, offsets.after, create)

    def _decoded(self, rows: Sequence[list[Any]], source: Struct, offsets: OffsetStep, now_ns: int) -> list[SourceRecord]:
        """Creates records. A row that cannot be converted does not keep the others."""
        offset = offsets.before
        try:
            records = self._decode_rows(rows, source, offset, now_ns)
        except CONVERSION_ERRORS:
            records = []
            for row in rows:
                try:
                    records += self._decode_rows([row], source, offset, now_ns)
                except CONVERSION_ERRORS as e:
                    records.append(self._errant(row, e, offset))
        records[-1].source_offset = offsets.after
        return records

    def _errant(self, row: list[Any], error: Exception, offset: Mapping[str, Any]) -> SourceRecord:
        rows = self.rows
        key = ", ".join(f"{name}={_shown(row[i])}" for name, i in zip(rows.key, rows.key_indexes, strict=True))
        reason = error.message if isinstance(error, DataError) else str(error)
        named = DataError(f"a row of table {rows.table} with the key ({key}) cannot be converted: {reason}")
        named.__cause__ = error
        mode = self._settings.events.failure_mode
        return errant_record(named, rows.topic, str(rows.table), rows.row_columns, row, mode, self._partition, offset)

    def _decode_rows(
        self, rows: Sequence[list[Any]], source: Struct, offset: Mapping[str, Any], now_ns: int
    ) -> list[SourceRecord]:
        self.rows.judgment.raise_error()
        if self._decode is None:
            self._decode = _rows_decoder(self.rows)
        return self._decode(rows, source, self._partition, offset, now_ns // 1_000_000, now_ns // 1000, now_ns)

    def _source(self, marker: str, now_ns: int) -> Struct:
        """A source block shared by consecutive rows."""
        values = list(self._source_values)
        values[block.TS_MS], values[block.TS_US], values[block.TS_NS] = now_ns // 1_000_000, now_ns // 1000, now_ns
        values[block.SNAPSHOT] = marker
        return Struct(self._source_schema, values)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _RowTemplate:
    """Builds records that are still texts."""

    def __init__(self, rows: MySqlTableRows) -> None:
        schemas = rows.schemas
        columns = rows.row_columns
        cells = [
            Cell(i, TextKind.STRING, str) if _is_final(rows, i) else Cell(i, column.type.text_kind, column.type.decode)
            for i, column in enumerate(columns)
        ]
        # A mask hides nulls, too.
        parts = tuple(
            cell if column.null_value is None else Fixed(column.null_value) for cell, column in zip(cells, columns, strict=True)
        )
        self._texts = [i for i, cell in enumerate(cells) if cell.kind is TextKind.STRING]
        self._may_have_nulls = any(column.schema.optional for column in columns)
        self._topic = rows.topic
        key = key_cells(columns, rows.key_indexes, cells)
        self._key = None if schemas.key is None else StructTemplate(schemas.key, key)
        self._value = StructTemplate(
            schemas.envelope,
            (
                Slot(_NULL), StructTemplate(schemas.value, parts), Slot(_SOURCE), Slot(_NULL), Slot(_OP), Slot(_TS_MS),
                Slot(_TS_US), Slot(_TS_NS),
            ),
        )  # fmt: skip

    def records(
        self,
        rows: Sequence[list[Any]],
        slots: tuple[Any, ...],
        partition: Mapping[str, Any],
        offset: Mapping[str, Any],
        create: Callable[[], list[SourceRecord]],
    ) -> TextRecords:
        """Returns the 'r' events of rows; ``create`` creates their records."""

        def read(start: int, end: int) -> TextRows:
            part = rows[start:end]
            has_nulls = self._may_have_nulls and any(map(contains, part, repeat(None)))
            return TextRows(part, has_nulls, self._is_plain(part), slots)

        return TextRecords(self._topic, self._key, self._value, len(rows), read, partition, offset, create)

    def _is_plain(self, rows: Sequence[list[Any]]) -> bool:
        for i in self._texts:
            text = "".join(filter(None, map(itemgetter(i), rows)))
            if not text.isascii() or '"' in text or "\\" in text or not text.isprintable():
                return False
        return True


_FROM_TEXT = {
    Inline.INT: "int({x})",
    Inline.FLOAT: "float({x})",
    Inline.TEXT: "{x}",
    Inline.DECIMAL: "Decimal({x})",
}


def _rows_decoder(rows: MySqlTableRows) -> RowsDecoder:
    """Generates ``decode(rows, source, partition, offset, ts_ms, ts_us, ts_ns)``, which returns the 'r' events of rows."""
    columns, schemas = rows.row_columns, rows.schemas
    space: dict[str, Any] = {
        "Struct": Struct, "SourceRecord": SourceRecord, "Decimal": Decimal, "key_value": key_value, "topic": rows.topic,
        "key_schema": schemas.key, "value_schema": schemas.value, "envelope_schema": schemas.envelope,
    }  # fmt: skip
    for i, column in enumerate(columns):
        space[f"c{i}"], space[f"m{i}"] = column.type.decode, column.null_value
    key = ", ".join(key_code(columns, i, f"v{i}") for i in rows.key_indexes)
    key_parts = f"key_schema, Struct(key_schema, [{key}])" if rows.key_indexes else "None, None"
    names = "".join(f"v{i}, " for i in range(len(columns)))
    code = [
        "def decode(rows, source, partition, offset, ts_ms, ts_us, ts_ns):",
        "    out = []",
        "    add = out.append",
        f"    for {names or 'row'} in rows:",
        *(f"        v{i} = {_value_code(column, i)}" for i, column in enumerate(columns) if not _is_final(rows, i)),
        f"        add(SourceRecord(partition, offset, topic, None, {key_parts}, envelope_schema, Struct(envelope_schema, "
        f"[None, Struct(value_schema, [{names}]), source, None, 'r', ts_ms, ts_us, ts_ns])))",
        "    return out",
    ]
    decoder: RowsDecoder = define_functions(code, space, title="MySQL snapshot rows")["decode"]
    return decoder


def _value_code(column: RowColumn, index: int) -> str:
    value = _FROM_TEXT.get(column.type.inline, f"c{index}({{x}})").format(x=f"v{index}")
    return f"m{index} if v{index} is None else {value}" if column.schema.optional else value
