"""Writes structs one at a time, with code compiled once per schema: for batches that are too small for columns.

Like the columns of :mod:`connect.converters.json.batch_encoder`, it raises :class:`FastPathMiss` for anything unusual; the slow
path then decides.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

from connect.converters.json.fast_path import FastPathMiss, unscaled
from connect.converters.json.value_writer import (
    LOGICAL_NAMES,
    WriteOptions,
    base64_text,
    null_text,
    number_text,
    quote,
    write_value,
)
from connect.data.logical import DECIMAL, decimal_scale, int_to_bytes
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.generated_code import define_functions

RowWriter = Callable[[Any], str]


def compile_row_writer(schema: Schema, options: WriteOptions) -> RowWriter:
    """Compiles the function that writes a struct of a schema."""
    compiler = _Compiler(options)
    name = compiler.struct(schema)
    writer: RowWriter = define_functions(compiler.code, compiler.constants, title="JSON row writer")[name]
    return writer


def _miss() -> str:
    raise FastPathMiss


class _Compiler:
    """The functions of a schema and of the structs in it."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self.code: list[str] = []
        self.constants: dict[str, Any] = {"Struct": Struct, "quote": quote, "number": number_text, "miss": _miss}

    def struct(self, schema: Schema) -> str:
        """Generates the function of a struct; returns its name."""
        fields = schema.fields or ()
        values = [self._value(field.schema, f"f{i}") for i, field in enumerate(fields)]
        number = len(self.constants)
        name, schema_name = f"write{number}", f"schema{number}"
        self.constants[schema_name] = schema
        self.constants[name] = None  # reserves the number
        lines = [
            f"def {name}(v):",
            "    if v.__class__ is not Struct: miss()",
            f"    if v.schema is not {schema_name} and v.schema != {schema_name}: miss()",
        ]
        if not fields:
            lines += ["    if v.values: miss()", "    return '{}'"]
        else:
            lines.append(f"    {', '.join(f'f{i}' for i in range(len(fields)))}, = v.values")
            lines += [f"    v{i} = {value}" for i, value in enumerate(values)]
            parts = []
            for i, field in enumerate(fields):
                before = "{" if i == 0 else ","
                parts.append(f"{f'{before}{quote(field.name)}:'!r} f'{{v{i}}}'")
            lines.append(f"    return ({' '.join(parts)} '}}')")
        self.code += lines
        return name

    def _value(self, schema: Schema, text: str) -> str:
        """The expression that writes a field's value."""
        null = null_text(schema, self._options)
        written = "miss()" if null is None else self._constant(null)
        return f"{written} if {text} is None else {self._present(schema, text)}"

    def _present(self, schema: Schema, text: str) -> str:
        options = self._options
        if schema.name == DECIMAL and not options.numeric_decimals:
            return f"{self._constant(_decimal_writer(decimal_scale(schema)))}({text})"
        if schema.name not in LOGICAL_NAMES:
            match schema.type:
                case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
                    low, high = INT_RANGES[schema.type]
                    return f"str({text}) if {text}.__class__ is int and {low} <= {text} <= {high} else miss()"
                case Type.FLOAT64 if not options.strict:
                    return f"number({text}, False) if {text}.__class__ is float else miss()"
                case Type.BOOLEAN:
                    return f"'true' if {text} is True else 'false' if {text} is False else miss()"
                case Type.STRING:
                    return f"quote({text}) if {text}.__class__ is str else miss()"
                case Type.STRUCT:
                    return f"{self.struct(schema)}({text})"
        return f"{self._constant(lambda value: write_value(schema, value, options))}({text})"

    def _constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name


def _decimal_writer(scale: int) -> RowWriter:
    def write(value: Any) -> str:
        if value.__class__ is not decimal.Decimal:
            raise FastPathMiss
        return f'"{base64_text(int_to_bytes(unscaled(value, scale)))}"'

    return write
