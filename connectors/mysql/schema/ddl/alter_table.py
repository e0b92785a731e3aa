"""ALTER TABLE: its actions, and the table that they result in.

Like the server, actions refer to columns by their names before the statement, and their order matters only among columns that are
added or moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from connectors.mysql.schema.charsets import max_character_bytes
from connectors.mysql.schema.ddl.column_definition import EPOCH, ColumnDefinition, parse_column_definition, parse_default
from connectors.mysql.schema.ddl.context import DdlContext
from connectors.mysql.schema.ddl.create_table import (
    TableElements,
    TableOptions,
    finish_table,
    inline_keys,
    parse_element,
    parse_option,
    require_columns,
    set_timestamp_defaults,
)
from connectors.mysql.schema.ddl.data_types import (
    CHAR,
    NCHAR,
    NVARCHAR,
    OTHER,
    TIMESTAMP_WITH_TIMEZONE,
    VARCHAR,
    DataType,
    accept_charset_words,
    parse_charset,
    parse_collation_charset,
)
from connectors.mysql.schema.ddl.errors import DdlSyntaxError
from connectors.mysql.schema.ddl.keys import KeyDefinition, add_index, parse_index, sees_index
from connectors.mysql.schema.ddl.tokens import Cursor
from connectors.mysql.schema.model import PRIMARY, Column, Index, MySqlTable, TableId

FIRST: Final = ""
"""A position that is no name of a column."""
_ParseId = Callable[[], tuple[str | None, str]]

_UNTIL_END: Final = (
    ("ADD", "PARTITION"), ("DROP", "PARTITION"), ("TRUNCATE", "PARTITION"), ("COALESCE", "PARTITION"),
    ("REORGANIZE", "PARTITION"), ("EXCHANGE", "PARTITION"), ("ANALYZE", "PARTITION"), ("CHECK", "PARTITION"),
    ("OPTIMIZE", "PARTITION"), ("REBUILD", "PARTITION"), ("REPAIR", "PARTITION"), ("DISCARD", "PARTITION"),
    ("IMPORT", "PARTITION"), ("PARTITION", "BY"), ("REMOVE", "PARTITIONING"), ("UPGRADE", "PARTITIONING"),
    ("SECONDARY_LOAD",), ("SECONDARY_UNLOAD",),
)  # fmt: skip
"""Actions of partitions, which are the last ones of a statement, and change no columns."""
_NO_EFFECT: Final = (
    ("ENABLE", "KEYS"), ("DISABLE", "KEYS"), ("FORCE",), ("DISCARD", "TABLESPACE"), ("IMPORT", "TABLESPACE"),
    ("WITH", "VALIDATION"), ("WITHOUT", "VALIDATION"), ("NOWAIT",), ("DROP", "PERIOD", "FOR", "SYSTEM_TIME"),
    ("ADD", "SYSTEM", "VERSIONING"), ("DROP", "SYSTEM", "VERSIONING"),
)  # fmt: skip
_TEXT_SIZES: Final = ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")


@dataclass(slots=True)
class PlacedColumn:
    """A column to add, or to put instead of ``replaces``. ``place`` is None (unchanged, or last), FIRST, or the column before."""

    definition: ColumnDefinition
    replaces: str | None = None
    place: str | None = None
    if_exists: bool = False
    """Or, for a column to add, IF NOT EXISTS."""


@dataclass(slots=True)
class Alteration:
    """The actions of a statement."""

    columns: list[PlacedColumn] = field(default_factory=list)
    dropped: dict[str, bool] = field(default_factory=dict)
    """Columns in lower case, and whether they may be missing."""
    renamed: dict[str, tuple[str, bool]] = field(default_factory=dict)
    defaults: list[tuple[str, Callable[[Column], Column], bool]] = field(default_factory=list)
    keys: list[KeyDefinition] = field(default_factory=list)
    dropped_keys: list[str] = field(default_factory=list)
    renamed_keys: list[tuple[str, str]] = field(default_factory=list)
    options: TableOptions = field(default_factory=TableOptions)
    conversion: TableOptions | None = None
    """CONVERT TO CHARACTER SET: that of all columns, and of the table unless its own is set, too."""
    new_id: tuple[str | None, str] | None = None
    converted_partition: tuple[str | None, str] | None = None
    """MariaDB's CONVERT PARTITION ... TO TABLE: the new table."""
    converted_table: tuple[str | None, str] | None = None
    """MariaDB's CONVERT TABLE ... TO PARTITION: the table that becomes a partition."""


