"""Rows of a table as Arrow columns, made from the texts of their source: no converter writes them, and no reader parses them.

Only readers of tables can use such rows: they are not the bytes that Kafka would have. A field has Arrow's type for the values of
its schema (integers for days and microseconds since 1970, too), or one that says more: ``date32``, ``timestamp``, and
``decimal128`` for dates, wall clocks, instants, and decimals; text for decimals of any scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from connect.data.logical import DECIMAL, LOGICAL_CLASSES, decimal_scale
from connect.data.schema import Schema, Type
from connect.text_records import Cell, Fixed, Frame, FramedWriter, Part, TextKind, TextRecords

BEFORE_ROW = b'{"before":null,"after":'
"""The text before the row of an insert or of a snapshot in a change event."""
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
_MAX_DIGITS = 38
_MAX_BLOCK = 1 << 30
_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_DIGITS = r"^-?[0-9]+(\.[0-9]+)?$"


class NotInColumns(Exception):
    """A field whose values have no such column: a converter must write the records."""


def row_columns(writer: FramedWriter, records: TextRecords) -> tuple[pa.StructArray, Frame]:
    """Returns the field of the writer for all records, and the texts around it. Raises NotInColumns, or any error of a value: the
    records then decide."""
    texts, slots = _texts(records)
    frame = writer.frame(slots)
    if frame[0] != BEFORE_ROW:
        raise NotInColumns
    fields, arrays = [], []
    for field, part in zip(writer.field.schema.fields or (), writer.field.parts, strict=True):
        array = _column(field.schema, part, texts, len(records))
        if array.null_count and (not field.schema.optional or (field.schema.default is not None and writer.writes_defaults)):
            raise NotInColumns(field.name)
        fields.append(pa.field(field.name, array.type))
        arrays.append(array)
    if not arrays:
        raise NotInColumns
    return pa.StructArray.from_arrays(arrays, fields=fields), frame


def _texts(records: TextRecords) -> tuple[list[pa.StringArray], Sequence[Any]]:
    """The texts of the records by column, and their slots."""
    if records.lines is not None:
        lines, slots = records.lines
        options = pv.ReadOptions(
            use_threads=False, block_size=_MAX_BLOCK, column_names=list(map(str, range(lines[0].count("\t") + 1)))
        )
        parsing = pv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False)
        conversion = pv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(options.column_names, pa.string()),
            null_values=["\\N"],
            strings_can_be_null=True,
        )
        data = pa.py_buffer("\n".join([*lines, ""]).encode())
        table = pv.read_csv(pa.BufferReader(data), options, parsing, conversion)
        if table.num_rows != len(lines):
            raise NotInColumns
        return [_one(column) for column in table.columns], slots
    rows = records.read(0, len(records))
    if rows.slots is None:
        raise NotInColumns
    return [pa.array(column, pa.string()) for column in zip(*rows.rows, strict=True)], rows.slots


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _column(schema: Schema, part: Part, columns: Sequence[pa.StringArray], count: int) -> pa.Array:
    if isinstance(part, Fixed):
        return pa.array([part.value] * count, _stored(schema))
    if not isinstance(part, Cell):
        raise NotInColumns
    texts = columns[part.column]
    try:
        if (array := _of_texts(schema, part.kind, texts)) is not None:
            return array
    except pa.ArrowException:
        pass  # only ``decode`` knows: infinities, years beyond 9999, and what is no value at all
    decode = part.decode
    return pa.array([None if text is None else decode(text) for text in texts.to_pylist()], _stored(schema))


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
        # Arrow takes a number with more digits than fit as another number.
        if _longest(texts) > _MAX_DIGITS and _longest(pc.replace_substring_regex(texts, "[-.]", "")) > _MAX_DIGITS:
            raise NotInColumns
        return texts.cast(pa.decimal128(_MAX_DIGITS, decimal_scale(schema)))
    if schema.name == _VARIABLE_SCALE:
        if not pc.all(pc.match_substring_regex(texts, _DIGITS), min_count=0).as_py():
            raise NotInColumns
        return texts
    return None


def _longest(texts: pa.Array) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _stored(schema: Schema) -> pa.DataType:
    """Arrow's type for values of a schema."""
    if schema.name not in LOGICAL_CLASSES:
        if (found := _STORED.get(schema.type)) is not None:
            return found
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            return pa.list_(_stored(schema.value_schema))
    raise NotInColumns(schema.name)
