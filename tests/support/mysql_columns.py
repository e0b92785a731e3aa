"""Column types of MySQL's connector, by the names that a table's definition has."""

from __future__ import annotations

from typing import Any

from connectors.mysql.schema.model import Column
from connectors.mysql.types import MySqlColumnType, MySqlTypeSettings, column_type

DEFAULT = MySqlTypeSettings()


def mapped_column(
    type_name: str, settings: MySqlTypeSettings = DEFAULT, charset: str | None = None, *, optional: bool, **members: Any
) -> MySqlColumnType:
    """Returns the type of a column that the connector maps. ``members`` are those of the column."""
    found = column_type(Column("c", 1, type_name, type_name, 0, optional=optional, **members), settings, charset)
    assert found is not None
    return found
