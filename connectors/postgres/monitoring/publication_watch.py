"""Notices that a publication or captured tables change while the task runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from connectors.postgres.config import Address
from connectors.postgres.connection import Connection
from connectors.postgres.monitoring.problems import Problem
from connectors.postgres.schema.catalog import read_catalog_tables
from connectors.postgres.streaming.publication_state import PublicationState, read_state
from connectors.postgres.streaming.publications import with_partitions

log = logging.getLogger(__name__)

TableNames = Mapping[tuple[str, str], int]
"""Captured tables by schema and name, with their OIDs."""

_TABLES = """
select n.nspname, c.relname, c.oid from unnest($1::text[], $2::text[]) w(schema, name)
join pg_namespace n on n.nspname = w.schema
join pg_class c on c.relnamespace = n.oid and c.relname = w.name and c.relkind in ('r', 'p')
"""
_REMEDY = "Read the tables again with an execute-snapshot signal"
_SCHEMAS = "select oid, nspname from pg_namespace where oid = any($1::oid[])"


class PublicationWatch:
    """Compares a publication and captured tables with those of the last check. None of the queries waits for locks."""

    def __init__(self, name: str, stored: PublicationState | None) -> None:
        """``stored`` is the publication of the stored offset."""
        self._name = name
        self._oids: dict[tuple[str, str], int] = {}
        self.state: PublicationState | None = None
        """The publication as of the last check; None before the first one."""
        self.text: str | None = None
        """The state as a text."""
        self._remember(stored)
        self._now: PublicationState | None = None
        self.expected: TableNames = {}
        """The captured tables when the task connected."""
        self._dropped: set[tuple[str, str]] = set()

    def _remember(self, state: PublicationState | None) -> None:
        self.state = state
        self.text = None if state is None else state.as_text()

    def read(self, connection: Connection) -> None:
        """Reads the publication as it is now, for ``find_loss`` and ``find_added``."""
        self._now = read_state(connection, self._name)

    def find_loss(self, address: Address) -> str | None:
        """Says why changes are missing, if the publication was dropped since the last check."""
        return self._loss(address, self._now)

    def _loss(self, address: Address, now: PublicationState | None) -> str | None:
        before, name = self.state, f"publication {self._name}"
        if now is None:
            return f"{name} does not exist on PostgreSQL at {address}: nothing was published since it was dropped"
        if before is not None and before.oid != now.oid and before.name == now.name:
            return f"{name} on PostgreSQL at {address} was dropped and recreated"
        return None

    def find_added(self, connection: Connection) -> list[str]:
        """The tables (schema.table, with their partitions) that the publication names now, but did not at the last check."""
        before, now = self.state, self._now
        if before is None or now is None or before.oid != now.oid or before.tables is None or now.tables is None:
            return []
        added = now.tables.keys() - before.tables.keys()
        return with_partitions(connection, [table for table in read_catalog_tables(connection) if table.oid in added])

    def begin(self, connection: Connection, tables: TableNames) -> list[Problem]:
        """The task has started to read the publication, and has dealt with a loss. Returns what else has changed."""
        before, now = self.state, read_state(connection, self._name)
        if before is not None and before.name != self._name:
            log.warning(
                "reading publication %s instead of %s: changes that were made before %s was created are missing",
                self._name, before.name, self._name,
            )  # fmt: skip
        if before is None or now is None or before.oid != now.oid:
            self._remember(now)
        return self._compare(connection, now, tables)

    def forget(self) -> None:
        """What changed before does not matter any more."""
        self._remember(None)

    def check(self, connection: Connection, tables: TableNames) -> tuple[list[Problem], str | None]:
        """Returns new problems, and why changes are missing if the publication was dropped. ``tables`` are those that
        the task has read, in addition to the expected ones."""
        if self.state is None:  # the task is about to read it
            return [], None
        now = read_state(connection, self._name)
        return self._compare(connection, now, tables), self._loss(connection.address, now)

    def _compare(self, connection: Connection, now: PublicationState | None, tables: TableNames) -> list[Problem]:
        """Takes note of the publication, unless it was recreated, and returns what has changed."""
        tables = {**tables, **self.expected}
        problems = self._check_tables(connection, tables)
        before = self.state
        if before is not None and now is not None and before.oid == now.oid and before != now:
            self._remember(now)
            problems += self._changed_options(before, now)
            if not now.all_tables:
                problems += self._changed_tables(before, now, tables)
                problems += self._changed_schemas(connection, before, now)
        return problems

    def _changed_options(self, before: PublicationState, now: PublicationState) -> list[Problem]:
        name, found = self._name, []
        if missing := [o for o in before.operations if o not in now.operations]:
            found.append(
                Problem(
                    "operations_not_published",
                    f"publication {name} no longer publishes {', '.join(missing)}: these changes are missing. ALTER PUBLICATION "
                    f"{name} SET (publish = 'insert, update, delete, truncate')",
                )
            )
        if before.via_root != now.via_root:
            found.append(
                Problem(
                    "publication_changed",
                    f"publication {name} has publish_via_partition_root={str(now.via_root).lower()} now: changes of partitions "
                    "go to other topics",
                    "root",
                )
            )
        return found

    def _changed_tables(self, before: PublicationState, now: PublicationState, tables: TableNames) -> list[Problem]:
        name, found = self._name, []
        names = {oid: f"{schema}.{table}" for (schema, table), oid in tables.items()}
        for oid, listed in (before.tables or {}).items():
            if oid not in names or now.tables is None:
                continue
            table, current = names[oid], now.tables.get(oid)
            if current is None:
                found.append(
                    Problem(
                        "table_not_published",
                        f"table {table} was removed from publication {name}: its changes are missing. ALTER PUBLICATION {name} "
                        f"ADD TABLE {table}, or exclude it (table.exclude.list)",
                        table,
                    )
                )
            elif current.form != listed.form:
                found.append(
                    Problem(
                        "publication_changed",
                        f"publication {name} has another row filter or column list for {table}: older rows and columns remain in "
                        "the topic as they are",
                        table,
                    )
                )
            elif current.entry != listed.entry:
                found.append(
                    Problem(
                        "table_republished",
                        f"table {table} was removed from publication {name} and added again: changes in between are missing. "
                        f"{_REMEDY}",
                        table,
                    )
                )
        return found

    def _changed_schemas(self, connection: Connection, before: PublicationState, now: PublicationState) -> list[Problem]:
        changed = [oid for oid, entry in before.schemas.items() if now.schemas.get(oid) != entry]
        found = []
        for oid, schema in connection.query(_SCHEMAS, [f"{{{','.join(map(str, changed))}}}"]) if changed else ():
            if int(oid or 0) in now.schemas:
                code, advice = "table_republished", f" and added again: changes in between are missing. {_REMEDY}"
            else:
                code = "table_not_published"
                advice = f": changes of its tables are missing. ALTER PUBLICATION {self._name} ADD TABLES IN SCHEMA {schema}"
            found.append(Problem(code, f"schema {schema} was removed from publication {self._name}{advice}", schema or ""))
        return found

    def _check_tables(self, connection: Connection, tables: TableNames) -> list[Problem]:
        """Reports tables that were dropped, and those that were created again under their name."""
        for name, oid in tables.items():
            self._oids.setdefault(name, oid)
        if not self._oids:
            return []
        schemas, names = zip(*self._oids, strict=True)
        rows = connection.query(_TABLES, [_array(schemas), _array(names)])
        current = {(schema or "", name or ""): int(oid or 0) for schema, name, oid in rows}
        found = []
        for key, oid in list(self._oids.items()):
            table = ".".join(key)
            if key not in current:
                if key not in self._dropped:
                    self._dropped.add(key)
                    found.append(Problem("table_dropped", f"captured table {table} was dropped or renamed", table))
                continue
            self._dropped.discard(key)
            if current[key] != oid:
                self._oids[key] = current[key]
                found.append(
                    Problem(
                        "table_recreated",
                        f"captured table {table} was dropped and recreated: rows of the old table remain in its topic, and "
                        f"changes are missing until the new one is in publication {self._name}. Take a new snapshot",
                        table,
                    )
                )
        return found


def _array(names: tuple[str, ...]) -> str:
    """The names as a PostgreSQL array."""
    quoted = ('"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in names)
    return "{" + ",".join(quoted) + "}"
