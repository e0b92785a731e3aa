"""A captured table as the binary log describes it: decoders of its rows, and templates of its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from connect.errors import DataError
from connect.generated_code import evaluate
from connect.text_records import RecordTemplate
from connectors.cdc.schema.column_mapping import key_value
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.cdc.schema.row_keys import key_code
from connectors.mysql.binlog import ABSENT, ColumnReader, RowDecoder, RowsEvent, RowsKind, TableMap
from connectors.mysql.schema.table_rows import CapturedMySqlColumn, MySqlTableRows
from connectors.mysql.streaming.change_events import BinlogEventBuilder
from connectors.mysql.streaming.change_templates import KINDS, change_template

Row = Sequence[Any]


class StreamedMySqlTable:
    """A version of a table, and how the log describes it."""

    def __init__(self, rows: MySqlTableRows, table_map: TableMap, builder: BinlogEventBuilder) -> None:
        """Raises DataError if TABLE_MAP is damaged."""
        self.rows = rows
        self.cell_decoder = RowDecoder(table_map, rows.cell_readers(table_map.column_count))
        """Decodes rows for :meth:`cell_template`."""
        self._table_map = table_map
        self._builder = builder
        self._templates: dict[tuple[RowsKind, bool], RecordTemplate] = {}
        count = table_map.column_count
        self._all_present = bytes([0xFF] * (count // 8) + ([(1 << count % 8) - 1] if count % 8 else []))
        self._fills_nulls = any(column.text.null_value is not None for column in rows.columns)

    @cached_property
    def decoder(self) -> RowDecoder:
        """Decodes rows to the values of events."""
        return RowDecoder(self._table_map, self.rows.readers(self._table_map.column_count))

    def template(self, kind: RowsKind) -> RecordTemplate:
        """The template of a kind of change, for rows with the values of events."""
        return self._template(kind, are_values=True)

    def cell_template(self, kind: RowsKind) -> RecordTemplate:
        """The template of a kind of change, for rows of :attr:`cell_decoder`."""
        return self._template(kind, are_values=False)

    def _template(self, kind: RowsKind, *, are_values: bool) -> RecordTemplate:
        found = self._templates.get((kind, are_values))
        if found is None:
            found = change_template(self.rows, self._builder, KINDS[kind], are_values=are_values)
            self._templates[kind, are_values] = found
        return found

    def needs_completion(self, event: RowsEvent) -> bool:
        """Whether :meth:`complete` must be called for its rows: the log lacks columns, or nulls become other values."""
        return (
            self._fills_nulls
            or self._is_incomplete(event.present)
            or (event.kind is RowsKind.UPDATE and self._is_incomplete(event.present_after))
        )

    def _is_incomplete(self, present: bytes) -> bool:
        if present == self._all_present:
            return False
        count = self._table_map.column_count
        return any(not present[i >> 3] & 1 << (i & 7) for i in range(count))

    def complete(self, row: Row, other: Row | None = None) -> list[Any]:
        """Returns the values of a row. Columns that the log does not have are those of the row before, or placeholders.

        Raises DataError for a type without a placeholder.
        """
        values = list(row)
        for i, value in enumerate(values):
            column = self.rows.columns[i].text
            if value is None:
                values[i] = column.null_value
            elif value is ABSENT:
                if other is not None and other[i] is not ABSENT:
                    values[i] = other[i]
                elif column.type.placeholder is None:
                    raise DataError(
                        f"the binary log does not have column {column.name} of table {self.rows.table}, and its type has no "
                        "placeholder: set binlog_row_image=FULL"
                    )
                else:
                    values[i] = column.type.placeholder
        return values

    @cached_property
    def moves_key(self) -> Callable[[Sequence[Row]], bool]:
        """Whether one of some updates, as flat rows, changes the record key."""
        rows, width = self.rows, len(self.rows.columns)
        differences = " or ".join(
            f"{key_code(rows.row_columns, i, f'r[{i}]')} != {key_code(rows.row_columns, i, f'r[{width + i}]')}"
            for i in rows.key_indexes
        )
        if not differences:
            return lambda pairs: False
        code = f"lambda rows: any([{differences} for r in rows])"
        found: Callable[[Sequence[Row]], bool] = evaluate(code, {"key_value": key_value}, title="changed keys")
        return found

    # --- rows that cannot be converted ------------------------------------------------------------------------------------------

    @cached_property
    def raw_decoder(self) -> RowDecoder:
        """Decodes rows without converting their values."""
        readers: list[ColumnReader | None] = [None] * self._table_map.column_count
        for column in self.rows.columns:
            reader = column.reader
            readers[column.text.source_index] = ColumnReader(
                unsigned=reader.unsigned, fraction_digits=reader.fraction_digits, name=column.name
            )
        return RowDecoder(self._table_map, readers)

    def convert(self, raw: Row) -> list[Any]:
        """Converts the values of a raw row. Raises DataError, which names table, key, and column."""
        values: list[Any] = []
        for column, value in zip(self.rows.columns, raw, strict=True):
            if value is None or value is ABSENT:
                values.append(value)
                continue
            try:
                values.append(column.convert(value))
            except CONVERSION_ERRORS as e:
                raise self._named(column, raw, e) from e
        return values

    def named(self, raw: Row, error: DataError) -> DataError:
        """The error of a row with table and key."""
        return DataError(f"{self._label(raw)} cannot be captured: {error.message}")

    def _named(self, column: CapturedMySqlColumn, raw: Row, error: Exception) -> DataError:
        reason = error.message if isinstance(error, DataError) else str(error)
        if column.text.is_masked:
            reason = "the value is masked"
        if not reason.startswith("column "):
            reason = f"column {column.name}: {reason}"
        return DataError(f"{self._label(raw)} cannot be converted: {reason}")

    def _label(self, raw: Row) -> str:
        key = ", ".join(f"{name}={_shown(raw[i])}" for name, i in zip(self.rows.key, self.rows.key_indexes, strict=True))
        return f"a row of table {self.rows.table} with the key ({key})"


def _shown(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
