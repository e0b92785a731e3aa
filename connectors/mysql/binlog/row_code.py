"""Generates the code of row decoders."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connect.generated_code import FieldFinder, GeneratedSource
from connectors.mysql.binlog.column_code import FUNCTIONS, FixedCode, VariableCode, column_code
from connectors.mysql.binlog.json_diff import change_document
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.binlog.wire import packed_int

_SHOWN_BYTES = 40
_Part = tuple[FixedCode, list[str]]
"""A value of fixed size and the names of its parts; no names: it is skipped."""


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """How to read a column.

    ``unsigned``: whether an integer is; None takes it from TABLE_MAP, which has it with binlog_row_metadata=MINIMAL, too.
    ``inline`` is an expression for the value, with ``{x}`` for the raw one and ``{c}`` for ``convert``, which may be any object
    then; if empty, ``convert`` is called, if there is one. It is not called for nulls. ``fraction_digits`` are those of TIME,
    DATETIME, and TIMESTAMP in MariaDB's older format, whose TABLE_MAP does not have them. ``name`` is that of the column, for
    messages; empty takes it from TABLE_MAP, which has it with binlog_row_metadata=FULL.
    """

    unsigned: bool | None = None
    convert: Any = None
    inline: str = ""
    fraction_digits: int | None = None
    name: str = ""


class ImageCode:
    """The columns in one row image. ``columns`` are their indexes; null bits count only these."""

    def __init__(self, columns: Sequence[int], empty_row: tuple[Any, ...]) -> None:
        self.columns = tuple(columns)
        self.null_bytes = (len(columns) + 7) // 8
        self.null_mask = (1 << len(columns)) - 1
        self.empty_row = empty_row


class RowCode:
    """What is known about the columns of a table, and where the code generated from it fails."""

    def __init__(self, table: TableMap, readers: Sequence[ColumnReader | None], absent: object) -> None:
        self.table = table
        self.readers = readers
        self.absent = absent
        self.wanted = [i for i, reader in enumerate(readers) if reader is not None]
        unsigned = table.metadata.unsigned
        self.codes: list[FixedCode | VariableCode] = []
        for i, (column, reader) in enumerate(zip(table.columns, readers, strict=True)):
            known = reader.unsigned if reader is not None else None
            flag = known if known is not None else bool(unsigned and unsigned[i])
            digits = reader.fraction_digits if reader is not None else None
            self.codes.append(column_code(column, unsigned=flag, fraction_digits=digits))
        self._finders: list[FieldFinder] = []

    def image(self, present: bytes) -> ImageCode:
        """Returns the columns of an image, by their bits."""
        columns = [i for i in range(self.table.column_count) if present[i >> 3] & 1 << (i & 7)]
        return ImageCode(columns, (self.absent,) * len(self.wanted))

    def add_finder(self, finder: FieldFinder) -> None:
        self._finders.append(finder)

    def label(self, index: int) -> str:
        """Returns a column's name for messages."""
        reader = self.readers[index]
        return reader.name if reader is not None and reader.name else self.table.column_label(index)

    def explain(self, error: BaseException) -> str:
        """Returns the error with its column, if it concerns one."""
        reason = str(error)
        if isinstance(error, UnicodeDecodeError):
            shown = error.object[:_SHOWN_BYTES]
            more = "..." if len(error.object) > _SHOWN_BYTES else ""
            reason = f"{shown!r}{more} is no text in {error.encoding}: {error.reason} at byte {error.start}"
        for finder in self._finders:
            if path := finder.path(error):
                return f"column {path}: {reason}"
        return reason


def compile_rows(
    code: RowCode,
    image: ImageCode,
    nulls: int | None,
    after: ImageCode | None = None,
    nulls_after: int | None = None,
    *,
    partial: bool = False,
) -> Any:
    """Compiles ``run(d, i, e, add)``, which decodes rows as long as their nulls are ``nulls``; None means any.

    It returns where it stopped. With an image after, it adds pairs, and also returns the nulls of the image after of the row at
    which it stopped, or -1.
    """
    writer = _RowWriter(code)
    body, line = writer.source.function(), writer.line
    line(body, 0, "def run(d, i, e, add):")
    line(body, 1, "while i < e:")
    if after is not None:
        line(body, 2, "r = i")
    stop = "return i" if after is None else "return i, -1"
    writer.image(body, image, nulls, "v", stop)
    if after is None:
        row = writer.row("v", image)
    else:
        if partial:
            line(body, 2, f"i, m = partial_bits(d, i, e, {len(code.table.json_columns)})")
        writer.image(body, after, nulls_after, "w", "return r, p", partial=partial)
        row = f"({writer.row('v', image)}, {writer.row('w', after)})"
    line(body, 2, "if i > e: truncated(i - e)")
    line(body, 2, f"add({row})")
    line(body, 1, "return i" if after is None else "return i, -1")
    scope = {**FUNCTIONS, "absent": code.absent, "change": change_document, "from_bytes": int.from_bytes,
             "partial_bits": _partial_bits, "truncated": _truncated}  # fmt: skip
    functions, finder = writer.source.compile(scope)
    code.add_finder(finder)
    return functions["run"]


