"""Finds by trial which text of a source's row is in which column of the target, so that rows need not become records.

The trial is a record whose values are marks: a pipeline that treats all values alike has the same marks in its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConnectError
from connect.record import SinkRecord, SourceRecord
from connect.spool.record_columns import NotInColumns, parse_lines
from connect.text_records import Cell, Fixed, Slot, StructTemplate, TextKind, TextRecords
from connect.verification import ExpectedRows, VerifiableSink
from sluice.verify.arrow_hashes import hash_array
from sluice.verify.canonical import ColumnForms, Form
from sluice.verify.record_path import RecordPath
from sluice.verify.row_hashes import Hashes, hash_forms

_CONVERSION_ERRORS = (ConnectError, ValueError, TypeError, ArithmeticError, LookupError)
_TYPES = {
    (TextKind.INTEGER, "integer"): pa.int64(),
    (TextKind.FLOAT, "double"): pa.float64(),
    (TextKind.FLOAT, "float"): pa.float64(),
    (TextKind.SHORTEST_FLOAT, "double"): pa.float64(),
    (TextKind.SHORTEST_FLOAT, "float"): pa.float64(),
    (TextKind.STRING, "text"): pa.string(),
    (TextKind.DECIMAL, "decimal"): pa.string(),
    (TextKind.DATE, "date"): pa.date32(),
    (TextKind.WALL_CLOCK, "timestamp"): pa.timestamp("us"),
    (TextKind.UTC_TIMESTAMP, "timestamp"): pa.timestamp("us", "UTC"),
}
"""Arrow's types for texts whose values have such forms."""


class SlowRowsError(Exception):
    """Only the records explain some rows."""


class _Mark:
    """Stands for a value. Nothing can be done with it."""

    __slots__ = ()

    def _refuse(self, *args: object) -> Any:
        raise TypeError("a mark is no value")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = __iter__ = __str__ = __repr__ = _refuse
    __int__ = __float__ = __bytes__ = __index__ = __getitem__ = __contains__ = __add__ = __mul__ = _refuse


@dataclass(frozen=True, slots=True)
class _TextColumn:
    """A column of the target, from a text of the row."""

    cell: Cell
    schema: Schema | None
    is_required: bool
    """Whether a null is an error, which its record reports."""
    null: Any = None
    """The value of a null."""

    def hashes(self, texts: pa.Array, forms: ColumnForms) -> Hashes:
        if self.is_required and texts.null_count:
            raise SlowRowsError

        def decode_some(places: Sequence[int]) -> Sequence[Form]:
            part = texts if len(places) == len(texts) else texts.take(pa.array(places, pa.int64()))
            decode = self.cell.decode
            found: list[str | None] = part.to_numpy(zero_copy_only=False).tolist()
            return forms.of_expected([None if text is None else decode(text) for text in found])

        typed = _typed(self.cell.kind, forms.kind, texts)
        hashes = hash_forms(decode_some(range(len(texts)))) if typed is None else hash_array(typed, forms.kind, decode_some)
        if texts.null_count and self.null is not None:
            (of_null,) = hash_forms(forms.of_expected([self.null]))
            hashes[np.asarray(pc.is_null(texts))] = of_null
        return hashes


@dataclass(frozen=True, slots=True)
class _ConstantColumn:
    value: Any
    schema: Schema | None


@dataclass(frozen=True, slots=True)
class TextPlan:
    """How the texts of a row become the columns of a table, in the order of ``names``."""

    names: tuple[str, ...]
    columns: tuple[_TextColumn | _ConstantColumn, ...]

    def hashes(
        self, records: TextRecords, forms_of: Callable[[str, Schema | None], ColumnForms], count: int | None
    ) -> list[Hashes]:
        """Returns the hashes of the first ``count`` columns. Raises SlowRowsError if only the records explain the rows."""
        try:
            texts = _read_texts(records)
            found = []
            for name, column in list(zip(self.names, self.columns, strict=True))[:count]:
                forms = forms_of(name, column.schema)
                if isinstance(column, _ConstantColumn):
                    (one,) = hash_forms(forms.of_expected([column.value]))
                    found.append(np.full(len(records), one, np.uint64))
                else:
                    found.append(column.hashes(texts[column.cell.column], forms))
            return found
        except (*_CONVERSION_ERRORS, NotInColumns, pa.ArrowException) as e:
            raise SlowRowsError from e


