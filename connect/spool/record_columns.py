"""Change events that are still texts of their source as Arrow columns: no converter writes them, and no reader parses them.

An array has structs of ``key`` and ``value``; keys are null if records have none. Only readers of tables can use them: they are
not the bytes that Kafka would have. A field has Arrow's type for the values of its schema (integers for days and microseconds
since 1970, too), or one that says more: ``date32``, ``timestamp``, and ``decimal128`` for dates, wall clocks, instants, and
decimals; text for decimals of any scale. What records share is in dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from connect.data.logical import DECIMAL, LOGICAL_CLASSES, bytes_to_decimal, decimal_scale
from connect.data.schema import Field, Schema, Type
from connect.data.struct import Struct
from connect.text_records import (
    Cell,
    Fixed,
    Joined,
    Part,
    RecordTemplate,
    Slot,
    StructTemplate,
    TextKind,
    TextLines,
    TextRecords,
)

_STORED = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
KEY_AND_VALUE = ("key", "value")
"""The members of the structs."""
_IMAGES = ("before", "after")
_SOURCE_FIELDS = {"ts_ms", "db", "schema", "table", "sequence", "lsn", "file", "pos", "row"}
"""What readers of tables use: when, from where, and at which position in the source's log."""
_MAX_DIGITS = 38
_MAX_BLOCK = 1 << 30
_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_DIGITS = r"^-?[0-9]+(\.[0-9]+)?$"


class NotInColumns(Exception):
    """Values that have no such columns: a converter must write the records."""


def of_records(records: TextRecords, *, writes_defaults: bool) -> pa.StructArray:
    """Returns keys and values of records. Raises NotInColumns, or any error of a value: the records then decide.

    ``writes_defaults``: the converter writes the default of a field in place of null.
    """
    count = len(records)
    if records.lines is not None:
        columns = parse_lines(records.lines)
        slots = _Slots(pa.array(np.zeros(count, np.int32)), [records.lines.slots])
    else:
        rows = records.read(0, count)
        if rows.slots is None:
            raise NotInColumns
        columns = list(zip(*rows.rows, strict=True))
        slots = _Slots(pa.array(np.zeros(count, np.int32)), [rows.slots])
    return _Columns(columns, slots, writes_defaults).records(records.key, records.value)


def of_rows(template: RecordTemplate, rows: Sequence[Sequence[Any]], *, writes_defaults: bool) -> pa.StructArray:
    """The same for rows of a template, whose last items are the slots (:class:`connect.text_records.MixedTextRecords`), with
    their tombstones."""
    *columns, last = zip(*rows, strict=True)
    ids = np.fromiter(map(id, last), np.int64, len(last))
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(ids)) + 1))
    codes = np.repeat(np.arange(len(firsts), dtype=np.int32), np.diff(np.append(firsts, len(last))))
    slots = _Slots(pa.array(codes), [last[at] for at in firsts])
    found = _Columns(columns, slots, writes_defaults).records(template.key, template.value)
    return found if template.records_per_row == 1 else _with_tombstones(found)


