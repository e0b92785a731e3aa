"""The connection test of the PostgreSQL source, and the tables that its lists can name. Reads the catalog; creates nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from connect.config.finding import Finding
from connect.errors import ConfigError, ConnectError, UnreachableError
from connect.external_system import (
    MAX_COLLECTIONS,
    ConnectionStep,
    DataCollection,
    check_step,
    error_finding,
    parse_leniently,
    regex_entry,
    warning_finding,
)
from connect.suggestions import list_names
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.schema.checks import find_missing_keys
from connectors.cdc.schema.filters import Filters, name_matches
from connectors.postgres.config import PostgresConfig, parse_config
from connectors.postgres.config_keys import config_def
from connectors.postgres.connection import Connection, is_standby, quote_name
from connectors.postgres.errors import ServerSetupError
from connectors.postgres.monitoring.slot_checks import loss_reason
from connectors.postgres.schema.catalog import CapturedTable, describe_no_match
from connectors.postgres.schema.checks import check_keys, check_topics
from connectors.postgres.snapshot.transaction import check_access
from connectors.postgres.streaming import publications, slots
from connectors.postgres.streaming.publications import Publication
from connectors.postgres.streaming.server import identify_system

_QUERY_TIMEOUT_S = 20.0
_MOST_NAMED = 5
_CONNECTION_KEYS = ("database.hostname", "database.port", "database.user", "database.password", "database.dbname")
_CONNECTION_PREFIXES = ("database.ssl", "database.tcp", "database.initial")
_IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}

_TLS = "select case when ssl then version else '' end from pg_stat_ssl where pid = pg_backend_pid()"
_FREE_SLOTS = "select current_setting('max_replication_slots')::int - (select count(*) from pg_replication_slots)"
_MAY_CREATE = "select rolsuper, has_database_privilege(current_database(), 'CREATE') from pg_roles where rolname = current_user"
_OWNS_PUBLICATION = "select pg_has_role(pubowner, 'USAGE') from pg_publication where pubname = $1"
_OF_OTHERS = """
select c.oid::regclass, pg_get_userbyid(c.relowner) from pg_class c
where c.oid = any($1::oid[]) and not pg_has_role(c.relowner, 'USAGE') order by 1
"""
# Sizes from the statistics, because pg_table_size waits for tables that are locked.
_COLLECTIONS = """
select c.oid, n.nspname, c.relname, c.relkind, c.relreplident, c.reltuples::bigint,
       c.relpages::bigint * current_setting('block_size')::bigint,
       exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary),
       exists (
           select from pg_index x
           where x.indrelid = c.oid and x.indisunique and x.indisvalid and x.indpred is null and x.indexprs is null
             and x.indimmediate and not exists (
                 select from pg_attribute a where a.attrelid = c.oid and a.attnum = any(x.indkey) and not a.attnotnull)),
       has_schema_privilege(n.oid, 'USAGE') and has_any_column_privilege(c.oid, 'SELECT')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relpersistence = 'p' and n.nspname not in ('pg_catalog', 'information_schema')
  and case when $1 = 't' then c.relkind in ('r', 'p') and not c.relispartition else c.relkind = 'r' end
