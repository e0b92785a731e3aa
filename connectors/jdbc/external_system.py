"""Connection tests of the JDBC connectors, and the tables of their database. Reads the catalog; creates nothing."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

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
from connectors.jdbc.database_files import database_file, require_usable_file
from connectors.jdbc.errors import AuthenticationError
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_STATEMENT_TIMEOUT_MS = 20_000
_CONNECTION = "connection."
_URL = "connection.url"
_CANCEL_TIMEOUT_S = 5.0
"""How long a server may take to answer a request to cancel, after the call that was cancelled has ended."""
ALL_KINDS = ("TABLE", "PARTITIONED TABLE", "FOREIGN TABLE", "VIEW", "MATERIALIZED VIEW")
SINK_KINDS = ("TABLE", "PARTITIONED TABLE", "FOREIGN TABLE", "VIEW")

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
        key_advice: str,
        problems: Sequence[Finding] = (),
    ) -> None:
        """``kinds``, ``catalog``, and ``schema`` limit the list of tables; ``key_advice`` is for those without a primary key;
        ``problems`` are those of other keys."""
        self._creates = not connection.reads_only
        self._settings = replace(
            connection,
            attempts=1,
            backoff_ms=0,
            pool_size=1,
            statement_timeout_ms=_STATEMENT_TIMEOUT_MS,
            reads_only=True,
        )
        self._kinds, self._patterns = kinds, {"catalog": catalog, "schema": schema}
        self._check, self._key_advice = check, key_advice
        self._problems = problems
        self._stop = threading.Event()
        self._cancellable = CancellableSession("jdbc-test-cancel")
        self._database: Database | None = None

    def test_connection(self) -> Iterator[ConnectionStep]:
        if self._problems:
            yield ConnectionStep("Configuration", findings=self._problems)
        path = self._file
        if path is not None:
            step = _file_step(path, creates=self._creates)
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
        if path is not None:
            require_usable_file(path, creates=self._creates)
            if not os.path.exists(path):
                return []
        session = self._open().session()
        try:
            with self._cancellable.using(session):
                found = session.dialect.tables(session, self._kinds, **self._patterns)
                statistics = self._statistics(session)
        finally:
            session.close()
        return [self._collection(name, kind, statistics.get(name)) for name, kind in found[: MAX_COLLECTIONS + 1]]

    def cancel(self) -> None:
        self._stop.set()
        self._cancellable.cancel()

    def close(self) -> None:
        # The server that does not answer may be the reason for the call's end.
        self._cancellable.join(_CANCEL_TIMEOUT_S)
        if self._database is not None:
            self._database.close()

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database(self._settings, self._stop)
        return self._database

    @property
    def _file(self) -> Path | None:
        """The file of the database, if it is one."""
        return database_file(self._settings.target.url)

    def _statistics(self, session: Session) -> Mapping[TableName, TableStatistics]:
        """Returns what is known of the tables: nothing if the user may not ask, or the server takes too long to answer."""
        try:
            return session.dialect.statistics(session, **self._patterns)
        except ConnectError as e:
            log.warning("Sizes and keys of the tables of %s are unknown: %s", session.label, e.message)
            return {}

    def _collection(self, name: TableName, kind: str, known: TableStatistics | None) -> DataCollection:
        parts = [part for part in (name.catalog, name.schema, name.name) if part is not None]
        findings: list[Finding] = []
        if known is not None and known.has_primary_key is False:
            findings.append(warning_finding("no-primary-key", f"{name} has no primary key", None, self._key_advice))
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


def is_of_connection(key: str) -> bool:
    """Whether nothing can be asked if the key is wrong."""
    return key.startswith(_CONNECTION)


def sink_tables(session: Session) -> Iterator[ConnectionStep]:
    """The step of a sink: which tables there are."""
    try:
        found = session.dialect.tables(session, SINK_KINDS)
    except ConnectError as e:
        yield ConnectionStep("Tables", findings=(error_finding("catalog-not-readable", e.message),))
        return
    yield ConnectionStep("Tables", f"the user sees {len(found)} tables")


def _file_step(path: Path, *, creates: bool) -> ConnectionStep:
    try:
        require_usable_file(path, creates=creates)
    except ConfigError as e:
        advice = f"Change {_URL}, or the file's place and permissions"
        return ConnectionStep("File", findings=(error_finding("no-file", e.message, _URL, advice),))
    return ConnectionStep("File", f"{path} {'exists' if os.path.exists(path) else 'will be created'}")


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
