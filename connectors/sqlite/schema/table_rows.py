"""Schemas of a table, and the generated decoder of its rows.

Rows are values of SQLite, as a query or the change table returns them. Most of them stay as they are: the decoder checks their
class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from connect.change_events.custom_converters import RelationalColumn
from connect.errors import DataError
from connect.generated_code import define_functions
from connectors.cdc.schema.column_mapping import RowColumn, find_rule, map_column
from connectors.cdc.schema.column_type import CONVERSION_ERRORS, Inline
from connectors.cdc.schema.contracts import Judgment, SchemaContracts, Version
from connectors.cdc.schema.custom_conversion import find_conversion
from connectors.cdc.schema.filters import Filters
from connectors.cdc.schema.lenient_columns import lenient_column
from connectors.cdc.schema.table_schemas import build_table_schemas
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.schema.catalog import SqliteColumn, SqliteTable, TableCapture
from connectors.sqlite.schema.source_block import SOURCE
from connectors.sqlite.types import column_type, parse_declared_type, source_type
from connectors.sqlite.types.defaults import parse_default

RowDecoder = Callable[[Sequence[Any], int], tuple[Any, ...]]
"""Returns the values of ``columns`` of a row whose stored columns begin at a position."""

_CLASSES: Final = {Inline.INT: "int", Inline.FLOAT: "float", Inline.TEXT: "str"}


class SqliteTableRows:
    """Schemas and decoder of one structure of a table. Build one per structure and reuse it: converters know schemas by
    identity."""

    def __init__(self, capture: TableCapture, settings: SqliteConfig, filters: Filters, judgment: Judgment | None = None) -> None:
        """``judgment`` is that of the table's contract."""
        self.capture = capture
        self.table = table = capture.table
        self.judgment = Judgment() if judgment is None else judgment
        self.topic = settings.topic_naming.topic(table.schema, table.name)
        self.key = record_key(table, filters)
        columns = _row_columns(capture, self.key, settings, filters)
        self.columns = [column for column in columns if column.name not in self.judgment.left_out]
        self.key_indexes, self.schemas, self.key_of = build_table_schemas(
            str(table), self.topic, SOURCE, self.columns, self.key, settings.events
        )
        self.decode: RowDecoder = _row_decoder(self)

    def decode_old(self, row: Sequence[Any], at: int) -> tuple[Any, ...]:
        """Decodes an old row. If it cannot be converted, it has its key alone: its row was reported when it was new."""
        try:
            return self.decode(row, at)
        except CONVERSION_ERRORS:
            if not self.key:
                raise
            return self._decode_key(row, at)

    @cached_property
    def _decode_key(self) -> RowDecoder:
        return _row_decoder(self, key_only=True)

    def raw_values(self, row: Sequence[Any], at: int) -> list[Any]:
        """The values of ``columns`` as SQLite has them."""
        return [row[at + column.source_index] for column in self.columns]


def record_key(table: SqliteTable, filters: Filters) -> tuple[str, ...]:
    """The columns of the record key: ``message.key.columns``, or the primary key."""
    return filters.key_columns(table.schema, table.name) or table.key


def table_version(table: SqliteTable, key: tuple[str, ...], filters: Filters) -> Version:
    """The version that a contract compares."""
    return {
        column.name: column.declared.upper()
        for column in table.columns
        if column.name in key or filters.captures_column(table.schema, table.name, column.name)
    }


def judge_table(contracts: SchemaContracts, table: SqliteTable, filters: Filters) -> Judgment:
    """Compares a structure of a table with its contract."""
    key = record_key(table, filters)
    return contracts.judge(str(table), lambda: table_version(table, key, filters), key)


def _row_columns(capture: TableCapture, key: tuple[str, ...], settings: SqliteConfig, filters: Filters) -> list[RowColumn]:
    table, found = capture.table, []
    for column in table.columns:
        in_key = column.name in key
        if in_key or filters.captures_column(table.schema, table.name, column.name):
            row_column = _row_column(column, capture.stored.index(column.name), table, settings, in_key=in_key)
            found.append(lenient_column(row_column, str(table), settings.events.converting_mode, in_key=in_key))
    return found


def _row_column(column: SqliteColumn, index: int, table: SqliteTable, settings: SqliteConfig, *, in_key: bool) -> RowColumn:
    declared = parse_declared_type(column.declared, is_strict=table.is_strict)
    mapped = column_type(declared, settings.types, settings.types.kind_of(f"{table}.{column.name}"))
    schema = mapped.schema if column.not_null else mapped.schema.as_optional()
    if (default := parse_default(column.default, mapped)) is not None:
        schema = schema.replace(default=default)
    mapped = replace(mapped.under(schema), schema=schema)
    source = source_type(declared)
    described = RelationalColumn(column.name, str(table), source.name, source.length, source.scale, schema)
    if (conversion := find_conversion(settings.events.converters, described, mapped)) is not None:
        mapped = conversion.type_of(mapped)
        schema = mapped.schema
    zero = mapped.zero if schema.default is None else schema.default
    plain = RowColumn(column.name, mapped, schema, index, mapped, zero)
    rule = find_rule(settings.events.column_rules, str(table), column.name, source)
    return plain if rule is None else map_column(plain, rule, str(table), source, in_key=in_key)


def _row_decoder(rows: SqliteTableRows, *, key_only: bool = False) -> RowDecoder:
    """Generates ``decode(row, position)``. Raises DataError for a null where the schema has none, and all errors of the types.

    With ``key_only``, columns that are not part of the key are null, or the zero of their types.
    """
    space: dict[str, Any] = {}
    code = ["def decode(r, i):"]
    values = []

    def null(column: str) -> Any:
        raise DataError(f"column {column} of {rows.table} is NOT NULL, but a row has no value")

    space["null"] = null
    for n, column in enumerate(rows.columns):
        if key_only and column.name not in rows.key:
            space[f"z{n}"] = column.null_value if column.schema.optional else column.zero
            values.append(f"z{n}")
            continue
        space[f"c{n}"], space[f"m{n}"], space[f"n{n}"] = column.type.decode, column.null_value, column.name
        code.append(f"    x{n} = r[i + {column.source_index}]")
        missing = f"m{n}" if column.schema.optional else f"null(n{n})"
        value = f"{missing} if x{n} is None else c{n}(x{n})"
        if (class_ := _CLASSES.get(column.type.inline)) is not None:
            value = f"x{n} if type(x{n}) is {class_} else {value}"
        values.append(f"({value})")
    code.append(f"    return ({', '.join(values)}{',' if values else ''})")
    decoder: RowDecoder = define_functions(code, space, title="SQLite row decoder")["decode"]
    return decoder
