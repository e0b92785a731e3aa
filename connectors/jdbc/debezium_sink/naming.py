"""Names of tables and columns, and the filter for fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from connectors.jdbc.table_name import TableName

_SOURCE = re.compile(r"\$\{source\.([^}]*)\}")
_LOWER = frozenset({"postgresql", "cockroachdb", "redshift"})
_LOWER_COLUMNS = _LOWER | {"mysql", "mariadb", "mssql"}
_UPPER = frozenset({"oracle", "db2", "ibm_db_sa", "hana", "snowflake"})


@dataclass(frozen=True, slots=True)
class CollectionNaming:
    """``collection.name.format`` and the naming strategy."""

    format: str = "${topic}"
    keeps_dots: bool = False

    @property
    def source_fields(self) -> tuple[str, ...]:
        """Fields of a change event's source block in the format. The passthrough strategy has none."""
        return () if self.keeps_dots else tuple(_SOURCE.findall(self.format))

    def name_for(self, topic: str, source: tuple[str, ...] = ()) -> str:
        """Returns the table's name, qualified or not. ``source`` has the values of :attr:`source_fields`."""
        name = self.format.replace("${topic}", topic if self.keeps_dots else topic.replace(".", "_"))
        if source:
            values = dict(zip(self.source_fields, source, strict=True))
            name = _SOURCE.sub(lambda match: values[match[1]], name)
        return name


@dataclass(frozen=True, slots=True)
class FieldFilter:
    """``field.include.list`` or ``field.exclude.list``: fields of all topics, or ``topic:field``."""

    entries: tuple[str, ...] = ()
    includes: bool = True

    def includes_field(self, topic: str, field: str) -> bool:
        if not self.entries:
            return True
        for entry in self.entries:
            entry_topic, _, name = entry.rpartition(":")
            if name.strip() == field.strip() and entry_topic.strip() in ("", topic):
                return self.includes
        return not self.includes


@dataclass(frozen=True, slots=True)
class IdentifierCase:
    """Case that a database gives to unquoted names (``quote.identifiers=false``). Names in that case are quoted all the same, so
    that reserved words and special characters work."""

    backend: str
    """SQLAlchemy's name of the database."""
    preserves_case: bool = False

    def name(self, name: str) -> str:
        # Debezium quotes names that start with an underscore.
        if self.preserves_case or name.startswith("_"):
            return name
        if self.backend in _LOWER:
            return name.lower()
        return name.upper() if self.backend in _UPPER else name

    def column(self, name: str) -> str:
        """Returns a column's name. Like Debezium, MySQL and SQL Server keep the case of tables but not of columns."""
        if not self.preserves_case and self.backend in _LOWER_COLUMNS:
            return name.lower()
        return self.name(name)

    def table(self, table: TableName) -> TableName:
        return replace(
            table,
            name=self.name(table.name),
            schema=None if table.schema is None else self.name(table.schema),
            catalog=None if table.catalog is None else self.name(table.catalog),
        )
