"""Manages the publication on the server, and the replica identities of its tables."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect.errors import ConfigError, ConnectError, UnreachableError
from connectors.cdc.schema.filters import Filters, name_matches
from connectors.postgres.config import PostgresConfig, SlotSettings
from connectors.postgres.connection import Connection, quote_identifier, quote_name
from connectors.postgres.errors import ServerError, ServerSetupError
from connectors.postgres.schema.catalog import (
    CapturedTable,
    CatalogTable,
    PublishedTable,
    ancestors,
    describe_no_match,
    read_catalog_tables,
    read_parents,
    read_tables,
)

log = logging.getLogger(__name__)

UPDATE_INTERVAL_S = 10.0
_LOCK_TIMEOUT_MS = 500
_LOCK_NOT_AVAILABLE = "55P03"
_NOT_ALLOWED = "42501"


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication as it is on the server. ``tables`` has what it publishes, by OID: roots if ``via_root``, else leaves.

    ``listed`` are the tables that it names, and ``schemas`` the schemas whose tables it publishes.
    """

    name: str
    all_tables: bool
    via_root: bool
    operations: tuple[str, ...]
    tables: Mapping[int, PublishedTable]
    listed: frozenset[int]
    schemas: frozenset[str]


def read_publication(connection: Connection, name: str, *, with_tables: bool = True) -> Publication | None:
    """Reads a publication; None if it does not exist. Without ``tables``, no lock of another session delays it."""
    rows = connection.query(
        "select puballtables, pubviaroot, pubinsert, pubupdate, pubdelete from pg_publication where pubname = $1", [name]
    )
    if not rows:
        return None
    all_tables, via_root, *published = rows[0]
    has_lists = connection.server_version >= 150000
    lists = "array_to_json(p.attnames), p.rowfilter" if has_lists else "null, null"
    rows = []
    if with_tables:
        rows = connection.query(
            f"select c.oid, {lists} from pg_publication_tables p join pg_namespace n on n.nspname = p.schemaname "
            "join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename where p.pubname = $1",
            [name],
        )
    tables = {
        int(oid or 0): PublishedTable(None if columns is None else frozenset(json.loads(columns)), row_filter)
        for oid, columns, row_filter in rows
    }
    listed = connection.query(
        "select r.prrelid from pg_publication_rel r join pg_publication p on p.oid = r.prpubid where p.pubname = $1", [name]
    )
    schemas = (
        connection.query(
            "select n.nspname from pg_publication_namespace s join pg_publication p on p.oid = s.pnpubid "
            "join pg_namespace n on n.oid = s.pnnspid where p.pubname = $1",
            [name],
        )
        if has_lists
        else []
    )
    operations = tuple(o for o, flag in zip(("insert", "update", "delete"), published, strict=True) if flag == "t")
    return Publication(
        name,
        all_tables == "t",
        via_root == "t",
        operations,
        tables,
        frozenset(int(oid or 0) for (oid,) in listed),
        frozenset(schema or "" for (schema,) in schemas),
    )


def read_captured_tables(connection: Connection, settings: PostgresConfig, filters: Filters) -> list[CapturedTable]:
    """Reads the captured tables as the publication publishes them: roots or partitions, columns, and rows.

    Before the publication exists, and for a snapshot without streaming, the configuration decides.
    """
    publication = None
    if settings.snapshot.mode != "initial_only":
        publication = read_publication(connection, settings.slot.publication)
    if publication is None:
        return read_tables(connection, filters.captures_table, via_root=settings.slot.via_partition_root)
    return read_tables(connection, filters.captures_table, via_root=publication.via_root, published=publication.tables)


def require_captured_tables(connection: Connection, settings: PostgresConfig, filters: Filters) -> list[CapturedTable]:
    """Reads the captured tables. Raises ConfigError if the include lists match none."""
    tables = read_captured_tables(connection, settings, filters)
    if not tables and (settings.capture.table_include or settings.capture.schema_include):
        key = "table.include.list" if settings.capture.table_include else "schema.include.list"
        wanted = ",".join(settings.capture.table_include or settings.capture.schema_include)
        raise ConfigError.invalid(key, wanted, describe_no_match(connection, filters.captures_table))
    return tables


