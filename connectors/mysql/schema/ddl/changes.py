"""Changes of tables and databases."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from enum import Enum

from connectors.mysql.schema.model import MySqlTable, TableId


class DdlKind(Enum):
    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"
    RENAME = "RENAME"
    TRUNCATE = "TRUNCATE"


@dataclass(frozen=True, slots=True)
class TableDdlChange:
    """What a statement does to a table. ``ddl`` is the statement; as in Debezium, DROP TABLE and RENAME TABLE of several tables
    are divided, and those that are dropped have their full names.

    ``table`` is the new version. It is None for DROP, and where the statement does not say it all: ``unknown`` then says why, and
    the caller reads the table from the server, or ignores it because it is not captured. A RENAME has ``previous_id``, also if
    the statement changes more than the name.
    """

    kind: DdlKind
    id: TableId
    table: MySqlTable | None
    ddl: str
    previous_id: TableId | None = None
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class DatabaseChange:
    """CREATE, ALTER, or DROP of a database. ``charset`` is its new default for tables, None if the statement does not say."""

    kind: DdlKind
    name: str
    charset: str | None
    ddl: str


Change = TableDdlChange | DatabaseChange


def apply_changes(
    changes: Iterable[Change], tables: MutableMapping[TableId, MySqlTable], database_charsets: MutableMapping[str, str]
) -> None:
    """Updates what is known about tables and databases. Tables whose structure is unknown are removed."""
    for change in changes:
        if isinstance(change, DatabaseChange):
            if change.kind is DdlKind.DROP:
                database_charsets.pop(change.name, None)
                for id in [id for id in tables if id.database == change.name]:
                    del tables[id]
            elif change.charset is not None:
                database_charsets[change.name] = change.charset
            continue
        if change.previous_id is not None:
            tables.pop(change.previous_id, None)
        if change.table is not None:
            tables[change.id] = change.table
        elif change.kind is not DdlKind.TRUNCATE:
            tables.pop(change.id, None)


def changed_tables(changes: Iterable[Change]) -> list[TableId]:
    """Returns the tables that changes concern, with their former names."""
    found: list[TableId] = []
    for change in changes:
        if isinstance(change, TableDdlChange):
            found += [id for id in (change.previous_id, change.id) if id is not None]
    return found
