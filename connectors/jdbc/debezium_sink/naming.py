"""Names of tables and columns, and which fields become columns."""

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
    """``collection.name.format`` with the naming strategy."""

    format: str = "${topic}"
    passes_dots: bool = False

    @property
    def source_fields(self) -> tuple[str, ...]:
        """The fields of a change event's source that the name has; the passthrough strategy knows none."""
        return () if self.passes_dots else tuple(_SOURCE.findall(self.format))

    def name_for(self, topic: str, source: tuple[str, ...] = ()) -> str:
        """The table's name, qualified or not; ``source`` are the values of :attr:`source_fields`."""
        name = self.format.replace("${topic}", topic if self.passes_dots else topic.replace(".", "_"))
        if source:
            values = dict(zip(self.source_fields, source, strict=True))
            name = _SOURCE.sub(lambda match: values[match[1]], name)
        return name


@dataclass(frozen=True, slots=True)
class FieldFilter:
    """``field.include.list`` or ``field.exclude.list``: names of fields, for all topics or as ``topic:field`` for one."""

    entries: tuple[str, ...] = ()
    includes: bool = True

    def keeps(self, topic: str, field: str) -> bool:
        if not self.entries:
            return True
        for entry in self.entries:
            where, _, name = entry.rpartition(":")
            if name.strip() == field.strip() and where.strip() in ("", topic):
                return self.includes
        return not self.includes


@dataclass(frozen=True, slots=True)
class IdentifierCase:
    """What a database makes of names without quotes (``quote.identifiers=false``). The names are quoted all the same once they
    are what it would make of them, so that reserved words and odd characters do no harm."""

    backend: str
    """SQLAlchemy's name of the database."""
    keeps_case: bool = False

    def name(self, name: str) -> str:
        # The original quotes what begins with an underscore.
        if self.keeps_case or name.startswith("_"):
            return name
        if self.backend in _LOWER:
            return name.lower()
        return name.upper() if self.backend in _UPPER else name

    def column(self, name: str) -> str:
        """As the original creates columns, which keeps the case of tables in MySQL and SQL Server, but not that of columns."""
        if not self.keeps_case and self.backend in _LOWER_COLUMNS:
            return name.lower()
        return self.name(name)

    def table(self, table: TableName) -> TableName:
        return replace(
            table,
            name=self.name(table.name),
            schema=None if table.schema is None else self.name(table.schema),
            catalog=None if table.catalog is None else self.name(table.catalog),
        )
