"""Encodes Connect values to Avro, with code generated for each pair of Connect schema and Avro schema.

Usually the Avro schema is derived from the Connect schema. With ``use.latest.version`` or ``use.schema.id`` it comes from the
registry, and fields are matched by name. Schemas that do not match are rejected when the code is generated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from connect.data.logical import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    decimal_scale,
    decimal_to_bytes,
)  # fmt: skip
from connect.data.schema import Field, Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.errors import DataError, SchemaError
from connect.generated_code import FieldFinder, GeneratedSource
from connectors.registry.avro.config import AvroConfig
from connectors.registry.avro.names import is_union, scrub
from connectors.registry.avro.types import MISSING, AvroField, AvroType
from connectors.registry.values import (
    mismatch_error,
    require_bytes,
    require_date_days,
    require_decimal,
    require_integer,
    require_time_millis,
    require_timestamp_millis,
    shorten,
)
from connectors.registry.varint import write_long

Encode = Callable[[Sequence[Any]], list[bytes]]
_FITS = {
    Type.INT8: ("int", "long"),
    Type.INT16: ("int", "long"),
    Type.INT32: ("int", "long"),
    Type.INT64: ("long",),
    Type.FLOAT32: ("float", "double"),
    Type.FLOAT64: ("double",),
    Type.BOOLEAN: ("boolean",),
    Type.STRING: ("string", "enum"),
    Type.BYTES: ("bytes", "fixed"),
    Type.ARRAY: ("array",),
    Type.MAP: ("map", "array"),
    Type.STRUCT: ("record",),
}
_STORED = {DATE: "from_date", TIME: "from_time", TIMESTAMP: "from_timestamp"}
_FAILURES = (AttributeError, TypeError, ValueError, OverflowError, struct.error, ArithmeticError, KeyError, DataError)


_SMALL = tuple(write_long(n if n < 64 else n - 128) for n in range(128))  # by value; negative indexes for negative values
_LENGTHS = tuple(write_long(n) for n in range(1024))


def compile_encoder(schema: Schema, avro: AvroType, options: AvroConfig, lenient: bool) -> Encode:
    """Generates the encoder of a pair of schemas, which raises DataError that names the field. Raises SchemaError if the
    schemas do not match; with ``lenient``, fields that the Avro schema lacks are dropped."""
    if avro.kind == "bytes" and schema.type is Type.BYTES:
        # As in the original, bytes that are the whole value have no length prefix.
        if schema.name == DECIMAL:
            scale = decimal_scale(schema)
            return lambda values: [decimal_bytes(v, scale) for v in values]
        return lambda values: [require_bytes(v) for v in values]
    encode, finder = _AvroEncoderCompiler(options, lenient).compile(schema, avro)

    def encode_all(values: Sequence[Any]) -> list[bytes]:
        try:
            return [encode(v) for v in values]
        except _FAILURES as e:
            raise DataError(finder.add_field_path(e, _reason(e))) from e

    return encode_all


def _reason(error: Exception) -> str:
    if isinstance(error, DataError):
        return error.message
    if isinstance(error, UnicodeEncodeError):
        return "the text contains an unpaired surrogate, which UTF-8 cannot encode"
    return f"the value does not fit its schema: {error}"


class _AvroEncoderCompiler:
    def __init__(self, options: AvroConfig, lenient: bool) -> None:
        self._options = options
        self._lenient = lenient
        self._text = GeneratedSource("avro encoder")
        self._functions: dict[tuple[int, int], str] = {}
        self._kept: list[Any] = []  # keeps objects alive whose ids are keys above

    def compile(self, schema: Schema, avro: AvroType) -> tuple[Callable[[Any], bytes], FieldFinder]:
        lines = self._begin("encode")
        piece = self._value(lines, 1, schema, avro, "v")
        self._line(lines, 1, f"return {piece}")
        scope = {
            "SMALL": _SMALL, "LENGTHS": _LENGTHS, "long_": write_long, "integer": require_integer, "text": to_text,
            "data": require_bytes, "floating": to_float, "boolean": to_boolean, "pack_float": struct.Struct("<f").pack,
            "pack_double": struct.Struct("<d").pack, "Struct": Struct, "struct": to_struct, "refuse_null": refuse_null,
            "from_date": require_date_days, "from_time": require_time_millis, "from_timestamp": require_timestamp_millis,
            "from_decimal": decimal_bytes, "pad": pad, "symbol": to_symbol, "join": b"".join, "DataError": DataError,
        }  # fmt: skip
        names, finder = self._text.compile(scope)
        return names["encode"], finder

    def _begin(self, name: str) -> list[tuple[str, str]]:
        lines = self._text.function()
        self._line(lines, 0, f"def {name}(v):")
        return lines

    def _line(self, lines: list[tuple[str, str]], indent: int, text: str) -> None:
        self._text.write(lines, indent, text)

    def _value(self, lines: list[tuple[str, str]], indent: int, schema: Schema, avro: AvroType, v: str) -> str:
        """Writes lines that replace the value in variable ``v`` by its bytes; returns the variable."""

        def line(text: str, more: int = 0) -> None:
            self._line(lines, indent + more, text)

        if schema.default is not None and not self._options.ignore_default:
            line(f"if {v} is None: {v} = {self._text.constant(schema.default)}")
        if avro.kind == "union":
            self._union(lines, indent, schema, avro, v)
            return v
        self._require_fit(schema, avro)
        if schema.optional and schema.default is None and not self._lenient:
            raise SchemaError(f"the value may be null and the Avro {avro.kind} may not")
        line(f"if {v} is None: refuse_null()")
        self._present(lines, indent, schema, avro, v)
        return v

    def _union(self, lines: list[tuple[str, str]], indent: int, schema: Schema, avro: AvroType, v: str) -> None:
        nulls = [i for i, b in enumerate(avro.branches) if b.kind == "null"]
        if nulls:
            self._line(lines, indent, f"if {v} is None:")
            self._line(lines, indent + 1, f"{v} = {write_long(nulls[0])!r}")
        elif schema.optional and schema.default is None and not self._lenient:
            raise SchemaError("the value may be null and the Avro union has no null")
        else:
            self._line(lines, indent, f"if {v} is None: refuse_null()")
        self._line(lines, indent, "else:")
        if schema.type is Type.STRUCT and is_union(schema):
            self._union_struct(lines, indent + 1, schema, avro, v, bool(nulls))
            return
        index = self._branch(schema, avro)
        self._present(lines, indent + 1, schema, avro.branches[index], v)
        self._line(lines, indent + 1, f"{v} = {write_long(index)!r} + {v}")

    def _branch(self, schema: Schema, avro: AvroType) -> int:
        """Finds the union branch for the schema's values: by name, then by kind, then a wider kind."""
        for kind in _FITS[schema.type]:
            found = [i for i, b in enumerate(avro.branches) if b.kind == kind]
            named = [i for i in found if avro.branches[i].name is not None and avro.branches[i].name == schema.name]
            if found:
                return (named or found)[0]
        kinds = ", ".join(b.kind for b in avro.branches)
        raise SchemaError(f"none of the Avro union's types ({kinds}) takes {schema.type.name}")

    def _union_struct(
        self, lines: list[tuple[str, str]], indent: int, schema: Schema, avro: AvroType, v: str, nullable: bool
    ) -> None:
        fields = schema.fields or ()
        self._unpack(lines, indent, schema, fields, v)
        branches = [i for i, b in enumerate(avro.branches) if b.kind != "null"]
        if len(branches) < len(fields):
            raise SchemaError(f"the union has {len(fields)} fields and the Avro union {len(branches)} types")
        for position, field in enumerate(fields):
            self._line(lines, indent, f"{'if' if position == 0 else 'elif'} u{position} is not None:")
            index = branches[position] if self._is_own(fields, avro, branches) else self._branch(field.schema, avro)
            with self._text.labeled(field.name):
                self._require_fit(field.schema, avro.branches[index])
                self._line(lines, indent + 1, f"{v} = u{position}")
                self._present(lines, indent + 1, field.schema, avro.branches[index], v)
                self._line(lines, indent + 1, f"{v} = {write_long(index)!r} + {v}")
        none = [i for i, b in enumerate(avro.branches) if b.kind == "null"]
        self._line(lines, indent, "else:" if fields else "if True:")
        self._line(lines, indent + 1, f"{v} = {write_long(none[0])!r}" if nullable else "refuse_null()")

    def _is_own(self, fields: Sequence[Field], avro: AvroType, branches: list[int]) -> bool:
        """Whether the union was derived from these fields, so that they correspond by position."""
        return len(fields) == len(branches) and all(
            avro.branches[i].kind in _FITS[f.schema.type] for f, i in zip(fields, branches, strict=True)
        )

    def _require_fit(self, schema: Schema, avro: AvroType) -> None:
        if avro.kind not in _FITS[schema.type]:
            raise SchemaError(f"{schema.type.name} cannot be written as the Avro type {avro.kind}")

    def _present(self, lines: list[tuple[str, str]], indent: int, schema: Schema, avro: AvroType, v: str) -> None:
        """Writes lines for a value that is not None."""

        def line(text: str, more: int = 0) -> None:
            self._line(lines, indent + more, text)

        match avro.kind:
            case "int" | "long":
                if schema.name in _STORED:
                    line(f"{v} = {_STORED[schema.name]}({v})")
                low, high = INT_RANGES[schema.type]
                line(f"if type({v}) is int and -64 <= {v} < 64: {v} = SMALL[{v}]")
                line(f"else: {v} = long_({v} if type({v}) is int and {low} <= {v} <= {high} else integer({v}, {low}, {high}))")
            case "float" | "double":
                line(f"{v} = pack_{avro.kind}({v} if type({v}) is float else floating({v}))")
            case "boolean":
                line(f"{v} = b'\\1' if {v} is True else b'\\0' if {v} is False else boolean({v})")
            case "enum":
                symbols = {s: write_long(i) for i, s in enumerate(avro.symbols)}
                line(f"{v} = symbol({self._text.constant(symbols)}, {v})")
            case "string":
                line(f"{v} = ({v} if type({v}) is str else text({v})).encode()")
                self._with_length(lines, indent, v)
            case "bytes" | "fixed":
                if schema.name == DECIMAL:
                    line(f"{v} = from_decimal({v}, {decimal_scale(schema)})")
                else:
                    line(f"if type({v}) is not bytes: {v} = data({v})")
                if avro.kind == "bytes":
                    self._with_length(lines, indent, v)
                else:
                    line(f"{v} = pad({v}, {avro.size}, {schema.name == DECIMAL})")
            case "record":
                self._record(lines, indent, schema, avro, v)
            case _:
                line(f"{v} = {self._function(schema, avro)}({v})")

    def _with_length(self, lines: list[tuple[str, str]], indent: int, v: str) -> None:
        self._line(lines, indent, f"n = len({v})")
        self._line(lines, indent, f"{v} = (LENGTHS[n] if n < 1024 else long_(n)) + {v}")

    def _record(self, lines: list[tuple[str, str]], indent: int, schema: Schema, avro: AvroType, v: str) -> None:
        self._line(lines, indent, f"{v} = {self._function(schema, avro)}({v})")

    def _function(self, schema: Schema, avro: AvroType) -> str:
        """The name of the function that encodes a record, array, or map; generated at its first use."""
        found = self._functions.get((id(schema), id(avro)))
        if found is not None:
            return found
        name = f"write{len(self._functions)}"
        self._functions[id(schema), id(avro)] = name
        self._kept += [schema, avro]
        with self._text.labeled(""):  # calling frames identify the enclosing fields
            lines = self._begin(name)
            if avro.kind == "record":
                self._members(lines, schema, avro)
            elif schema.type is Type.ARRAY:
                self._list(lines, schema, avro)
            else:
                self._map(lines, schema, avro)
        return name

    def _unpack(self, lines: list[tuple[str, str]], indent: int, schema: Schema, fields: Sequence[Field], v: str) -> None:
        own = self._text.constant(schema)
        self._line(lines, indent, f"if type({v}) is not Struct or {v}.schema is not {own}: struct({v}, {own})")
        names = ", ".join(f"u{f.index}" for f in fields)
        self._line(lines, indent, f"[{names}] = {v}.values")

    def _members(self, lines: list[tuple[str, str]], schema: Schema, avro: AvroType) -> None:
        fields = {scrub(f.name) if self._options.scrub_names else f.name: f for f in schema.fields or ()}
        extra = [name for name in fields if name not in {f.name for f in avro.fields}]
        if extra and not self._lenient:
            raise SchemaError(f"the Avro record {avro.name} has no field {extra[0]}")
        self._unpack(lines, 1, schema, schema.fields or (), "v")
        pieces: list[str] = []
        for member in avro.fields:
            field = fields.get(member.name)
            if field is None:
                pieces.append(self._text.constant(_default_bytes(avro, member)))
                continue
            with self._text.labeled(field.name):
                try:
                    pieces.append(self._value(lines, 1, field.schema, member.type, f"u{field.index}"))
                except SchemaError as e:
                    raise SchemaError(f"field {field.name}: {e.message}") from e
        self._line(lines, 1, f"return join(({', '.join(pieces)},))" if pieces else "return b''")

    def _list(self, lines: list[tuple[str, str]], schema: Schema, avro: AvroType) -> None:
        items, values = _both(avro.items, schema.value_schema)
        self._line(lines, 1, "if type(v) is not list: raise DataError(f'a list is needed, not {type(v).__name__}')")
        self._line(lines, 1, "if not v: return b'\\0'")
        self._line(lines, 1, "out = [long_(len(v))]")
        self._line(lines, 1, "for x in v:")
        self._value(lines, 2, values, items, "x")
        self._line(lines, 2, "out.append(x)")
        self._line(lines, 1, "out.append(b'\\0')")
        self._line(lines, 1, "return join(out)")

    def _map(self, lines: list[tuple[str, str]], schema: Schema, avro: AvroType) -> None:
        items, values = _both(avro.items, schema.value_schema)
        keys = schema.key_schema or Schema.STRING
        self._line(lines, 1, "if type(v) is not dict: raise DataError(f'a dict is needed, not {type(v).__name__}')")
        self._line(lines, 1, "if not v: return b'\\0'")
        self._line(lines, 1, "out = [long_(len(v))]")
        self._line(lines, 1, "for y, x in v.items():")
        parts = [("y", keys, AvroType("string")), ("x", values, items)]
        if avro.kind == "array":
            entry = {f.name: f.type for f in items.fields}
            if list(entry) not in (["key", "value"], ["value", "key"]):
                raise SchemaError("a map can be written as an Avro map or as an array of records with key and value")
            parts = [("y", keys, entry["key"]), ("x", values, entry["value"])]
            if next(iter(entry)) == "value":
                parts.reverse()
        for name, part, kind in parts:
            if name == "y" and kind.kind == "string":
                self._present(lines, 2, part, kind, name)
            else:
                self._value(lines, 2, part, kind, name)
            self._line(lines, 2, f"out.append({name})")
        self._line(lines, 1, "out.append(b'\\0')")
        self._line(lines, 1, "return join(out)")


