"""Schemas of a table, and row decoders generated for its columns.

Generated code is faster: a row of nine columns needs one function call instead of ten, which are most of the cost of a row in
Python. The code refers to columns by number; names from the database never enter it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from connect.change_events.custom_converters import RelationalColumn
from connect.data.struct import Struct
from connect.errors import DataError
from connect.generated_code import define_functions
from connect.record import SourceRecord
from connectors.cdc.schema.column_mapping import RowColumn, find_rule, key_value, map_column
from connectors.cdc.schema.contracts import Judgment
from connectors.cdc.schema.custom_conversion import find_conversion
from connectors.cdc.schema.filters import Filters
from connectors.cdc.schema.lenient_columns import lenient_column
from connectors.cdc.schema.row_keys import key_code
from connectors.cdc.schema.table_schemas import build_table_schemas
from connectors.databases.postgresql.text_format import unescape_copy
from connectors.postgres.config import PostgresConfig
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.source_block import SOURCE
from connectors.postgres.types import ColumnType, column_type
from connectors.postgres.types.catalog_type import CatalogType
from connectors.postgres.types.defaults import may_have_default, parse_default
from connectors.postgres.types.numbers import finite_decimal
from connectors.postgres.types.source_type import source_type

log = logging.getLogger(__name__)

TupleDecoder = Callable[[bytes, int], list[Any]]


_UNAVAILABLE = object()
"""Stands for an unavailable value of a type without a placeholder until the old row fills it in."""


class NullInRequiredError(DataError):
    """A row has a null in ``column``, which is NOT NULL now: the row is older than the constraint."""

    def __init__(self, table: str, column: str) -> None:
        super().__init__(f"{table}.{column} is NOT NULL in the catalog, but a row has no value")
        self.column = column


class TableRows:
    """Schemas and decoders of one version of a table. Build one per version and reuse it: converters know schemas by identity."""

    def __init__(
        self,
        table: CapturedTable,
        types: Mapping[int, CatalogType],
        settings: PostgresConfig,
        filters: Filters,
        judgment: Judgment | None = None,
    ) -> None:
        """``judgment`` is that of the table's contract."""
        self.table = table
        self.judgment = Judgment() if judgment is None else judgment
        self.types = types
        self.topic = settings.topic_naming.topic(table.schema, table.name)
        key = filters.key_columns(table.schema, table.name) or table.key
        self.key = key
        self.columns = [
            column for column in _row_columns(table, key, types, settings, filters) if column.name not in self.judgment.left_out
        ]
        self.key_indexes, self.schemas, self.key_of = build_table_schemas(
            str(table), self.topic, SOURCE, self.columns, key, settings.events
        )
        self._unavailable = [_placeholder(column) for column in self.columns]
        self.decode_new: TupleDecoder = _tuple_decoder(self, fill_missing=False)
        self.decode_key_only: TupleDecoder = _tuple_decoder(self, fill_missing=True)

    @cached_property
    def decode_before_fill(self) -> TupleDecoder:
        """Decodes a new row for :meth:`fill_unchanged`: any type may be unavailable."""
        return _tuple_decoder(self, fill_missing=False, keep_unavailable=True)

    def fill_unchanged(self, new: list[Any], old: list[Any]) -> None:
        """Replaces unavailable values in the new row by the values of the complete old row."""
        for i, mark in enumerate(self._unavailable):
            if new[i] is mark:
                new[i] = old[i]


def _placeholder(column: RowColumn) -> Any:
    return _UNAVAILABLE if column.type.placeholder is None else column.type.placeholder


def _row_columns(
    table: CapturedTable, key: tuple[str, ...], types: Mapping[int, CatalogType], settings: PostgresConfig, filters: Filters
) -> list[RowColumn]:
    found: list[RowColumn] = []
    for index, column in enumerate(table.columns):
        if column.name not in key and not filters.captures_column(table.schema, table.name, column.name):
            continue
        mapped = column_type(types, column.type_oid, column.typmod, settings.types)
        pg_type = types.get(column.type_oid)
        if mapped is None:
            log.warning(
                "column %s.%s of type %s is not supported and is not captured; include.unknown.datatypes=true "
                "captures it as bytes",
                table, column.name, pg_type.name if pg_type else f"oid {column.type_oid}",
            )  # fmt: skip
            continue
        schema = mapped.schema if column.not_null else mapped.schema.as_optional()
        default = parse_default(column.default, mapped) if pg_type is not None and may_have_default(pg_type) else None
        if default is not None:
            schema = schema.replace(default=default)
        mapped = _converted(column, replace(mapped.under(schema), schema=schema), types, table, settings)
        row_column = _row_column(column, index, mapped, types, table, settings, in_key=column.name in key)
        mode = settings.events.converting_mode
        found.append(lenient_column(row_column, str(table), mode, in_key=column.name in key))
    return found