def _with_tombstones(records: pa.StructArray) -> pa.StructArray:
    keys, values = records.flatten()
    places = np.arange(2 * len(records))
    keys = keys.take(pa.array(places // 2))
    values = values.take(pa.array(places // 2, mask=places % 2 == 1))
    return pa.StructArray.from_arrays([keys, values], KEY_AND_VALUE)


def parse_lines(lines: TextLines) -> list[pa.StringArray]:
    """Returns the texts of lines by column. Raises NotInColumns, or Arrow's errors."""
    if lines.lines[0].startswith("\ufeff"):
        raise NotInColumns  # Arrow's reader would leave it out
    names = list(map(str, range(lines.lines[0].count("\t") + 1)))
    data = pa.py_buffer("\n".join([*lines.lines, ""]).encode())
    table = pv.read_csv(
        pa.BufferReader(data),
        pv.ReadOptions(use_threads=False, block_size=_MAX_BLOCK, column_names=names),
        pv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
        pv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=["\\N"],
            strings_can_be_null=True,
        ),
    )
    if table.num_rows != len(lines.lines):
        raise NotInColumns
    return [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in table.columns]


@dataclass(frozen=True, slots=True)
class _Slots:
    """What rows share: by row, which of the values."""

    codes: pa.Int32Array
    values: Sequence[Sequence[Any]]

    def column(self, schema: Schema, number: int) -> pa.Array:
        """The values of one slot."""
        return _shared(schema, self.codes, self.of(number))

    def of(self, number: int) -> list[Any]:
        """The values of one slot, each once for consecutive rows."""
        return [slots[number] for slots in self.values]


def _shared(schema: Schema, codes: pa.Int32Array, values: Sequence[Any]) -> pa.Array:
    """A column of values that rows share."""
    # Arrow does not merge dictionaries with nulls.
    known = {value: number for number, value in enumerate(dict.fromkeys(v for v in values if v is not None))}
    if len(values) > 1 or not known:
        codes = pa.array([known.get(value) for value in values], pa.int32()).take(codes)
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(known), _stored(schema)))


@dataclass(frozen=True, slots=True)
class _Columns:
    """Builds the columns of some rows. ``texts`` are by column of the source; those of a kind VALUE are values."""

    texts: Sequence[Sequence[Any] | pa.StringArray]
    slots: _Slots
    writes_defaults: bool

    def records(self, key: StructTemplate | None, value: StructTemplate) -> pa.StructArray:
        """Returns keys and values."""
        keys = self._nothing if key is None else self._row(key)
        return pa.StructArray.from_arrays([keys, self.envelope(value)], KEY_AND_VALUE)

    def envelope(self, template: StructTemplate) -> pa.StructArray:
        """Returns change events. What no reader of a table uses is null."""
        members = {field.name: (field.schema, part) for field, part in _members(template)}
        if not {*_IMAGES, "op", "source"} <= members.keys():
            raise NotInColumns
        parts = {name: members[name][1] for name in _IMAGES}
        images = {name: self._row(part) for name, part in parts.items() if isinstance(part, StructTemplate)}
        if len({image.type for image in images.values()}) != 1 or not all(map(self._is_row_or_null, parts.values())):
            raise NotInColumns
        (type_,) = {image.type for image in images.values()}
        found = {
            # The missing image has the type of the other one, so that all changes of a table are alike.
            **{name: images.get(name, pa.nulls(self._count, type_)) for name in _IMAGES},
            "op": self._field(*members["op"]),
            "source": self._source(*members["source"]),
        }
        return pa.StructArray.from_arrays([found.get(name, self._nothing) for name in members], list(members))

    @property
    def _count(self) -> int:
        return len(self.slots.codes)

    @property
    def _nothing(self) -> pa.Array:
        return pa.nulls(self._count)

    def _is_row_or_null(self, part: Part) -> bool:
        match part:
            case Fixed(value):
                return value is None
            case Slot(number):
                return not any(self.slots.of(number))
        return isinstance(part, StructTemplate)

    def _row(self, template: StructTemplate) -> pa.StructArray:
        arrays, names = [], []
        for field, part in _members(template):
            schema = field.schema
            array = self._field(schema, part)
            if isinstance(part, Fixed):
                array = array.cast(array.type.value_type)
            if array.null_count and (not schema.optional or (schema.default is not None and self.writes_defaults)):
                raise NotInColumns(field.name)
            arrays.append(array)
            names.append(field.name)
        if not arrays:
            raise NotInColumns
        return pa.StructArray.from_arrays(arrays, names)

    def _source(self, schema: Schema, part: Part) -> pa.StructArray:
        if isinstance(part, StructTemplate):
            found = {f.name: self._field(f.schema, p) for f, p in _members(part) if f.name in _SOURCE_FIELDS}
        elif isinstance(part, Slot):
            blocks, codes = self.slots.of(part.number), self.slots.codes
            fields = [field for field in schema.fields or () if field.name in _SOURCE_FIELDS]
            found = {f.name: _shared(f.schema, codes, [block.get(f.name) for block in blocks]) for f in fields}
        else:
            raise NotInColumns
        return pa.StructArray.from_arrays([found.get(name, self._nothing) for name in schema.field_names], schema.field_names)

    def _field(self, schema: Schema, part: Part) -> pa.Array:
        match part:
            case Fixed(value):
                return _shared(schema, pa.array(np.zeros(self._count, np.int32)), [value])
            case Slot(number):
                return self.slots.column(schema, number)
            case Joined(number, column, suffix):
                first = self.slots.column(schema, number).cast(pa.string())
                return pc.binary_join_element_wise(first, _strings(self.texts[column]), suffix, "")
            case Cell(column, TextKind.VALUE) if schema.name == _VARIABLE_SCALE:
                return pa.array([None if value is None else _plain_text(value) for value in self.texts[column]], pa.string())
            case Cell(column, TextKind.UNSCALED | TextKind.UNSCALED_INTEGER, decode) if 0 <= decimal_scale(schema) <= _MAX_DIGITS:
                values = [None if text is None else decode(text) for text in self.texts[column]]
                return pa.array(values, pa.decimal128(_MAX_DIGITS, decimal_scale(schema)))
            case Cell(column, TextKind.VALUE):
                return pa.array(self.texts[column], _stored(schema))
            case Cell(column, kind, decode):
                texts = _strings(self.texts[column])
                try:
                    if (array := _of_texts(schema, kind, texts)) is not None:
                        return array
                except pa.ArrowException:
                    pass  # only ``decode`` knows: infinities, years beyond 9999, and what is no value at all
                return pa.array([None if text is None else decode(text) for text in texts.to_pylist()], _stored(schema))
        raise NotInColumns


def _members(template: StructTemplate) -> list[tuple[Field, Part]]:
    return list(zip(template.schema.fields or (), template.parts, strict=True))


def _strings(texts: Sequence[str | None] | pa.StringArray) -> pa.StringArray:
    return texts if isinstance(texts, pa.StringArray) else pa.array(texts, pa.string())


def _of_texts(schema: Schema, kind: TextKind, texts: pa.StringArray) -> pa.Array | None:
    """The values of texts of that kind, without ``decode``; None if only that can tell. Raises Arrow's errors."""
    stored = None if schema.name == DECIMAL else _STORED.get(schema.type)
    match kind:
        case TextKind.STRING if stored == pa.string():
            return texts
        case TextKind.INTEGER | TextKind.FLOAT | TextKind.SHORTEST_FLOAT if stored is not None:
            return texts.cast(stored)
        case TextKind.BOOLEAN if stored == pa.bool_():
            return pc.equal(texts, "t")
        case TextKind.DATE if stored == pa.int32():
            return texts.cast(pa.date32())
        case TextKind.WALL_CLOCK if stored == pa.int64():
            return texts.cast(pa.timestamp("us"))
        case TextKind.UTC_TIMESTAMP if stored == pa.string():
            return texts.cast(pa.timestamp("us", "UTC"))
        case TextKind.DECIMAL:
            return _decimals(schema, texts)
    return None


def _decimals(schema: Schema, texts: pa.StringArray) -> pa.Array | None:
    if schema.name == DECIMAL and 0 <= decimal_scale(schema) <= _MAX_DIGITS:
        # Arrow takes a number with more digits than fit as another number, in 128 bits also with the zeros of the scale.
        if _longest(texts) > _MAX_DIGITS and _longest(pc.replace_substring_regex(texts, "[-.]", "")) > _MAX_DIGITS:
            raise NotInColumns
        wide = texts.cast(pa.decimal256(2 * _MAX_DIGITS, decimal_scale(schema)))
        try:
            return wide.cast(pa.decimal128(_MAX_DIGITS, decimal_scale(schema)))
        except pa.ArrowInvalid:
            raise NotInColumns from None
    if schema.name == _VARIABLE_SCALE:
        if not pc.all(pc.match_substring_regex(texts, _DIGITS), min_count=0).as_py():
            raise NotInColumns
        return texts
    return None


def _plain_text(value: Struct) -> str:
    """A decimal of any scale in plain digits."""
    return f"{bytes_to_decimal(value.get('value'), value.get('scale')):f}"


def _longest(texts: pa.StringArray) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _stored(schema: Schema) -> pa.DataType:
    """Arrow's type for values of a schema."""
    if schema.name not in LOGICAL_CLASSES:
        if (found := _STORED.get(schema.type)) is not None:
            return found
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            return pa.list_(_stored(schema.value_schema))
    raise NotInColumns(schema.name)
