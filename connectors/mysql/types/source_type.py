"""Name, length, and scale of a column's type as Debezium's parser has them: consumers see them, masks and truncation use them."""

from __future__ import annotations

from connectors.cdc.schema.source_type import SourceType
from connectors.mysql.schema.model import Column

_TEXTS = frozenset({1, 12, -1, 2005, -15, -9, -16, 2011, 70})
"""The numbers in java.sql.Types of CHAR, VARCHAR, LONGVARCHAR, CLOB, NCHAR, NVARCHAR, LONGNVARCHAR, NCLOB, and DATALINK. Columns
of ENUM and SET have that of CHAR."""


def source_type(column: Column) -> SourceType:
    """The type of a column for ``column.propagate.source.type``, masks, and truncation."""
    return SourceType(column.type_name.upper(), column.length, column.scale, column.jdbc_type in _TEXTS, column.comment)
