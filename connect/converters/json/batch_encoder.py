"""Fast path of writing: converts batches of values to JSON bytes, with code compiled once per schema.

A batch is split into columns. Each column is checked as a whole (one pass over its types, one over its range) and converted to
values that the C codec writes like Jackson; generated code builds the rows. That checks every value and costs little more than
the codec itself. Anything unusual raises :class:`FastPathMiss`. The caller then writes value by value with
:mod:`connect.converters.json.value_writer`, which either writes the value or reports the invalid field.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any

from orjson import Fragment, dumps

from connect.converters.json.fast_path import (
    Column,
    FastPathMiss,
    integer_column,
    keep_column,
    list_column,
    nullable_column,
    unscaled,
    writes_exactly,
)
from connect.converters.json.row_writer import RowWriter, compile_row_writer
from connect.converters.json.value_writer import WriteOptions, base64_text, number_text, quote, write_value
from connect.data.logical import (
    DATE,
    DECIMAL,
    EPOCH_ORDINAL,
    TIME,
    TIMESTAMP,
    FarInstant,
    date_to_stored_days,
    decimal_scale,
    int_to_bytes,
    time_to_millis,
    timestamp_to_millis,
)  # fmt: skip
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.struct_columns import StructColumns
from connect.data.types import INT_RANGES
from connect.generated_code import define_functions
from connect.java.number_text import decimal_text
from connect.java.sized_numbers import Float32, round_to_float32

Encoder = Callable[[Sequence[Any]], list[bytes]]

_FEW = 12
"""Up to so many structs are written one by one: splitting them into columns would cost more."""
_NONE = type(None)
_NEWLINE = Fragment(b"\n")
_SMALLEST, _LARGEST = INT_RANGES[Type.INT64]
_ASTRAL_LEADS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|.)", re.DOTALL)
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


class _ColumnCompiler:
    """Compiles the columns of one schema."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def column(self, schema: Schema) -> Column:
        wanted, convert = _converter(schema, self)
        null = _null(schema, self.options)
        return nullable_column(wanted, convert, null, allows_null=schema.optional or null is not None)

    def element(self, schema: Schema | None) -> Column:
        return _plain_values if schema is None else self.column(schema)


def compile_encoder(schema: Schema, options: WriteOptions) -> Encoder:
    """Compiles the encoder of a schema, for a few hundred values at a time. It may raise any error for an invalid value; the slow
    path then decides."""
    compiler = _ColumnCompiler(options)
    column = compiler.column(schema)
    build = _column_struct_rows(schema, compiler) if schema.fields and schema.name not in _LOGICAL else None

    @cache
    def row_writer() -> RowWriter:
        return compile_row_writer(schema, options)

    def encode(values: Sequence[Any]) -> list[bytes]:
        if build is not None and len(values) <= _FEW:
            write = row_writer()
            return [write(value).encode() for value in values]
        in_columns = build is not None and isinstance(values, StructColumns) and values.schema == schema
        convert: Any = build if in_columns else column
        return _dump(convert(values))

    return encode


def encode_schemaless(values: Sequence[Any], options: WriteOptions) -> list[bytes]:
    """Returns the JSON bytes of schemaless values, with ``null`` for None."""
    if not writes_exactly(values):
        if options.strict:
            raise FastPathMiss
        values = _plain_values(values)
    return _dump(values)


def _dump(rows: Sequence[Any]) -> list[bytes]:
    """Returns the JSON of each row. One call writes all of them, separated by newlines, which JSON text never contains: with a
    call per row, allocating the buffer would cost more than writing."""
    if len(rows) == 1:
        return [_jackson_escapes(dumps(rows[0]))]
    spaced: list[Any] = [_NEWLINE] * (2 * len(rows) - 1)
    spaced[::2] = rows
    return _jackson_escapes(dumps(spaced))[1:-1].split(b",\n,")