def plan_texts(
    records: TextRecords, path: RecordPath, sink: VerifiableSink, table: str, names: tuple[str, ...], key_size: int
) -> TextPlan | None:
    """Returns how texts like those of ``records`` become columns; None if only records tell. ``names`` are those that are
    compared, the key first."""
    if not path.keeps_values:
        return None
    trial = _Trial(records, path, sink)
    try:
        found, nulls = trial.run(with_nulls=False), trial.run(with_nulls=True)
    except (*_CONVERSION_ERRORS, AttributeError, AssertionError):
        return None  # something looks at values
    if found is None or nulls is None:
        return None
    if any(one.table != table or one.key != names[:key_size] for one in (found, nulls)):
        return None
    columns = [trial.column(name, found, nulls) for name in names]
    return None if None in columns else TextPlan(names, tuple(one for one in columns if one is not None))


class _Trial:
    """A record with marks in place of values."""

    def __init__(self, records: TextRecords, path: RecordPath, sink: VerifiableSink) -> None:
        self._records = records
        self._path = path
        self._sink = sink
        self._marks: dict[int, tuple[Cell, Schema, _Mark]] = {}
        """By identity."""
        slots = records.read(0, 1).slots
        self._slots: Sequence[Any] = () if slots is None else slots

    def run(self, *, with_nulls: bool) -> ExpectedRows | None:
        """Returns the row that the sink is expected to have."""
        records = self._records
        key = None if records.key is None else self._fill(records.key, with_nulls)
        key_schema = None if records.key is None else records.key.schema
        value = self._fill(records.value, with_nulls)
        record = SourceRecord({}, {}, records.topic, None, key_schema, key, records.value.schema, value)
        (converted,) = self._path.run([record])
        if not isinstance(converted, SinkRecord):
            return None
        found = self._sink.expect([converted])
        return found[0] if len(found) == 1 else None

    def _fill(self, template: StructTemplate, with_nulls: bool) -> Struct:
        values: list[Any] = []
        for field, part in zip(template.schema.fields or (), template.parts, strict=True):
            match part:
                case StructTemplate():
                    values.append(self._fill(part, with_nulls))
                case Slot(number):
                    values.append(self._slots[number])
                case Fixed(value):
                    values.append(value)
                case Cell() if with_nulls and field.schema.optional:
                    values.append(None)
                case Cell():
                    mark = _Mark()
                    self._marks[id(mark)] = part, field.schema, mark
                    values.append(mark)
                case _:
                    raise ValueError("rows of a snapshot have no such part")
        return Struct(template.schema, values)

    def column(self, name: str, found: ExpectedRows, nulls: ExpectedRows) -> _TextColumn | _ConstantColumn | None:
        """The column of the target, from what a row without nulls and one with nulls have in it; None if that is unclear."""
        if name not in found.columns and name not in nulls.columns:
            return _ConstantColumn(None, None)
        if name not in found.columns or name not in nulls.columns:
            return None
        (schema, (value,)), (null_schema, (null,)) = found.columns[name], nulls.columns[name]
        if schema is not null_schema:
            return None
        known = self._marks.get(id(value))
        if known is None:
            return _ConstantColumn(value, schema) if id(null) not in self._marks and null == value else None
        cell, own_schema, _ = known
        if not own_schema.optional:
            other = self._marks.get(id(null))
            return _TextColumn(cell, schema, True) if other is not None and other[0] is cell else None
        return None if id(null) in self._marks else _TextColumn(cell, schema, False, null)


def _typed(kind: TextKind, form: str, texts: pa.Array) -> pa.Array | None:
    """The texts as an array whose values have the forms of the decoded texts; None if all must be decoded."""
    if kind is TextKind.BOOLEAN and form == "boolean":
        return pc.equal(texts, "t")
    type_ = _TYPES.get((kind, form))
    if type_ is None or type_ == texts.type:
        return None if type_ is None else texts
    try:
        return texts.cast(type_)
    except pa.ArrowException:
        return None  # one of them is something else, such as an infinity


def _read_texts(records: TextRecords) -> Sequence[pa.Array]:
    if records.lines is not None:
        return parse_lines(records.lines)
    rows = records.read(0, len(records)).rows
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
