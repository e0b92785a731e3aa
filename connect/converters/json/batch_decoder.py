"""Fast path of reading: converts batches of parsed JSON to values, with code compiled once per schema.

The counterpart of :mod:`connect.converters.json.batch_encoder`: it checks whole columns, and generated code builds the rows. JSON
that needs lenient reading raises :class:`FastPathMiss` and is then read value by value from its text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any

from connect.converters.json.fast_path import (
    Column,
    FastPathMiss,
    integer_column,
    keep_column,
    list_column,
    nullable_column,
    was_read_exactly,
)
from connect.converters.json.value_reader import ReadOptions, decode_base64
from connect.data.logical import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    bytes_to_decimal,
    date_of,
    decimal_scale,
    instant_of,
    millis_to_time,
)  # fmt: skip
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.generated_code import define_functions

_DOUBLE = struct.Struct("<d")
_LONG = struct.Struct("<q")
_FLOAT = struct.Struct("<f")
_SMALLEST, _LARGEST = INT_RANGES[Type.INT64]


def compile_decoder(schema: Schema, options: ReadOptions) -> Column:
    """Compiles the function that converts values parsed by the C codec to values of the schema."""
    return _column(schema, options)


def _plain_values(nodes: Sequence[Any]) -> Sequence[Any]:
    if not was_read_exactly(nodes):
        raise FastPathMiss
    return nodes


def _column(schema: Schema, options: ReadOptions) -> Column:
    wanted, convert = _converter(schema, options)
    null = schema.default if options.replace_null_with_default else None
    return nullable_column(wanted, convert, null, allows_null=schema.optional or null is not None)


def _converter(schema: Schema, options: ReadOptions) -> tuple[set[type], Column]:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name](schema)
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return {int}, integer_column(*INT_RANGES[schema.type])
        case Type.FLOAT64:
            # Adding zero removes the sign of -0.0, which the decimals that Apache parses do not have.
            return {float}, keep_column if options.strict else lambda nodes: [n + 0.0 for n in nodes]
        case Type.FLOAT32:
            # Strict reading depends on the number of digits in the text, which the codec does not return.
            return {float}, _refuse if options.strict else lambda nodes: [_float32(n) for n in nodes]
        case Type.BOOLEAN:
            return {bool}, keep_column
        case Type.STRING:
            return {str}, keep_column
        case Type.BYTES:
            return {str}, _bytes
        case Type.ARRAY:
            return {list}, list_column(_element(schema.value_schema, options))
        case Type.MAP:
            return _maps(schema, options)
        case Type.STRUCT:
            return {dict}, _structs(schema, options)


def _element(schema: Schema | None, options: ReadOptions) -> Column:
    return _column(schema, options) if schema is not None else _plain_values


def _float32(node: float) -> float:
    try:
        rounded: float = _FLOAT.unpack(_FLOAT.pack(node))[0] + 0.0
    except OverflowError as e:
        raise FastPathMiss from e
    # A double exactly halfway between two floats may be the rounded form of a text that is not.
    in_the_middle = rounded != node and _LONG.unpack(_DOUBLE.pack(node))[0] & 0x1FFFFFFF == 0x10000000
    if in_the_middle or (abs(rounded) < 1.2e-38 and node != 0.0):
        raise FastPathMiss
    return rounded


def _bytes(nodes: Sequence[str]) -> list[bytes]:
    try:
        return [decode_base64(n) for n in nodes]
    except ValueError as e:
        raise FastPathMiss from e


def _maps(schema: Schema, options: ReadOptions) -> tuple[set[type], Column]:
    if schema.key_schema is None or schema.key_schema.type is not Type.STRING:
        return {list}, _refuse
    element = _element(schema.value_schema, options)

    def convert(nodes: Sequence[dict[str, Any]]) -> Sequence[Any]:
        flat = list(chain.from_iterable(n.values() for n in nodes))
        if not flat:
            return nodes
        converted = element(flat)
        if converted is flat:
            return nodes
        following = iter(converted)
        return [dict(zip(n, islice(following, len(n)), strict=True)) for n in nodes]

    return {dict}, convert


def _refuse(nodes: Sequence[Any]) -> Sequence[Any]:
    raise FastPathMiss


def _structs(schema: Schema, options: ReadOptions) -> Column:
    fields = schema.fields or ()
    names = [f.name for f in fields]
    columns = [_column(f.schema, options) for f in fields]
    build = _struct_builder(len(fields)) if fields else None
    pick = itemgetter(*names) if len(names) > 1 else None

    def convert(nodes: Sequence[dict[str, Any]]) -> Sequence[Any]:
        if options.strict and not set(map(len, nodes)) <= {len(names)}:
            raise FastPathMiss
        if build is None:
            return [Struct(schema, []) for _ in nodes]
        if pick is None:
            return build(schema, columns[0]([n.get(names[0]) for n in nodes]))
        try:
            rows = [pick(n) for n in nodes]
        except KeyError:
            rows = [tuple(map(n.get, names)) for n in nodes]
        taken = list(zip(*rows, strict=True))
        return build(schema, *[column(cells) for column, cells in zip(columns, taken, strict=True)])

    return convert


def _struct_builder(width: int) -> Callable[..., list[Struct]]:
    """Generates the function that zips columns into structs, without the constructor's checks."""
    columns = ", ".join(f"c{i}" for i in range(width))
    cells = ", ".join(f"v{i}" for i in range(width))
    source = (
        f"def build(schema, {columns}):\n"
        f"    made = []\n"
        f"    for {cells}, in zip({columns}):\n"
        f"        row = new(Struct)\n"
        f"        row.schema = schema\n"
        f"        row.values = [{cells}]\n"
        f"        made.append(row)\n"
        f"    return made\n"
    )
    constants = {"new": Struct.__new__, "Struct": Struct}
    build: Callable[..., list[Struct]] = define_functions(source, constants, title="JSON struct builder")["build"]
    return build


def _decimals(schema: Schema) -> tuple[set[type], Column]:
    def convert(nodes: Sequence[str]) -> list[Any]:
        scale = decimal_scale(schema)
        datas = _bytes(nodes)
        if b"" in datas:
            raise FastPathMiss
        return [bytes_to_decimal(data, scale) for data in datas]

    return {str}, convert


def _logical_integers(low: int, high: int, convert: Callable[[int], Any]) -> Callable[[Schema], tuple[set[type], Column]]:
    check = integer_column(low, high)
    return lambda schema: ({int}, lambda nodes: [convert(n) for n in check(nodes)])


_LOGICAL: dict[str | None, Callable[[Schema], tuple[set[type], Column]]] = {
    DECIMAL: _decimals,
    DATE: _logical_integers(*INT_RANGES[Type.INT32], date_of),
    TIME: _logical_integers(*INT_RANGES[Type.INT32], millis_to_time),
    TIMESTAMP: _logical_integers(_SMALLEST, _LARGEST, instant_of),
}