def parse_alteration(cursor: Cursor, context: DdlContext, parse_id: _ParseId) -> Alteration:
    """Consumes all actions. Raises DdlSyntaxError."""
    alteration = Alteration()
    while not cursor.at_end:
        if cursor.accept(","):
            continue
        if any(cursor.sees(*words) for words in _UNTIL_END):
            cursor.skip_to_end()
        else:
            _parse_action(cursor, alteration, context, parse_id)
    return alteration


def _parse_action(cursor: Cursor, alteration: Alteration, context: DdlContext, parse_id: _ParseId) -> None:
    if cursor.sees("ADD", "SYSTEM", "VERSIONING") or cursor.sees("DROP", "SYSTEM", "VERSIONING"):
        alteration.options.has_system_versioning = cursor.next().upper == "ADD"
        cursor.expect("SYSTEM", "VERSIONING")
    elif any(cursor.accept(*words) for words in _NO_EFFECT):
        pass
    elif cursor.accept("ADD"):
        _parse_add(cursor, alteration, context)
    elif cursor.accept("DROP"):
        _parse_drop(cursor, alteration)
    elif cursor.sees("MODIFY") or cursor.sees("CHANGE"):
        _parse_new_definition(cursor, alteration, context)
    elif cursor.accept("ALTER"):
        _parse_alter(cursor, alteration, context)
    elif cursor.accept("RENAME"):
        _parse_rename(cursor, alteration, parse_id)
    elif cursor.accept("CONVERT"):
        _parse_convert(cursor, alteration, parse_id)
    elif cursor.accept("ORDER", "BY"):
        _skip_order(cursor)
    elif cursor.accept_one("ALGORITHM", "LOCK", "WAIT") is not None:
        cursor.accept("=")
        cursor.next()
    else:
        parse_option(cursor, alteration.options)


def _parse_add(cursor: Cursor, alteration: Alteration, context: DdlContext) -> None:
    if sees_index(cursor):
        if (key := parse_index(cursor)) is not None:
            alteration.keys.append(key)
        return
    cursor.accept("COLUMN")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if cursor.accept("("):
        elements = TableElements()
        while True:
            parse_element(cursor, elements, context)
            if not cursor.accept(","):
                break
        cursor.expect(")")
        alteration.columns += (PlacedColumn(column, if_exists=if_not_exists) for column in elements.columns)
        alteration.keys += elements.keys
        return
    definition = parse_column_definition(cursor, cursor.name(), context)
    alteration.columns.append(PlacedColumn(definition, None, _parse_place(cursor), if_not_exists))
    alteration.keys += inline_keys(definition)


def _parse_place(cursor: Cursor) -> str | None:
    if cursor.accept("FIRST"):
        return FIRST
    if cursor.accept("AFTER"):
        return cursor.name()
    return None


def _parse_drop(cursor: Cursor, alteration: Alteration) -> None:
    if cursor.accept("PRIMARY", "KEY"):
        alteration.dropped_keys.append(PRIMARY)
        return
    if cursor.accept("FOREIGN", "KEY") or cursor.accept("CHECK"):
        cursor.accept("IF", "EXISTS")
        cursor.name()
        return
    if cursor.accept_one("KEY", "INDEX", "CONSTRAINT") is not None:
        cursor.accept("IF", "EXISTS")
        alteration.dropped_keys.append(cursor.name())
        return
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    alteration.dropped[cursor.name().lower()] = if_exists
    cursor.accept_one("RESTRICT", "CASCADE")