def _converted(
    column: CapturedColumn, mapped: ColumnType, types: Mapping[int, CatalogType], table: CapturedTable, settings: PostgresConfig
) -> ColumnType:
    """Returns the mapping of a column by its custom converter, or ``mapped`` if it has none."""
    if not (converters := settings.events.converters):
        return mapped
    source = source_type(types, column.type_oid, column.typmod, column.default)
    described = RelationalColumn(column.name, str(table), source.name, source.length, source.scale, mapped.schema)
    conversion = find_conversion(converters, described, mapped)
    return mapped if conversion is None else conversion.type_of(mapped)


def _row_column(
    column: CapturedColumn,
    index: int,
    mapped: ColumnType,
    types: Mapping[int, CatalogType],
    table: CapturedTable,
    settings: PostgresConfig,
    *,
    in_key: bool,
) -> RowColumn:
    schema = mapped.schema
    zero = mapped.zero if schema.default is None else schema.default
    plain = RowColumn(column.name, mapped, schema, index, mapped, zero)
    if not (rules := settings.events.column_rules):
        return plain
    source = source_type(types, column.type_oid, column.typmod, column.default)
    if (rule := find_rule(rules, str(table), column.name, source)) is None:
        return plain
    return map_column(plain, rule, str(table), source, in_key=in_key)


# --- generated code ---------------------------------------------------------------------------------------------------------

_FROM_TEXT = {
    "int": "int({x})",
    "float": "float({x})",
    "bool": "{x} == 't'",
    "text": "{x}",
    "decimal": "(Decimal({x}) if {x}[-1] < ':' else finite({x}))",
    "zoned": "({x}[:10] + 'T' + {x}[11:-3] + 'Z' if len({x}) == 29 and {x}[-3:] == '+00' and {x}[4] == '-' else c{i}({x}))",
    "call": "c{i}({x})",
}
_FROM_BYTES = {
    "int": "int({b})",
    "float": "float({b})",
    "bool": "{b} == b't'",
    "text": "{b}.decode()",
    "call": "c{i}({b}.decode())",
    "decimal": "Decimal(x) if (x := {b}.decode())[-1] < ':' else finite(x)",
    "zoned": "x[:10] + 'T' + x[11:-3] + 'Z' if len(x := {b}.decode()) == 29 and x[-3:] == '+00' and x[4] == '-' else c{i}(x)",
}


def _namespace(rows: TableRows) -> dict[str, Any]:
    space: dict[str, Any] = {
        "Decimal": Decimal,
        "finite": finite_decimal,
        "key_value": key_value,
        "unescape": unescape_copy,
        "head": struct.Struct("!BI").unpack_from,
    }
    for i, column in enumerate(rows.columns):
        space[f"c{i}"] = column.type.decode
        space[f"z{i}"] = column.zero
        space[f"m{i}"] = column.null_value
        space[f"p{i}"] = _placeholder(column)
        space[f"n{i}"] = column.name

    def null(column: str) -> Any:
        raise NullInRequiredError(str(rows.table), column)

    space["null"] = null
    return space


def _compile(code: list[str], space: dict[str, Any], name: str) -> Any:
    return define_functions(code, space, title="pgoutput row decoder")[name]


def _tuple_decoder(rows: TableRows, *, fill_missing: bool, keep_unavailable: bool = False) -> TupleDecoder:
    """Generates ``decode(message, position)`` for the columns of a tuple in a pgoutput message.

    Raises struct.error when the tuple ends in short columns (see :func:`pgoutput.pad_message`), NullInRequiredError for a null
    where the schema has none; with ``fill_missing`` (old tuples that hold the key alone) such a column gets its zero instead.
    Raises DataError for an unavailable value of a type without a placeholder, except with ``keep_unavailable``.
    """
    space = _namespace(rows)

    def unavailable(column: str) -> Any:
        raise refuse_unavailable(rows.table, column)

    space.update(unavailable=unavailable)
    included = {column.source_index: i for i, column in enumerate(rows.columns)}
    code = ["def decode(d, i):"]
    for source_index in range(len(rows.table.columns)):
        i = included.get(source_index)
        if i is None:
            code += SKIP_COLUMN
            continue
        column = rows.columns[i]
        value = _FROM_BYTES[column.type.inline.value].format(b="d[j:i]", i=i)
        if column.schema.optional:
            missing = f"m{i}"
        elif fill_missing:
            missing = f"z{i}"
        else:
            missing = f"null(n{i})"
        unchanged = f"p{i}" if keep_unavailable or column.type.placeholder is not None else f"unavailable(n{i})"
        code += column_code(f"v{i}", [value], missing, unchanged)
    code.append(f"    return [{', '.join(f'v{i}' for i in range(len(rows.columns)))}]")
    decoder: TupleDecoder = _compile(code, space, "decode")
    return decoder


