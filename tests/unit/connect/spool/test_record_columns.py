"""Rows of a snapshot as columns: read from lines of text, they are those that are read value by value."""

from __future__ import annotations

import decimal

import pytest

from connect.data import logical
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.spool.record_columns import NotInColumns, of_records
from connect.text_records import Cell, Fixed, StructTemplate, TextKind, TextLines, TextRecords, TextRows

TEXT = Cell(0, TextKind.STRING, str)
NAME = SchemaBuilder.string().optional().build()
SOURCE = SchemaBuilder.struct().field("ts_ms", SchemaBuilder.int64().build()).build()
OPERATION = SchemaBuilder.string().build()


def value_of(schema: Schema, cell: Cell) -> StructTemplate:
    row = SchemaBuilder.struct().field("name", schema).optional().build()
    builder = SchemaBuilder.struct().field("before", row).field("after", row).field("source", SOURCE).field("op", OPERATION)
    parts = Fixed(None), StructTemplate(row, (cell,)), StructTemplate(SOURCE, (Fixed(5),)), Fixed("r")
    return StructTemplate(builder.build(), parts)


def records(*lines: str, schema: Schema = NAME, cell: Cell = TEXT) -> TextRecords:
    """A snapshot of rows with one column, which offers its lines."""

    def read(start: int, end: int) -> TextRows:
        return TextRows([[line] for line in lines[start:end]], False, True, ())

    return TextRecords("t", None, value_of(schema, cell), len(lines), read, {}, {}, list, TextLines(list(lines), ()))


def test_lines_are_columns() -> None:
    found = of_records(records("a", "\ufeffb"), writes_defaults=False)
    assert [one["value"]["after"]["name"] for one in found.to_pylist()] == ["a", "\ufeffb"]


def test_a_first_text_that_begins_with_a_byte_order_mark_is_no_line() -> None:
    """Arrow's reader takes it for that of a file."""
    with pytest.raises(NotInColumns):
        of_records(records("\ufeffa", "b"), writes_defaults=False)


@pytest.mark.parametrize("text", ["3348246644704018273141.9969517", "-7", "9999999999999999.1234567890123456789012"])
def test_a_decimal_with_less_digits_than_the_scale_is_that_number_or_no_column(text: str) -> None:
    """In 128 bits, Arrow takes the first one for another number."""
    schema = Schema(Type.BYTES, name=logical.DECIMAL, parameters={"scale": "22"})
    given = records(text, schema=schema, cell=Cell(0, TextKind.DECIMAL, decimal.Decimal))
    number = decimal.Decimal(text)
    if abs(number) >= 10**16:
        with pytest.raises(NotInColumns):
            of_records(given, writes_defaults=False)
    else:
        (found,) = of_records(given, writes_defaults=False).to_pylist()
        assert found["value"]["after"]["name"] == number