def _parse_new_definition(cursor: Cursor, alteration: Alteration, context: DdlContext) -> None:
    is_change = cursor.next().upper == "CHANGE"
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    old = cursor.name()
    new = cursor.name() if is_change else old
    definition = parse_column_definition(cursor, new, context)
    alteration.columns.append(PlacedColumn(definition, old, _parse_place(cursor), if_exists))
    alteration.keys += inline_keys(definition)


def _parse_alter(cursor: Cursor, alteration: Alteration, context: DdlContext) -> None:
    if cursor.accept_one("INDEX", "KEY", "CONSTRAINT", "CHECK") is not None:
        cursor.skip_to_comma()
        return
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    if cursor.accept("DROP", "DEFAULT"):

        def drop_default(column: Column) -> Column:
            return replace(column, has_default=False, default=None)

        alteration.defaults.append((name, drop_default, if_exists))
    elif cursor.accept("SET", "DEFAULT"):
        start = cursor.position
        parse_default(cursor, ColumnDefinition(name, DataType("", OTHER)), context)
        stop = cursor.position

        def set_default(column: Column) -> Column:
            end = cursor.position
            cursor.rewind(start)
            declared = ColumnDefinition(name, DataType(column.type_name, column.jdbc_type))
            parse_default(cursor, declared, context)
            assert cursor.position == stop
            cursor.rewind(end)
            return replace(column, has_default=declared.has_default or column.optional, default=declared.default)

        alteration.defaults.append((name, set_default, if_exists))
    elif cursor.accept("SET"):
        if cursor.accept_one("VISIBLE", "INVISIBLE") is None:
            raise cursor.unexpected("DEFAULT, VISIBLE, or INVISIBLE")
    else:
        raise cursor.unexpected("SET or DROP DEFAULT")


def _parse_rename(cursor: Cursor, alteration: Alteration, parse_id: _ParseId) -> None:
    if cursor.accept("COLUMN"):
        if_exists = cursor.accept("IF", "EXISTS")
        old = cursor.name()
        cursor.expect("TO")
        alteration.renamed[old.lower()] = cursor.name(), if_exists
    elif cursor.accept_one("INDEX", "KEY") is not None:
        cursor.accept("IF", "EXISTS")
        old = cursor.name()
        cursor.expect("TO")
        alteration.renamed_keys.append((old, cursor.name()))
    else:
        cursor.accept_one("TO", "AS", "=")
        alteration.new_id = parse_id()


def _parse_convert(cursor: Cursor, alteration: Alteration, parse_id: _ParseId) -> None:
    if cursor.accept("PARTITION"):
        cursor.name()
        cursor.expect("TO", "TABLE")
        alteration.converted_partition = parse_id()
        cursor.skip_to_end()
        return
    if cursor.accept("TABLE"):
        alteration.converted_table = parse_id()
        cursor.skip_to_end()
        return
    cursor.expect("TO")
    if not accept_charset_words(cursor):
        raise cursor.unexpected("CHARACTER SET")
    conversion = alteration.conversion = TableOptions(parse_charset(cursor))
    conversion.has_default_charset = conversion.charset is None
    if cursor.accept("COLLATE"):
        conversion.collation_charset = parse_collation_charset(cursor)


def _skip_order(cursor: Cursor) -> None:
    """Consumes the columns of ORDER BY. After a comma, a column is followed by a comma, a direction, or the end."""
    while True:
        cursor.name()
        cursor.accept_one("ASC", "DESC")
        if not (cursor.sees(",") and cursor.peek(2).upper in (",", "ASC", "DESC", "")):
            return
        cursor.expect(",")