def ensure_publication(connection: Connection, settings: SlotSettings, filters: Filters) -> list[str]:
    """Creates or updates the publication according to ``publication.autocreate.mode``; warns about tables that it lacks.

    Returns the tables that were added to an existing publication (see :func:`with_partitions`).

    It must exist before the slot: the server looks it up as of each change that it decodes.
    """
    publication = read_publication(connection, settings.publication)
    if publication is None:
        _create_publication(connection, settings, filters)
        return []
    added: list[CatalogTable] = []
    if publication.via_root != settings.via_partition_root:
        log.info(
            "publication %s has publish_via_partition_root=%s, which applies instead of publish.via.partition.root",
            publication.name, str(publication.via_root).lower(),
        )  # fmt: skip
    if settings.autocreate == "filtered" and not publication.all_tables:
        added = update_publication(connection, publication, filters)
        publication = read_publication(connection, settings.publication) or publication
    missing = {"insert", "update", "delete"} - set(publication.operations)
    if missing:
        log.warning("publication %s does not publish %s", publication.name, ", ".join(sorted(missing)))
    for table in read_tables(connection, filters.captures_table, via_root=publication.via_root, published=publication.tables):
        if table.oid not in publication.tables:
            log.warning(
                "table %s is captured but not in publication %s: snapshots read its rows, but changes are missing. "
                "ALTER PUBLICATION %s ADD TABLE %s",
                table, publication.name, publication.name, table,
            )  # fmt: skip
    return with_partitions(connection, added)


class PublicationUpdater:
    """Adds tables that are created, recreated, or renamed while the task runs to a filtered publication."""

    def __init__(self, settings: SlotSettings, filters: Filters, connect: Callable[[], Connection]) -> None:
        self._settings = settings
        self._filters = filters
        self._connect = connect
        self._is_enabled = settings.autocreate == "filtered"
        self._next_update = time.monotonic() + UPDATE_INTERVAL_S

    def update_if_due(self) -> list[str]:
        """Updates the publication every ``UPDATE_INTERVAL_S``. Returns the tables that were added (see :func:`with_partitions`).

        Raises ConnectionLostError.
        """
        if not self._is_enabled or time.monotonic() < self._next_update:
            return []
        self._next_update = time.monotonic() + UPDATE_INTERVAL_S
        try:
            connection = self._connect()
        except UnreachableError:  # the primary of a standby
            return []
        publication = read_publication(connection, self._settings.publication, with_tables=False)
        if publication is None or publication.all_tables:
            return []
        try:
            added = _add_tables(connection, publication, self._filters, lock_timeout_ms=_LOCK_TIMEOUT_MS)
        except ServerError as e:
            if e.sqlstate != _LOCK_NOT_AVAILABLE:
                self._give_up(publication, e)
            return []
        except ConfigError as e:
            self._give_up(publication, e)
            return []
        for table in added:
            log.info("table %s is captured from now on", table)
        return with_partitions(connection, added)

    def _give_up(self, publication: Publication, error: ConnectError) -> None:
        self._is_enabled = False
        log.warning("cannot add tables to publication %s until the next start: %s", publication.name, error.message)


def with_partitions(connection: Connection, tables: Sequence[CatalogTable]) -> list[str]:
    """The names (schema.table) of tables and their partitions."""
    parents = read_parents(connection) if tables else {}
    oids = {table.oid for table in tables}
    everything = read_catalog_tables(connection) if any(table.kind == "p" for table in tables) else tables
    return [str(table) for table in everything if not oids.isdisjoint([table.oid, *ancestors(table.oid, parents)])]


def update_publication(connection: Connection, publication: Publication, filters: Filters) -> list[CatalogTable]:
    """Adds captured tables that the publication lacks, and returns them; removes tables that are not captured.

    Tables that stay keep their column lists and row filters.
    """
    added = _add_tables(connection, publication, filters)
    parents = read_parents(connection)
    everything = read_catalog_tables(connection)
    targets = publication_targets(everything, parents, filters)
    wanted = {table.oid for table in targets}
    above = {ancestor for table in targets for ancestor in ancestors(table.oid, parents)}
    removed = [
        table
        for table in everything
        if table.oid in publication.listed - above and wanted.isdisjoint([table.oid, *ancestors(table.oid, parents)])
    ]
    if removed:
        _alter(connection, publication, f"DROP TABLE {_table_list(removed)}")
        log.info("removed from publication %s: %s", publication.name, ", ".join(map(str, removed)))
    return added


def _add_tables(
    connection: Connection, publication: Publication, filters: Filters, *, lock_timeout_ms: int = 0
) -> list[CatalogTable]:
    """Adds captured tables that the publication lacks, and returns them."""
    parents = read_parents(connection)

    def is_published(table: CatalogTable) -> bool:
        line = [table.oid, *ancestors(table.oid, parents)]
        return not publication.listed.isdisjoint(line) or table.schema in publication.schemas

    added = [table for table in publication_targets(read_catalog_tables(connection), parents, filters) if not is_published(table)]
    if added:
        _alter(connection, publication, f"ADD TABLE {_table_list(added)}", before=f"SET LOCAL lock_timeout = {lock_timeout_ms}; ")
        log.info("added to publication %s: %s", publication.name, ", ".join(map(str, added)))
    return added


