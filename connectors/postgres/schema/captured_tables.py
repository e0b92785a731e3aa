"""The captured tables by their relation ids: which version of a table a streamed row belongs to.

The server sends a Relation message before the first row of a table, and again when the table has changed. It has names and
types; what it does not have (NOT NULL, defaults, the primary key's order) comes from the catalogue as it is now, which may
already be ahead of the row. So the message decides on columns and types, and the catalogue only adds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from connectors.postgres.config import Settings
from connectors.postgres.connection import Connection
from connectors.postgres.schema.catalog import Column, PgType, Table, read_table, read_types
from connectors.postgres.schema.filters import Filters
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming.pgoutput import Relation

log = logging.getLogger(__name__)

_FIRST_USER_OID = 16_384


class Tables:
    """``connect`` gives an ordinary connection whenever the catalogue must be asked; it may raise ConnectionLostError."""

    def __init__(self, settings: Settings, filters: Filters, connect: Callable[[], Connection]) -> None:
        self._settings = settings
        self._filters = filters
        self.connect = connect
        self._types: dict[int, PgType] | None = None
        self._rows: dict[tuple[str, str], TableRows] = {}
        self._nullable: dict[tuple[str, str], set[str]] = {}

    def forget_types(self) -> None:
        """Reads the types anew at their next use."""
        self._types = None

    def rows_of(self, table: Table) -> TableRows:
        """Schemas and decoders of this version; the same object as long as the version is equal."""
        name = (table.schema, table.name)
        if relaxed := self._nullable.get(name):
            columns = tuple(replace(c, not_null=False) if c.name in relaxed else c for c in table.columns)
            table = replace(table, columns=columns)
        known = self._rows.get(name)
        types = self._known_types(table)
        if known is not None and known.table == table and known.types is types:
            return known
        rows = TableRows(table, types, self._settings, self._filters)
        if known is not None and known.table == table and known.schemas == rows.schemas:
            known.types = types
            return known
        self._rows[name] = rows
        return rows

    def _known_types(self, table: Table) -> dict[int, PgType]:
        if self._types is None or any(column.type_oid not in self._types for column in table.columns):
            self._types = read_types(self.connect())
        return self._types

    def bind(self, relation: Relation) -> TableRows | None:
        """The rows of a relation from now on; None when the table is not captured."""
        if not self._filters.captures_table(relation.schema, relation.name):
            return None
        if any(column.type_oid >= _FIRST_USER_OID for column in relation.columns):
            self.forget_types()  # labels may have been added to an enum
        current = read_table(self.connect(), relation.oid)
        known = self._rows.get((relation.schema, relation.name))
        table = merged(relation, current, known.table if known else None)
        rows = self.rows_of(table)
        if known is not None and rows is not known:
            log.info("table %s has changed: its events have a new schema from here on", table)
        return rows

    def relax(self, rows: TableRows, column: str) -> TableRows:
        """The rows with a column that may be null, for a row that was written before the column became NOT NULL."""
        table = rows.table
        self._nullable.setdefault((table.schema, table.name), set()).add(column)
        log.warning("%s.%s is NOT NULL now, but an earlier change has no value: its schema becomes optional", table, column)
        return self.rows_of(table)


def merged(relation: Relation, current: Table | None, known: Table | None) -> Table:
    """The table as the Relation message has it, with NOT NULL, defaults and key of the catalogue where columns still agree."""
    catalogue = {column.name: column for column in current.columns} if current else {}
    before = {column.name: column for column in known.columns} if known else {}
    key = _key(relation, current, known)
    columns: list[Column] = []
    for column in relation.columns:
        same = catalogue.get(column.name) or before.get(column.name)
        if same is not None and same.type_oid != column.type_oid:
            same = replace(same, default=None)
        columns.append(
            Column(
                column.name,
                column.type_oid,
                column.typmod,
                not_null=same.not_null if same else column.name in key,
                default=same.default if same else None,
            )
        )
    return Table(
        relation.oid, relation.schema, relation.name, tuple(columns), key, relation.identity, current.kind if current else "r", -1
    )


def _key(relation: Relation, current: Table | None, known: Table | None) -> tuple[str, ...]:
    names = {column.name for column in relation.columns}
    flagged = tuple(column.name for column in relation.columns if column.is_key)
    for table in (current, known):
        # Under DEFAULT the flags are the primary key as it was when the row was written: they decide. A table without one is
        # known by a unique index, of which the message says nothing.
        if table is None or not table.key or not names.issuperset(table.key):
            continue
        if relation.identity != "d" or not flagged or set(table.key) == set(flagged):
            return table.key
    if relation.identity == "d":
        return flagged
    return ()