def _jackson_escapes(text: bytes) -> bytes:
    """Rewrites escapes like Jackson: in upper case, and characters beyond U+FFFF as two escapes. The bytes of a key determine its
    partition."""
    # Searching for single bytes first is cheap; a regular expression would cost more than the codec.
    if (b"\\" not in text or b"\\u" not in text) and (text.isascii() or not any(lead in text for lead in _ASTRAL_LEADS)):
        return text
    shown = _ESCAPED.sub(lambda m: "\\u" + m[1].upper() if m[1] else m[0], text.decode())
    return _ASTRAL.sub(lambda m: quote(m[0])[1:-1], shown).encode()


def _null(schema: Schema, options: WriteOptions) -> Any:
    if schema.default is None or not options.replace_null_with_default:
        return None
    return Fragment(write_value(schema, schema.default, options).encode())


def _converter(schema: Schema, compiler: _ColumnCompiler) -> tuple[set[type], Column]:
    """Returns the types that a column's values may have, and the function that converts them for the codec."""
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name](schema, compiler.options)
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return {int}, integer_column(*INT_RANGES[schema.type])
        case Type.FLOAT64:
            return {float}, _finite(_doubles) if compiler.options.strict else _doubles
        case Type.FLOAT32:
            return {float}, _finite(_floats) if compiler.options.strict else _floats
        case Type.BOOLEAN:
            return {bool}, keep_column
        case Type.STRING:
            return {str}, keep_column
        case Type.BYTES:
            return {bytes}, lambda values: [base64_text(v) for v in values]
        case Type.ARRAY:
            return {list}, list_column(compiler.element(schema.value_schema))
        case Type.MAP:
            return {dict}, _maps(schema, compiler)
        case Type.STRUCT:
            return {Struct}, _structs(schema, compiler)


def _doubles(values: Sequence[float]) -> list[Any]:
    # Only in this range is the codec's text the same as Java's.
    return [v if 0.001 <= v < 1e7 or v == 0.0 or -1e7 < v <= -0.001 else Fragment(number_text(v, False).encode()) for v in values]


def _finite(column: Column) -> Column:
    def check(values: Sequence[float]) -> Sequence[Any]:
        if not all(map(math.isfinite, values)):
            raise FastPathMiss
        return column(values)

    return check


def _floats(values: Sequence[float]) -> list[Any]:
    return [_float(v) for v in values]


def _float(value: float) -> Any:
    if 0.001 <= value < 1e6 or -1e6 < value <= -0.001:
        short = float(f"{value:.6g}")
        if round_to_float32(short) == round_to_float32(value):
            return short
    return Fragment(number_text(value, True).encode())


def _maps(schema: Schema, compiler: _ColumnCompiler) -> Column:
    keys = schema.key_schema
    as_object = keys is not None and keys.type is Type.STRING
    key_column, value_column = compiler.element(keys), compiler.element(schema.value_schema)

    def convert(values: Sequence[dict[Any, Any]]) -> Sequence[Any]:
        flat_keys = list(chain.from_iterable(values))
        if not flat_keys:
            return values if as_object else [[] for _ in values]
        flat = list(chain.from_iterable(v.values() for v in values))
        written_keys, converted = key_column(flat_keys), value_column(flat)
        if as_object:
            if converted is flat:
                return values
            following = iter(converted)
            return [dict(zip(v, islice(following, len(v)), strict=True)) for v in values]
        pairs = zip(written_keys, converted, strict=True)
        return [list(islice(pairs, len(v))) for v in values]

    return convert


def _structs(schema: Schema, compiler: _ColumnCompiler) -> Column:
    fields = schema.fields or ()
    columns = [compiler.column(f.schema) for f in fields]
    build = _row_builder([f.name for f in fields]) if fields else None

    def convert(values: Sequence[Struct]) -> Sequence[Any]:
        # Rows often share one struct, such as the source block of a snapshot: write it once.
        if len(values) > 1 and values[0] is values[-1] and len(set(map(id, values))) == 1:
            return [Fragment(dumps(convert(values[:1])[0]))] * len(values)
        rows = [s.values for s in values if s.schema is schema]
        if len(rows) != len(values):
            if any(other != schema for other in {id(s.schema): s.schema for s in values}.values()):
                raise FastPathMiss
            rows = [s.values for s in values]
        if build is None:
            if any(rows):
                raise FastPathMiss
            return [{} for _ in rows]
        taken = list(zip(*rows, strict=True))
        return build(*[column(cells) for column, cells in zip(columns, taken, strict=True)])

    return convert


