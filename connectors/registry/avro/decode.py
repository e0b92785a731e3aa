"""Decodes Avro to Connect values, with code generated for each schema.

Input is not trusted: lengths and counts are checked against the remaining bytes, numbers against their ranges. Memory use is
proportional to the payload; recursive schemas are rejected earlier, so the schema limits the depth.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP, date_of, decimal_scale, instant_of, millis_to_time
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError, SchemaError
from connect.generated_code import FieldFinder, GeneratedSource
from connect.record import SchemaAndValue
from connectors.registry.avro.names import is_union
from connectors.registry.avro.types import AvroType
from connectors.registry.varint import read_int, read_long

_MAX_EMPTY_ITEMS = 100_000
"""Limit for items without bytes, which the size of the payload does not limit."""
_FLOAT, _DOUBLE = struct.Struct("<f").unpack_from, struct.Struct("<d").unpack_from


class Truncated(Exception):
    """A length or count is beyond the end of the data."""


def compile_decoder(avro: AvroType, schema: Schema, strict: bool) -> Callable[[bytes, int], SchemaAndValue]:
    """Generates the decoder of one schema, which raises only DataError."""
    exact = _AvroDecoderCompiler("strict", strict).compile(avro, schema)
    lossy: list[tuple[Callable[..., tuple[Any, int]], FieldFinder]] = []
    make = tuple.__new__
    read, finder = exact

    def decode(data: bytes, at: int) -> SchemaAndValue:
        try:
            value, end = read(data, at, len(data))
        except UnicodeDecodeError as e:
            if strict:
                raise DataError(finder.add_field_path(e, "the text is not UTF-8")) from e
            # As in Java, where invalid bytes become U+FFFD. The docs list this among silent losses.
            if not lossy:
                lossy.append(_AvroDecoderCompiler("replace", strict).compile(avro, schema))
            value, end = _guarded(*lossy[0], data, at)
        except _FAILURES as e:
            raise _data_error(e, finder, data) from e
        if strict and end != len(data):
            raise DataError(f"{len(data) - end} bytes are left after the value")
        made: SchemaAndValue = make(SchemaAndValue, (schema, value))
        return made

    return decode


_FAILURES = (IndexError, struct.error, Truncated, DataError, ValueError, OverflowError)


def _guarded(read: Callable[..., tuple[Any, int]], finder: FieldFinder, data: bytes, at: int) -> tuple[Any, int]:
    try:
        return read(data, at, len(data))
    except _FAILURES as e:
        raise _data_error(e, finder, data) from e


def _data_error(error: Exception, finder: FieldFinder, data: bytes) -> DataError:
    if isinstance(error, DataError):
        return DataError(finder.add_field_path(error, error.message))
    if isinstance(error, IndexError | struct.error | Truncated):
        return DataError(finder.add_field_path(error, f"the data ends before the value does; the payload has {len(data)} bytes"))
    return DataError(finder.add_field_path(error, f"no value can be made of the bytes: {error}"))


def smallest_size(avro: AvroType) -> int:
    """The minimum number of bytes of a value of the type."""
    match avro.kind:
        case "null":
            return 0
        case "float":
            return 4
        case "double":
            return 8
        case "fixed":
            return avro.size
        case "record":
            # An approximation is enough for large schemas.
            return min(sum(smallest_size(f.type) for f in avro.fields[:64]), 64) or int(len(avro.fields) > 64)
        case _:
            return 1


class _AvroDecoderCompiler:
    def __init__(self, errors: str, strict: bool) -> None:
        self._text = GeneratedSource("avro decoder")
        self._strict = strict
        self._decode = "" if errors == "strict" else f"'utf-8', '{errors}'"
        self._functions: dict[tuple[int, int], str] = {}

    def compile(self, avro: AvroType, schema: Schema) -> tuple[Callable[..., tuple[Any, int]], FieldFinder]:
        lines = self._begin("decode")
        self._value(lines, 1, avro, schema, "v")
        self._line(lines, 1, "return v, p")
        scope = {
            "new": Struct.__new__, "Struct": Struct, "long_": read_long, "int_": read_int, "unpack_float": _FLOAT,
            "unpack_double": _DOUBLE, "Truncated": Truncated, "DataError": DataError, "Decimal": Decimal,
            "from_bytes": int.from_bytes, "to_date": date_of, "to_time": millis_to_time,
            "to_timestamp": instant_of, "narrow": _narrow, "refuse_wide": _refuse_wide,
        }  # fmt: skip
        names, finder = self._text.compile(scope)
        return names["decode"], finder

    def _begin(self, name: str) -> list[tuple[str, str]]:
        lines = self._text.function()
        self._line(lines, 0, f"def {name}(d, p, end):")
        return lines

    def _line(self, lines: list[tuple[str, str]], indent: int, text: str) -> None:
        self._text.write(lines, indent, text)

    def _value(self, lines: list[tuple[str, str]], indent: int, avro: AvroType, schema: Schema, target: str) -> None:
        """Writes lines that read one value into ``target`` and advance ``p``."""

        def line(text: str, more: int = 0) -> None:
            self._line(lines, indent + more, text)

        match avro.kind:
            case "int" | "long":
                self._number(lines, indent, avro.kind)
                line(f"{target} = (b >> 1) ^ -(b & 1)")
                self._integer(lines, indent, schema, target)
            case "string" | "bytes":
                self._number(lines, indent, "long")
                line("e = p + (b >> 1)")
                line("if b & 1 or e > end: raise Truncated")
                line(f"{target} = d[p:e]" + (f".decode({self._decode})" if avro.kind == "string" else ""))
                line("p = e")
                self._decimal(lines, indent, schema, target)
            case "fixed":
                line(f"e = p + {avro.size}")
                line("if e > end: raise Truncated")
                line(f"{target} = d[p:e]")
                line("p = e")
                self._decimal(lines, indent, schema, target)
            case "float" | "double":
                line(f"{target} = unpack_{avro.kind}(d, p)[0]")
                line(f"p += {4 if avro.kind == 'float' else 8}")
            case "boolean":
                line("b = d[p]")
                line("p += 1")
                line("if b > 1: raise DataError(f'a boolean is 0 or 1, not {b}')")
                line(f"{target} = b == 1")
            case "enum":
                symbols = self._text.constant(tuple(avro.symbols))
                self._number(lines, indent, "int")
                line(f"if b & 1 or b >= {2 * len(avro.symbols)}:")
                line("raise DataError(f'the enum has no symbol with the number {(b >> 1) ^ -(b & 1)}')", 1)
                line(f"{target} = {symbols}[b >> 1]")
            case "union":
                self._union(lines, indent, avro, schema, target)
            case _:
                line(f"{target}, p = {self._function(avro, schema)}(d, p, end)")

    def _number(self, lines: list[tuple[str, str]], indent: int, kind: str) -> None:
        self._line(lines, indent, "b = d[p]")
        self._line(lines, indent, "p += 1")
        self._line(lines, indent, f"if b > 127: b, p = {kind}_(d, p, b)")

    def _integer(self, lines: list[tuple[str, str]], indent: int, schema: Schema, target: str) -> None:
        convert = {DATE: "to_date", TIME: "to_time", TIMESTAMP: "to_timestamp"}.get(schema.name or "")
        if convert is not None:
            self._line(lines, indent, f"{target} = {convert}({target})")
        elif schema.type in (Type.INT8, Type.INT16):
            half = 128 if schema.type is Type.INT8 else 32768
            # As in the original, keep the low bits, unless strict.
            narrow = "refuse_wide" if self._strict else "narrow"
            self._line(lines, indent, f"if not -{half} <= {target} < {half}: {target} = {narrow}({target}, {half})")

    def _decimal(self, lines: list[tuple[str, str]], indent: int, schema: Schema, target: str) -> None:
        if schema.name == DECIMAL and schema.type is Type.BYTES:
            # Parsing text is the fastest exact way to a Decimal with this exponent.
            self._line(lines, indent, f"if not {target}: raise DataError('a decimal without bytes')")
            number = f"from_bytes({target}, 'big', signed=True)"
            self._line(lines, indent, f'{target} = Decimal(f"{{{number}}}E{-decimal_scale(schema)}")')

    def _union(self, lines: list[tuple[str, str]], indent: int, avro: AvroType, schema: Schema, target: str) -> None:
        self._number(lines, indent, "int")
        others = [b for b in avro.branches if b.kind != "null"]
        single = (len(avro.branches) == 2 and len(others) == 1) or (len(avro.branches) == 1 and not is_union(schema))
        position = 0
        for index, branch in enumerate(avro.branches):
            self._line(lines, indent, f"{'if' if index == 0 else 'elif'} b == {2 * index}:")
            if branch.kind == "null":
                self._line(lines, indent + 1, f"{target} = None")
            elif single:
                self._value(lines, indent + 1, branch, schema, target)
            else:
                field = (schema.fields or ())[position]
                with self._text.labeled(field.name):
                    self._value(lines, indent + 1, branch, field.schema, target)
                cells = ", ".join(target if i == position else "None" for i in range(len(others)))
                self._struct(lines, indent + 1, schema, cells, target)
                position += 1
        self._line(lines, indent, "else:")
        text = f"raise DataError(f'the union has {len(avro.branches)} types and none has the number {{(b >> 1) ^ -(b & 1)}}')"
        self._line(lines, indent + 1, text)

    def _struct(self, lines: list[tuple[str, str]], indent: int, schema: Schema, cells: str, target: str) -> None:
        self._line(lines, indent, "s = new(Struct)")
        self._line(lines, indent, f"s.schema = {self._text.constant(schema)}")
        self._line(lines, indent, f"s.values = [{cells}]")
        self._line(lines, indent, f"{target} = s")

    def _function(self, avro: AvroType, schema: Schema) -> str:
        """The name of the function that decodes a record, array, or map; generated at its first use."""
        found = self._functions.get((id(avro), id(schema)))
        if found is not None:
            return found
        name = f"read{len(self._functions)}"
        self._functions[id(avro), id(schema)] = name
        with self._text.labeled(""):  # calling frames identify the enclosing fields
            lines = self._begin(name)
            if avro.kind == "record":
                self._record(lines, avro, schema)
            else:
                self._blocks(lines, avro, schema)
        return name

    def _record(self, lines: list[tuple[str, str]], avro: AvroType, schema: Schema) -> None:
        for index, (member, field) in enumerate(zip(avro.fields, schema.fields or (), strict=True)):
            with self._text.labeled(field.name):
                self._value(lines, 1, member.type, field.schema, f"v{index}")
        self._struct(lines, 1, schema, ", ".join(f"v{i}" for i in range(len(avro.fields))), "s")
        self._line(lines, 1, "return s, p")

    def _blocks(self, lines: list[tuple[str, str]], avro: AvroType, schema: Schema) -> None:
        """An array, a map, or a map as an array of entries: blocks with a count, the last of which is empty."""
        items, values = avro.items, schema.value_schema
        if items is None or values is None:
            raise SchemaError(f"An Avro {avro.kind} without items")
        is_list = schema.type is Type.ARRAY
        smallest = smallest_size(items) + (avro.kind == "map")

        def line(indent: int, text: str) -> None:
            self._line(lines, indent, text)

        line(1, f"out = {'[]' if is_list else '{}'}")
        line(1, "while True:")
        self._number(lines, 2, "long")
        line(2, "n = (b >> 1) ^ -(b & 1)")
        line(2, "if n == 0: return out, p")
        line(2, "if n < 0:")
        line(3, "n = -n")
        self._number(lines, 3, "long")  # the size of the block in bytes, for those who skip it
        if smallest:
            line(2, f"if n * {smallest} > end - p: raise Truncated")
        else:
            line(2, f"if n + len(out) > {_MAX_EMPTY_ITEMS}: raise DataError(f'{{n}} items that have no bytes')")
        line(2, "for _ in range(n):")
        if is_list:
            self._value(lines, 3, items, values, "v")
            line(3, "out.append(v)")
            return
        keys = schema.key_schema or Schema.STRING
        if avro.kind == "map":
            self._value(lines, 3, AvroType("string"), keys, "key")
            self._value(lines, 3, items, values, "v")
        else:
            for member in items.fields:
                is_key = member.name == "key"
                self._value(lines, 3, member.type, keys if is_key else values, "key" if is_key else "v")
            if keys.type in (Type.ARRAY, Type.MAP):
                line(3, "if True: raise DataError('a map whose keys are lists or maps cannot be held')")
        line(3, "out[key] = v")


def _narrow(value: int, half: int) -> int:
    return ((value + half) & (2 * half - 1)) - half


def _refuse_wide(value: int, half: int) -> int:
    raise DataError(f"{value} does not fit into {half.bit_length()} bits")
