"""Schemas and columns of one version of a table, for rows of a query and rows of the binary log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from connect.change_events.custom_converters import RelationalColumn
from connect.data.logical import DECIMAL
from connect.data.schema import Type
from connect.text_records import Cell, TextKind
from connectors.cdc.schema.column_mapping import RowColumn, find_rule, map_column
from connectors.cdc.schema.column_type import ColumnType, Decoder, Inline
from connectors.cdc.schema.contracts import Judgment
from connectors.cdc.schema.custom_conversion import find_conversion
from connectors.cdc.schema.filters import Filters
from connectors.cdc.schema.lenient_columns import lenient_column
from connectors.cdc.schema.row_keys import identifying_columns
from connectors.cdc.schema.table_schemas import build_table_schemas
from connectors.mysql.binlog import ColumnReader
from connectors.mysql.config import MySqlConfig
from connectors.mysql.schema.model import Column, MySqlTable, TableId
from connectors.mysql.schema.source_block import source_block
from connectors.mysql.types import MySqlColumnType, column_type, text_charset
from connectors.mysql.types.source_type import source_type

log = logging.getLogger(__name__)

_MUTABLE = (Type.ARRAY, Type.MAP, Type.STRUCT)

_INLINE = {
    Inline.INT: "int({x})",
    Inline.FLOAT: "float({x})",
    Inline.TEXT: "{b}.decode()",
    Inline.DECIMAL: "Decimal({x})",
}
"""Code of conversions of a query's texts, as :class:`QueryColumnDecoder` has it."""


@dataclass(frozen=True, slots=True)
class QueryColumnDecoder:
    """How to decode a column of a query (:class:`connectors.databases.mysql.row_decoder.TextColumnDecoder`)."""

    type_name: str
    read: Callable[[bytes], Any]
    inline: str
    exact: Callable[[bytes], Any] | None = None
    exact_is_value: bool = False


@dataclass(frozen=True, slots=True)
class CapturedMySqlColumn:
    """A captured column. ``text`` is its mapping for rows of a query, ``reader`` that for rows of the binary log; both have the
    same rule (mask, truncation), so they return equal values. ``reader`` is not called for nulls, which become
    ``text.null_value``."""

    text: RowColumn
    reader: ColumnReader
    convert: Decoder
    """Converts a raw value of the binary log as ``reader`` does."""
    select: str
    """The expression that a query selects, with ``{name}`` for the quoted name."""
    is_bytes: bool
    """Whether ``text.type.decode`` gets the bytes of a query's value; it gets the text otherwise."""
    type_name: str
    keeps_unscaled: bool
    """Whether changes keep the unscaled value of the binary log, of which ``convert`` makes a decimal."""

    @property
    def name(self) -> str:
        return self.text.name

    def log_cell(self, number: int) -> Cell:
        """The value number ``number`` of a row, as :meth:`MySqlTableRows.cell_readers` reads it."""
        if self.keeps_unscaled:
            return Cell(number, TextKind.UNSCALED_INTEGER, self.convert)
        return self.value_cell(number)

    def value_cell(self, number: int) -> Cell:
        """The value number ``number`` of a row. Texts are known as such, because most of them need no escapes."""
        return Cell(number, TextKind.STRING if self.text.schema.type is Type.STRING else TextKind.VALUE, _same)

    def query_decoder(self) -> QueryColumnDecoder:
        """Returns how a query's value is decoded."""
        type_ = self.text.type
        if self.is_bytes:
            return QueryColumnDecoder(self.type_name, type_.decode, "{c}({b})")
        return QueryColumnDecoder(self.type_name, _reads_text(type_), _INLINE.get(type_.inline, "{c}({b})"))


def _same(value: Any) -> Any:
    return value


def _reads_text(type_: ColumnType) -> Callable[[bytes], Any]:
    decode = type_.decode
    return lambda data: decode(data.decode())


