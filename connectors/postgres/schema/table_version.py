"""The version of a table, for its schema contract: names and types of the captured columns."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.cdc.schema.contracts import Version
from connectors.cdc.schema.filters import Filters
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.types.catalog_type import CatalogType
from connectors.postgres.types.source_type import UNLIMITED, source_type

_HAS_SCALE_ONLY = frozenset({"time", "timetz", "timestamp", "timestamptz", "interval"})


def table_version(table: CapturedTable, key: tuple[str, ...], types: Mapping[int, CatalogType], filters: Filters) -> Version:
    """The version that a contract compares; ``key`` are the columns of the record key."""
    return {
        column.name: _type_text(types, column.type_oid, column.typmod)
        for column in table.columns
        if column.name in key or filters.captures_column(table.schema, table.name, column.name)
    }


def _type_text(types: Mapping[int, CatalogType], oid: int, typmod: int) -> str:
    """The type of a column as in SQL, but with PostgreSQL's internal names."""
    declared = types.get(oid)
    if declared is None:
        return f"oid {oid}"
    if declared.element_oid:
        return f"{_type_text(types, declared.element_oid, typmod)}[]"
    name = declared.name if declared.schema == "pg_catalog" else f"{declared.schema}.{declared.name}"
    if typmod == -1:
        return name
    found = source_type(types, oid, typmod, None)
    if name == "numeric":
        return f"{name}({found.length},{found.scale})"
    if name in _HAS_SCALE_ONLY:
        return f"{name}({found.scale})"
    return f"{name}({typmod if found.length in (None, UNLIMITED) else found.length})"