def refuse_unavailable(table: CapturedTable, column: str) -> DataError:
    """The error for an unavailable value of a type without a placeholder."""
    return DataError(
        f"the unchanged TOAST value of {table}.{column} is unavailable, and its type has no placeholder; "
        f"ALTER TABLE {table} REPLICA IDENTITY FULL makes the server send it"
    )


_HEAD = "    k, l = head(d, i)"
SKIP_COLUMN = [_HEAD, "    i += 5 + l if k == 116 else 1"]
"""The code that skips a column of a tuple."""


def column_code(name: str, values: Sequence[str], null: str, unchanged: str) -> list[str]:
    """The code that reads a column of a tuple, from position ``i`` of the message ``d``, into the variable ``name``.

    ``values`` are assigned to it in turn; the first is an expression of the bytes ``d[j:i]``. ``null`` and ``unchanged`` are the
    expressions for a null and an unavailable value.
    """
    return [
        _HEAD,
        "    if k == 116:",
        "        j = i + 5; i = j + l",
        *(f"        {name} = {value}" for value in values),
        "    elif k == 110:",
        f"        i += 1; {name} = {null}",
        "    elif k == 117:",
        f"        i += 1; {name} = {unchanged}",
        "    else:",
        "        raise ValueError(k)",
    ]


SnapshotDecoder = Callable[[list[str], Struct, Mapping[str, Any], Mapping[str, Any], int, int, int], list[SourceRecord]]


def snapshot_decoder(rows: TableRows) -> SnapshotDecoder:
    """Generates ``decode(lines, source, partition, offset, ts_ms, ts_us, ts_ns)``, which returns the 'r' events of COPY lines.

    Lines have the columns of ``rows.columns`` in order. All events share ``source``, ``partition``, and ``offset``. Raises
    NullInRequiredError for a null where the schema has none, and any error of the types' decoders.
    """
    space = _namespace(rows)
    space.update(
        Struct=Struct, SourceRecord=SourceRecord, topic=rows.topic, key_schema=rows.schemas.key, value_schema=rows.schemas.value,
        envelope_schema=rows.schemas.envelope,
    )  # fmt: skip
    columns = range(len(rows.columns))
    names = ", ".join(f"f{i}" for i in columns)
    unpack = f"{names}, = line.split('\\t')" if len(rows.columns) else "pass"

    def body(values: list[str], indent: str) -> list[str]:
        held = {i for i in rows.key_indexes if rows.columns[i].type.inline.value not in ("text",)}
        code = [f"{indent}f{i} = {values[i]}" for i in held]
        row = ", ".join(f"f{i}" if i in held else values[i] for i in columns)
        if rows.key_indexes:
            key = ", ".join(key_code(rows.columns, i, f"f{i}") if i in held else values[i] for i in rows.key_indexes)
            key_parts = f"key_schema, Struct(key_schema, [{key}])"
        else:
            key_parts = "None, None"
        code.append(
            f"{indent}add(SourceRecord(partition, offset, topic, None, {key_parts}, envelope_schema, Struct(envelope_schema, "
            f"[None, Struct(value_schema, [{row}]), source, None, 'r', ts_ms, ts_us, ts_ns])))"
        )
        return code

    plain = [_FROM_TEXT[rows.columns[i].type.inline.value].format(x=f"f{i}", i=i) for i in columns]
    careful = [
        f"({f'm{i}' if rows.columns[i].schema.optional else f'null(n{i})'} if f{i} is None else {plain[i]})" for i in columns
    ]
    code = [
        "def decode(lines, source, partition, offset, ts_ms, ts_us, ts_ns):",
        "    out = []",
        "    add = out.append",
        "    for line in lines:",
        "        if '\\\\' not in line:",
        f"            {unpack}",
        *body(plain, "            "),
        "        else:",
        f"            {unpack}",
        *(
            f"            if '\\\\' in f{i}: f{i} = None if f{i} == '\\\\N' else unescape(f{i})"
            for i in columns
        ),
        *body(careful, "            "),
        "    return out",
    ]  # fmt: skip
    decoder: SnapshotDecoder = _compile(code, space, "decode")
    return decoder