def altered_table(table: MySqlTable, alteration: Alteration, context: DdlContext) -> MySqlTable:
    """Returns the table after the actions, still with its old name. Raises DdlSyntaxError for actions that do not fit the table:
    then what is known about it is not true."""
    options = alteration.options
    converted = None if alteration.conversion is None else _charset_of(alteration.conversion, table, context)
    charset = _charset_of(options, table, context) or converted or table.charset
    if context.explicit_defaults_for_timestamp is False:
        has_earlier = any(column.jdbc_type == TIMESTAMP_WITH_TIMEZONE for column in table.columns)
        set_timestamp_defaults([placed.definition for placed in alteration.columns], has_earlier=has_earlier)
    renames: dict[str, str] = {}  # columns in lower case and their new names

    def define(placed: PlacedColumn) -> Column:
        return _defined_column(placed, alteration, charset, converted, context)

    kept = _kept_columns(table, alteration, define, renames, context)
    columns = [column for _, column in kept]
    if converted is not None:
        columns = [_converted(column, converted, context) if is_old else column for is_old, column in kept]
    columns = _with_added(columns, alteration, define, table)
    names = [column.name.lower() for column in columns]
    if len(set(names)) != len(names):
        raise DdlSyntaxError("a column exists already")
    columns = [replace(column, position=i) for i, column in enumerate(columns, 1)]
    is_versioned = table.has_system_versioning if options.has_system_versioning is None else options.has_system_versioning
    result = replace(
        table,
        columns=tuple(columns),
        charset=charset,
        comment=table.comment if options.comment is None else options.comment,
        has_system_versioning=is_versioned and not any(p.definition.is_row_start_or_end for p in alteration.columns),
    )
    return _with_indexes(table, result, alteration, renames)


def _charset_of(options: TableOptions, table: MySqlTable, context: DdlContext) -> str | None:
    return options.declared_charset or (context.charset_of(table.database) if options.has_default_charset else None)


def _kept_columns(
    table: MySqlTable,
    alteration: Alteration,
    define: Callable[[PlacedColumn], Column],
    renames: dict[str, str],
    context: DdlContext,
) -> list[tuple[bool, Column]]:
    """Returns the columns that are not dropped or moved, with True for those whose definition stays."""
    known = {column.name.lower() for column in table.columns}
    replaced = {placed.replaces.lower(): placed for placed in alteration.columns if placed.replaces is not None}
    missing = [name for name, if_exists in alteration.dropped.items() if name not in known and not if_exists]
    missing += [name for name, (_, if_exists) in alteration.renamed.items() if name not in known and not if_exists]
    known |= {placed.definition.name.lower() for placed in alteration.columns if placed.replaces is None}
    missing += [name for name, _, if_exists in alteration.defaults if name.lower() not in known and not if_exists]
    if missing:
        raise DdlSyntaxError(f"table {table} has no column {missing[0]}")
    kept: list[tuple[bool, Column]] = []
    for column in table.columns:
        folded = column.name.lower()
        if folded in alteration.dropped:
            continue
        if (placed := replaced.get(folded)) is not None:
            renames[folded] = placed.definition.name
            if placed.place is None:
                kept.append((False, define(placed)))
            continue
        column = _with_default(column, alteration, context)
        if folded in alteration.renamed:
            renames[folded] = alteration.renamed[folded][0]
            column = replace(column, name=renames[folded])
        kept.append((True, column))
    return kept


def _with_default(column: Column, alteration: Alteration, context: DdlContext) -> Column:
    for name, change, _ in alteration.defaults:
        if name.lower() == column.name.lower() and not (context.is_mariadb and column.default == EPOCH):
            column = change(column)  # MariaDB changes no CURRENT_TIMESTAMP
    return column


def _defined_column(
    placed: PlacedColumn, alteration: Alteration, charset: str | None, converted: str | None, context: DdlContext
) -> Column:
    """Returns a column that the statement defines. Like the server, CONVERT TO CHARACTER SET concerns it, and so does ALTER of
    the default if it is added."""
    definition = placed.definition
    if converted is not None and definition.charset != "binary":
        definition = replace(definition, charset=converted)
    column = definition.column(0, charset)
    if converted is not None and column.type_name == "JSON":
        column = _converted(column, converted, context)
    return _with_default(column, alteration, context) if placed.replaces is None else column


