"""Decoders generated for the columns of a table that leave most values as the server's text.

A cell is the text of a column, except for types that only a function of their type reads: then it is the value. All errors of
values are raised here, so what becomes of the cells later cannot fail because of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from connect.generated_code import define_functions
from connect.text_records import Cell, TextKind
from connectors.cdc.schema.column_mapping import key_value
from connectors.cdc.schema.column_type import TEXT_KINDS, ColumnType, Inline
from connectors.cdc.schema.row_keys import key_code
from connectors.postgres.schema.row_decoder import (
    SKIP_COLUMN,
    NullInRequiredError,
    TableRows,
    column_code,
    refuse_unavailable,
)
from connectors.postgres.streaming.pgoutput import pad_message
from connectors.postgres.types.numbers import FLOAT64, finite_decimal

Cells = tuple[Any, ...]
CellDecoder = Callable[[bytes, int], Cells | None]
"""Returns the cells of the columns in a pgoutput message, from the position of the first column on."""

_KINDS = {**TEXT_KINDS, Inline.ZONED: TextKind.STRING, Inline.CALL: TextKind.VALUE}
_CELL = {
    Inline.DECIMAL: "({x} if {x}[-1] < ':' else finite({x}))",
    Inline.ZONED: "({x}[:10] + 'T' + {x}[11:-3] + 'Z' if len({x}) == 29 and {x}[-3:] == '+00' and {x}[4] == '-' else c{i}({x}))",
    Inline.CALL: "c{i}({x})",
}
_QUICK_ZONED = "f'{{{x}[1:11]}}T{{{x}[12:-3]}}Z' if len({x}) == 30 and {x}[-3:] == '+00' and {x}[5] == '-' else c{i}({x}[1:])"
"""The same as for ZONED, of a text with one more character in front."""
_VALUE = {
    Inline.INT: "int({x})",
    Inline.FLOAT: "float({x})",
    Inline.BOOL: "{x} == 't'",
    Inline.DECIMAL: "finite({x})",
}
_SHORT_TEXT = "t\\0\\0\\0"
"""Begins each column whose text is shorter than 256 bytes. Texts have no zero byte, so it occurs nowhere else."""


def row_cells(rows: TableRows, first: int = 0) -> tuple[Cell, ...]:
    """The cells of a row whose columns begin at ``first``."""
    return tuple(
        Cell(first + i, _kind(column.type), str if column.type.inline is Inline.ZONED else column.type.decode)
        for i, column in enumerate(rows.columns)
    )


def _kind(column_type: ColumnType) -> TextKind:
    # The server prints no superfluous digits of a double; of a numeric that becomes one, it does.
    return TextKind.SHORTEST_FLOAT if column_type is FLOAT64 else _KINDS[column_type.inline]


def value_cells(rows: TableRows) -> tuple[Cell, ...]:
    """The cells of a row of values."""
    return tuple(Cell(i, TextKind.VALUE, column.type.decode) for i, column in enumerate(rows.columns))


def cell_values(rows: TableRows) -> Callable[[Cells, int], list[Any]]:
    """Generates ``values(cells, first)``, which returns the values of the cells of a row."""
    parts = []
    for i, column in enumerate(rows.columns):
        form = _VALUE.get(column.type.inline)
        x = f"v[i + {i}]"
        parts.append(x if form is None else f"None if {x} is None else {form.format(x=x)}")
    found: Callable[[Cells, int], list[Any]] = _compile(
        [f"def values(v, i): return [{', '.join(parts)}]"], {"finite": finite_decimal}, "values"
    )
    return found


def new_row_decoder(rows: TableRows) -> CellDecoder:
    """Generates the decoder of a new row, or of a complete old one.

    It raises NullInRequiredError for a null where the schema has none, DataError for an unavailable value of a type without a
    placeholder, and any error of the types' decoders.
    """
    names = [f"v{i}" for i in range(len(rows.columns))]
    code = [
        *_quick_decode(rows, [(0, len(rows.table.columns))], names),
        *_slow_decode(rows),
        f"    return {_tuple(names)}",
    ]
    decoder: CellDecoder = _compile(code, _namespace(rows), "decode")
    return decoder


def complete_update_decoder(rows: TableRows) -> CellDecoder:
    """Generates the decoder of an update with the complete old row: the cells of the old row, then those of the new one.

    It returns None if the key may have changed.
    """
    old, new = ([f"{prefix}{i}" for i in range(len(rows.columns))] for prefix in "ov")
    moved = " or ".join(f"{key_code(rows.columns, i, f'o{i}')} != {key_code(rows.columns, i, f'v{i}')}" for i in rows.key_indexes)
    result = f"    return {'None if ' + moved + ' else ' if moved else ''}{_tuple(old + new)}"
    width = len(rows.table.columns)
    code = [
        *_quick_decode(rows, [(0, width), (3, width)], old + new, result.strip()),
        *_slow_decode(rows, "o"),
        "    i += 3",  # the mark of the new row and the number of its columns
        *_slow_decode(rows, "v", unchanged="o"),
        result,
    ]
    decoder: CellDecoder = _compile(code, _namespace(rows), "decode")
    return decoder


def _compile(code: list[str], space: dict[str, Any], name: str) -> Any:
    return define_functions(code, space, title="pgoutput cell decoder")[name]


def _namespace(rows: TableRows) -> dict[str, Any]:
    def null(column: str) -> Any:
        raise NullInRequiredError(str(rows.table), column)

    def unavailable(column: str) -> Any:
        raise refuse_unavailable(rows.table, column)

    space: dict[str, Any] = {
        "finite": finite_decimal,
        "head": struct.Struct("!BI").unpack_from,
        "key_value": key_value,
        "null": null,
        "pad": pad_message,
        "struct_error": struct.error,
        "unavailable": unavailable,
    }
    for i, column in enumerate(rows.columns):
        space[f"c{i}"] = column.type.decode
        space[f"p{i}"] = column.type.placeholder
        space[f"m{i}"] = column.null_value
        space[f"n{i}"] = column.name
    return space


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _cell(inline: Inline, text: str, number: int) -> str:
    return _CELL.get(inline, "{x}").format(x=text, i=number)


def _quick_decode(rows: TableRows, tuples: list[tuple[int, int]], names: list[str], result: str = "") -> list[str]:
    """The common case: short texts of ASCII, no nulls. Then one split finds all columns; the first character is their length.

    ``tuples`` has, for each tuple, the number of bytes before it and its columns. Ends with the head of the slow case.
    """
    included = {column.source_index: i for i, column in enumerate(rows.columns)}
    texts: list[str] = []
    cells: list[str] = []
    for number, (_, width) in enumerate(tuples):
        end = -tuples[number + 1][0] if number + 1 < len(tuples) else None
        for source_index in range(width):
            i = included.get(source_index)
            if i is None:
                texts.append("_")
                continue
            name = names[number * len(rows.columns) + i]
            texts.append(name)
            inline, is_cut = rows.columns[i].type.inline, end is not None and source_index == width - 1
            if inline is Inline.ZONED and not is_cut:
                cells.append(f"            {name} = {_QUICK_ZONED.format(x=name, i=i)}")
                continue
            cells.append(f"            {name} = {name}[1:{end if is_cut else ''}]")
            if (form := _cell(inline, name, i)) != name:
                cells.append(f"            {name} = {form}")
    return [
        "def decode(d, i):",
        "    t = d[i:]",
        "    if t.isascii():",
        f"        t = t.decode().split('{_SHORT_TEXT}')",
        f"        if len(t) == {len(texts) + 1}:",
        f"            {', '.join(['_', *texts])}{',' if not texts else ''} = t",
        *cells,
        f"            {result or 'return ' + _tuple(names)}",
        "    try:",
        "        return decode_any(d, i)",
        "    except struct_error:",  # the last column has no length
        "        return decode_any(pad(d), i)",
        "def decode_any(d, i):",
    ]


def _slow_decode(rows: TableRows, prefix: str = "v", unchanged: str = "") -> list[str]:
    """Any column. An unavailable value is the cell of the row with the prefix ``unchanged``, if that is given."""
    included = {column.source_index: i for i, column in enumerate(rows.columns)}
    code: list[str] = []
    for source_index in range(len(rows.table.columns)):
        i = included.get(source_index)
        if i is None:
            code += SKIP_COLUMN
            continue
        column = rows.columns[i]
        if unchanged:
            missing = f"{unchanged}{i}"
        else:
            missing = f"unavailable(n{i})" if column.type.placeholder is None else f"p{i}"
        name = f"{prefix}{i}"
        null = f"m{i}" if column.schema.optional else f"null(n{i})"
        code += column_code(name, ["d[j:i].decode()", _cell(column.type.inline, name, i)], null, missing)
    return code