def _both(items: AvroType | None, values: Schema | None) -> tuple[AvroType, Schema]:
    if items is None or values is None:
        raise SchemaError("An array or map without the schema of its elements cannot be written as Avro")
    return items, values


def _default_bytes(record: AvroType, member: AvroField) -> bytes:
    """The encoded default of a field that the data lacks."""
    first = member.type.branches[0] if member.type.kind == "union" and member.type.branches else member.type
    index = b"\0" if member.type.kind == "union" else b""
    default = member.default
    if default is MISSING:
        raise SchemaError(f"the data has no field {member.name} and the Avro record {record.name} has no default for it")
    match first.kind:
        case "null" if default is None:
            return index
        case "boolean" if isinstance(default, bool):
            return index + (b"\1" if default else b"\0")
        case "int" | "long" if isinstance(default, int) and not isinstance(default, bool):
            return index + write_long(default)
        case "float" | "double" if isinstance(default, int | float) and not isinstance(default, bool):
            return index + struct.pack("<f" if first.kind == "float" else "<d", default)
        case "string" if isinstance(default, str):
            return index + write_long(len(default.encode())) + default.encode()
        case "bytes" | "fixed" if isinstance(default, str):
            data = default.encode("latin-1")
            return index + (write_long(len(data)) if first.kind == "bytes" else b"") + data
        case "enum" if default in first.symbols:
            return index + write_long(first.symbols.index(default))
        case "array" | "map" if not default:
            return index + b"\0"
    raise SchemaError(f"the data has no field {member.name}, and its default in the Avro record {record.name} cannot be written")


