"""Names of SQL types that mean the same."""

from __future__ import annotations

from typing import Final

_SYNONYMS: Final = {
    "INT1": "TINYINT", "INT2": "SMALLINT", "INT3": "MEDIUMINT", "MIDDLEINT": "MEDIUMINT", "INT4": "INT", "INTEGER": "INT",
    "INT8": "BIGINT", "BOOL": "BOOLEAN", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "DOUBLE PRECISION": "DOUBLE", "REAL": "DOUBLE",
    "DEC": "DECIMAL", "FIXED": "DECIMAL", "NUMERIC": "DECIMAL", "CHARACTER": "CHAR", "CHARACTER VARYING": "VARCHAR",
    "CHAR VARYING": "VARCHAR", "VARCHARACTER": "VARCHAR", "LONG": "MEDIUMTEXT", "LONG VARCHAR": "MEDIUMTEXT",
    "LONG CHAR VARYING": "MEDIUMTEXT", "LONG CHARACTER VARYING": "MEDIUMTEXT", "LONG VARBINARY": "MEDIUMBLOB",
    "CHAR BYTE": "BINARY", "NCHAR": "NATIONAL CHAR", "NVARCHAR": "NATIONAL VARCHAR", "NATIONAL CHARACTER": "NATIONAL CHAR",
    "NATIONAL CHARACTER VARYING": "NATIONAL VARCHAR", "NATIONAL CHAR VARYING": "NATIONAL VARCHAR",
    "NCHAR VARCHAR": "NATIONAL VARCHAR", "NCHAR VARYING": "NATIONAL VARCHAR",
}  # fmt: skip


def without_synonym(name: str) -> str:
    """Returns the name that the documentation of the servers uses for a type, from one in capitals without attributes."""
    return _SYNONYMS.get(name, name)
