"""Writes JSON from the texts of a source, with code compiled once per template.

The fields of a template become one format string. Texts that are JSON already, such as those of integers, are copied; texts
without special characters only get quotes. The slow path of :mod:`connect.converters.json.value_writer` writes what has no short
form here, so the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from connect.converters.json.fast_path import FastPathMiss
from connect.converters.json.number_texts import decimal_writer, unscaled_text, write_double, write_shortest_double
from connect.converters.json.value_writer import LOGICAL_NAMES, WriteOptions, null_text, quote, write_value
from connect.data.logical import DECIMAL, decimal_scale
from connect.data.schema import Field, Schema, Type
from connect.data.types import INT_RANGES
from connect.generated_code import define_functions
from connect.text_records import (
    Cell,
    Fixed,
    Frame,
    FramedWriter,
    Joined,
    Part,
    PayloadWriter,
    Slot,
    StructTemplate,
    TemplateWriter,
    TextKind,
    TextRows,
)

_QUOTE = repr('"')
_PLAIN_DOUBLE = "(0.001 <= {0} < 1e7 or -1e7 < {0} <= -0.001)"
"""Only in this range does Java write no exponent."""


class TemplateWriters:
    """The writers of templates, each compiled once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, bytes], tuple[StructTemplate, TemplateWriter]] = {}
        self._frames: dict[int, tuple[StructTemplate, Callable[[Sequence[Any]], Frame]]] = {}

    def get(self, template: StructTemplate, options: WriteOptions, prefix: bytes, max_size: int) -> TemplateWriter:
        """Returns the writer of a template. With a prefix, its results begin with that and end with a brace."""
        found = self._found.get((id(template), prefix))
        if found is None:
            if len(self._found) >= max_size:
                self._found.clear()
            # The reference to the template prevents reuse of its id.
            found = self._found[id(template), prefix] = template, _compile_writer(template, options, prefix)
        return found[1]

    def payload_writer(self, template: StructTemplate, options: WriteOptions, prefix: bytes, max_size: int) -> PayloadWriter:
        """Returns the writer of what messages have after the prefix."""
        write, framed = self.get(template, options, b"", max_size), self._framed(template, options, max_size)
        return PayloadWriter(prefix, write, framed, options.replace_null_with_default)

    def _framed(self, template: StructTemplate, options: WriteOptions, max_size: int) -> FramedWriter | None:
        """Returns the writer of the only field that comes from the row; None if several do."""
        at = [i for i, part in enumerate(template.parts) if _reads_row(part)]
        inner = template.parts[at[0]] if len(at) == 1 else None
        if not isinstance(inner, StructTemplate):
            return None
        found = self._frames.get(id(template))
        if found is None:
            if len(self._frames) >= max_size:
                self._frames.clear()
            found = self._frames[id(template)] = template, _frame_writer(template, at[0], options)
        return FramedWriter(found[1], self.get(inner, options, b"", max_size))

    def clear(self) -> None:
        self._found.clear()
        self._frames.clear()


def _compile_writer(template: StructTemplate, options: WriteOptions, prefix: bytes) -> TemplateWriter:
    format_ = _Format(options)
    format_.literal(prefix.decode())
    format_.struct(template)
    format_.literal("}" if prefix else "")
    return format_.compile()


def _reads_row(part: Part) -> bool:
    return isinstance(part, Cell | Joined) or (isinstance(part, StructTemplate) and any(map(_reads_row, part.parts)))


def _frame_writer(template: StructTemplate, at: int, options: WriteOptions) -> Callable[[Sequence[Any]], Frame]:
    """Returns the function that writes the fields before and after one of the template's."""
    fields = list(zip(template.schema.fields or (), template.parts, strict=True))
    before, after = _Format(options), _Format(options)
    before.literal("{")
    for member in fields[:at]:
        before.member(*member)
        before.literal(",")
    before.literal(f"{quote(fields[at][0].name)}:")
    for member in fields[at + 1 :]:
        after.literal(",")
        after.member(*member)
    after.literal("}")
    write_before, write_after = before.compile(), after.compile()

    def write(slots: Sequence[Any]) -> Frame:
        one_row = TextRows([(None,)], has_nulls=False, is_plain=True, slots=slots)
        return write_before(one_row)[0], write_after(one_row)[0]

    return write


