"""Rows of a template that are added one by one or several at a time are the same records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.data.schema import Schema, Type
from connect.record import SourceRecord
from connect.text_records import Cell, MixedTextRecords, RecordTemplate, StructTemplate, TextKind, TextRows

_SCHEMA = Schema(Type.STRUCT, fields=[("id", Schema.INT64)])
_PARTITION = {"table": "t"}


class _Reader:
    def text_rows(self, rows: Sequence[Sequence[Any]]) -> TextRows:
        return TextRows(rows, has_nulls=False, is_plain=True, slots=())

    def create(self, row: Sequence[Any]) -> list[SourceRecord]:
        return [SourceRecord(_PARTITION, self.last_offset(row), "t", value=row[0])]

    def last_offset(self, row: Sequence[Any]) -> Mapping[str, Any]:
        return {"row": row[0]}


def _template() -> RecordTemplate:
    return RecordTemplate("t", None, StructTemplate(_SCHEMA, (Cell(0, TextKind.INTEGER, int),)), (), 1, _Reader())


def test_rows_added_together_equal_rows_added_one_by_one() -> None:
    first, second = _template(), _template()
    one_by_one, together = MixedTextRecords(_PARTITION), MixedTextRecords(_PARTITION)
    for template, numbers in ((first, "ab"), (first, "c"), (second, ""), (second, "d"), (first, "e")):
        for number in numbers:
            one_by_one.add_row(template, (number,))
        together.add_rows(template, [(number,) for number in numbers])
    assert [record.value for record in together] == [record.value for record in one_by_one] == list("abcde")
    assert together.parts == one_by_one.parts
    assert together.source_offset == {"row": "e"}
    assert len(together) == 5


def test_rows_after_a_record_start_a_new_part() -> None:
    template, records = _template(), MixedTextRecords(_PARTITION)
    records.add_rows(template, [("a",)])
    records.append(SourceRecord(_PARTITION, {"row": "x"}, "t", value="x"))
    records.add_rows(template, [("b",), ("c",)])
    assert [record.value for record in records] == ["a", "x", "b", "c"]
    assert len(records.parts) == 3
