"""Connection tests of the JDBC connectors, and the tables of their database. Reads the catalog; creates nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from connect.config.definition import ConfigDef
from connect.config.finding import Finding
from connect.errors import ConfigError, ConnectError
from connect.external_system import (
    MAX_COLLECTIONS,
    ConnectionStep,
    DataCollection,
    error_finding,
    regex_entry,
    warning_finding,
)
from connectors.jdbc.catalog import TableStatistics
from connectors.jdbc.connection.statement_cancel import CancellableSession
from connectors.jdbc.database import ConnectionSettings, Database, Session
from connectors.jdbc.errors import AuthenticationError
from connectors.jdbc.table_name import TableName

_STATEMENT_TIMEOUT_MS = 20_000
_CONNECTION = "connection."
_URL = "connection.url"
_FILES = ("sqlite", "duckdb")
ALL_KINDS = ("TABLE", "PARTITIONED TABLE", "FOREIGN TABLE", "VIEW", "MATERIALIZED VIEW")
SINK_KINDS = ("TABLE", "PARTITIONED TABLE", "FOREIGN TABLE", "VIEW")

T = TypeVar("T")
Check = Callable[[Session], Iterator[ConnectionStep]]
"""Yields the steps after the connection."""


class JdbcSystem:
    """Implements :class:`connect.external_system.ExternalSystem`."""

    def __init__(
        self,
        connection: ConnectionSettings,
        kinds: Collection[str],
        check: Check,
        *,
        catalog: str | None = None,
        schema: str | None = None,
        problems: Sequence[Finding] = (),
    ) -> None:
        """``kinds``, ``catalog``, and ``schema`` limit the list of tables; ``problems`` are those of other keys."""
        self._settings = replace(connection, attempts=1, backoff_ms=0, pool_size=1, statement_timeout_ms=_STATEMENT_TIMEOUT_MS)
        self._kinds, self._catalog, self._schema = kinds, catalog, schema
        self._check = check
        self._problems = problems
        self._stop = threading.Event()
        self._cancellable = CancellableSession("jdbc-test-cancel")
        self._database: Database | None = None

    def test_connection(self) -> Iterator[ConnectionStep]:
        if self._problems:
            yield ConnectionStep("Configuration", findings=self._problems)
        path = self._file
        if path is not None:
            step = _file_step(path, creates=not self._settings.reads_only)
            yield step
            if step.findings or not os.path.exists(path):
                return
        try:
            database = self._open()
        except ConfigError as e:
            yield ConnectionStep("Driver", findings=(error_finding("no-driver", e.message, e.key),))
            return
        yield ConnectionStep("Driver", self._settings.target.url.drivername)
        try:
            session = database.session()
        except ConnectError as e:
            yield ConnectionStep("Connection", findings=(_connection_finding(e),))
            return
        try:
            with self._cancellable.using(session):
                yield ConnectionStep("Connection", _describe_server(session))
                yield from self._check(session)
        finally:
            session.close()

    def data_collections(self) -> Sequence[DataCollection]:
        path = self._file
        if path is not None and not os.path.exists(path):
            if self._settings.reads_only:
                raise ConfigError(f"{_URL}: file {path} does not exist", key=_URL)
            return []
        session = self._open().session()
        try:
            with self._cancellable.using(session):
                found = session.dialect.tables(session, self._kinds, catalog=self._catalog, schema=self._schema)
                statistics = session.dialect.statistics(session)
        finally:
            session.close()
        return [_collection(name, kind, statistics) for name, kind in found[: MAX_COLLECTIONS + 1]]

    def cancel(self) -> None:
        self._stop.set()
        self._cancellable.cancel()

    def close(self) -> None:
        self._cancellable.join()
        if self._database is not None:
            self._database.close()

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database(self._settings, self._stop)
        return self._database

    @property
    def _file(self) -> Path | None:
        """The file of the database, if it is one."""
        url = self._settings.target.url
        if url.get_backend_name() not in _FILES or not url.database or url.database.startswith((":", "file:", "md:")):
            return None
        return Path(url.database)


def parse_leniently(
    config: Mapping[str, str], definition: ConfigDef, required: Mapping[str, str], parse: Callable[[Mapping[str, str]], T]
) -> tuple[T, list[Finding]]:
    """Parses a configuration without its wrong keys, with ``required`` in place of missing ones. Returns findings about wrong
    keys; raises ConfigError for those of the connection."""
    wrong = {value.name: value.errors[0] for value in definition.validate(config) if value.errors}
    findings: list[Finding] = []
    for name, error in wrong.items():
        if name.startswith(_CONNECTION):
            raise ConfigError(error, key=name)
        findings.append(error_finding("invalid-config", error, name))
    usable = {**required, **{key: value for key, value in config.items() if key not in wrong}}
    try:
        return parse(usable), findings
    except ConfigError as e:
        if e.key is None or e.key.startswith(_CONNECTION):
            raise
        findings.append(error_finding("invalid-config", e.message, e.key))
        return parse({**required, **{key: value for key, value in usable.items() if key.startswith(_CONNECTION)}}), findings


def sink_tables(session: Session) -> Iterator[ConnectionStep]:
    """The step of a sink: which tables there are."""
    try:
        found = session.dialect.tables(session, SINK_KINDS)
    except ConnectError as e:
        yield ConnectionStep("Tables", findings=(error_finding("catalog-not-readable", e.message),))
        return
    yield ConnectionStep("Tables", f"the user sees {len(found)} tables")


def _file_step(path: Path, *, creates: bool) -> ConnectionStep:
    folder = path.absolute().parent
    # Not Path.exists, which raises an error for what a folder without permission contains.
    problem, exists = "", os.path.exists(path)
    if exists:
        needed = os.R_OK | (os.W_OK if creates else 0)
        if not os.access(path, needed):
            problem = f"file {path} may not be {'written' if creates else 'read'} by the worker's user"
    elif not creates:
        problem = f"file {path} does not exist"
    elif not os.path.isdir(folder):
        problem = f"folder {folder} does not exist"
    elif not os.access(folder, os.W_OK | os.X_OK):
        problem = f"folder {folder} may not be written by the worker's user"
    if problem:
        advice = f"Change {_URL}, or the file's place and permissions; relative paths start at the worker's working directory"
        return ConnectionStep("File", findings=(error_finding("no-file", problem, _URL, advice),))
    return ConnectionStep("File", f"{path} exists" if exists else f"{path} will be created")


def _connection_finding(error: ConnectError) -> Finding:
    if isinstance(error, AuthenticationError):
        advice = "Check user, password, and the name of the database"
        return error_finding("authentication-failed", error.message, "connection.password", advice)
    if isinstance(error, ConfigError):
        return error_finding("address-not-allowed", error.message, error.key or _URL)
    return error_finding("unreachable", error.message, _URL)


def _describe_server(session: Session) -> str:
    version = session.connection.dialect.server_version_info or ()
    return f"{session.label} ({session.dialect.name} {'.'.join(map(str, version))})".replace(" )", ")")


def _collection(name: TableName, kind: str, statistics: Mapping[TableName, TableStatistics]) -> DataCollection:
    parts = [part for part in (name.catalog, name.schema, name.name) if part is not None]
    is_table = "VIEW" not in kind
    known = statistics.get(TableName(name.name, name.schema)) if is_table else None
    findings: list[Finding] = []
    if known is not None and known.has_primary_key is False:
        message = f"{name} has no primary key"
        findings.append(warning_finding("no-primary-key", message, None, "Set key.columns if its records need keys"))
    return DataCollection(
        str(name),
        regex_entry(*parts),
        kind.lower(),
        name.catalog,
        name.schema,
        None if known is None else known.rows,
        None if known is None else known.size_bytes,
        None if known is None else known.has_primary_key,
        findings=findings,
    )
