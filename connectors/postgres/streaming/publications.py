"""Manages the publication on the server, and the replica identities of its tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connect.errors import ConfigError
from connectors.postgres.config import SlotSettings
from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.errors import ServerError
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.schema.filters import name_matches

log = logging.getLogger(__name__)


def ensure_publication(connection: Connection, settings: SlotSettings, tables: Sequence[CapturedTable]) -> None:
    """Creates or updates the publication according to ``publication.autocreate.mode``; warns about tables that it lacks.

    It must exist before the slot: the server looks it up as of each change that it decodes.
    """
    name = settings.publication
    rows = connection.query("select puballtables, pubinsert, pubupdate, pubdelete from pg_publication where pubname = $1", [name])
    if not rows:
        _create_publication(connection, settings, tables)
        return
    all_tables, *operations = rows[0]
    if settings.autocreate == "filtered" and all_tables != "t":
        listed = set(connection.query("select schemaname, tablename from pg_publication_tables where pubname = $1", [name]))
        if listed != {(t.schema, t.name) for t in tables} and tables:
            connection.execute(f"ALTER PUBLICATION {quote_identifier(name)} SET TABLE {_table_list(tables)}")
            log.info("publication %s now has %d tables", name, len(tables))
    if "f" in operations:
        log.warning("publication %s does not publish all operations: insert=%s update=%s delete=%s", name, *operations)
    published = set(connection.query("select schemaname, tablename from pg_publication_tables where pubname = $1", [name]))
    for table in tables:
        if (table.schema, table.name) not in published:
            log.warning(
                "table %s is captured but not in publication %s: snapshots read its rows, but changes are missing. "
                "ALTER PUBLICATION %s ADD TABLE %s",
                table, name, name, table,
            )  # fmt: skip


def require_publication(connection: Connection, settings: SlotSettings) -> None:
    """Raises ConfigError when the publication does not exist."""
    if not connection.query("select 1 from pg_publication where pubname = $1", [settings.publication]):
        raise ConfigError(
            f"publication {settings.publication} does not exist in database {connection.address.database} and "
            f"publication.autocreate.mode=disabled: CREATE PUBLICATION {settings.publication} FOR TABLE ..., or choose "
            "another mode "
            "(filtered, all_tables)",
            key="publication.name",
        )


def _create_publication(connection: Connection, settings: SlotSettings, tables: Sequence[CapturedTable]) -> None:
    name = settings.publication
    match settings.autocreate:
        case "disabled":
            require_publication(connection, settings)
            return
        case "all_tables":
            what = " FOR ALL TABLES"
        case "filtered":
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
        if e.sqlstate != "42501":
            raise
        raise ConfigError(
            f"user {connection.address.user} may not create publication {name}{what.lower()}: create it as its owner or a "
            "superuser and set "
            f"publication.autocreate.mode=disabled, or use filtered, which needs CREATE on the database and owned tables. {e}",
            key="publication.autocreate.mode",
        ) from e
    log.info("created publication %s%s", name, what.lower())


def _table_list(tables: Sequence[CapturedTable]) -> str:
    return ", ".join(f"{quote_identifier(t.schema)}.{quote_identifier(t.name)}" for t in tables)


def set_replica_identities(connection: Connection, settings: SlotSettings, tables: Sequence[CapturedTable]) -> None:
    """Sets the replica identities of ``replica.identity.autoset.values`` where they differ."""
    letters = {"default": "d", "nothing": "n", "full": "f"}
    for table in tables:
        for pattern, identity in settings.replica_identities:
            if not name_matches([pattern], str(table)):
                continue
            if letters.get(identity.lower()) != table.identity:
                word, _, index = identity.partition(" ")
                form = f"USING INDEX {quote_identifier(index.strip())}" if index else word.upper()
                connection.execute(
                    f"ALTER TABLE {quote_identifier(table.schema)}.{quote_identifier(table.name)} REPLICA IDENTITY {form}"
                )
                log.info("set replica identity of %s to %s", table, identity)
            break
