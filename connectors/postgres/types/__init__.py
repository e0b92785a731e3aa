"""Maps PostgreSQL types to Connect schemas, with decoders of their text form. Pure: no connection, no catalog queries.

The mapping is Debezium's (names, units, and sentinels), so that its consumers can read our topics.
"""

from connectors.cdc.schema.column_type import ColumnType, Inline
from connectors.postgres.types.registry import column_type

__all__ = ["ColumnType", "Inline", "column_type"]
