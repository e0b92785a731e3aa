"""Generates the code of row decoders."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connect.generated_code import FieldFinder, GeneratedSource
from connectors.mysql.binlog.column_code import FUNCTIONS, FixedCode, VariableCode, column_code
from connectors.mysql.binlog.json_diff import change_document
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.binlog.wire import packed_int

_SHOWN_BYTES = 40
_SEGMENTS_PER_GROUP: Final = 3
_Part = tuple[FixedCode, list[str]]
"""A value of fixed size and the names of its parts; no names: it is skipped."""


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """How to read a column.

    ``unsigned``: whether an integer is; None takes it from TABLE_MAP, which has it with binlog_row_metadata=MINIMAL, too.
    ``inline`` is an expression for the value, with ``{x}`` for the raw one and ``{c}`` for ``convert``, which may be any object
    then; if empty, ``convert`` is called, if there is one. It is not called for nulls. ``fraction_digits`` are those of TIME,
    DATETIME, and TIMESTAMP in MariaDB's older format, whose TABLE_MAP does not have them. ``name`` is that of the column, for
    messages; empty takes it from TABLE_MAP, which has it with binlog_row_metadata=FULL. ``is_mutable``: its values are lists or
    structs, so that two rows must not share one.
    """

    unsigned: bool | None = None
    convert: Any = None
    inline: str = ""
    fraction_digits: int | None = None
    name: str = ""
    is_mutable: bool = False


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
    tail: int | None = None,
) -> Any:
    """Compiles ``run(d, i, e, rows, tail)``, which decodes rows as long as their nulls are ``nulls``; None means any.

    It returns where it stopped. With an image after, it adds pairs, and also returns the nulls of the image after of the row at
    which it stopped, or -1. With ``tail``, the length of the argument of that name, rows are flat: a tuple of both images, the
    number of the row, and the tail.
    """
    writer = _RowWriter(code)
    body, line = writer.source.function(), writer.line
    line(body, 0, "def run(d, i, e, rows, tail):")
    line(body, 1, "add = rows.append")
    names = [f"t{k}" for k in range(tail or 0)]
    if tail is not None:
        line(body, 1, f"{', '.join(names)}{',' if tail == 1 else ''} = tail" if names else "pass")
        line(body, 1, "n = len(rows)")
    line(body, 1, "while i < e:")
    if after is not None:
        line(body, 2, "r = i")
    stop = "return i" if after is None else "return i, -1"
    is_alike = after is not None and nulls is not None and nulls == nulls_after and after.columns == image.columns
    groups = writer.image(body, image, nulls, "v", stop, is_compared=is_alike)
    row = writer.row("v", image)
    row_after: list[str] = []
    if after is not None:
        if partial:
            line(body, 2, f"i, m = partial_bits(d, i, e, {len(code.table.json_columns)})")
        writer.image(body, after, nulls_after, "w", "return r, p", partial=partial, groups=groups)
        row_after = writer.row("w", after)
    line(body, 2, "if i > e: truncated(i - e)")
    if tail is not None:
        line(body, 2, f"add({_tuple_code([*row, *row_after, 'n', *names])})")
        line(body, 2, "n += 1")
    else:
        line(body, 2, f"add({_tuple_code(row if after is None else [_tuple_code(row), _tuple_code(row_after)])})")
    line(body, 1, "return i" if after is None else "return i, -1")
    scope = {**FUNCTIONS, "absent": code.absent, "change": change_document, "from_bytes": int.from_bytes,
             "partial_bits": _partial_bits, "truncated": _truncated}  # fmt: skip
    functions, finder = writer.source.compile(scope)
    code.add_finder(finder)
    return functions["run"]


def _tuple_code(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


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


@dataclass(slots=True)
class _Segment:
    """Columns of an image up to the next one of variable size, which the last segment may lack. ``skipped`` is the number of
    bytes in front of them."""

    skipped: int
    nulls: list[int] = field(default_factory=list)
    fixed: list[int] = field(default_factory=list)
    variable: int | None = None

    @property
    def columns(self) -> list[int]:
        return [*self.nulls, *self.fixed, *([] if self.variable is None else [self.variable])]


_Group = list[_Segment]
"""Segments whose bytes in the images before and after are compared."""


def _grouped(segments: list[_Segment]) -> list[_Group]:
    """Divides an image: an update changes few of its columns."""
    size = 1 if len(segments) <= _SEGMENTS_PER_GROUP else _SEGMENTS_PER_GROUP
    return [segments[start : start + size] for start in range(0, len(segments), size)]


class _RowWriter:
    """Writes the code of one function."""

    def __init__(self, code: RowCode) -> None:
        self.code = code
        self.source = GeneratedSource("binary log row decoder")
        self.line = self.source.write
        self._converters: dict[int, str] = {}
        self._is_compared = False

    def row(self, prefix: str, image: ImageCode) -> list[str]:
        """The values of a row."""
        present = set(image.columns)
        return [f"{prefix}{i}" if i in present else "absent" for i in self.code.wanted]

    def image(
        self,
        body: list[tuple[str, str]],
        image: ImageCode,
        nulls: int | None,
        prefix: str,
        stop: str,
        *,
        partial: bool = False,
        is_compared: bool = False,
        groups: Sequence[_Group] = (),
    ) -> list[_Group]:
        """Writes the code of an image. ``is_compared``: the image after will be compared with it by the groups that this returns;
        ``groups`` are those of the image before."""
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
            return []
        segments = self._segments(image, nulls)
        if groups:
            self._changed(body, groups, prefix)
            return []
        self._is_compared = is_compared
        found = _grouped(segments) if is_compared else [segments]
        for number, group in enumerate(found):
            if is_compared:
                self.line(body, 2, f"s{number} = i")
            for segment in group:
                self._segment(body, 2, segment, prefix)
        if is_compared:
            self.line(body, 2, f"s{len(found)} = i")
        return found if is_compared else []

    def _segments(self, image: ImageCode, nulls: int) -> list[_Segment]:
        """Divides an image behind each value of variable size."""
        segments: list[_Segment] = []
        segment = _Segment(image.null_bytes)
        for number, i in enumerate(image.columns):
            if nulls >> number & 1:
                segment.nulls.append(i)
            elif isinstance(self.code.codes[i], FixedCode):
                segment.fixed.append(i)
            else:
                segment.variable = i
                segments.append(segment)
                segment = _Segment(0)
        if segment.fixed or not segments:
            segments.append(segment)
        else:
            segments[-1].nulls += segment.nulls
        return segments

    def _changed(self, body: list[tuple[str, str]], groups: Sequence[_Group], prefix: str) -> None:
        """Reads an image after. Most of its bytes are those of the image before: then the values are the same objects."""
        for number, group in enumerate(groups):
            indent = 2
            if len(groups) > 1 and not self._has_mutable(group):
                self.line(body, 2, f"q = i + s{number + 1} - s{number}")
                self.line(body, 2, f"if d[i:q] == d[s{number}:s{number + 1}]:")
                self.line(body, 3, "i = q")
                for i in (i for segment in group for i in segment.columns if self.code.readers[i] is not None):
                    self.line(body, 3, f"{prefix}{i} = v{i}")
                self.line(body, 2, "else:")
                indent = 3
            for segment in group:
                self._segment(body, indent, segment, prefix, before="v")

    def _has_mutable(self, group: _Group) -> bool:
        readers = (self.code.readers[i] for segment in group for i in segment.columns)
        return any(reader is not None and reader.is_mutable for reader in readers)

    def _segment(self, body: list[tuple[str, str]], indent: int, segment: _Segment, prefix: str, before: str = "") -> None:
        """Reads values of fixed size together with the length of the next value of variable size."""
        names = {i: f"{prefix}{i}" if self.code.readers[i] is not None else "" for i in segment.columns}
        for i in segment.nulls:
            if names[i]:
                self.line(body, indent, f"{names[i]} = None")
        parts: list[_Part] = []
        for i in segment.fixed:
            code = self.code.codes[i]
            assert isinstance(code, FixedCode)
            parts.append((code, self._parts(names[i], code)))
        last = segment.variable
        if last is None:
            if size := self._unpack(body, indent, parts, segment.skipped):
                self.line(body, indent, f"i += {size}")
            self._fixed_values(body, indent, segment, names, before)
            return
        variable = self.code.codes[last]
        assert isinstance(variable, VariableCode)
        length = variable.length_code
        lengths = self._parts("l", length)
        size = self._unpack(body, indent, [*parts, (length, lengths)], segment.skipped)
        self._fixed_values(body, indent, segment, names, before)
        with self.source.labeled(self.code.label(last)):
            expression = length.expression.format(*lengths)
            if names[last]:
                self.line(body, indent, f"j = i + {size}")
                self.line(body, indent, f"i = j + ({expression})")
                if variable.expression != "{0}":  # its function must not see a part of the value
                    self.line(body, indent, "if i > e: truncated(i - e)")
                self._value(body, indent, last, names[last], variable.expression.format("d[j:i]"))
            else:
                self.line(body, indent, f"i += {size} + ({expression})")

    def _fixed_values(
        self, body: list[tuple[str, str]], indent: int, segment: _Segment, names: Mapping[int, str], before: str
    ) -> None:
        for i in segment.fixed:
            if not (name := names[i]):
                continue
            code, reader = self.code.codes[i], self.code.readers[i]
            assert isinstance(code, FixedCode)
            assert reader is not None
            expression = code.expression.format(*self._parts(name, code))
            is_converted = reader.convert is not None or bool(reader.inline)
            with self.source.labeled(self.code.label(i)):
                # Comparing integers costs less than converting or writing one once more.
                if not self._is_compared or code.expression == "{0}":
                    self._value(body, indent, i, name, expression)
                elif is_converted:
                    self.line(body, indent, f"r{name} = {expression}")
                    value = self._converted(i, f"r{name}", reader)
                    if before:
                        value = f"{before}{i} if r{name} == r{before}{i} else ({value})"
                    self.line(body, indent, f"{name} = {value}")
                else:
                    self.line(body, indent, f"{name} = {expression}")
                    if before:
                        self.line(body, indent, f"if {name} == {before}{i}: {name} = {before}{i}")

    def _parts(self, name: str, code: FixedCode) -> list[str]:
        if not name:
            return []
        return [name] if len(code.codes) == 1 else [f"{name}_{k}" for k in range(len(code.codes))]

    def _unpack(self, body: list[tuple[str, str]], indent: int, parts: list[_Part], skipped: int) -> int:
        """Reads parts after ``skipped`` bytes; returns the position after them, relative to i."""
        if len(parts) == 1 and parts[0][0].codes == ("B",) and parts[0][1]:
            self.line(body, indent, f"{parts[0][1][0]} = d[i{f' + {skipped}' if skipped else ''}]")
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
                self.line(body, indent, f"{', '.join(names)}{comma} = {unpack}(d, i{f' + {lead}' if lead else ''})")
        return skipped + sum(code.size for code, _ in parts)

    def _value(self, body: list[tuple[str, str]], indent: int, i: int, name: str, expression: str) -> None:
        """Assigns a value, converted as its reader says."""
        reader = self.code.readers[i]
        assert reader is not None
        if not reader.inline and reader.convert is None:
            if expression != name:
                self.line(body, indent, f"{name} = {expression}")
            return
        if not expression.isidentifier():
            if reader.inline.count("{x}") > 1:
                self.line(body, indent, f"{name} = {expression}")
                expression = name
            else:
                expression = f"({expression})"
        self.line(body, indent, f"{name} = {self._converted(i, expression, reader)}")

    def _converted(self, i: int, expression: str, reader: ColumnReader) -> str:
        """The expression that converts another one."""
        if i not in self._converters:
            self._converters[i] = self.source.constant(reader.convert)
        return (reader.inline or "{c}({x})").format(x=expression, c=self._converters[i])

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
