"""Rows of a snapshot as columns: read from lines of text, they are those that are read value by value."""

from __future__ import annotations

import pytest

from connect.data.schema import SchemaBuilder
from connect.spool.record_columns import NotInColumns, of_records
from connect.text_records import Cell, Fixed, StructTemplate, TextKind, TextLines, TextRecords, TextRows

ROW = SchemaBuilder.struct().field("name", SchemaBuilder.string().optional().build()).optional().build()
SOURCE = SchemaBuilder.struct().field("ts_ms", SchemaBuilder.int64().build()).build()
OPERATION = SchemaBuilder.string().build()
ENVELOPE = SchemaBuilder.struct().field("before", ROW).field("after", ROW).field("source", SOURCE).field("op", OPERATION).build()
ROW_TEMPLATE = StructTemplate(ROW, (Cell(0, TextKind.STRING, str),))
VALUE = StructTemplate(ENVELOPE, (Fixed(None), ROW_TEMPLATE, StructTemplate(SOURCE, (Fixed(5),)), Fixed("r")))


def records(*lines: str) -> TextRecords:
    """A snapshot of rows with one column, which offers its lines."""

    def read(start: int, end: int) -> TextRows:
        return TextRows([[line] for line in lines[start:end]], False, True, ())

    return TextRecords("t", None, VALUE, len(lines), read, {}, {}, list, TextLines(list(lines), ()))


def test_lines_are_columns() -> None:
    found = of_records(records("a", "\ufeffb"), writes_defaults=False)
    assert [one["value"]["after"]["name"] for one in found.to_pylist()] == ["a", "\ufeffb"]


def test_a_first_text_that_begins_with_a_byte_order_mark_is_no_line() -> None:
    """Arrow's reader takes it for that of a file."""
    with pytest.raises(NotInColumns):
        of_records(records("\ufeffa", "b"), writes_defaults=False)
