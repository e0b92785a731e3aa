"""Column definitions of CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from connectors.mysql.schema.ddl.context import DdlContext
from connectors.mysql.schema.ddl.data_types import (
    BIT,
    DataType,
    accept_charset_words,
    as_bytes_type,
    parse_charset,
    parse_collation_charset,
    parse_data_type,
)
from connectors.mysql.schema.ddl.tokens import Cursor, TokenKind
from connectors.mysql.schema.model import Column

EPOCH: Final = "1970-01-01 00:00:00"
"""Debezium's default of columns whose default is the time of the insert."""
_NOW: Final = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
_BARE_FUNCTIONS: Final = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER", "CURRENT_ROLE", "SESSION_USER", "UTC_DATE", "UTC_TIME",
                          "UTC_TIMESTAMP")  # fmt: skip
_LITERALS: Final = frozenset({TokenKind.NUMBER, TokenKind.STRING, TokenKind.HEX, TokenKind.BITS})
_NUMERIC_TYPES: Final = frozenset({-6, -5, 2, 3, 4, 5, 6, 7, 8, 16})
_WITH_VALUE: Final = frozenset({"COLUMN_FORMAT", "STORAGE", "SRID"})
_ENDS: Final = (",", ")", "FIRST", "AFTER")
_END_PHRASES: Final = (("PARTITION", "BY"), ("REMOVE", "PARTITIONING"))
_NO_EFFECT: Final = (
    ("NOT", "ENFORCED"), ("NOT", "SECONDARY"), ("VIRTUAL",), ("STORED",), ("PERSISTENT",), ("VISIBLE",), ("INVISIBLE",),
    ("ENFORCED",),
)  # fmt: skip


@dataclass(slots=True)
class ColumnDefinition:
    """A column as it is declared. ``charset`` is the declared one; ``default`` counts only with ``has_default``."""

    name: str
    data_type: DataType
    charset: str | None = None
    nullable: bool | None = None
    """None if the declaration does not say."""
    has_default: bool = False
    default: str | None = None
    is_auto_increment: bool = False
    has_on_update: bool = False
    is_unique: bool = False
    is_primary: bool = False
    is_row_start_or_end: bool = False
    comment: str | None = None

    def column(self, position: int, table_charset: str | None) -> Column:
        """Returns the column as it is in a table with this default character set."""
        data_type = self.data_type
        charset = None
        if data_type.has_charset:
            charset = self.charset or table_charset
            if charset == "binary" and not data_type.is_enum_or_set and data_type.jdbc_type > 0:
                data_type = as_bytes_type(data_type)
                charset = None
        optional = self.nullable is not False and not self.is_primary
        has_default, default = self.has_default, self.default
        if optional and not has_default:
            has_default, default = True, None
        is_assigned = self.is_auto_increment or self.has_on_update
        return Column(
            self.name,
            position,
            data_type.name,
            data_type.name,
            data_type.jdbc_type,
            data_type.length,
            data_type.scale,
            charset,
            optional,
            is_assigned,
            is_assigned,
            has_default,
            default,
            data_type.enum_values,
            self.comment,
        )


def parse_column_definition(cursor: Cursor, name: str, context: DdlContext) -> ColumnDefinition:
    """Consumes the type and attributes of a column, up to FIRST, AFTER, a comma, or a closing parenthesis."""
    data_type = parse_data_type(cursor, context)
    definition = ColumnDefinition(name, data_type, data_type.charset)
    if data_type.is_serial:
        definition.is_auto_increment = definition.is_unique = True
        definition.nullable = False
    while not (cursor.at_end or cursor.peek().upper in _ENDS or any(cursor.sees(*words) for words in _END_PHRASES)):
        _parse_attribute(cursor, definition, context)
    if definition.is_row_start_or_end and definition.nullable is None:
        definition.nullable = False
    return definition