def _alter(connection: Connection, publication: Publication, change: str, before: str = "") -> None:
    """Alters a publication. Raises ConfigError if the user may not."""
    try:
        connection.execute(f"{before}ALTER PUBLICATION {quote_identifier(publication.name)} {change}")
    except ServerError as e:
        if e.sqlstate != _NOT_ALLOWED:
            raise
        raise ConfigError(
            f"user {connection.address.user} may not change publication {publication.name}: ALTER PUBLICATION {publication.name} "
            f"{change} as its owner, and set publication.autocreate.mode=disabled. {e}",
            key="publication.autocreate.mode",
        ) from e


def publication_targets(everything: Sequence[CatalogTable], parents: Mapping[int, int], filters: Filters) -> list[CatalogTable]:
    """The tables to list in a publication of the captured tables.

    A partitioned table stands for its partitions if it matches the filters or if all its partitions do, so that the publication
    contains partitions that are created later.
    """
    captured = {table.oid for table in everything if filters.captures_table(table.schema, table.name)}
    partial: set[int] = set()
    complete: set[int] = set()
    for table in everything:
        if table.kind == "r":
            (complete if table.oid in captured else partial).update(ancestors(table.oid, parents))
    whole = {table.oid for table in everything if table.kind == "p" and table.oid in captured | (complete - partial)}
    return [
        table
        for table in everything
        if (table.oid in whole or (table.kind == "r" and table.oid in captured))
        and whole.isdisjoint(ancestors(table.oid, parents))
    ]


def require_publication(connection: Connection, settings: SlotSettings) -> None:
    """Raises ConfigError when the publication does not exist."""
    if not connection.query("select 1 from pg_publication where pubname = $1", [settings.publication]):
        raise ServerSetupError(
            "no-publication",
            f"publication {settings.publication} does not exist in database {connection.address.database} and "
            "publication.autocreate.mode=disabled",
            f"CREATE PUBLICATION {settings.publication} FOR TABLE ..., or choose another mode (filtered, all_tables)",
            key="publication.name",
        )


def _create_publication(connection: Connection, settings: SlotSettings, filters: Filters) -> None:
    name = settings.publication
    match settings.autocreate:
        case "disabled":
            require_publication(connection, settings)
            return
        case "all_tables":
            what = " FOR ALL TABLES"
        case "filtered":
            tables = publication_targets(read_catalog_tables(connection), read_parents(connection), filters)
            if not tables:
                raise ConfigError(
                    f"no table matches, so publication {name} cannot be created: check table.include.list",
                    key="table.include.list",
                )
            what = f" FOR TABLE {_table_list(tables)}"
        case _:
            what = ""
    options = " WITH (publish_via_partition_root = true)" if settings.via_partition_root else ""
    try:
        connection.execute(f"CREATE PUBLICATION {quote_identifier(name)}{what}{options}")
    except ServerError as e:
        if e.sqlstate != _NOT_ALLOWED:
            raise
        raise ConfigError(
            f"user {connection.address.user} may not create publication {name}{what.lower()}: create it as its owner or a "
            "superuser and set "
            f"publication.autocreate.mode=disabled, or use filtered, which needs CREATE on the database and owned tables. {e}",
            key="publication.autocreate.mode",
        ) from e
    log.info("created publication %s%s", name, what.lower())


def _table_list(tables: Sequence[CatalogTable]) -> str:
    return ", ".join(quote_name(t.schema, t.name) for t in tables)


def set_replica_identities(connection: Connection, settings: SlotSettings, tables: Sequence[CapturedTable]) -> None:
    """Sets the replica identities of ``replica.identity.autoset.values`` where they differ."""
    letters = {"default": "d", "nothing": "n", "full": "f"}
    for table in tables:
        identity = configured_identity(settings, table)
        if identity is None or letters.get(identity.lower()) == table.identity:
            continue
        word, _, index = identity.partition(" ")
        form = f"USING INDEX {quote_identifier(index.strip())}" if index else word.upper()
        names = [quote_name(table.schema, table.name)]
        if table.kind == "p" and not index:  # ALTER TABLE of a partitioned table leaves its partitions as they are
            partitions = connection.query("select relid from pg_partition_tree($1::oid) where level > 0", [table.oid])
            names += [name or "" for (name,) in partitions]
        for name in names:
            connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY {form}")
        log.info("set replica identity of %s to %s", table, identity)


def configured_identity(settings: SlotSettings, table: CapturedTable) -> str | None:
    """The replica identity that ``replica.identity.autoset.values`` sets for the table, or None."""
    return next((identity for pattern, identity in settings.replica_identities if name_matches([pattern], str(table))), None)