@dataclass(frozen=True, slots=True)
class _CellPart:
    column: int
    schema: Schema
    kind: TextKind
    number: int
    """Of its constants: ``c<number>`` converts, ``n<number>`` is the text of a null, None where the field has none."""
    is_base64: bool = False
    """Whether the text only needs quotes, because it is Base64."""
    is_double: bool = False
    """Whether most values are doubles whose JSON is their ``repr``."""
    twin: _CellPart | None = None
    """The cell of the same field in the row before an update: most values are the same there."""

    def has_literal_quotes(self, *, has_nulls: bool, is_plain: bool) -> bool:
        """Whether the text is copied between quotes of the format string."""
        if self.is_base64:
            return not has_nulls
        return is_plain and not has_nulls and self.kind is TextKind.STRING and self.schema.type is Type.STRING


@dataclass(frozen=True, slots=True)
class _SlotPart:
    text: str
    """The expression of its JSON."""


class _Format:
    """The parts of a format string, and the constants of the code that fills it."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._parts: list[str | _CellPart | _SlotPart] = []
        self._constants: dict[str, Any] = {"quote": quote, "refuse": _refuse}
        self._cells: dict[int, tuple[_CellPart, Cell]] = {}
        """The first cell of each field, by its id: that of the row before an update."""
        self._variants: dict[tuple[int, bool, bool, bool], Callable[..., list[bytes]]] = {}

    def literal(self, text: str) -> None:
        if self._parts and isinstance(self._parts[-1], str):
            text = f"{self._parts.pop()}{text}"
        self._parts.append(text)

    def struct(self, template: StructTemplate) -> None:
        before = "{"
        for field, part in zip(template.schema.fields or (), template.parts, strict=True):
            self.literal(before)
            self.member(field, part)
            before = ","
        self.literal("}" if template.parts else "{}")

    def member(self, field: Field, part: Part) -> None:
        """Adds a field with its name."""
        schema = field.schema
        self.literal(f"{quote(field.name)}:")
        match part:
            case StructTemplate():
                self.struct(part)
            case Slot():
                is_long = schema.type is Type.INT64 and schema.name not in LOGICAL_NAMES
                self._add_slot(part.number, _value_writer(schema, self._options), is_long=is_long)
            case Fixed():
                self.literal(write_value(schema, part.value, self._options))
            case Joined():
                self._add_joined(part)
            case Cell():
                self._add_cell(part, field)

    def _add_slot(self, number: int, write: Callable[[Any], str], *, is_long: bool = False) -> None:
        name = f"w{len(self._constants)}"
        self._constants[name] = write
        value = f"s[{number}]"
        text = f"{name}({value})"
        if is_long:
            text = f"(str({value}) if {value}.__class__ is int and -1 < {value} < {1 << 63} else {text})"
        self._parts.append(_SlotPart(text))

    def _add_joined(self, joined: Joined) -> None:
        self.literal('"')
        self._add_slot(joined.number, _escape_prefix)
        self._parts.append(_CellPart(joined.column, Schema.INT64, TextKind.INTEGER, self._next_cell()))
        self.literal(quote(joined.suffix)[1:])

    def _add_cell(self, cell: Cell, field: Field) -> None:
        number, schema = self._next_cell(), field.schema
        is_base64 = cell.kind is TextKind.UNSCALED and schema.name == DECIMAL and not self._options.numeric_decimals
        is_double = cell.kind is TextKind.VALUE and schema.type is Type.FLOAT64 and not self._options.strict
        twin, twin_cell = self._cells.get(id(field), (None, cell))
        if twin_cell.kind is not cell.kind or twin_cell.decode != cell.decode:
            twin = None
        part = _CellPart(cell.column, schema, cell.kind, number, is_base64, is_double, twin)
        self._cells.setdefault(id(field), (part, cell))
        self._constants[f"n{number}"] = null_text(schema, self._options)
        self._constants[f"c{number}"] = _cell_writer(schema, cell, self._options)
        self._parts.append(part)

    def _next_cell(self) -> int:
        number = sum(isinstance(part, _CellPart) for part in self._parts)
        self._constants[f"n{number}"] = None
        return number

    def compile(self) -> TemplateWriter:
        """Returns the writer; it compiles its variants when rows need them."""

        def write(rows: TextRows) -> list[bytes]:
            variant = len(rows.rows[0]), rows.has_nulls, rows.is_plain, rows.slots is None
            function = self._variants.get(variant)
            if function is None:
                function = self._variants[variant] = self._compile_variant(*variant)
            return function(rows.rows, rows.slots)

        return write

    def _compile_variant(self, width: int, has_nulls: bool, is_plain: bool, has_slots: bool) -> Callable[..., list[bytes]]:
        segments: list[list[str]] = [[]]
        cells: list[_CellPart] = []
        for part in self._parts:
            if isinstance(part, _CellPart):
                if part.has_literal_quotes(has_nulls=has_nulls, is_plain=is_plain):
                    segments[-1].append(_QUOTE)
                    segments.append([_QUOTE])
                else:
                    segments.append([])
                cells.append(part)
            else:
                segments[-1].append(repr(part) if isinstance(part, str) else part.text)
        texts = [f"t{i} = {' + '.join(segment) or repr('')}" for i, segment in enumerate(segments)]
        text = "{t0}" + "".join(f"{{v{cell.number}}}{{t{i}}}" for i, cell in enumerate(cells, 1))
        used = sorted({cell.column for cell in cells})
        slots_at = width - 1 if has_slots and any("(s[" in line for line in texts) else None
        if len(used) * 2 < width:
            loop = ["    for row in rows:", *(f"        f{i} = row[{i}]" for i in used)]
            loop += [] if slots_at is None else [f"        s = row[{slots_at}]"]
        else:
            names = ", ".join("s" if i == slots_at else f"f{i}" for i in range(width))
            loop = [f"    for {names}, in rows:"]
        if slots_at is not None:
            loop += ["        if s is not shared:", "            shared = s", *(f"            {line}" for line in texts)]
        code = [
            "def write(rows, s):",
            *(["    shared = rows"] if slots_at is not None else [f"    {line}" for line in texts]),
            "    out = []",
            "    add = out.append",
            *loop,
            *(f"        {line}" for cell in cells for line in _cell_code(cell, has_nulls=has_nulls, is_plain=is_plain)),
            f"        add(f'{text}'.encode())",
            "    return out",
        ]
        write: Callable[..., list[bytes]] = define_functions(code, self._constants, title="JSON writer of texts")["write"]
        return write


def _cell_code(cell: _CellPart, *, has_nulls: bool, is_plain: bool) -> Iterator[str]:
    text, value = f"f{cell.column}", f"v{cell.number}"
    expression = text
    if not cell.has_literal_quotes(has_nulls=has_nulls, is_plain=is_plain):
        expression = _expression(cell, text, is_plain=is_plain)
    if (twin := cell.twin) is not None and expression != text:
        same = "is" if cell.kind is TextKind.VALUE else "=="  # -0.0 == 0.0
        expression = f"v{twin.number} if {text} {same} f{twin.column} else {expression}"
    if has_nulls:
        expression = f"({expression}) if {text} is not None else n{cell.number} or refuse()"
    yield f"{value} = {expression}"


def _expression(cell: _CellPart, text: str, *, is_plain: bool) -> str:
    """The expression of the JSON of a text."""
    convert = f"c{cell.number}({text})"
    type_ = cell.schema.type
    if cell.is_base64:
        return f"f'\"{{{text}}}\"'"
    if cell.schema.name in LOGICAL_NAMES:
        return convert
    if cell.kind is TextKind.VALUE:
        if cell.is_double:
            return f"repr({text}) if {text}.__class__ is float and {_PLAIN_DOUBLE.format(text)} else {convert}"
        if type_ not in INT_RANGES:
            return convert
        low, high = INT_RANGES[type_]
        return f"{text} if {text}.__class__ is int and {low} <= {text} <= {high} else {convert}"
    if cell.kind is TextKind.INTEGER and type_ in INT_RANGES:
        return text
    if cell.kind is TextKind.BOOLEAN and type_ is Type.BOOLEAN:
        return f"'true' if {text} == 't' else 'false'"
    if type_ is not Type.STRING:
        return convert
    if cell.kind is TextKind.STRING:
        return f"f'\"{{{text}}}\"'" if is_plain else f"quote({text})"
    if cell.kind is TextKind.UTC_TIMESTAMP:
        short = f"f'\"{{{text}[:10]}}T{{{text}[11:-3]}}Z\"'"
        return f"{short} if len({text}) == 29 and {text}[-3:] == '+00' and {text}[4] == '-' else {convert}"
    return convert


def _escape_prefix(text: str) -> str:
    """A text as a part of a JSON string."""
    return text.replace('"', '\\"') if text.isprintable() and text.isascii() and "\\" not in text else quote(text)[1:-1]


def _refuse() -> str:
    raise FastPathMiss


def _cell_writer(schema: Schema, cell: Cell, options: WriteOptions) -> Callable[[Any], str]:
    """The function that writes a text whose JSON has no short form in the generated code."""
    if cell.kind is TextKind.VALUE:
        return _cell_value_writer(schema, options)
    decode = cell.decode

    def write(text: str) -> str:
        return write_value(schema, decode(text), options)

    if schema.name == DECIMAL and cell.kind is TextKind.DECIMAL and not options.numeric_decimals:
        return decimal_writer(decimal_scale(schema), write)
    if schema.name == DECIMAL and cell.kind is TextKind.UNSCALED_INTEGER and not options.numeric_decimals:
        return unscaled_text
    if schema.name in LOGICAL_NAMES:
        return write
    if schema.type is Type.FLOAT64 and not options.strict:
        if cell.kind is TextKind.FLOAT:
            return write_double
        if cell.kind is TextKind.SHORTEST_FLOAT:
            return write_shortest_double
    if schema.type in INT_RANGES or schema.type is Type.STRING:
        write_decoded = _value_writer(schema, options)
        return lambda text: write_decoded(decode(text))
    return write


def _cell_value_writer(schema: Schema, options: WriteOptions) -> Callable[[Any], str]:
    """The function that writes the values of cells: decimals and doubles by their texts, which is several times as fast."""
    write: Callable[[Any], str] = _value_writer(schema, options)
    if schema.name == DECIMAL and not options.numeric_decimals:
        write_text = decimal_writer(decimal_scale(schema), lambda text: write(Decimal(text)))
        return lambda value: write_text(str(value)) if value.__class__ is Decimal else write(value)
    if schema.type is Type.FLOAT64 and not options.strict:
        return lambda value: write_shortest_double(repr(value)) if value.__class__ is float else write(value)
    return write


def _value_writer(schema: Schema, options: WriteOptions) -> Callable[[Any], str]:
    """The function that writes values of a schema; integers and strings, which are most of them, fast."""
    if schema.name in LOGICAL_NAMES:
        return lambda value: write_value(schema, value, options)
    if schema.type in INT_RANGES:
        low, high = INT_RANGES[schema.type]
        return lambda value: str(value) if type(value) is int and low <= value <= high else write_value(schema, value, options)
    if schema.type is Type.STRING:
        return lambda value: quote(value) if type(value) is str else write_value(schema, value, options)
    return lambda value: write_value(schema, value, options)