class MySqlTableRows:
    """Schemas and columns of one version of a table. Build one per version and reuse it: converters know schemas by identity."""

    def __init__(self, table: MySqlTable, settings: MySqlConfig, filters: Filters, judgment: Judgment | None = None) -> None:
        """``judgment`` is that of the table's contract. Raises DataError for a key that cannot be captured."""
        self.table = table
        self.judgment = Judgment() if judgment is None else judgment
        self.topic = settings.topic_naming.topic(table.database, table.name)
        self.key = filters.key_columns(table.database, table.name) or table.key
        captured = [
            (index, column, mapped)
            for index, column, mapped in _captured_columns(table, self.key, settings, filters)
            if column.name not in self.judgment.left_out
        ]
        self.identity = identifying_columns(table.key, [column.name for _, column, _ in captured])
        """The names of the columns that tell which row a change replaces."""
        keyed = {*self.key, *self.identity}
        self.columns = [
            _captured(column, index, mapped, table, settings, in_key=column.name in self.key, keeps_value=column.name in keyed)
            for index, column, mapped in captured
        ]
        self.key_indexes, self.schemas, self.key_of = build_table_schemas(
            str(table), self.topic, source_block(is_mariadb=settings.is_mariadb), self.row_columns, self.key, settings.events
        )

    @property
    def id(self) -> TableId:
        return self.table.id

    @cached_property
    def row_columns(self) -> list[RowColumn]:
        """The captured columns as rows of a query have them."""
        return [column.text for column in self.columns]

    def readers(self, column_count: int) -> list[ColumnReader | None]:
        """Returns the reader of each column in the binary log, None for those that are not captured.

        ``column_count`` is that of TABLE_MAP: MariaDB adds columns to tables WITH SYSTEM VERSIONING.
        """
        found: list[ColumnReader | None] = [None] * column_count
        for column in self.columns:
            found[column.text.source_index] = column.reader
        return found

    def cell_readers(self, column_count: int) -> list[ColumnReader | None]:
        """Returns the readers of :attr:`CapturedMySqlColumn.log_cell`, like :meth:`readers`."""
        found = self.readers(column_count)
        for column in self.columns:
            if column.keeps_unscaled:
                found[column.text.source_index] = replace(column.reader, convert=None, inline="")
            elif column.text.schema.type in _MUTABLE:
                found[column.text.source_index] = replace(column.reader, is_mutable=True)
        return found

    def query_decoders(self) -> list[QueryColumnDecoder]:
        """Returns how a query's values are decoded, for the expressions of :attr:`CapturedMySqlColumn.select`."""
        return [column.query_decoder() for column in self.columns]


def table_version(table: MySqlTable, key: Sequence[str], filters: Filters) -> dict[str, str]:
    """Returns the version that a schema contract compares: the types of the captured columns by name."""
    return {
        column.name: _type_text(column)
        for column in table.columns
        if column.name in key or filters.captures_column(table.database, table.name, column.name)
    }


def _type_text(column: Column) -> str:
    name = column.type_name.lower()
    if column.enum_values:
        return f"{name}({','.join(column.enum_values)})"
    if column.length is None:
        return name
    return f"{name}({column.length}{'' if column.scale is None else f',{column.scale}'})"


def _captured_columns(
    table: MySqlTable, key: tuple[str, ...], settings: MySqlConfig, filters: Filters
) -> list[tuple[int, Column, MySqlColumnType]]:
    """The columns that are captured, with their places among all columns, and their types."""
    found: list[tuple[int, Column, MySqlColumnType]] = []
    for index, column in enumerate(table.columns):
        if column.name not in key and not filters.captures_column(table.database, table.name, column.name):
            continue
        mapped = column_type(column, settings.types, table.charset)
        if mapped is None:
            log.warning("column %s.%s of type %s is not supported and is not captured", table, column.name, column.type_name)
            continue
        found.append((index, column, _converted(column, mapped, table, settings)))
    return found


def _converted(column: Column, mapped: MySqlColumnType, table: MySqlTable, settings: MySqlConfig) -> MySqlColumnType:
    """Returns the mapping of a column by its custom converter, or ``mapped`` if it has none."""
    source = source_type(column)
    charset = text_charset(column, table.charset)
    described = RelationalColumn(column.name, str(table), source.name, source.length, source.scale, mapped.schema, charset)
    conversion = find_conversion(settings.events.converters, described, mapped.text)
    return mapped if conversion is None else mapped.converted(conversion)


def _captured(
    column: Column,
    index: int,
    mapped: MySqlColumnType,
    table: MySqlTable,
    settings: MySqlConfig,
    *,
    in_key: bool,
    keeps_value: bool,
) -> CapturedMySqlColumn:
    """``in_key``: it is part of the record key. ``keeps_value``: a mask must keep the value for comparisons of rows."""
    text, raw = (_ruled(column, index, type_, table, settings, keeps_value) for type_ in (mapped.text, mapped.raw()))
    mode = settings.events.converting_mode
    lenient = lenient_column(raw, str(table), mode, in_key=in_key)
    reader = (mapped if raw.schema == mapped.schema else mapped.under(raw.schema)).reader
    if raw.is_masked or lenient is not raw:
        reader = mapped.read_by(lenient.type)
    keeps_unscaled = raw.schema.name == DECIMAL and not (raw.is_masked or mapped.is_converted) and lenient is raw
    text = lenient_column(text, str(table), mode, in_key=in_key)
    return CapturedMySqlColumn(
        text, reader, lenient.type.decode, mapped.select, mapped.is_bytes, column.type_name, keeps_unscaled
    )


def _ruled(
    column: Column, index: int, type_: ColumnType, table: MySqlTable, settings: MySqlConfig, keeps_value: bool
) -> RowColumn:
    """Applies the rule of a column, if it has one."""
    schema = type_.schema
    plain = RowColumn(column.name, type_, schema, index, type_, type_.zero if schema.default is None else schema.default)
    source = source_type(column)
    rule = find_rule(settings.events.column_rules, str(table), column.name, source)
    return plain if rule is None else map_column(plain, rule, str(table), source, in_key=keeps_value)