def _parse_attribute(cursor: Cursor, column: ColumnDefinition, context: DdlContext) -> None:
    if cursor.accept("NOT", "NULL"):
        column.nullable = False
    elif cursor.accept("NULL"):
        column.nullable = True
    elif cursor.accept("DEFAULT"):
        parse_default(cursor, column, context)
    elif cursor.accept("SERIAL", "DEFAULT", "VALUE"):
        column.is_auto_increment = column.is_unique = True
        column.nullable = False
    elif cursor.accept("AUTO_INCREMENT"):
        column.is_auto_increment = True
    elif cursor.accept("UNIQUE"):
        cursor.accept_one("KEY")
        column.is_unique = True
    elif cursor.accept("PRIMARY") or cursor.sees("KEY"):
        cursor.accept("KEY")
        column.is_primary = True
    elif cursor.accept("COMMENT"):
        column.comment = cursor.string()
    elif cursor.accept("COLLATE"):
        of_collation = parse_collation_charset(cursor)
        column.charset = column.charset or of_collation
    elif accept_charset_words(cursor):
        column.charset = parse_charset(cursor)
    elif cursor.accept("ON", "UPDATE"):
        _parse_on_update(cursor, column, context)
    elif cursor.accept("GENERATED", "ALWAYS") or cursor.sees("AS"):
        cursor.expect("AS")
        if cursor.accept("ROW"):  # MariaDB's system versioning
            if cursor.accept_one("START", "END") is None:
                raise cursor.unexpected("START or END")
            column.is_row_start_or_end = True
        else:
            cursor.skip_parentheses()
    elif cursor.accept("CONSTRAINT"):
        if not cursor.sees("CHECK"):
            cursor.name()
        cursor.expect("CHECK")
        cursor.skip_parentheses()
    elif cursor.accept("CHECK"):
        cursor.skip_parentheses()
    elif cursor.accept("REFERENCES"):
        _skip_references(cursor)
    elif cursor.accept_one("WITH", "WITHOUT"):
        cursor.expect("SYSTEM", "VERSIONING")
    elif any(cursor.accept(*words) for words in _NO_EFFECT):
        pass
    elif cursor.accept("COMPRESSED"):
        if cursor.accept("="):
            cursor.next()
    elif cursor.peek().upper in _WITH_VALUE:
        cursor.next()
        cursor.accept("=")
        cursor.next()
    elif cursor.peek(1).upper == "=":  # an attribute of a storage engine
        cursor.next()
        cursor.next()
        cursor.next()
    elif cursor.accept_one("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE") is not None:
        cursor.string()
    else:
        raise cursor.unexpected("an attribute of a column")


def _parse_on_update(cursor: Cursor, column: ColumnDefinition, context: DdlContext) -> None:
    if cursor.accept_one(*_NOW) is None:
        raise cursor.unexpected("CURRENT_TIMESTAMP")
    if cursor.sees("("):
        cursor.skip_parentheses()
    # Debezium for MariaDB does not see it behind DEFAULT CURRENT_TIMESTAMP.
    column.has_on_update = not (context.is_mariadb and column.default == EPOCH)


def _skip_references(cursor: Cursor) -> None:
    cursor.name()
    if cursor.accept("."):
        cursor.name()
    if cursor.sees("("):
        cursor.skip_parentheses()
    while True:
        if cursor.accept("MATCH"):
            cursor.next()
        elif cursor.sees("ON", "DELETE") or (cursor.sees("ON", "UPDATE") and cursor.peek(2).upper not in _NOW):
            cursor.next()
            cursor.next()
            action = cursor.next().upper
            if action in ("SET", "NO"):
                cursor.next()
        else:
            return


def parse_default(cursor: Cursor, column: ColumnDefinition, context: DdlContext) -> None:
    """Consumes a default after DEFAULT. DEFAULT NULL says as little as no default."""
    # MariaDB stores a literal or the current time without its parentheses; to MySQL it is an expression.
    depth = _depth_of_literal(cursor) if context.is_mariadb else 0
    for _ in range(depth):
        cursor.expect("(")
    _parse_default_value(cursor, column)
    for _ in range(depth):
        cursor.expect(")")


def _depth_of_literal(cursor: Cursor) -> int:
    """Returns the number of parentheses around the literal or the current time that follows, 0 around something else."""
    depth = 0
    while cursor.peek(depth).upper == "(":
        depth += 1
    at = depth + 1 if cursor.peek(depth).upper in ("+", "-") else depth
    token = cursor.peek(at)
    is_literal = token.kind in _LITERALS or token.upper in ("NULL", "TRUE", "FALSE", *_NOW)
    if token.upper in _NOW and cursor.peek(at + 1).upper == "(":
        at += 2 if cursor.peek(at + 2).upper == ")" else 3  # the number of fractional digits
    return depth if is_literal and all(cursor.peek(at + i).upper == ")" for i in range(1, depth + 1)) else 0


