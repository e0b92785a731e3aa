"""Task of the JDBC source: reads its tables in turn, each when it is due, and recovers from lost connections."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from connect.backoff import Backoff
from connect.errors import ConnectError, DataError, UnreachableError
from connect.metrics import Metric, MetricKind
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.jdbc.connection.statement_cancel import CancellableSession
from connectors.jdbc.database import Database, Session, StopRequested
from connectors.jdbc.errors import (
    AuthenticationError,
    DatabaseLostError,
    DatabaseUnreachableError,
    TableChangedError,
    redact_error,
)
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.source.chunk_plans import ChunkProgress, chunk_partition
from connectors.jdbc.source.chunk_queries import ChunkHandoverQuery, ChunkQuery
from connectors.jdbc.source.config import JdbcSourceConfig, parse_source_config
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.offsets import QUERY_PARTITION, legacy_table_partition, table_partition
from connectors.jdbc.source.querier import TableQuerier
from connectors.jdbc.source.table_queries import BulkTableQuery, CustomQuery, IncrementalTableQuery, TableMissingError, TableQuery
from connectors.jdbc.source.task_assignment import COMPLETE, ChunkAssignment, parse_assignment
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_POLL_TIMEOUT_S = 0.5
"""How long a poll waits for a table that is due."""
_FILL_TIMEOUT_S = 0.5
"""How long a poll that has records continues to read."""
_FIRST_BACKOFF_S = 0.1
_MAX_BACKOFF_STEPS = 11
"""The wait doubles ten times, to 102 s, whatever ``connection.backoff.ms`` is."""


class JdbcSourceTask(SourceTask):
    """Reads its share of the tables, or the query."""

    flavor: ClassVar[ConnectorFlavor] = ConnectorFlavor.CONFLUENT
    settings: JdbcSourceConfig

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._database: Database | None = None
        self._session: Session | None = None
        self._in_use = CancellableSession("jdbc-source-cancel")
        self._queriers: list[TableQuerier] = []
        self._has_all_tables = True
        self._current: TableQuerier | None = None
        self._retry_at = 0.0
        """Earliest time of the next query, by the monotonic clock."""
        self._failed_connects = 0

    # --- called by the worker

    def start(self, config: Mapping[str, str]) -> None:
        """Does not connect yet; ``poll`` does, because it can be stopped."""
        self.settings = settings = parse_source_config(config, self.flavor)
        self._has_all_tables = config.get(COMPLETE) != "false"
        # This class waits between attempts itself, because poll must return.
        self._database = Database(replace(settings.connection, attempts=1, backoff_ms=0, pool_size=1), self._stop)
        self._queriers = [TableQuerier(query, settings.keys) for query in self._create_queries(config)]

    def _create_queries(self, config: Mapping[str, str]) -> list[TableQuery]:
        settings, reader = self.settings, self.context.offset_reader
        if settings.query is not None:
            return [CustomQuery(settings, None if settings.mode.mode is Mode.BULK else reader.offset(QUERY_PARTITION))]
        tables, assignments = parse_assignment(config)
        if settings.mode.mode is Mode.BULK:
            return [*(BulkTableQuery(table, settings) for table in tables), *self._create_chunk_queries(assignments)]
        offsets = dict(zip(tables, self._load_offsets(tables), strict=True))
        plans = {assignment.table: assignment.plan for assignment in assignments}
        queries: list[TableQuery] = []
        for table, offset in offsets.items():
            if table in plans and offset is None:
                queries.append(ChunkHandoverQuery(table, plans[table], settings, reader))
            else:
                queries.append(IncrementalTableQuery(table, settings, offset))
        return [*self._create_chunk_queries(assignments), *queries]

    def _create_chunk_queries(self, assignments: Sequence[ChunkAssignment]) -> list[ChunkQuery]:
        """Creates queries for this task's unfinished chunks. A table with an offset of its own has none."""
        queries: list[ChunkQuery] = []
        for assignment, own in zip(assignments, self._load_offsets([one.table for one in assignments]), strict=True):
            if own is not None and self.settings.mode.mode is not Mode.BULK:
                continue
            stored = self.context.offset_reader.offsets([chunk_partition(assignment.table, chunk) for chunk in assignment.chunks])
            for chunk, offset in zip(assignment.chunks, stored, strict=True):
                queries.append(
                    ChunkQuery(
                        assignment.table, assignment.plan, chunk, self.settings, ChunkProgress.parse(offset, assignment.plan)
                    )
                )
        # In bulk mode an interrupted copy is finished before the next one starts.
        return sorted(queries, key=lambda query: query.completed)

    def _load_offsets(self, tables: Sequence[TableName]) -> list[dict[str, Any] | None]:
        """Loads the offset of each table: of protocol 1, otherwise of protocol 0."""
        reader = self.context.offset_reader
        partitions = [partition for table in tables for partition in (table_partition(table), legacy_table_partition(table))]
        found = reader.offsets(partitions)
        return [new if new is not None else old for new, old in zip(found[::2], found[1::2], strict=True)]

    def poll(self) -> Sequence[SourceRecord] | None:
        deadline = time.monotonic() + _POLL_TIMEOUT_S
        while not self._stop.is_set():
            now = time.monotonic()
            querier = self._current or self._next_querier()
            ready = self._retry_at if querier is None else max(querier.due, self._retry_at)
            if querier is None or ready > now:
                # Nothing is due. Long waits take several polls, so that the worker can pause the task.
                self._stop.wait(deadline - now if querier is None else max(0.0, min(ready, deadline) - now))
            else:
                records = self._read(querier)
                if records:
                    return records
            if time.monotonic() >= deadline:
                return None
        return None

    def is_loaded(self) -> bool | None:
        """Whether each table was read once, and the connector is planning no others. Each as of its own query: rows that were
        changed since follow, in incremental modes. Bulk mode, which reads all rows again, has no such point."""
        if self.settings.mode.mode is Mode.BULK:
            return None
        return self._has_all_tables and all(one.has_ended or one.is_missing or one.query.finished for one in self._queriers)

    def progress(self) -> Mapping[str, Any]:
        queriers = self._queriers
        current = self._current
        progress: dict[str, Any] = {"tables": len(queriers), "rows": sum(querier.rows for querier in queriers)}
        if current is not None:
            progress["table"] = current.query.label
        chunks = [querier.query for querier in queriers if isinstance(querier.query, ChunkQuery)]
        if chunks:
            progress |= {
                "tables": len({querier.query.name for querier in queriers}),
                "chunks_done": sum(query.completed for query in chunks),
                "chunks_total": len(chunks),
                "chunk_rows_estimate": sum(query.rows_expected for query in chunks),
            }
        missing = [querier.query.label for querier in queriers if querier.is_missing]
        if missing:
            progress["missing_tables"] = missing
        return progress

    def metrics(self) -> Sequence[Metric]:
        progress = self.progress()
        chunks = {
            "chunks_total": ("jdbc_source_chunks", "Chunks of tables that are read in parallel."),
            "chunks_done": ("jdbc_source_chunks_done", "Chunks that are complete."),
        }
        return [
            Metric("jdbc_source_tables", progress["tables"], "Tables and queries of the task."),
            Metric("jdbc_source_rows_total", progress["rows"], "Rows read.", MetricKind.COUNTER),
            *(Metric(name, progress[key], help) for key, (name, help) in chunks.items() if key in progress),
        ]

    def stop(self) -> None:
        self._stop.set()
        self._in_use.cancel()

    def close(self) -> None:
        self._disconnect()
        self._in_use.join()
        if self._database is not None:
            self._database.close()

    # --- reading

    def _next_querier(self) -> TableQuerier | None:
        return min((one for one in self._queriers if not one.query.finished), key=lambda one: one.due, default=None)

    def _read(self, querier: TableQuerier) -> list[SourceRecord]:
        """Returns the next records of a querier that is due. Raises errors that fail the task; a restart then reads the rows
        of this call again."""
        self._current = querier
        records: list[SourceRecord] = []
        failure: ConnectError | None = None
        try:
            with self._using() as session:
                if not querier.is_running and not querier.start(session):
                    session.rollback()
                    self._postpone(querier)
                else:
                    self._fill(querier, session, records)
        except StopRequested:
            pass
        except ConnectError as e:
            # Promise 9: raised outside of this block, so that its __context__ has no query either.
            failure = redact_error(e) if self.settings.query_is_masked else e
        if failure is not None:
            if self._stop.is_set():
                log.debug("stopped while reading %s", querier.query.label, exc_info=failure)
            else:
                self._after_failure(failure, querier)
        self._disconnect_if_idle()
        return records

    def _fill(self, querier: TableQuerier, session: Session, records: list[SourceRecord]) -> None:
        """Reads until the batch is full, the query ends, or the time is up. Commits at the end of a query to release its locks,
        because the task may be paused before the next poll."""
        max_rows = self.settings.batch_rows
        deadline = time.monotonic() + _FILL_TIMEOUT_S
        while len(records) < max_rows:
            batch = querier.read(max_rows - len(records))
            if batch is None:
                querier.finish(self._next_due())
                session.commit()
                self._current = None
                return
            querier.failures = 0
            records += batch
            if time.monotonic() >= deadline or self._stop.is_set():
                return

    @contextlib.contextmanager
    def _using(self) -> Iterator[Session]:
        """Yields the session in a way that lets ``stop`` cancel its statement."""
        if self._session is None:
            assert self._database is not None
            self._session = self._database.session()
            self._failed_connects = 0
        with self._in_use.using(self._session) as session:
            if self._stop.is_set():
                raise StopRequested
            yield session

    def _next_due(self) -> float:
        return time.monotonic() + self.settings.poll_interval_s

    def _postpone(self, querier: TableQuerier) -> None:
        querier.reset(self._next_due())
        self._current = None

    def _after_failure(self, error: ConnectError, querier: TableQuerier) -> None:
        """Retries a failed query now or later, or raises the error to fail the task."""
        if isinstance(error, TableMissingError):
            if not querier.is_missing:
                log.warning("%s; skipping the table until it exists", error.message)
            querier.is_missing = True
            self._roll_back()
            self._postpone(querier)
            return
        querier.reset(time.monotonic())
        self._current = None
        if isinstance(error, DatabaseLostError):
            self._after_lost_connection(error, querier)
        elif isinstance(error, AuthenticationError | DatabaseUnreachableError | UnreachableError):
            self._disconnect()
            self._after_failed_connect(error)
        elif isinstance(error, TableChangedError) and querier.failures == 0:
            log.info("%s; describing the table again", error.message)
            querier.failures = 1
            self._roll_back()
        elif isinstance(error, DataError) and querier.query.label not in error.message:
            raise DataError(f"Reading {querier.query.label}: {error.message}") from error
        else:
            raise error

    def _after_lost_connection(self, error: DatabaseLostError, querier: TableQuerier) -> None:
        self._disconnect()
        querier.failures += 1
        max_attempts = self.settings.query_attempts
        if 0 < max_attempts <= querier.failures:
            raise ConnectError(f"{error.message} (gave up after query.retry.attempts={max_attempts})") from error
        max_wait_s = max(self.settings.connection.backoff_ms / 1000, _FIRST_BACKOFF_S)
        wait_s = Backoff(_FIRST_BACKOFF_S, max_wait_s).delay_after_s(min(querier.failures, _MAX_BACKOFF_STEPS))
        self._retry_at = time.monotonic() + wait_s
        log.warning("%s; retrying in %.1f s", error.message, wait_s)

    def _after_failed_connect(self, error: ConnectError) -> None:
        connection = self.settings.connection
        self._failed_connects += 1
        if isinstance(error, AuthenticationError) or self._failed_connects >= connection.attempts:
            raise error
        self._retry_at = time.monotonic() + connection.backoff_ms / 1000
        log.warning("%s (attempt %d of %d)", error.message, self._failed_connects, connection.attempts)

    def _roll_back(self) -> None:
        if self._session is not None:
            self._session.rollback()

    def _disconnect_if_idle(self) -> None:
        """Closes the connection between queries of a database that others may be waiting for."""
        if self._current is None and self._session is not None and self._session.dialect.releases_when_idle:
            self._disconnect()

    def _disconnect(self) -> None:
        for querier in self._queriers:
            if querier.is_running:
                querier.reset(querier.due)
        self._current = None
        session, self._session = self._session, None
        if session is not None:
            session.close()


class AivenJdbcSourceTask(JdbcSourceTask):
    flavor = ConnectorFlavor.AIVEN
