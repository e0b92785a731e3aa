"""Data types in column definitions: their names, numbers of java.sql.Types, and sizes, as Debezium's history has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from connectors.mysql.schema.charsets import charset_of_collation
from connectors.mysql.schema.ddl.context import DdlContext
from connectors.mysql.schema.ddl.tokens import Cursor, TokenKind
from connectors.mysql.schema.type_names import without_synonym

BIT: Final = -7
TINYINT: Final = -6
BIGINT: Final = -5
VARBINARY: Final = -3
BINARY: Final = -2
CHAR: Final = 1
NUMERIC: Final = 2
DECIMAL: Final = 3
INTEGER: Final = 4
SMALLINT: Final = 5
FLOAT: Final = 6
REAL: Final = 7
DOUBLE: Final = 8
VARCHAR: Final = 12
BOOLEAN: Final = 16
DATE: Final = 91
TIME: Final = 92
TIMESTAMP: Final = 93
OTHER: Final = 1111
BLOB: Final = 2004
TIMESTAMP_WITH_TIMEZONE: Final = 2014
NCHAR: Final = -15
NVARCHAR: Final = -9
"""Constants of java.sql.Types."""

CHARACTER_TYPES: Final = frozenset({CHAR, VARCHAR, NCHAR, NVARCHAR})
"""Types of columns that have a character set."""

_NUMBERS: Final = {
    "TINYINT": TINYINT, "SMALLINT": SMALLINT, "MEDIUMINT": INTEGER, "INT": INTEGER, "BIGINT": BIGINT, "REAL": REAL,
    "DOUBLE": DOUBLE, "FLOAT": FLOAT, "DECIMAL": DECIMAL, "NUMERIC": NUMERIC,
}  # fmt: skip
_CHARACTERS: Final = {"TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "VARCHAR", "CHAR", "CHARACTER"}
_OTHERS: Final = {
    "BIT": BIT, "TIME": TIME, "TIMESTAMP": TIMESTAMP_WITH_TIMEZONE, "DATETIME": TIMESTAMP, "DATE": DATE, "YEAR": INTEGER,
    "BINARY": BINARY, "VARBINARY": VARBINARY, "BLOB": BLOB, "TINYBLOB": BLOB, "MEDIUMBLOB": BLOB, "LONGBLOB": BLOB,
    "BOOL": BOOLEAN, "BOOLEAN": BOOLEAN, "SERIAL": BIGINT, "JSON": OTHER, "VECTOR": OTHER, "UUID": OTHER, "INET4": OTHER,
    "INET6": OTHER, "XMLTYPE": OTHER, "GEOMETRY": OTHER, "POINT": OTHER, "LINESTRING": OTHER, "POLYGON": OTHER,
    "MULTIPOINT": OTHER, "MULTILINESTRING": OTHER, "MULTIPOLYGON": OTHER, "GEOMETRYCOLLECTION": OTHER, "GEOMCOLLECTION": OTHER,
}  # fmt: skip
_ORACLE: Final = {"VARCHAR2": "VARCHAR", "RAW": "VARBINARY", "CLOB": "LONGTEXT", "BLOB": "LONGBLOB", "DATE": "DATETIME"}
"""Types that differ with sql_mode=ORACLE."""
_SCHEMAS: Final = ("MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA")
_BYTES_TYPES: Final = {
    "CHAR": ("BINARY", BINARY), "VARCHAR": ("VARBINARY", VARBINARY), "TINYTEXT": ("TINYBLOB", BLOB), "TEXT": ("BLOB", BLOB),
    "MEDIUMTEXT": ("MEDIUMBLOB", BLOB), "LONGTEXT": ("LONGBLOB", BLOB),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DataType:
    """``name`` is in capitals, as it is written in the statement; ``charset`` is the declared one."""

    name: str
    jdbc_type: int
    length: int | None = None
    scale: int | None = None
    enum_values: tuple[str, ...] = ()
    charset: str | None = None
    is_serial: bool = False

    @property
    def has_charset(self) -> bool:
        return self.jdbc_type in CHARACTER_TYPES

    @property
    def is_enum_or_set(self) -> bool:
        return self.name in ("ENUM", "SET")


def parse_data_type(cursor: Cursor, context: DdlContext) -> DataType:
    """Consumes a data type with its attributes. Raises DdlSyntaxError."""
    is_oracle = context.is_oracle
    if cursor.peek().upper in _SCHEMAS and cursor.peek(1).upper == ".":
        is_oracle = cursor.next().upper == "ORACLE_SCHEMA"
        cursor.expect(".")
    word = cursor.peek().upper
    if is_oracle and word == "NUMBER":
        return _oracle_number(cursor)
    if is_oracle and word in _ORACLE:
        word = _ORACLE[word]
        cursor.next()
        return _plain(cursor, word, context) if word in _OTHERS else _character(cursor, (word,))
    if _number_type(word) is not None:
        cursor.next()
        return _number(cursor, "FLOAT" if word == "REAL" and context.has_real_as_float else word)
    if word in ("ENUM", "SET"):
        cursor.next()
        return _enum(cursor, word)
    if word in ("NATIONAL", "NCHAR", "NVARCHAR"):
        return _national(cursor)
    if word == "LONG":
        return _long(cursor)
    if word in _CHARACTERS:
        cursor.next()
        words = [word]
        if word in ("CHAR", "CHARACTER") and cursor.accept("VARYING"):
            words.append("VARYING")
        return _character(cursor, tuple(words))
    if word in _OTHERS:
        cursor.next()
        return _plain(cursor, word, context)
    raise cursor.unexpected("a data type")


def as_bytes_type(data_type: DataType) -> DataType:
    """Returns the type that the server stores instead of characters whose character set is binary."""
    name = data_type.name.removesuffix(" BINARY")
    name, jdbc_type = _BYTES_TYPES[without_synonym(name)]
    return replace(data_type, name=name, jdbc_type=jdbc_type, charset=None)


def parse_charset(cursor: Cursor) -> str | None:
    """Consumes the name after CHARACTER SET, in lower case; None for DEFAULT."""
    token = cursor.peek()
    name = cursor.string() if token.kind is TokenKind.STRING else cursor.name()
    return None if token.upper == "DEFAULT" else name.lower()


def parse_collation_charset(cursor: Cursor) -> str | None:
    """Consumes the name after COLLATE. Returns its character set; None if it is one of any."""
    cursor.accept("=")
    return charset_of_collation(parse_charset(cursor) or "")


def accept_charset_words(cursor: Cursor) -> bool:
    """Consumes CHARACTER SET or one of its synonyms."""
    return cursor.accept("CHARACTER", "SET") or cursor.accept("CHARSET") or cursor.accept("CHAR", "SET")


def _sizes(cursor: Cursor) -> tuple[int | None, int | None]:
    """Consumes the length and scale, if there are any. A length with a fraction, which old servers accept, is cut."""
    if not cursor.accept("("):
        return None, None
    token = cursor.peek()
    if token.kind is TokenKind.NUMBER and not token.text.isdigit():
        cursor.next()
        length = int(float(token.text)) or 10
    else:
        length = cursor.number()
    scale = cursor.number() if cursor.accept(",") else None
    cursor.expect(")")
    return min(length, 2**31 - 1), scale


def _number_type(word: str) -> int | None:
    """Returns the number in java.sql.Types; that of REAL and NUMERIC is their own. None if the word is no numeric type."""
    return _NUMBERS.get(word, _NUMBERS.get(without_synonym(word)))


def _number(cursor: Cursor, word: str) -> DataType:
    name = word
    if word in ("DOUBLE", "FLOAT8") and cursor.accept("PRECISION"):
        name += " PRECISION"
    length, scale = _sizes(cursor)
    jdbc_type = _number_type(word)
    assert jdbc_type is not None
    if jdbc_type in (DECIMAL, NUMERIC):
        length = length or 10
        scale = 0 if scale is None else scale
    sign, fills = "", False
    while found := cursor.accept_one("SIGNED", "UNSIGNED", "ZEROFILL"):
        if found == "ZEROFILL":
            fills = True
        else:
            sign = f" {found}"
    return DataType(name + (" UNSIGNED ZEROFILL" if fills else sign), jdbc_type, length, scale)


def _oracle_number(cursor: Cursor) -> DataType:
    cursor.next()
    length, scale = _sizes(cursor)
    if length is None:
        return DataType("DOUBLE", DOUBLE)
    return DataType("DECIMAL", DECIMAL, length, scale or 0)


def _enum(cursor: Cursor, word: str) -> DataType:
    cursor.expect("(")
    values = [_enum_value(cursor)]
    while cursor.accept(","):
        values.append(_enum_value(cursor))
    cursor.expect(")")
    length = 1 if word == "ENUM" else 2 * len(values) - 1
    charset, _ = _character_attributes(cursor)
    return DataType(word, CHAR, length, enum_values=tuple(values), charset=charset)


def _enum_value(cursor: Cursor) -> str:
    token = cursor.peek()
    if token.kind is TokenKind.HEX:
        cursor.next()
        return bytes.fromhex(token.text).decode("utf-8", "strict" if token.text.isascii() else "replace")
    if token.kind is TokenKind.WORD and token.text.startswith("_"):
        cursor.next()  # a character set
    return cursor.string().rstrip(" ")


def _national(cursor: Cursor) -> DataType:
    words = [cursor.next().upper]
    if words[0] == "NATIONAL":
        follows = cursor.accept_one("CHAR", "CHARACTER", "VARCHAR")
        if follows is None:
            raise cursor.unexpected("CHAR or VARCHAR")
        words.append(follows)
    if words[-1] in ("NCHAR", "CHAR", "CHARACTER") and (more := cursor.accept_one("VARYING", "VARCHAR", "VARCHARACTER")):
        words.append(more)
    varies = words[-1] in ("VARYING", "VARCHAR", "NVARCHAR", "VARCHARACTER")
    length, _ = _sizes(cursor)
    name = " ".join(words)
    if cursor.accept("BINARY"):
        name += " BINARY"
    if varies:
        return DataType(name, NVARCHAR, length, charset="utf8")
    return DataType(name, NCHAR, 1 if length is None else length, charset="utf8")


def _long(cursor: Cursor) -> DataType:
    cursor.next()
    if cursor.accept("VARBINARY"):
        return DataType("LONG VARBINARY", BLOB)
    words = ["LONG"]
    if cursor.accept("VARCHAR"):
        words.append("VARCHAR")
    elif (char := cursor.accept_one("CHAR", "CHARACTER")) is not None:
        cursor.expect("VARYING")
        words += (char, "VARYING")
    return _character(cursor, tuple(words))


def _character(cursor: Cursor, words: tuple[str, ...]) -> DataType:
    length, _ = _sizes(cursor)
    charset, has_binary = _character_attributes(cursor)
    name = " ".join(words)
    jdbc_type = CHAR if name in ("CHAR", "CHARACTER") else VARCHAR
    return DataType(name + (" BINARY" if has_binary else ""), jdbc_type, length, charset=charset)


def _character_attributes(cursor: Cursor) -> tuple[str | None, bool]:
    """Consumes the character set and BINARY, in any order."""
    charset, has_binary = None, False
    while True:
        if cursor.accept("BINARY"):
            has_binary = True
        elif accept_charset_words(cursor):
            charset = parse_charset(cursor)
        elif cursor.accept("ASCII"):
            charset = "latin1"
        elif cursor.accept("UNICODE"):
            charset = "ucs2"
        elif cursor.accept("BYTE"):
            charset = "binary"
        else:
            return charset, has_binary


def _plain(cursor: Cursor, word: str, context: DdlContext) -> DataType:
    if word == "SERIAL":
        return DataType("BIGINT UNSIGNED", BIGINT, is_serial=True)
    length, _ = _sizes(cursor)
    if length is None:
        if word == "BIT":
            length = 1
        elif word == "VECTOR" and context.is_mariadb:
            length = 2048
    return DataType(word, _OTHERS[word], length)
