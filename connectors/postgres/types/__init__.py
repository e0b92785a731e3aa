"""PostgreSQL types as Connect schemas, with decoders of their text form. Pure: no connection, no catalogue queries.

The table is Debezium's (its names, units and sentinels), so that consumers of its topics read ours.
"""

from connectors.postgres.types.column_type import ColumnType, Inline
from connectors.postgres.types.registry import column_type

__all__ = ["ColumnType", "Inline", "column_type"]
