"""Converts column defaults to schema defaults, by Debezium's rules.

A default is the text of a literal. CURRENT_TIMESTAMP counts as 1970-01-01 00:00:00, since its value is unknown; the default of an
optional TIMESTAMP is none then. Expressions have no default. Numbers are rounded as the server does; the default of a BINARY
column is padded as its values are.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from connect.data.schema import Type
from connect.data.struct import Struct, validate_value
from connect.errors import DataError
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.mysql.schema.model import Column
from connectors.mysql.types.column_type import MySqlColumnType

log = logging.getLogger(__name__)

_INTRODUCER = re.compile(r"_[A-Za-z0-9]+\s*'(.*)'", re.DOTALL)
_NOW = re.compile(r"(?:current_timestamp|now|localtime|localtimestamp)(?:\s*\(\s*\d*\s*\))?", re.IGNORECASE)
_BIT_LITERAL = re.compile(r"(?:b'([01]*)'|0b([01]+))", re.IGNORECASE)
_HEX_LITERAL = re.compile(r"(?:x'((?:[0-9a-f]{2})*)'|0x((?:[0-9a-f]{2})+))", re.IGNORECASE)
_TIME_OF_TIMESTAMP = re.compile(r"\d+-\d+-\d+ (\d+:\d+:\d+(?:\.\d*)?)")
_EPOCH = "1970-01-01 00:00:00"
_WIDE = Context(prec=200)
_BOOLEANS = {"true": "1", "false": "0"}
_BINARY = frozenset({"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})
_MOMENTS = frozenset({"DATE", "DATETIME", "TIMESTAMP"})


def parse_default(column: Column, kind: str, mapped: MySqlColumnType) -> Any:
    """Returns the default of a column whose type is ``kind``, without synonyms; None for none, or one that does not parse."""
    text = column.default
    if not column.has_default or text is None:
        return None
    if isinstance(mapped.text.zero, Struct) or mapped.schema.type is Type.ARRAY:
        return None  # a struct cannot be a default (KAFKA-12694)
    if column.optional:
        mapped = mapped.under(mapped.schema.as_optional())
    if (introduced := _INTRODUCER.fullmatch(text)) is not None:
        text = introduced[1]
    try:
        value = _parsed(text, column, kind, mapped)
        if value is not None:
            validate_value(mapped.schema, value)
    except CONVERSION_ERRORS as e:
        log.warning("the default %s of column %s is left out of its schema: %s", text, column.name, e)
        return None
    return value


def _parsed(text: str, column: Column, kind: str, mapped: MySqlColumnType) -> Any:
    decode = mapped.text.decode
    if kind in _NUMBERS:
        plain = _unquoted(text.strip())
        return decode(_NUMBERS[kind](_BOOLEANS.get(plain.lower(), plain), column))
    if kind == "BIT":
        return decode(_bit_bytes(text.strip()))
    if kind in _MOMENTS:
        return _moment(_unquoted(text.strip()), column, kind, mapped)
    if kind == "TIME":
        return decode(_time_text(_unquoted(text.strip())))
    if kind in _BINARY:
        literal = _HEX_LITERAL.fullmatch(text)
        return decode(text.encode() if literal is None else bytes.fromhex(literal[1] or literal[2] or ""))
    # Texts in other character sets than UTF-8 would be decoded from bytes; a default is a text already.
    return text


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


def _whole(text: str, column: Column) -> str:
    """The server rounds halves away from zero."""
    return str(int(Decimal(text).quantize(Decimal(1), ROUND_HALF_UP, _WIDE)))


def _year(text: str, column: Column) -> str:
    year = int(_whole(text, column))
    if 0 < year < 100:
        year += 2000 if year < 70 else 1900
    return str(year)


def _in_scale(text: str, column: Column) -> str:
    return f"{Decimal(text).quantize(Decimal((0, (1,), -(column.scale or 0))), ROUND_HALF_UP, _WIDE):f}"


def _single(text: str, column: Column) -> str:
    """The nearest value that four bytes hold: that of a FLOAT, with decimal places, too."""
    return repr(struct.unpack("<f", struct.pack("<f", float(text)))[0])


_NUMBERS: dict[str, Callable[[str, Column], str]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "BOOLEAN"), _whole),
    "YEAR": _year,
    "DECIMAL": _in_scale,
    "FLOAT": _single,
    "DOUBLE": lambda text, column: repr(float(text)),
}


def _bit_bytes(text: str) -> bytes:
    """Digits without a prefix are binary, as in Debezium's schema history, if they can be."""
    literal = _BIT_LITERAL.fullmatch(text)
    plain = _BOOLEANS.get(text.lower(), _unquoted(text)) if literal is None else literal[1] or literal[2] or "0"
    number = int(plain, 2) if set(plain) <= {"0", "1"} else int(plain)
    return number.to_bytes(8)


def _moment(text: str, column: Column, kind: str, mapped: MySqlColumnType) -> Any:
    """A date that is none gives no default, or 1970 where the column has no null."""
    if _NOW.fullmatch(text) is not None:
        text = _EPOCH
    if kind == "TIMESTAMP" and text == _EPOCH:
        text = "0"
    zero = None if column.optional else mapped.text.zero
    if text == "0":
        return zero
    if kind == "DATETIME" and " " not in text:
        text += " 00:00:00"
    if kind == "TIMESTAMP":
        date, _, clock = text.partition(" ")
        seconds, _, fraction = (clock or "00:00:00").partition(".")
        digits = column.length or 0
        text = f"{date} {seconds}" + (f".{fraction[:digits].ljust(digits, '0')}" if digits else "")
    try:
        return mapped.text.decode(text)
    except DataError as e:
        log.warning("the default %s of column %s counts as no date: %s", text, column.name, e.message)
        return zero


def _time_text(text: str) -> str:
    if (found := _TIME_OF_TIMESTAMP.fullmatch(text)) is not None:
        return found[1]
    if text.isdigit():  # HHMMSS
        number = int(text)
        return f"{number // 10000}:{number // 100 % 100:02d}:{number % 100:02d}"
    return text