order by n.nspname, c.relname limit $2
"""


class PostgresSystem:
    """Implements :class:`connect.external_system.ExternalSystem`."""

    def __init__(self, config: Mapping[str, str]) -> None:
        """Raises ConfigError if a key of the connection is missing or wrong."""
        self._settings, self._problems = parse_leniently(
            config, config_def(), parse_config, _is_of_connection, {"topic.prefix": "unset"}
        )
        self._interrupt = Interrupt()
        self._connection: Connection | None = None

    def test_connection(self) -> Iterator[ConnectionStep]:
        if self._problems:
            yield ConnectionStep("Configuration", findings=self._problems)
        settings = self._settings
        try:
            sql = self._connect()
            detail = _describe_server(sql)
        except ConnectError as e:
            yield ConnectionStep("Connection", findings=(_connection_finding(e),))
            return
        yield ConnectionStep("Connection", detail)
        filters = Filters(settings.capture)
        streams = settings.snapshot.mode != "initial_only"
        if streams:
            yield _step("wal_level", lambda: _check_wal(sql))
            yield _step("Replication", lambda: self._check_replication(sql))
            yield _slot_step(sql, settings)
        tables = publications.read_captured_tables(sql, settings, filters)
        if streams:
            yield _publication_step(sql, settings, filters, tables)
            if settings.primary is not None:
                yield _step("Primary", self._check_primary)
        yield _tables_step(sql, settings, filters, tables)
        if settings.snapshot.mode != "no_data":
            yield _step("Snapshot privileges", lambda: _check_snapshot(sql, settings, tables))
        if streams:
            yield _identity_step(settings, filters, tables)

    def data_collections(self) -> Sequence[DataCollection]:
        sql = self._connect()
        slot = self._settings.slot
        publication = publications.read_publication(sql, slot.publication)
        via_root = slot.via_partition_root if publication is None else publication.via_root
        rows = sql.query(_COLLECTIONS, ["t" if via_root else "f", MAX_COLLECTIONS + 1])
        database = self._settings.address.database
        return [_collection(row, database, publication) for row in rows]

    def cancel(self) -> None:
        self._interrupt.set()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._interrupt.close()

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = Connection.open(self._settings.address, self._interrupt, query_timeout_s=_QUERY_TIMEOUT_S)
        return self._connection

    def _check_replication(self, sql: Connection) -> str:
        slots.check_privileges(sql)
        # A session of its own: pg_hba.conf and max_wal_senders may refuse it.
        replication = Connection.open(self._settings.address, self._interrupt, replication=True, query_timeout_s=_QUERY_TIMEOUT_S)
        try:
            server = identify_system(replication)
        finally:
            replication.close()
        return f"user {sql.address.user} may replicate from system {server.timeline.systemid}"

    def _check_primary(self) -> str:
        assert self._settings.primary is not None
        address = self._settings.primary
        primary = Connection.open(address, self._interrupt, query_timeout_s=_QUERY_TIMEOUT_S)
        try:
            if is_standby(primary):
                raise ServerSetupError(
                    "standby", f"PostgreSQL at {address} is a standby too", "name the primary", key="database.primary.hostname"
                )
        finally:
            primary.close()
        return f"{address} is a primary"


def _is_of_connection(key: str) -> bool:
    return key in _CONNECTION_KEYS or key.startswith(_CONNECTION_PREFIXES)


def _step(name: str, check: Callable[[], str]) -> ConnectionStep:
    return check_step(name, check, _finding)


def _finding(error: ConnectError) -> Finding:
    if isinstance(error, ServerSetupError):
        return error_finding(error.code, error.problem, error.key, _sentence(error.advice))
    if isinstance(error, ConfigError):
        return error_finding("invalid-config", error.message, error.key)
    return error_finding("unreachable" if isinstance(error, UnreachableError) else "server-error", error.message)


def _connection_finding(error: ConnectError) -> Finding:
    if isinstance(error, ConfigError) and not isinstance(error, ServerSetupError):
        return error_finding("address-not-allowed", error.message, error.key)
    if isinstance(error, UnreachableError):
        return error_finding("unreachable", error.message, "database.hostname")
    return _finding(error)


def _sentence(advice: str) -> str:
    return advice[:1].upper() + advice[1:]


def _describe_server(sql: Connection) -> str:
    version = sql.query("show server_version")[0][0]
    tls = sql.query(_TLS)
    encrypted = tls[0][0] if tls and tls[0][0] else "no TLS"
    kind = "standby" if is_standby(sql) else "primary"
    return f"PostgreSQL {version} at {sql.address} ({kind}, {encrypted})"


def _check_wal(sql: Connection) -> str:
    slots.check_wal_level(sql)
    slots.check_standby(sql)
    return "logical"


def _slot_step(sql: Connection, settings: PostgresConfig) -> ConnectionStep:
    name, what = settings.slot.name, "Replication slot"
    try:
        slot = slots.read_slot(sql, name)
    except ConnectError as e:
        return ConnectionStep(what, findings=(_finding(e),))
    if slot is None:
        free = int(sql.query(_FREE_SLOTS)[0][0] or 0)
        if free > 0:
            return ConnectionStep(what, f"{name} does not exist; the connector will create it ({free} free)")
        full = error_finding(
            "no-free-slot",
            f"all replication slots of the server are in use, so {name} cannot be created",
            "slot.name",
            "Raise max_replication_slots on the server, or drop a slot that nobody reads (pg_replication_slots)",
        )
        return ConnectionStep(what, findings=(full,))
    if slot.wal_status == "lost":
        lost = error_finding(
            "slot-lost",
            f"replication slot {name} is invalid, {loss_reason(slot.invalidation)}",
            "slot.name",
            f"Drop it (SELECT pg_drop_replication_slot('{name}')), and take a new snapshot",
        )
        return ConnectionStep(what, findings=(lost,))
    if slot.active_pid is not None:
        used = warning_finding(
            "slot-in-use",
            f"server process {slot.active_pid} reads from replication slot {name}, as it should if this connector is running",
            "slot.name",
            "Otherwise stop the other reader, or choose another slot.name",
        )
        return ConnectionStep(what, f"{name} exists", (used,))
    return ConnectionStep(what, f"{name} exists; changes since its position will be read")


def _publication_step(
    sql: Connection, settings: PostgresConfig, filters: Filters, tables: Sequence[CapturedTable]
) -> ConnectionStep:
    name, mode, what = settings.slot.publication, settings.slot.autocreate, "Publication"
    publication = publications.read_publication(sql, name)
    if publication is None:
        if mode == "disabled":
            return _step(what, lambda: _require_publication(sql, settings))
        found = _creation_problem(sql, settings, tables)
        return ConnectionStep(what, f"{name} does not exist; the connector will create it", (found,) if found else ())
    findings: list[Finding] = []
    unpublished = [table for table in tables if table.oid not in publication.tables]
    if unpublished and not publication.all_tables:
        finding = _unpublished_finding(sql, publication, settings, unpublished)
        findings += [finding] if finding is not None else []
    missing = {"insert", "update", "delete"} - set(publication.operations)
    if missing:
        findings.append(
            warning_finding(
                "operations-not-published",
                f"publication {name} does not publish {', '.join(sorted(missing))}",
                "publication.name",
                f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')",
            )
        )
    content = "all tables" if publication.all_tables else f"{len(publication.tables)} tables"
    return ConnectionStep(what, f"{name} publishes {content}", findings)


def _require_publication(sql: Connection, settings: PostgresConfig) -> str:
    publications.require_publication(sql, settings.slot)
    return f"{settings.slot.publication} exists"


def _creation_problem(sql: Connection, settings: PostgresConfig, tables: Sequence[CapturedTable]) -> Finding | None:
    """Why the user may not create the publication; None if it may."""
    user, name, mode = sql.address.user, settings.slot.publication, settings.slot.autocreate
    rows = sql.query(_MAY_CREATE)
    is_super, creates = (rows[0][0] == "t", rows[0][1] == "t") if rows else (False, False)
    if is_super:
        return None
    own = f"Create it as its owner or a superuser, and set publication.autocreate.mode=disabled: CREATE PUBLICATION {name} FOR "
    if mode == "all_tables":
        reason = "only a superuser may publish all tables"
        return _may_not_create(user, name, reason, own + "ALL TABLES, or choose filtered")
    if not creates:
        reason = f"it lacks CREATE on database {sql.address.database}"
        grant = f"GRANT CREATE ON DATABASE {sql.address.database} TO {user}. Or: "
        return _may_not_create(user, name, reason, grant + own + "TABLE ...")
    others = sql.query(_OF_OTHERS, [_oids(tables)])
    if mode == "filtered" and others:
        listed = list_names([f"{table} of {owner}" for table, owner in others])
        return _may_not_create(user, name, f"it does not own {listed}", own + "TABLE ...")
    return None


def _may_not_create(user: str, name: str, reason: str, advice: str) -> Finding:
    return error_finding(
        "may-not-create-publication",
        f"user {user} may not create publication {name}: {reason}",
        "publication.autocreate.mode",
        advice,
    )


def _unpublished_finding(
    sql: Connection, publication: Publication, settings: PostgresConfig, unpublished: Sequence[CapturedTable]
) -> Finding | None:
    listed = list_names([str(table) for table in unpublished])
    sql_names = ", ".join(quote_name(table.schema, table.name) for table in unpublished[:_MOST_NAMED])
    add = f"ALTER PUBLICATION {publication.name} ADD TABLE {sql_names}"
    if settings.slot.autocreate != "filtered":
        return warning_finding(
            "table-not-published",
            f"publication {publication.name} lacks {listed}: snapshots read their rows, but changes are missing",
            "publication.name",
            add,
        )
    owns = sql.query(_OWNS_PUBLICATION, [publication.name])
    others = sql.query(_OF_OTHERS, [_oids(unpublished)])
    if owns and owns[0][0] == "t" and not others:
        return None  # the connector adds them
    return error_finding(
        "may-not-alter-publication",
        f"user {sql.address.user} may not add {listed} to publication {publication.name}, because it does not own them all",
        "publication.autocreate.mode",
        f"{add} as their owner, and set publication.autocreate.mode=disabled",
    )


def _tables_step(sql: Connection, settings: PostgresConfig, filters: Filters, tables: Sequence[CapturedTable]) -> ConnectionStep:
    capture = settings.capture
    if not tables:
        key = "schema.include.list" if capture.schema_include and not capture.table_include else "table.include.list"
        message = describe_no_match(sql, filters.captures_table)
        is_listed = capture.table_include or capture.schema_include
        report = error_finding if is_listed else warning_finding
        suggestion = f"Change {key}: its entries are regular expressions for schema.table"
        return ConnectionStep("Tables", findings=(report("no-table", message, key, suggestion),))
    detail = f"{len(tables)} captured: {list_names([str(table) for table in tables])}"

    def check() -> str:
        check_topics(tables, settings)
        return detail

    return _step("Tables", check)


def _check_snapshot(sql: Connection, settings: PostgresConfig, tables: Sequence[CapturedTable]) -> str:
    include, overrides = settings.snapshot.include, settings.snapshot.overrides
    read = [t for t in tables if str(t) not in overrides and (not include or name_matches(include, str(t)))]
    check_access(sql, read)
    return f"user {sql.address.user} may read {len(read)} tables"


def _identity_step(settings: PostgresConfig, filters: Filters, tables: Sequence[CapturedTable]) -> ConnectionStep:
    findings: list[Finding] = []
    unset = [table for table in tables if publications.configured_identity(settings.slot, table) is None]
    try:
        check_keys(unset, settings, filters)
    except ConnectError as e:
        findings.append(_finding(e))
    without = [table for table in tables if not table.key and filters.key_columns(table.schema, table.name) is None]
    findings += find_missing_keys(without, ", so records have no key")
    silent = [table for table in unset if _has_no_identity(table.identity, table.sends_key)]
    if silent:
        findings.append(
            warning_finding(
                "no-replica-identity",
                f"{list_names([str(table) for table in silent])} {_have(silent)} no replica identity: once published, the server "
                "rejects UPDATE and DELETE in every application",
                "replica.identity.autoset.values",
                "; ".join(f"ALTER TABLE {table.sql_name} REPLICA IDENTITY FULL" for table in silent[:_MOST_NAMED]),
            )
        )
    full = sum(table.identity == "f" for table in tables)
    return ConnectionStep("Keys and replica identity", f"{len(tables) - len(without)} with a key, {full} FULL", findings)


def _has_no_identity(identity: str, sends_key: bool) -> bool:
    return identity == "n" or (identity != "f" and not sends_key)


def _collection(row: Sequence[str | None], database: str, publication: Publication | None) -> DataCollection:
    oid, schema, name, kind, identity, rows, size, has_primary, has_key, may_read = row
    schema, name = schema or "", name or ""
    full_name, sql_name = f"{schema}.{name}", quote_name(schema, name)
    details = {"replica identity": _IDENTITIES.get(identity or "", "unknown")}
    if publication is not None:
        is_published = publication.all_tables or int(oid or 0) in publication.tables
        details["publication"] = "included" if is_published else "not included"
    findings: list[Finding] = []
    if has_key != "t":
        advice = "Add a primary key, or name its columns in message.key.columns"
        findings.append(
            warning_finding("no-primary-key", f"{full_name} has no primary key: its records have no key", None, advice)
        )
    if _has_no_identity(identity or "", has_primary == "t" or identity == "i"):
        message = f"{full_name} has no replica identity: once published, the server rejects UPDATE and DELETE of it"
        findings.append(warning_finding("no-replica-identity", message, None, f"ALTER TABLE {sql_name} REPLICA IDENTITY FULL"))
    if may_read != "t":
        findings.append(
            warning_finding(
                "no-select-privilege", f"the user may not read {full_name}", None, f"GRANT SELECT ON {sql_name} TO the user"
            )
        )
    estimate = int(rows or -1)
    return DataCollection(
        full_name,
        regex_entry(schema, name),
        "partitioned table" if kind == "p" else "table",
        database,
        schema,
        estimate if estimate >= 0 else None,
        int(size or 0) if estimate >= 0 else None,
        has_primary == "t",
        details,
        findings,
    )


def _have(tables: Sequence[CapturedTable]) -> str:
    return "has" if len(tables) == 1 else "have"


def _oids(tables: Sequence[CapturedTable]) -> str:
    return "{" + ",".join(str(table.oid) for table in tables) + "}"
