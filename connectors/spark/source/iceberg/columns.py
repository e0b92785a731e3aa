"""The columns of a table's schema, and the types of their rows."""

from __future__ import annotations

import pyarrow as pa

from connect.errors import SchemaError
from connectors.spark.source.errors import UnsupportedTableError
from connectors.spark.source.iceberg.metadata import Json
from connectors.spark.source.table_feed import TableColumn, TableSchema
from connectors.spark.source.types import column_schema
from connectors.spark.tables.iceberg.types import PRIMITIVES, arrow_type

ROW_TYPES = {
    **PRIMITIVES,
    # UUIDs are texts in the rows that are read.
    "uuid": pa.string(),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}
_COLUMN_TYPES = {**ROW_TYPES, "uuid": pa.uuid()}


def table_schema(schema: Json, name: str) -> TableSchema:
    """The columns of a schema. Raises UnsupportedTableError for a type that no record can hold."""
    columns = []
    for field in schema["fields"]:
        try:
            type_ = arrow_type(field["type"], field["name"], _COLUMN_TYPES)
            column_schema(type_)
        except SchemaError as e:
            raise UnsupportedTableError(
                f"column {field['name']} of table {name} cannot be read: {e}. Write a table without the column, or with another "
                "type (CAST, to_json), with Spark, and read that"
            ) from e
        columns.append(TableColumn(field["name"], type_, not field.get("required")))
    return TableSchema(tuple(columns))