def _truncated(missing: int) -> None:
    raise ValueError(f"the last row lacks {missing} bytes")


def _partial_bits(data: bytes, at: int, end: int, json_columns: int) -> tuple[int, int]:
    """Reads the options in front of the image after of a partial update: which JSON columns are changed in part."""
    options, at = packed_int(data, at, end)
    if options & ~1:
        raise ValueError(f"row value options {options} are unknown; expected 0 or 1")
    if not options:
        return at, 0
    width = (json_columns + 7) // 8
    return at + width, int.from_bytes(data[at : at + width], "little")


class _RowWriter:
    """Writes the code of one function."""

    def __init__(self, code: RowCode) -> None:
        self.code = code
        self.source = GeneratedSource("binary log row decoder")
        self.line = self.source.write
        self._converters: dict[int, str] = {}

    def row(self, prefix: str, image: ImageCode) -> str:
        present = set(image.columns)
        names = [f"{prefix}{i}" if i in present else "absent" for i in self.code.wanted]
        return f"({', '.join(names)}{',' if len(names) == 1 else ''})"

    def image(
        self, body: list[tuple[str, str]], image: ImageCode, nulls: int | None, prefix: str, stop: str, *, partial: bool = False
    ) -> None:
        width, mask = image.null_bytes, image.null_mask
        if width == 1:
            bits = "d[i]"
        elif width == 2:
            bits = "(d[i] | d[i + 1] << 8)"
        else:
            bits = f"from_bytes(d[i:i + {width}], 'little')"
        if width:
            # Bits beyond the columns are not defined.
            self.line(body, 2, f"p = {bits} & {mask}")
            if nulls is not None:
                self.line(body, 2, f"if p{f' != {nulls}' if nulls else ''}: {stop}")
        if nulls is None:
            self._any_nulls(body, image, prefix, partial=partial)
        else:
            self._known_nulls(body, image, nulls, prefix)

    def _known_nulls(self, body: list[tuple[str, str]], image: ImageCode, nulls: int, prefix: str) -> None:
        """Reads values of fixed size together with the length of the next value of variable size."""
        parts: list[_Part] = []
        values: list[tuple[int, str]] = []
        skipped = image.null_bytes
        for number, i in enumerate(image.columns):
            code = self.code.codes[i]
            name = f"{prefix}{i}" if self.code.readers[i] is not None else ""
            if nulls >> number & 1:
                if name:
                    self.line(body, 2, f"{name} = None")
            elif isinstance(code, FixedCode):
                parts.append((code, self._parts(name, code)))
                if name:
                    values.append((i, name))
            else:
                length = code.length_code
                names = self._parts("l", length)
                parts.append((length, names))
                size = self._unpack(body, parts, skipped)
                self._fixed_values(body, values)
                parts, values, skipped = [], [], 0
                with self.source.labeled(self.code.label(i)):
                    expression = length.expression.format(*names)
                    if name:
                        self.line(body, 2, f"j = i + {size}")
                        self.line(body, 2, f"i = j + ({expression})")
                        if code.expression != "{0}":  # its function must not see a part of the value
                            self.line(body, 2, "if i > e: truncated(i - e)")
                        self._value(body, 2, i, name, code.expression.format("d[j:i]"))
                    else:
                        self.line(body, 2, f"i += {size} + ({expression})")
        size = self._unpack(body, parts, skipped)
        if size:
            self.line(body, 2, f"i += {size}")
        self._fixed_values(body, values)

    def _fixed_values(self, body: list[tuple[str, str]], values: list[tuple[int, str]]) -> None:
        for i, name in values:
            code = self.code.codes[i]
            assert isinstance(code, FixedCode)
            with self.source.labeled(self.code.label(i)):
                self._value(body, 2, i, name, code.expression.format(*self._parts(name, code)))

    def _parts(self, name: str, code: FixedCode) -> list[str]:
        if not name:
            return []
        return [name] if len(code.codes) == 1 else [f"{name}_{k}" for k in range(len(code.codes))]

    def _unpack(self, body: list[tuple[str, str]], parts: list[_Part], skipped: int) -> int:
        """Reads parts after ``skipped`` bytes; returns the position after them, relative to i."""
        if len(parts) == 1 and parts[0][0].codes == ("B",) and parts[0][1]:
            self.line(body, 2, f"{parts[0][1][0]} = d[i{f' + {skipped}' if skipped else ''}]")
            return skipped + 1
        orders = {code.order for code, names in parts if names and code.order} or {"<"}
        for order in sorted(orders):
            names: list[str] = []
            form, pad, lead = order, 0, skipped
            for code, part_names in parts:
                if part_names and (code.order or min(orders)) == order:
                    if names:
                        form += f"{pad}x" if pad else ""
                    else:
                        lead += pad
                    pad = 0
                    names += part_names
                    form += "".join(code.codes)
                else:
                    pad += code.size
            if names:
                unpack = self.source.constant(struct.Struct(form).unpack_from)
                comma = "," if len(names) == 1 else ""
                self.line(body, 2, f"{', '.join(names)}{comma} = {unpack}(d, i{f' + {lead}' if lead else ''})")
        return skipped + sum(code.size for code, _ in parts)

    def _value(self, body: list[tuple[str, str]], indent: int, i: int, name: str, expression: str) -> None:
        """Assigns a value, converted as its reader says."""
        reader = self.code.readers[i]
        assert reader is not None
        if not reader.inline and reader.convert is None:
            if expression != name:
                self.line(body, indent, f"{name} = {expression}")
            return
        if i not in self._converters:
            self._converters[i] = self.source.constant(reader.convert)
        inline = reader.inline or "{c}({x})"
        if inline.count("{x}") == 1:
            value = inline.format(x=expression if expression.isidentifier() else f"({expression})", c=self._converters[i])
        else:
            if expression != name:
                self.line(body, indent, f"{name} = {expression}")
            value = inline.format(x=name, c=self._converters[i])
        self.line(body, indent, f"{name} = {value}")

    def _any_nulls(self, body: list[tuple[str, str]], image: ImageCode, prefix: str, *, partial: bool) -> None:
        """Reads column by column."""
        json_columns = self.code.table.json_columns
        if image.null_bytes:
            self.line(body, 2, f"i += {image.null_bytes}")
        for number, i in enumerate(image.columns):
            code = self.code.codes[i]
            name = f"{prefix}{i}" if self.code.readers[i] is not None else ""
            with self.source.labeled(self.code.label(i)):
                self.line(body, 2, f"if p & {1 << number}:")
                if name:
                    self.line(body, 3, f"{name} = None")
                    if i in json_columns and prefix == "v":
                        self.line(body, 3, f"b{i} = None")
                else:
                    self.line(body, 3, "pass")
                self.line(body, 2, "else:")
                if isinstance(code, FixedCode):
                    self._one_fixed(body, i, name, code)
                else:
                    self._one_variable(body, i, name, code, partial=partial)
        if prefix == "v":
            # What the changes of a document refer to, if the image before does not have it.
            for i in set(json_columns) - set(image.columns):
                self.line(body, 2, f"b{i} = absent")

    def _one_fixed(self, body: list[tuple[str, str]], i: int, name: str, code: FixedCode) -> None:
        if name:
            names = self._parts(name, code)
            unpack = self.source.constant(struct.Struct((code.order or "<") + "".join(code.codes)).unpack_from)
            self.line(body, 3, f"{', '.join(names)}{',' if len(names) == 1 else ''} = {unpack}(d, i)")
            self._value(body, 3, i, name, code.expression.format(*names))
        self.line(body, 3, f"i += {code.size}")

    def _one_variable(self, body: list[tuple[str, str]], i: int, name: str, code: VariableCode, *, partial: bool) -> None:
        self.line(body, 3, f"j = i + {code.length_bytes}")
        self.line(body, 3, "i = j + from_bytes(d[i:j], 'little')")
        self.line(body, 3, "if i > e or j > e: truncated(max(i, j) - e)")
        if not name:
            return
        json_columns = self.code.table.json_columns
        if i not in json_columns:
            self._value(body, 3, i, name, code.expression.format("d[j:i]"))
        elif not partial:
            self.line(body, 3, f"b{i} = {code.expression.format('d[j:i]')}")
            self._value(body, 3, i, name, f"b{i}")
        else:
            bit = 1 << json_columns.index(i)
            self.line(body, 3, f"x = change(b{i}, d[j:i]) if m & {bit} else {code.expression.format('d[j:i]')}")
            self._value(body, 3, i, name, "x")