# -- slow path for values of other types


def refuse_null() -> None:
    raise DataError("null used for a required value")


def to_float(value: Any) -> float:
    if isinstance(value, float):
        return float(value)
    raise mismatch_error("a float", value)


def to_boolean(value: Any) -> bytes:
    raise mismatch_error("a boolean", value)


def to_text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise mismatch_error("text", value)


def decimal_bytes(value: Any, scale: int) -> bytes:
    return decimal_to_bytes(require_decimal(value), scale)


def to_symbol(symbols: dict[str, bytes], value: Any) -> bytes:
    found = symbols.get(value) if isinstance(value, str) else None
    if found is None:
        raise DataError(f"{shorten(value)} is none of the enum's symbols {', '.join(list(symbols)[:20])}")
    return found


def to_struct(value: Any, schema: Schema) -> None:
    """Raises DataError for a value that is not a struct of that schema."""
    if not isinstance(value, Struct):
        raise mismatch_error("a Struct", value)
    if value.schema != schema:
        raise DataError("Mismatching struct schema")


def pad(data: bytes, size: int, is_number: bool) -> bytes:
    """Pads bytes to a size. A number is sign-extended."""
    if len(data) == size:
        return data
    if len(data) > size or not is_number:
        raise DataError(f"{len(data)} bytes do not make a value of exactly {size} bytes")
    return (b"\xff" if data[0] > 0x7F else b"\0") * (size - len(data)) + data
