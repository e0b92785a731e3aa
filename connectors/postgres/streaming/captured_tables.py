"""Tracks versions of captured tables by relation ID, so that each streamed row is decoded with its version.

The server sends a Relation message before the first row of a table, and again after the table has changed. It contains names and
types; NOT NULL, defaults, and the order of the primary key come from the current catalog, which may be newer than the row. So the
message determines columns and types, and the catalog only adds to them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from connectors.cdc.schema.contracts import ContractError, SchemaContracts
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable, read_table, read_types
from connectors.postgres.schema.checks import check_topics
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.schema.table_version import table_version
from connectors.postgres.schema.value_errors import ReplicaIdentityError
from connectors.postgres.streaming.pgoutput import Relation, TypeName
from connectors.postgres.types.catalog_type import DROPPED, CatalogType

log = logging.getLogger(__name__)

_FIRST_USER_OID = 16_384


class CapturedTables:
    """Versions of captured tables. ``connect`` returns a connection for catalog queries; it may raise ConnectionLostError."""

    def __init__(self, settings: PostgresConfig, filters: Filters, connect: Callable[[], Connection]) -> None:
        self._settings = settings
        self._filters = filters
        self.connect = connect
        self._types: dict[int, CatalogType] | None = None
        self._rows: dict[tuple[str, str], TableRows] = {}
        self._topics: dict[str, CapturedTable] = {}
        self._sent_types: dict[int, tuple[str, str]] = {}
        self.contracts = SchemaContracts(settings.contracts)
        self._nullable: dict[tuple[str, str], set[str]] = {}

    def oids(self) -> dict[tuple[str, str], int]:
        """The OIDs of the tables that were read, by schema and name. Callable from any thread."""
        return {name: rows.table.oid for name, rows in list(self._rows.items())}

    def invalidate_types(self) -> None:
        """Forces a new read of the types at their next use."""
        self._types = None

    def name_type(self, message: TypeName) -> None:
        """Notes a type that the server names before a relation uses it: it may not exist any more."""
        self._sent_types[message.oid] = (message.schema or "pg_catalog", message.name)

    def rows_of(self, table: CapturedTable) -> TableRows:
        """Schemas and decoders of this version; the same object as long as the version does not change."""
        name, given = (table.schema, table.name), table
        if relaxed := self._nullable.get(name):
            columns = tuple(replace(c, not_null=False) if c.name in relaxed else c for c in table.columns)
            table = replace(table, columns=columns)
        known = self._rows.get(name)
        types = self._known_types(table)
        if known is not None and known.table == table and known.types is types:
            return known
        key = self._filters.key_columns(table.schema, table.name) or table.key
        judgment = self.contracts.judge(str(given), lambda: table_version(given, key, types, self._filters), key)
        rows = TableRows(table, types, self._settings, self._filters, judgment)
        if known is not None and known.table == table and known.schemas == rows.schemas:
            known.types = types
            return known
        self._rows[name] = rows
        return rows

    def snapshot_rows(self, table: CapturedTable) -> TableRows:
        """The same for a snapshot. Raises FrozenSchemaError if its rows must not be captured."""
        rows = self.rows_of(table)
        with contextlib.suppress(ContractError):  # each row is reported
            self.capture(rows)
        return rows

    def capture(self, rows: TableRows) -> None:
        """A row of this version is captured next. Raises FrozenSchemaError and ContractError if its contract forbids that."""
        self.contracts.capture(rows.judgment)

    def _known_types(self, table: CapturedTable) -> dict[int, CatalogType]:
        if self._types is None or any(column.type_oid not in self._types for column in table.columns):
            self._types = read_types(self.connect())
            for column in table.columns:
                if column.type_oid not in self._types:
                    self._types[column.type_oid] = self._dropped_type(column.type_oid, self._types)
        return self._types

    def _dropped_type(self, oid: int, types: Mapping[int, CatalogType]) -> CatalogType:
        """A type that no longer exists: its values are captured as text, those of a domain as its base type."""
        schema, name = self._sent_types.get(oid, ("", f"oid {oid}"))
        if schema == "pg_catalog":  # the server names the base type of a domain
            base = next((t.oid for t in types.values() if (t.schema, t.name) == (schema, name)), 0)
            return CatalogType(oid, schema, name, "d", 0, base, -1)
        return CatalogType(oid, schema, name, DROPPED, 0, 0, -1)

    def bind_relation(self, relation: Relation) -> TableRows | None:
        """Starts a new version of a relation; returns None when the table is not captured."""
        if not self._filters.captures_table(relation.schema, relation.name):
            return None
        if any(column.type_oid >= _FIRST_USER_OID for column in relation.columns):
            self.invalidate_types()  # labels may have been added to an enum
        current = read_table(self.connect(), relation.oid)
        known = self._rows.get((relation.schema, relation.name))
        table = merge_relation(relation, current, known.table if known else None)
        rows = self.rows_of(table)
        self._check_topic(rows)
        if known is not None and rows is not known:
            log.info("table %s has changed: its events have a new schema from now on", table)
        return rows

    def _check_topic(self, rows: TableRows) -> None:
        """Raises ConfigError if the topic is that of another table. A table that was renamed or dropped gives up its topic."""
        table = rows.table
        other = self._topics.setdefault(rows.topic, table)
        if (other.schema, other.name) != (table.schema, table.name):
            still = read_table(self.connect(), other.oid)
            if still is not None and (still.schema, still.name) == (other.schema, other.name):
                check_topics([other, table], self._settings)
            self._topics[rows.topic] = table

    def make_nullable(self, rows: TableRows, column: str) -> TableRows:
        """Makes a column nullable, for a row without a value that is older than the NOT NULL constraint, or not bound by it."""
        table = rows.table
        if table.kind == "p" and column in rows.key:
            raise ReplicaIdentityError(
                f"key column {column} of {table} has no value: a partition has another replica identity than {table}; "
                "ALTER TABLE ... REPLICA IDENTITY FULL for each partition"
            )
        self._nullable.setdefault((table.schema, table.name), set()).add(column)
        log.warning("%s.%s is NOT NULL now, but a row has no value; making its schema optional", table, column)
        return self.rows_of(table)


def merge_relation(relation: Relation, current: CapturedTable | None, known: CapturedTable | None) -> CapturedTable:
    """Combines the Relation message with NOT NULL, defaults, and key of the catalog where columns still match."""
    catalog = {column.name: column for column in current.columns} if current else {}
    before = {column.name: column for column in known.columns} if known else {}
    key = _key(relation, current, known)
    columns: list[CapturedColumn] = []
    for column in relation.columns:
        same = catalog.get(column.name) or before.get(column.name)
        if same is not None and same.type_oid != column.type_oid:
            same = replace(same, default=None)
        columns.append(
            CapturedColumn(
                column.name,
                column.type_oid,
                column.typmod,
                not_null=same.not_null if same else column.name in key,
                default=same.default if same else None,
            )
        )
    return CapturedTable(
        relation.oid, relation.schema, relation.name, tuple(columns), key, relation.identity, current.kind if current else "r", -1
    )


def _key(relation: Relation, current: CapturedTable | None, known: CapturedTable | None) -> tuple[str, ...]:
    names = {column.name for column in relation.columns}
    flagged = tuple(column.name for column in relation.columns if column.is_key)
    for table in (current, known):
        # The flags are the replica identity at the time of the row, which decides: the server sends no other old values. A table
        # without one uses a unique index, which the message does not contain.
        if table is None or not table.key or not names.issuperset(table.key):
            continue
        if relation.identity not in "di" or not flagged or set(table.key) == set(flagged):
            return table.key
    if relation.identity in "di":
        return flagged
    return ()


def sends_key(relation: Relation, rows: TableRows) -> bool:
    """Whether updates and deletes of the relation contain the old values of all key columns, if the key changed."""
    sent = {column.name for column in relation.columns if column.is_key}
    return not sent or sent.issuperset(rows.key)
