"""CREATE TABLE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from connectors.mysql.schema.ddl.column_definition import EPOCH, ColumnDefinition, parse_column_definition
from connectors.mysql.schema.ddl.context import DdlContext
from connectors.mysql.schema.ddl.data_types import (
    TIMESTAMP_WITH_TIMEZONE,
    accept_charset_words,
    parse_charset,
    parse_collation_charset,
)
from connectors.mysql.schema.ddl.errors import DdlSyntaxError
from connectors.mysql.schema.ddl.keys import KeyDefinition, KeyPart, add_index, find_key, parse_index, sees_index, sorted_indexes
from connectors.mysql.schema.ddl.tokens import Cursor, TokenKind
from connectors.mysql.schema.model import PRIMARY, Column, Index, MySqlTable, TableId

ZERO_TIMESTAMP: Final = "0000-00-00 00:00:00"
_OPTIONS: Final = frozenset({
    "AUTOEXTEND_SIZE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMPRESSION", "CONNECTION", "DELAY_KEY_WRITE",
    "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID", "ENGINE", "ENGINE_ATTRIBUTE", "IETF_QUOTES", "INSERT_METHOD",
    "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PAGE_CHECKSUM", "PAGE_COMPRESSED",
    "PAGE_COMPRESSION_LEVEL", "PASSWORD", "ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE",
    "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE", "TABLE_CHECKSUM",
    "TRANSACTIONAL", "TYPE", "UNION",
})  # fmt: skip
"""Options that need no equals sign before their value. Storage engines of MariaDB have others, which need one."""


@dataclass(slots=True)
class TableOptions:
    """Options of CREATE TABLE and ALTER TABLE that matter. None: not given."""

    charset: str | None = None
    has_default_charset: bool = False
    """CHARACTER SET DEFAULT: that of the database."""
    collation_charset: str | None = None
    comment: str | None = None
    has_system_versioning: bool | None = None
    is_sequence: bool = False

    @property
    def declared_charset(self) -> str | None:
        return self.charset or self.collation_charset


@dataclass(slots=True)
class TableElements:
    """The elements in the parentheses of CREATE TABLE."""

    columns: list[ColumnDefinition] = field(default_factory=list)
    keys: list[KeyDefinition] = field(default_factory=list)


def parse_elements(cursor: Cursor, context: DdlContext) -> TableElements:
    """Consumes columns and indexes in parentheses."""
    definition = TableElements()
    cursor.expect("(")
    while True:
        parse_element(cursor, definition, context)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return definition


def parse_element(cursor: Cursor, definition: TableElements, context: DdlContext) -> None:
    if sees_index(cursor):
        if (key := parse_index(cursor)) is not None:
            definition.keys.append(key)
        return
    name = cursor.name()
    column = parse_column_definition(cursor, name, context)
    definition.columns.append(column)
    definition.keys += inline_keys(column)


def inline_keys(column: ColumnDefinition) -> list[KeyDefinition]:
    """Returns the indexes that a column's attributes declare."""
    keys = []
    if column.is_primary:
        keys.append(KeyDefinition(PRIMARY, True, (KeyPart(column.name),)))
    if column.is_unique:
        keys.append(KeyDefinition("", True, (KeyPart(column.name),)))
    return keys


def parse_option(cursor: Cursor, options: TableOptions) -> None:
    """Consumes one option. Those that do not matter are consumed with their value."""
    has_default = cursor.accept("DEFAULT")
    if accept_charset_words(cursor):
        cursor.accept("=")
        options.charset = parse_charset(cursor)
        options.has_default_charset = options.charset is None
    elif cursor.accept("COLLATE"):
        options.collation_charset = parse_collation_charset(cursor)
    elif has_default:
        raise cursor.unexpected("CHARACTER SET or COLLATE")
    elif cursor.accept("COMMENT"):
        cursor.accept("=")
        options.comment = cursor.string()
    elif cursor.accept("WITH", "SYSTEM", "VERSIONING"):
        options.has_system_versioning = True
    elif cursor.accept("WITHOUT", "SYSTEM", "VERSIONING"):
        options.has_system_versioning = False
    elif cursor.accept("SEQUENCE"):
        cursor.accept("=")
        options.is_sequence = cursor.next().text != "0"
    elif cursor.accept("START", "TRANSACTION"):
        pass
    elif cursor.accept_one("DATA", "INDEX") is not None:
        cursor.expect("DIRECTORY")
        cursor.accept("=")
        cursor.string()
    elif cursor.peek().upper in _OPTIONS or (cursor.peek().kind is not TokenKind.SYMBOL and cursor.peek(1).upper == "="):
        _skip_option(cursor)
    else:
        raise cursor.unexpected("an action or an option of a table")


def _skip_option(cursor: Cursor) -> None:
    is_tablespace = cursor.next().upper == "TABLESPACE"
    cursor.accept("=")
    if cursor.sees("("):
        cursor.skip_parentheses()
        return
    if cursor.peek().upper in ("-", "+"):
        cursor.next()
    cursor.next()
    if is_tablespace and cursor.accept("STORAGE"):
        cursor.next()


