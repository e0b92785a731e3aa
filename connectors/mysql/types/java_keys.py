"""Keys of rows as Debezium stores them in offsets: what its connectors read from the JDBC drivers of MySQL and MariaDB.

DATETIME, TIMESTAMP, and YEAR have no Java value here: what the drivers return for them depends on the JVM's time zone and on
settings. An incremental snapshot of a table with such a key restarts its chunk after a restart.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from connect.errors import DataError
from connect.java.serialization import JavaType
from connectors.cdc.incremental.java_keys import JavaKeys
from connectors.mysql.binlog.temporal import time_text
from connectors.mysql.schema.model import Column
from connectors.mysql.types.registry import sql_type
from connectors.mysql.types.temporal import parse_duration


def _local_date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as e:
        raise DataError(f"{text} is no date") from e


def _duration(text: str) -> dt.timedelta:
    return dt.timedelta(microseconds=parse_duration("of the key", text))


_INTEGER: tuple[JavaType, Callable[[str], Any]] = (JavaType.INTEGER, int)
_LONG: tuple[JavaType, Callable[[str], Any]] = (JavaType.LONG, int)
_STRING: tuple[JavaType, Callable[[str], Any]] = (JavaType.STRING, str)
_BYTES: tuple[JavaType, Callable[[str], Any]] = (JavaType.BYTES, bytes.fromhex)
_JAVA_VALUES: dict[str, tuple[JavaType, Callable[[str], Any]]] = {
    **dict.fromkeys(
        ("TINYINT", "TINYINT UNSIGNED", "SMALLINT", "SMALLINT UNSIGNED", "MEDIUMINT", "MEDIUMINT UNSIGNED", "INT"), _INTEGER
    ),
    "INT UNSIGNED": _LONG,
    "BIGINT": _LONG,
    "BIGINT UNSIGNED": (JavaType.BIG_INTEGER, int),
    "BOOLEAN": (JavaType.BOOLEAN, lambda text: text != "0"),
    "FLOAT": (JavaType.FLOAT, float),
    "DOUBLE": (JavaType.DOUBLE, float),
    "DECIMAL": (JavaType.DECIMAL, Decimal),
    "UUID": (JavaType.UUID, uuid.UUID),
    "DATE": (JavaType.LOCAL_DATE, _local_date),
    "TIME": (JavaType.DURATION, _duration),
    **dict.fromkeys(("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "ENUM", "SET", "INET4", "INET6"), _STRING),
    **dict.fromkeys(("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), _BYTES),
}
"""What the drivers return for a type, by :func:`key_type_name`."""


def key_type_name(column: Column) -> str:
    """The name of a column's type for :data:`MYSQL_JAVA_KEYS`."""
    type_ = sql_type(column)
    return f"{type_.name} UNSIGNED" if type_.unsigned and type_.name.endswith("INT") else type_.name


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "1" if value else "0"
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex()
        case dt.date():
            return value.isoformat()
        case dt.timedelta():
            return time_text(value // dt.timedelta(microseconds=1), 6 if value.microseconds else 0)
        case int() | float() | str() | uuid.UUID():
            return str(value)
    raise DataError(f"{type(value).__name__} is no value of a key")


MYSQL_JAVA_KEYS = JavaKeys(_JAVA_VALUES, _text)
"""Positions have texts of the server, and bytes in hexadecimal."""
