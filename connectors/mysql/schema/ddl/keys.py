"""Indexes of a table, and its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from connectors.mysql.schema.ddl.tokens import Cursor, TokenKind
from connectors.mysql.schema.model import PRIMARY, Column, Index

_TYPES_WITH_LENGTH = frozenset(
    {"CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER", "NATIONAL", "NCHAR", "NVARCHAR", "BINARY", "VARBINARY"}
)
"""First words of types whose prefix may be the whole column. The server never indexes a whole TEXT or BLOB."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of an index. ``length`` is that of its beginning, in characters or bytes, if no more is in the index."""

    column: str
    length: int | None = None


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """An index as it is declared. ``name`` is empty if the server chooses it."""

    name: str
    is_unique: bool
    parts: tuple[KeyPart, ...]
    if_not_exists: bool = False

    @property
    def is_primary(self) -> bool:
        return self.name == PRIMARY


def parse_index(cursor: Cursor) -> KeyDefinition | None:
    """Consumes an index, a constraint, or a period of CREATE TABLE or ALTER TABLE ADD, if one follows.

    Returns None for those that are no index, and for a column; the cursor has not moved only for a column.
    """
    constraint = ""
    if cursor.accept("CONSTRAINT") and cursor.peek().upper not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        cursor.accept("IF", "NOT", "EXISTS")
        constraint = cursor.name()
    if cursor.accept("PRIMARY", "KEY"):
        cursor.accept("IF", "NOT", "EXISTS")
        if not cursor.sees("("):
            _index_name(cursor)
        return _rest(cursor, PRIMARY, is_unique=True)
    if cursor.accept("UNIQUE"):
        cursor.accept_one("KEY", "INDEX")
        return _named(cursor, constraint, is_unique=True)
    if cursor.accept("FOREIGN", "KEY"):
        cursor.skip_to_comma()
        return None
    if cursor.sees("CHECK") and cursor.peek(1).upper == "(":
        cursor.skip_to_comma()
        return None
    if cursor.sees("PERIOD", "FOR"):
        cursor.skip_to_comma()
        return None
    if cursor.sees("FULLTEXT") or (cursor.peek().upper in ("SPATIAL", "VECTOR") and cursor.peek(1).upper in ("KEY", "INDEX")):
        cursor.next()
        cursor.accept_one("KEY", "INDEX")
        return _named(cursor, "", is_unique=False)
    if cursor.peek().kind is TokenKind.WORD and cursor.peek().upper in ("SPATIAL", "FULLTEXT"):
        cursor.next()
        return _named(cursor, "", is_unique=False)
    if cursor.accept_one("KEY", "INDEX"):
        return _named(cursor, "", is_unique=False)
    return None


def sees_index(cursor: Cursor) -> bool:
    """Returns whether an index, a constraint, or a period follows, and not a column."""
    token, following = cursor.peek(), cursor.peek(1)
    if token.upper in ("CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "KEY", "INDEX", "FULLTEXT", "SPATIAL"):
        return True
    if token.upper == "CHECK":
        return following.upper == "("
    return (token.upper, following.upper) in {("PERIOD", "FOR"), ("VECTOR", "KEY"), ("VECTOR", "INDEX")}


def _named(cursor: Cursor, constraint: str, *, is_unique: bool) -> KeyDefinition:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = constraint
    if not cursor.sees("(") and not cursor.sees("USING"):
        name = _index_name(cursor) or constraint
    return replace(_rest(cursor, name, is_unique=is_unique), if_not_exists=if_not_exists)


def _index_name(cursor: Cursor) -> str:
    if cursor.peek().upper == "USING":
        return ""
    name = cursor.name()
    if cursor.accept("TYPE"):
        cursor.name()
    return name


def _rest(cursor: Cursor, name: str, *, is_unique: bool) -> KeyDefinition:
    if cursor.accept("USING"):
        cursor.name()
    parts = parse_key_parts(cursor)
    cursor.skip_to_comma()
    return KeyDefinition(name, is_unique, parts)


def parse_key_parts(cursor: Cursor) -> tuple[KeyPart, ...]:
    """Consumes the columns of an index, in parentheses. Returns none if one of them is an expression."""
    cursor.expect("(")
    parts: list[KeyPart] = []
    has_expression = False
    while True:
        if cursor.sees("("):
            cursor.skip_parentheses()
            has_expression = True
        else:
            parts.append(KeyPart(cursor.name(), _length(cursor)))
        cursor.accept_one("ASC", "DESC")
        cursor.accept("WITHOUT", "OVERLAPS")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return () if has_expression else tuple(parts)


def _length(cursor: Cursor) -> int | None:
    if not cursor.accept("("):
        return None
    length = int(cursor.next().text)
    cursor.expect(")")
    return length


def add_index(indexes: list[Index], definition: KeyDefinition, columns: Sequence[Column]) -> None:
    """Appends an index, with the columns' names as the table has them, and a name as the server chooses it."""
    by_name = {column.name.lower(): column for column in columns}
    found = [(by_name.get(part.column.lower()), part) for part in definition.parts]
    names = tuple(part.column if column is None else column.name for column, part in found)
    prefixes = tuple(column.name for column, part in found if column is not None and _is_prefix(part, column))
    if definition.is_primary:
        indexes[:] = [index for index in indexes if index.name != PRIMARY]
        indexes.insert(0, Index(PRIMARY, True, names, prefixes))
        return
    taken = {index.name.lower() for index in indexes}
    if definition.if_not_exists and definition.name.lower() in taken:
        return
    name = definition.name
    if not name:
        first = names[0] if names else "functional_index"
        name, number = first, 2
        while name.lower() in taken or name.upper() == PRIMARY:
            name, number = f"{first}_{number}", number + 1
    indexes.append(Index(name, definition.is_unique, names, prefixes))


def _is_prefix(part: KeyPart, column: Column) -> bool:
    if part.length is None:
        return column.type_expression == "POINT"  # MariaDB indexes the 25 bytes of a point as the beginning of a BLOB
    return column.type_expression.split()[0] not in _TYPES_WITH_LENGTH or part.length < (column.length or 1)


def sorted_indexes(indexes: Sequence[Index], columns: Sequence[Column]) -> tuple[Index, ...]:
    """Returns the indexes in the server's order: the primary key, unique ones without NULL, other unique ones, the rest.

    Unique ones with prefixes follow those of the same kind that have only whole columns.
    """
    required = {column.name.lower() for column in columns if not column.optional}

    def rank(index: Index) -> tuple[int, bool]:
        if index.name == PRIMARY:
            return 0, False
        if not index.is_unique:
            return 3, False
        is_required = index.columns and all(name.lower() in required for name in index.columns)
        return 1 if is_required else 2, bool(index.prefixes)

    return tuple(sorted(indexes, key=rank))


def find_key(indexes: Sequence[Index], columns: Sequence[Column]) -> tuple[str, ...]:
    """Returns the columns of the primary key, else those of the first unique index whose columns are all NOT NULL."""
    required = {column.name.lower() for column in columns if not column.optional}
    for index in indexes:
        if index.name == PRIMARY:
            return index.columns
    for index in indexes:
        if index.is_unique and index.columns and all(name.lower() in required for name in index.columns):
            return index.columns
    return ()