@dataclass(frozen=True, slots=True)
class CreatedTable:
    """What CREATE TABLE says. ``like`` is the table that it copies. ``has_query``: columns also come from a query."""

    definition: TableElements | None
    options: TableOptions
    like: tuple[str | None, str] | None = None
    has_query: bool = False


def parse_created_table(cursor: Cursor, context: DdlContext, parse_id: Callable[[], tuple[str | None, str]]) -> CreatedTable:
    """Consumes what follows the name of a table in CREATE TABLE."""
    options = TableOptions()
    if cursor.accept("LIKE"):
        return CreatedTable(None, options, parse_id())
    if cursor.sees("(", "LIKE"):
        cursor.expect("(", "LIKE")
        like = parse_id()
        cursor.expect(")")
        return CreatedTable(None, options, like)
    definition = None
    if cursor.sees("(") and cursor.peek(1).upper not in ("SELECT", "WITH", "VALUES", "TABLE", "("):
        definition = parse_elements(cursor, context)
    while not cursor.at_end:
        if cursor.accept(","):
            continue
        if cursor.sees("PARTITION", "BY"):
            cursor.skip_until(lambda token: token.upper in ("SELECT", "AS", "IGNORE", "REPLACE"))
        elif _sees_query(cursor):
            cursor.skip_to_end()
            return CreatedTable(definition, options, has_query=True)
        else:
            parse_option(cursor, options)
    if definition is None and not options.is_sequence:
        raise DdlSyntaxError("columns expected")
    return CreatedTable(definition, options)


def _sees_query(cursor: Cursor) -> bool:
    word, following = cursor.peek().upper, cursor.peek(1).upper
    if word in ("SELECT", "AS", "("):
        return True
    if word in ("IGNORE", "REPLACE", "VALUES", "TABLE"):
        return following != "="
    return word == "WITH" and following != "SYSTEM"


def build_table(id: TableId, definition: TableElements, options: TableOptions, context: DdlContext) -> MySqlTable:
    """Returns the new table."""
    charset = options.declared_charset or context.charset_of(id.database)
    if context.explicit_defaults_for_timestamp is False:
        set_timestamp_defaults(definition.columns)
    columns = [column.column(i, charset) for i, column in enumerate(definition.columns, 1)]
    names = [column.name.lower() for column in columns]
    if len(set(names)) != len(names):
        raise DdlSyntaxError("a column is declared twice")
    indexes: list[Index] = []
    for key in sorted(definition.keys, key=lambda key: not key.name):  # names that are given are taken first
        add_index(indexes, key, columns)
    order = {key_name: i for i, key_name in enumerate(_declared_order(definition.keys, indexes))}
    indexes.sort(key=lambda index: order[index.name])
    has_row_columns = any(column.is_row_start_or_end for column in definition.columns)
    return finish_table(
        MySqlTable(
            id.database,
            id.name,
            tuple(columns),
            (),
            charset,
            options.comment,
            has_system_versioning=bool(options.has_system_versioning) and not has_row_columns,
        ),
        indexes,
    )


def _declared_order(keys: Sequence[KeyDefinition], indexes: Sequence[Index]) -> list[str]:
    """Returns the names of the indexes in the order of their declarations, the primary key first."""
    unnamed = iter([index.name for index in indexes if index.name not in {key.name for key in keys}])
    names = [key.name or next(unnamed) for key in keys]
    return sorted(names, key=lambda name: name != PRIMARY)


def finish_table(table: MySqlTable, indexes: Sequence[Index]) -> MySqlTable:
    """Returns a table with these indexes, the key that follows from them, and NOT NULL for the columns of a primary key."""
    primary = next((index.columns for index in indexes if index.name == PRIMARY), ())
    columns = require_columns(table.columns, primary)
    indexes = sorted_indexes(indexes, columns)
    return replace(table, columns=columns, indexes=indexes, key=find_key(indexes, columns))


def require_columns(columns: Sequence[Column], names: Sequence[str]) -> tuple[Column, ...]:
    """Returns the columns, those with these names NOT NULL."""
    folded = {name.lower() for name in names}
    return tuple(_required(column) if column.name.lower() in folded else column for column in columns)


def _required(column: Column) -> Column:
    if not column.optional:
        return column
    return replace(column, optional=False, has_default=column.has_default and column.default is not None)


def set_timestamp_defaults(columns: Sequence[ColumnDefinition], *, has_earlier: bool = False) -> None:
    """Declares what explicit_defaults_for_timestamp=OFF adds to TIMESTAMP columns; ``has_earlier``: others precede them."""
    for column in columns:
        if column.data_type.jdbc_type != TIMESTAMP_WITH_TIMEZONE:
            continue
        if column.nullable is None:
            column.nullable = False
            if not column.has_default and not column.has_on_update:
                column.has_default = True
                column.default = ZERO_TIMESTAMP if has_earlier else EPOCH
                column.has_on_update = not has_earlier
        has_earlier = True


def copy_table(source: MySqlTable, id: TableId) -> MySqlTable:
    """Returns the table that CREATE TABLE LIKE creates."""
    return replace(source, database=id.database, name=id.name)
