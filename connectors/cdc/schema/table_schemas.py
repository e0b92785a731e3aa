"""What the events of one version of a table have: schemas, and the record key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from connect.data.schema import Schema
from connect.errors import DataError
from connectors.cdc.config.event_settings import EventSettings
from connectors.cdc.name_adjustment import field_name_adjuster, schema_name_adjuster
from connectors.cdc.schema.column_mapping import RowColumn
from connectors.cdc.schema.envelope import RowSchemas, row_schemas
from connectors.cdc.schema.row_keys import KeyOf, key_getter


class TableSchemas(NamedTuple):
    """``key_indexes`` are the places of the key in the columns, in the key's order."""

    key_indexes: tuple[int, ...]
    schemas: RowSchemas
    key_of: KeyOf


def build_table_schemas(
    table: str, topic: str, source: Schema, columns: Sequence[RowColumn], key: Sequence[str], settings: EventSettings
) -> TableSchemas:
    """Builds the schemas of the events of ``table`` (schema.table), whose captured columns these are.

    Raises DataError if a column of the key is not one of them.
    """
    by_name = {column.name: i for i, column in enumerate(columns)}
    missing = next((name for name in key if name not in by_name), None)
    if missing is not None:
        raise DataError(f"key column {missing} of {table} cannot be captured; check message.key.columns and the column's type")
    indexes = tuple(by_name[name] for name in key)
    field_name = field_name_adjuster(settings.field_name_adjustment)
    schemas = row_schemas(
        topic,
        source,
        [(field_name(column.name), column.schema) for column in columns],
        [(field_name(columns[i].name), columns[i].key_type.schema) for i in indexes],
        schema_name_adjuster(settings.schema_name_adjustment),
    )
    return TableSchemas(indexes, schemas, key_getter(columns, indexes))