def _column_struct_rows(schema: Schema, compiler: _ColumnCompiler) -> Callable[[StructColumns], Sequence[Any]]:
    """Like :func:`_structs`, for structs that are stored as columns."""
    fields = schema.fields or ()
    columns = [compiler.column(f.schema) for f in fields]
    build = _row_builder([f.name for f in fields])
    return lambda values: build(*[column(cells) for column, cells in zip(columns, values.columns, strict=True)])


def _row_builder(names: Sequence[str]) -> Callable[..., list[dict[str, Any]]]:
    """Generates the function that zips columns into dicts with these keys. Python builds displays with constant keys fastest."""
    cells = [f"v{i}" for i in range(len(names))]
    columns = [f"c{i}" for i in range(len(names))]
    members = ", ".join(f"{name!r}: {cell}" for name, cell in zip(names, cells, strict=True))
    source = (
        f"def build({', '.join(columns)}):\n    return [{{{members}}} for {', '.join(cells)}, in zip({', '.join(columns)})]\n"
    )
    build: Callable[..., list[dict[str, Any]]] = define_functions(source, title="JSON row builder")["build"]
    return build


def _decimals(schema: Schema, options: WriteOptions) -> tuple[set[type], Column]:
    if options.numeric_decimals:
        return {decimal.Decimal}, lambda values: [Fragment(_finite_text(v).encode()) for v in values]
    scale = decimal_scale(schema)

    def convert(values: Sequence[decimal.Decimal]) -> list[str]:
        return [base64_text(int_to_bytes(unscaled(v, scale))) for v in values]

    return {decimal.Decimal}, convert


def _finite_text(value: decimal.Decimal) -> str:
    if not value.is_finite():
        raise FastPathMiss
    return decimal_text(value)


def _dates(schema: Schema, options: WriteOptions) -> tuple[set[type], Column]:
    def convert(values: Sequence[Any]) -> list[int]:
        try:
            return [v.toordinal() - EPOCH_ORDINAL for v in values]
        except AttributeError as e:
            if options.strict:
                raise FastPathMiss from e
            return [date_to_stored_days(v) for v in values]

    return {dt.date, FarInstant}, convert


def _times(schema: Schema, options: WriteOptions) -> tuple[set[type], Column]:
    return {dt.time}, lambda values: [time_to_millis(v) for v in values]


def _timestamps(schema: Schema, options: WriteOptions) -> tuple[set[type], Column]:
    return {dt.datetime, FarInstant}, lambda values: [timestamp_to_millis(v) for v in values]


_LOGICAL: dict[str | None, Callable[[Schema, WriteOptions], tuple[set[type], Column]]] = {
    DECIMAL: _decimals,
    DATE: _dates,
    TIME: _times,
    TIMESTAMP: _timestamps,
}


def _plain_values(values: Sequence[Any]) -> Sequence[Any]:
    return [_plain(v) for v in values]


def _plain(value: Any) -> Any:
    """Returns a schemaless value in a form that the codec writes correctly; the value itself if possible."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is dict:
        if not value:
            return value
        types = set(map(type, value.values()))
        if set(map(type, value)) != {str}:
            raise FastPathMiss
        return value if types <= _UNCHANGED_TYPES else {k: _plain(v) for k, v in value.items()}
    if kind is int or isinstance(value, int):
        if not _SMALLEST <= value <= _LARGEST:
            raise FastPathMiss
        return int(value)
    if kind is float:
        return _doubles((value,))[0]
    if kind is list:
        return [_plain(v) for v in value]
    if kind is bytes:
        return base64_text(value)
    if kind is Float32:
        return _float(value)
    raise FastPathMiss


_UNCHANGED_TYPES = {str, bool, _NONE}
