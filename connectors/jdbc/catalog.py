"""Descriptions of tables and columns, as dialects read them from the database."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from connectors.jdbc.table_name import TableName


@dataclass(frozen=True, slots=True)
class JdbcColumn:
    """A column of a table or of a query's result."""

    name: str
    type_name: str
    """As the database writes it: ``numeric(10,2)``, ``varchar(20)``, ``int unsigned``."""
    nullable: bool = True
    autoincrement: bool = False
    has_default: bool = False
    """Whether an INSERT may omit it even if it is not nullable (default, identity, or generated)."""
    generated: bool = False
    """Whether the database computes it, so that it cannot be written."""
    native: Any = None
    """The dialect's own description of the type: an OID with its modifier, SQLAlchemy's type."""


@dataclass(frozen=True)
class JdbcTable:
    """A table or view. ``kind`` is a table type of JDBC: TABLE, VIEW, PARTITIONED TABLE, ..."""

    name: TableName
    columns: tuple[JdbcColumn, ...]
    primary_key: tuple[str, ...] = ()
    kind: str = "TABLE"
    unique_keys: tuple[tuple[str, ...], ...] = field(default=())
    """Columns of its unique indexes other than the primary key, as far as the database lists them."""

    @cached_property
    def by_name(self) -> dict[str, JdbcColumn]:
        return {column.name: column for column in self.columns}

    @cached_property
    def _by_folded_name(self) -> dict[str, list[JdbcColumn]]:
        found: dict[str, list[JdbcColumn]] = {}
        for column in self.columns:
            found.setdefault(column.name.lower(), []).append(column)
        return found

    def column(self, name: str) -> JdbcColumn | None:
        """Returns the column of that name, or else the only column whose name differs just in case."""
        exact = self.by_name.get(name)
        if exact is not None:
            return exact
        alike = self._by_folded_name.get(name.lower(), [])
        return alike[0] if len(alike) == 1 else None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """What the catalog knows of a table without reading it. None: unknown."""

    rows: int | None = None
    size_bytes: int | None = None
    has_primary_key: bool | None = None
