"""Notices that a publication or captured tables change while the task runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.postgres.connection import Connection
from connectors.postgres.monitoring.problems import Problem

TableNames = Mapping[tuple[str, str], int]
"""Captured tables by schema and name, with their OIDs."""

_PUBLICATION = """
select p.oid, p.puballtables, p.pubviaroot, p.pubinsert, p.pubupdate, p.pubdelete,
  (select md5(string_agg({entry}, ',' order by r.prrelid)) from pg_publication_rel r where r.prpubid = p.oid)
from pg_publication p where p.pubname = $1
"""
_TABLES = """
select n.nspname, c.relname, c.oid from unnest($1::text[], $2::text[]) w(schema, name)
join pg_namespace n on n.nspname = w.schema
join pg_class c on c.relnamespace = n.oid and c.relname = w.name and c.relkind in ('r', 'p')
"""
_LISTED = """
select r.prrelid, {filter} from pg_publication_rel r join pg_publication p on p.oid = r.prpubid where p.pubname = $1
"""


@dataclass(frozen=True, slots=True)
class PublicationState:
    """A publication without its tables. ``tables_hash`` changes with them, their row filters, and their column lists."""

    oid: int
    all_tables: bool
    via_root: bool
    operations: tuple[str, ...]
    tables_hash: str


class PublicationWatch:
    """Compares a publication and captured tables with those of the last check. None of the queries waits for locks."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state: PublicationState | None = None
        self._listed: Mapping[int, str] = {}
        self._oids: dict[tuple[str, str], int] = {}
        self.expected: TableNames = {}
        """The captured tables when the task connected."""
        self._dropped: set[tuple[str, str]] = set()

    def reset(self) -> None:
        """Forgets the publication: the task has updated it at its start."""
        self._state = None

    def check(self, connection: Connection, tables: TableNames) -> tuple[list[Problem], str | None]:
        """Returns new problems, and why changes are missing if the publication was dropped. ``tables`` are those that
        the task has read, in addition to the expected ones."""
        tables = {**tables, **self.expected}
        problems = self._check_tables(connection, tables)
        before, now = self._state, _read_publication(connection, self._name)
        if before is None:
            if now is not None:
                self._remember(connection, now)
            return problems, None
        if now is None or now.oid != before.oid:
            what = "was dropped" if now is None else "was dropped and recreated"
            return problems, f"publication {self._name} {what} while the connector was running"
        if now != before:
            problems += self._changes(connection, before, now, tables)
        return problems, None

    def _remember(self, connection: Connection, state: PublicationState) -> None:
        self._state = state
        self._listed = {} if state.all_tables else _read_listed(connection, self._name)

    def _changes(
        self, connection: Connection, before: PublicationState, now: PublicationState, tables: TableNames
    ) -> list[Problem]:
        listed = self._listed
        self._remember(connection, now)
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
        names = {oid: f"{schema}.{table}" for (schema, table), oid in tables.items()}
        for oid, condition in listed.items():
            if oid not in names:
                continue
            table = names[oid]
            if oid not in self._listed and not now.all_tables:
                found.append(
                    Problem(
                        "table_not_published",
                        f"table {table} was removed from publication {name}: its changes are missing. ALTER PUBLICATION {name} "
                        f"ADD TABLE {table}, or exclude it (table.exclude.list)",
                        table,
                    )
                )
            elif self._listed.get(oid, condition) != condition:
                found.append(
                    Problem(
                        "publication_changed",
                        f"publication {name} has another row filter or column list for {table}: older rows and columns remain in "
                        "the topic as they are",
                        table,
                    )
                )
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


def _read_publication(connection: Connection, name: str) -> PublicationState | None:
    entry = "r.prrelid::text"
    if connection.server_version >= 150000:
        entry = "concat(r.prrelid, r.prqual::text, r.prattrs::text)"
    rows = connection.query(_PUBLICATION.format(entry=entry), [name])
    if not rows:
        return None
    oid, all_tables, via_root, *published, tables_hash = rows[0]
    operations = tuple(o for o, flag in zip(("insert", "update", "delete"), published, strict=True) if flag == "t")
    return PublicationState(int(oid or 0), all_tables == "t", via_root == "t", operations, tables_hash or "")


def _read_listed(connection: Connection, name: str) -> dict[int, str]:
    """The tables that a publication names, with their row filters and column lists as a hash."""
    condition = "md5(concat(r.prqual::text, r.prattrs::text))" if connection.server_version >= 150000 else "''"
    rows = connection.query(_LISTED.format(filter=condition), [name])
    return {int(oid or 0): text or "" for oid, text in rows}


def _array(names: tuple[str, ...]) -> str:
    """The names as a PostgreSQL array."""
    quoted = ('"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in names)
    return "{" + ",".join(quoted) + "}"
