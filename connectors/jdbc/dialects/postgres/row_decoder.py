"""Generates row decoders for the columns of a result: one pass over the lines of a COPY returns lists of Connect values.

Generated code avoids a call per value (see connectors/postgres/schema/row_decoder.py). Names from the database never enter the
code; it refers to columns by number.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from connect.data.schema import Schema
from connect.errors import DataError
from connect.generated_code import define_functions
from connectors.databases.postgresql.text_format import unescape_copy
from connectors.jdbc.dialects.dialect import Rows
from connectors.jdbc.dialects.postgres.types import PostgresColumnDecoder, PostgresResultColumn, column_decoder, exact_code
from connectors.jdbc.dialects.types import datetime_to_instant_ns, datetime_to_wall_ns
from connectors.jdbc.options import ReadOptions
from connectors.jdbc.table_name import TableName

DecodeLines = Callable[[list[str]], Rows]
DecodeCells = Callable[[Sequence[Sequence[str | None]]], Rows]


@dataclass(frozen=True, slots=True)
class PostgresReadPlan:
    """How to decode the rows of a result, as lines of a COPY or cell by cell. ``skipped`` has messages about omitted columns."""

    fields: tuple[tuple[str, Schema], ...]
    decode_lines: DecodeLines
    decode_cells: DecodeCells
    skipped: tuple[str, ...] = ()


def build_read_plan(columns: Sequence[PostgresResultColumn], options: ReadOptions, table: TableName | None) -> PostgresReadPlan:
    """Builds the plan for a result. Raises DataError for a column without mapping (unless those are skipped), and for a column of
    ``options.exact`` that is missing or neither a number nor a time."""
    decoders: list[PostgresColumnDecoder | None] = []
    skipped: list[str] = []
    for column in columns:
        try:
            decoders.append(column_decoder(column, options, table))
        except DataError as e:
            if not options.skip_unsupported:
                raise
            skipped.append(e.message)
            decoders.append(None)
    fields = tuple((column.name, found.schema) for column, found in zip(columns, decoders, strict=True) if found is not None)
    return PostgresReadPlan(
        fields,
        _compile_decoder(columns, decoders, options, lines=True),
        _compile_decoder(columns, decoders, options, lines=False),
        tuple(skipped),
    )


def _compile_decoder(
    columns: Sequence[PostgresResultColumn],
    decoders: Sequence[PostgresColumnDecoder | None],
    options: ReadOptions,
    *,
    lines: bool,
) -> Any:
    space: dict[str, Any] = {
        "Rows": Rows,
        "Decimal": Decimal,
        "unescape": unescape_copy,
        "fromhex": bytes.fromhex,
        "date": dt.date.fromisoformat,
        "time": dt.time.fromisoformat,
        "moment": dt.datetime.fromisoformat,
        "instant_ns": datetime_to_instant_ns,
        "wall_ns": datetime_to_wall_ns,
        "null": _refuse_null(columns),
    }
    exact = _exact_indexes(columns, options.exact)
    for i, found in enumerate(decoders):
        space[f"c{i}"] = None if found is None else found.decode
    exact_codes: list[str] = []
    for i in exact:
        template, function = exact_code(columns[i], options.zone)
        space[f"e{i}"] = function
        exact_codes.append(template.format(x=f"f{i}", c=f"e{i}"))

    def expressions(*, careful: bool) -> list[str]:
        return [
            _expression(i, column, found, careful=careful, escapes=lines)
            for i, (column, found) in enumerate(zip(columns, decoders, strict=True))
            if found is not None
        ]

    def body(indent: str, *, careful: bool) -> list[str]:
        code = [f"{indent}add([{', '.join(expressions(careful=careful))}])"]
        if exact:
            null = "== '\\\\N'" if lines else "is None"
            each = [f"None if f{i} {null} else {value}" for i, value in zip(exact, exact_codes, strict=True)]
            code.append(f"{indent}more(({', '.join(each)},))")
        return code

    names = "".join(f"f{i}, " for i in range(len(columns)))
    code = ["def decode(rows):", "    out = []; add = out.append; extra = []; more = extra.append"]
    code.append("    for row in rows:")
    if lines and columns:
        code += [
            "        if '\\\\' not in row:",
            f"            {names}= row.split('\\t')",
            *body("            ", careful=False),
            "        else:",
            f"            {names}= row.split('\\t')",
            *body("            ", careful=True),
        ]
    else:
        code += [f"        {names}= row"] if columns else []
        code += body("        ", careful=True)
    code.append(f"    return Rows(out, {'extra' if exact else 'None'})")
    return define_functions(code, space, title="PostgreSQL row decoder")["decode"]


def _expression(i: int, column: PostgresResultColumn, found: PostgresColumnDecoder, *, careful: bool, escapes: bool) -> str:
    text = f"f{i}"
    if found.hex:
        # COPY doubles the backslash of \x.
        text = f"f{i}[{3 if escapes else 2}:]"
    elif found.escaped and careful and escapes:
        text = f"(f{i} if '\\\\' not in f{i} else unescape(f{i}))"
    value = found.code.format(x=text, c=f"c{i}")
    if not careful:
        return value
    null = f"f{i} == '\\\\N'" if escapes else f"f{i} is None"
    return f"(None if {null} else {value})" if column.optional else f"(null({i}) if {null} else {value})"


def _refuse_null(columns: Sequence[PostgresResultColumn]) -> Callable[[int], Any]:
    def null(i: int) -> Any:
        raise DataError(
            f"Column {columns[i].name} is NOT NULL in the catalog, but a row of the result has null (an outer join?); "
            "select it as an expression, such as coalesce(column, ...), to read it as optional"
        )

    return null


def _exact_indexes(columns: Sequence[PostgresResultColumn], names: Sequence[str]) -> list[int]:
    found: list[int] = []
    for name in names:
        same = [i for i, column in enumerate(columns) if column.name == name]
        alike = same or [i for i, column in enumerate(columns) if column.name.lower() == name.lower()]
        if len(alike) != 1:
            there = ", ".join(column.name for column in columns)
            raise DataError(f"The result has {'no' if not alike else 'more than one'} column {name}; it has {there}")
        found.append(alike[0])
    return found