def _with_added(
    columns: list[Column], alteration: Alteration, define: Callable[[PlacedColumn], Column], table: MySqlTable
) -> list[Column]:
    """Inserts columns that are added or moved, in the order of the statement."""
    known = {column.name.lower() for column in table.columns}
    for placed in alteration.columns:
        if placed.replaces is None:
            exists = any(column.name.lower() == placed.definition.name.lower() for column in columns)
            if exists and placed.if_exists:
                continue
        elif placed.replaces.lower() not in known:
            if placed.if_exists:
                continue
            # The server also takes a column that the statement adds.
            added = next((column for column in columns if column.name.lower() == placed.definition.name.lower()), None)
            if added is None:
                raise DdlSyntaxError(f"table {table} has no column {placed.replaces}")
            columns.remove(added)
        elif placed.place is None:
            continue
        column = define(placed)
        if placed.place is None:
            columns.append(column)
        elif placed.place == FIRST:
            columns.insert(0, column)
        else:
            folded = placed.place.lower()
            index = next((i for i, other in enumerate(columns) if other.name.lower() == folded), None)
            if index is None:
                raise DdlSyntaxError(f"table {table} has no column {placed.place}")
            columns.insert(index + 1, column)
    return columns


def _converted(column: Column, charset: str, context: DdlContext) -> Column:
    """Returns a column in another character set. Like the server, it gives a TEXT more room if characters may become longer."""
    if context.is_mariadb and column.type_name == "JSON":  # a LONGTEXT, which no longer is in UTF-8 then
        return replace(column, charset=charset, type_name="LONGTEXT", type_expression="LONGTEXT", jdbc_type=VARCHAR)
    if column.charset is None or column.jdbc_type not in (CHAR, VARCHAR, NCHAR, NVARCHAR):
        return column
    name, _, rest = column.type_name.partition(" ")
    if name in _TEXT_SIZES[:3] and max_character_bytes(charset) > max_character_bytes(column.charset):
        name = _TEXT_SIZES[_TEXT_SIZES.index(name) + 1]
    name = f"{name} {rest}".rstrip()
    return replace(column, charset=charset, type_name=name, type_expression=name)


def _with_indexes(old: MySqlTable, table: MySqlTable, alteration: Alteration, renames: dict[str, str]) -> MySqlTable:
    dropped = {name.lower() for name in alteration.dropped_keys}
    if not old.indexes and old.key:
        return _with_key_only(old, table, alteration, renames, dropped)
    left = {column.name.lower() for column in table.columns}
    indexes = []
    for index in old.indexes:
        if index.name.lower() in dropped:
            continue
        columns, prefixes = (
            tuple(new for name in names if (new := _renamed(name, alteration, renames)) is not None and new.lower() in left)
            for names in (index.columns, index.prefixes)
        )
        if columns or not index.columns:
            indexes.append(replace(index, columns=columns, prefixes=prefixes))
    for old_name, new_name in alteration.renamed_keys:
        indexes = [replace(i, name=new_name) if i.name.lower() == old_name.lower() else i for i in indexes]
    for key in alteration.keys:
        add_index(indexes, key, table.columns)
    return finish_table(table, indexes)


def _renamed(name: str, alteration: Alteration, renames: dict[str, str]) -> str | None:
    """Returns the new name of a column of an index, None if the column was dropped.

    A column that the same statement adds under the name of a dropped one takes its place in indexes, as on the server.
    """
    folded = name.lower()
    if folded not in alteration.dropped:
        return renames.get(folded, name)
    added = (placed.definition.name for placed in alteration.columns if placed.replaces is None)
    return next((other for other in added if other.lower() == folded), None)


def _with_key_only(
    old: MySqlTable, table: MySqlTable, alteration: Alteration, renames: dict[str, str], dropped: set[str]
) -> MySqlTable:
    """Debezium's history does not say which index the key is: it is taken for the primary key, as Debezium does."""
    names = [_renamed(name, alteration, renames) for name in old.key]
    key = tuple(name for name in names if name is not None)
    if PRIMARY.lower() in dropped:
        key = ()
    added: list[Index] = []
    for definition in alteration.keys:
        add_index(added, definition, table.columns)
    if key and not any(index.name == PRIMARY for index in added):
        return replace(table, key=key, columns=require_columns(table.columns, key))
    return finish_table(table, added)


def renamed_table(table: MySqlTable, id: TableId) -> MySqlTable:
    """Returns the table with another name."""
    return replace(table, database=id.database, name=id.name)