def _parse_default_value(cursor: Cursor, column: ColumnDefinition) -> None:
    token = cursor.peek()
    if cursor.accept("NULL"):
        return
    column.has_default, column.default = True, None
    if cursor.sees("("):
        cursor.skip_parentheses()
    elif token.upper in ("+", "-"):
        cursor.next()
        if cursor.peek().kind is TokenKind.STRING:
            column.default = token.upper + cursor.string()
        else:
            column.default = _number_default(token.upper + _number_text(cursor), column.data_type)
    elif token.kind is TokenKind.NUMBER or token.upper == ".":
        column.default = _number_default(_number_text(cursor), column.data_type)
    elif token.kind is TokenKind.STRING:
        column.default = _text_default(cursor.string(), column.data_type)
        if cursor.accept("COLLATE"):
            cursor.name()
    elif token.kind is TokenKind.WORD and token.text.startswith("_") and cursor.peek(1).kind is not TokenKind.SYMBOL:
        cursor.next()  # a character set
        _parse_default_value(cursor, column)
    elif token.kind in (TokenKind.HEX, TokenKind.BITS):
        cursor.next()
        column.default = _digits_text(token.text, 16 if token.kind is TokenKind.HEX else 2, column.data_type)
    elif token.upper in ("TRUE", "FALSE"):
        column.default = cursor.next().text
    elif token.upper in ("DATE", "TIME", "TIMESTAMP") and cursor.peek(1).kind is TokenKind.STRING:
        cursor.next()
        column.default = cursor.string()
    elif token.upper in _NOW:
        cursor.next()
        if cursor.sees("("):
            cursor.skip_parentheses()
        column.default = EPOCH
    elif cursor.accept("NEXT", "VALUE", "FOR"):
        cursor.name()
        if cursor.accept("."):
            cursor.name()
    elif token.kind in (TokenKind.WORD, TokenKind.NAME) and _sees_call(cursor):
        cursor.name()
        while cursor.accept("."):
            cursor.name()
        cursor.skip_parentheses()
    elif token.upper in _BARE_FUNCTIONS:
        cursor.next()
    else:
        raise cursor.unexpected("a default")


def _sees_call(cursor: Cursor) -> bool:
    ahead = 1
    while cursor.peek(ahead).upper == ".":
        ahead += 2
    return cursor.peek(ahead).upper == "("


def _number_text(cursor: Cursor) -> str:
    """Consumes a number, also one that begins or ends with a period."""
    whole = cursor.next().text if cursor.peek().kind is TokenKind.NUMBER else ""
    if cursor.accept("."):
        fraction = cursor.next().text if cursor.peek().kind is TokenKind.NUMBER else ""
        return f"{whole}.{fraction}"
    if not whole:
        raise cursor.unexpected("a number")
    return whole


def _number_default(number: str, data_type: DataType) -> str:
    """Returns the default that a number is: the binary digits of a BIT."""
    is_bit = data_type.jdbc_type == BIT and not number.startswith("-")
    return f"{int(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP)):b}" if is_bit else number


def _text_default(text: str, data_type: DataType) -> str:
    """Returns the default that a text is: the binary digits of its bytes for a BIT."""
    return f"{int.from_bytes(text.encode()):b}" if data_type.jdbc_type == BIT else text


def _digits_text(digits: str, base: int, data_type: DataType) -> str | None:
    """Returns what a literal of hexadecimal or binary digits means for a type: binary digits, a number, or characters.

    Bytes that are no characters have no text, so their default is unknown, like that of an expression.
    """
    number = int(digits or "0", base)
    if data_type.jdbc_type == BIT:
        return digits if base == 2 else f"{number:b}"
    if data_type.jdbc_type in _NUMERIC_TYPES:
        return str(number)
    size = (len(digits) + (1 if base == 16 else 7)) // (2 if base == 16 else 8)
    content = number.to_bytes(size, "big")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
