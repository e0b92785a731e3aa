"""The source's task: reads its tables in turn, each whenever it is due, and finds back after an interruption."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from connect.errors import ConnectError, DataError, UnreachableError
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
from connectors.jdbc.source.chunk_plans import Progress, chunk_partition
from connectors.jdbc.source.chunk_queries import ChunkFeed, HandoverFeed
from connectors.jdbc.source.config import Settings, parse_settings
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.offsets import QUERY_PARTITION, old_table_partition, table_partition
from connectors.jdbc.source.querier import Querier
from connectors.jdbc.source.table_discovery import Share, parse_share
from connectors.jdbc.source.table_queries import BulkFeed, Feed, IncrementalFeed, QueryFeed, TableGoneError
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_POLL_S = 0.5
"""How long a poll waits for a table to be due."""
_FILL_S = 0.5
"""How long a poll that has records reads on."""
_FIRST_PAUSE_S = 0.1


class JdbcSourceTask(SourceTask):
    """Reads some tables, or the query."""

    flavor: ClassVar[ConnectorFlavor] = ConnectorFlavor.CONFLUENT
    settings: Settings

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._database: Database | None = None
        self._session: Session | None = None
        self._in_use = CancellableSession("jdbc-source-cancel")
        self._queriers: list[Querier] = []
        self._current: Querier | None = None
        self._not_before = 0.0
        self._refused = 0

    # --- the worker's calls

    def start(self, config: Mapping[str, str]) -> None:
        """Connects to nothing yet: that is ``poll``'s, which can be stopped."""
        self.settings = settings = parse_settings(config, self.flavor)
        # The waits between attempts are this class's own: poll has to come back.
        self._database = Database(replace(settings.connection, attempts=1, backoff_ms=0, pool_size=1), self._stop)
        self._queriers = [Querier(feed, settings.keys) for feed in self._feeds(config)]

    def _feeds(self, config: Mapping[str, str]) -> list[Feed]:
        settings, reader = self.settings, self.context.offset_reader
        if settings.query is not None:
            return [QueryFeed(settings, None if settings.mode.mode is Mode.BULK else reader.offset(QUERY_PARTITION))]
        tables, shares = parse_share(config)
        if settings.mode.mode is Mode.BULK:
            return [*(BulkFeed(table, settings) for table in tables), *self._chunk_feeds(shares)]
        offsets = dict(zip(tables, self._stored(tables), strict=True))
        plans = {share.table: share.plan for share in shares}
        feeds: list[Feed] = []
        for table, offset in offsets.items():
            if table in plans and offset is None:
                feeds.append(HandoverFeed(table, plans[table], settings, reader))
            else:
                feeds.append(IncrementalFeed(table, settings, offset))
        return [*self._chunk_feeds(shares), *feeds]

    def _chunk_feeds(self, shares: Sequence[Share]) -> list[ChunkFeed]:
        """This task's chunks that are not done. Of a table that has an offset of its own all are."""
        feeds: list[ChunkFeed] = []
        for share, own in zip(shares, self._stored([share.table for share in shares]), strict=True):
            if own is not None and self.settings.mode.mode is not Mode.BULK:
                continue
            stored = self.context.offset_reader.offsets([chunk_partition(share.table, chunk) for chunk in share.chunks])
            for chunk, offset in zip(share.chunks, stored, strict=True):
                feeds.append(ChunkFeed(share.table, share.plan, chunk, self.settings, Progress.load(offset, share.plan)))
        # In bulk mode a copy that was interrupted comes to its end before the next begins.
        return sorted(feeds, key=lambda feed: feed.completed)

    def _stored(self, tables: Sequence[TableName]) -> list[dict[str, Any] | None]:
        """The stored offset of each table: of protocol 1, else of protocol 0."""
        reader = self.context.offset_reader
        partitions = [partition for table in tables for partition in (table_partition(table), old_table_partition(table))]
        found = reader.offsets(partitions)
        return [new if new is not None else old for new, old in zip(found[::2], found[1::2], strict=True)]

    def poll(self) -> Sequence[SourceRecord] | None:
        deadline = time.monotonic() + _POLL_S
        while not self._stop.is_set():
            now = time.monotonic()
            querier = self._current or self._next()
            ready = self._not_before if querier is None else max(querier.due, self._not_before)
            if querier is None or ready > now:
                # Nothing is due. Long waits are several polls, so that a pause is seen.
                self._stop.wait(deadline - now if querier is None else max(0.0, min(ready, deadline) - now))
            else:
                records = self._read(querier)
                if records:
                    return records
            if time.monotonic() >= deadline:
                return None
        return None

    def progress(self) -> Mapping[str, Any]:
        queriers = self._queriers
        current = self._current
        answer: dict[str, Any] = {"tables": len(queriers), "rows": sum(querier.rows for querier in queriers)}
        if current is not None:
            answer["table"] = current.feed.label
        chunks = [querier.feed for querier in queriers if isinstance(querier.feed, ChunkFeed)]
        if chunks:
            answer |= {
                "tables": len({querier.feed.name for querier in queriers}),
                "chunks_done": sum(feed.completed for feed in chunks),
                "chunks_total": len(chunks),
                "chunk_rows_estimate": sum(feed.rows_expected for feed in chunks),
            }
        gone = [querier.feed.label for querier in queriers if querier.gone]
        if gone:
            answer["missing_tables"] = gone
        return answer

    def stop(self) -> None:
        self._stop.set()
        self._in_use.cancel()

    def close(self) -> None:
        self._disconnect()
        self._in_use.join()
        if self._database is not None:
            self._database.close()

    # --- reading

    def _next(self) -> Querier | None:
        return min((one for one in self._queriers if not one.feed.finished), key=lambda one: one.due, default=None)

    def _read(self, querier: Querier) -> list[SourceRecord]:
        """The next records of a querier that is due, if it has any. Raises what the task fails with: then nothing that was read
        in this call is stored, and all of it is read again."""
        self._current = querier
        records: list[SourceRecord] = []
        failure: ConnectError | None = None
        try:
            with self._using() as session:
                if not querier.querying and not querier.begin(session):
                    session.rollback()
                    self._leave(querier)
                else:
                    self._fill(querier, session, records)
        except StopRequested:
            pass
        except ConnectError as e:
            # Promise 9: what follows is raised after this block, so that it has no context with the query in it either.
            failure = redact_error(e) if self.settings.query_is_masked else e
        if failure is not None:
            if self._stop.is_set():
                log.debug("stopped while reading %s", querier.feed.label, exc_info=failure)
            else:
                self._after(failure, querier)
        self._release()
        return records

    def _fill(self, querier: Querier, session: Session, records: list[SourceRecord]) -> None:
        """Reads until the batch is full, the query ends or time is over. A query that has ended lets go of its locks at once, not
        with the next poll, which a pause can put off for long."""
        most = self.settings.batch_rows
        deadline = time.monotonic() + _FILL_S
        while len(records) < most:
            part = querier.read(most - len(records))
            if part is None:
                querier.end(self._later())
                session.commit()
                self._current = None
                return
            querier.failures = 0
            records += part
            if time.monotonic() >= deadline or self._stop.is_set():
                return

    @contextlib.contextmanager
    def _using(self) -> Iterator[Session]:
        """The session, marked as in use, so that ``stop`` ends what it does."""
        if self._session is None:
            assert self._database is not None
            self._session = self._database.session()
            self._refused = 0
        with self._in_use.using(self._session) as session:
            if self._stop.is_set():
                raise StopRequested
            yield session

    def _later(self) -> float:
        return time.monotonic() + self.settings.poll_interval_s

    def _leave(self, querier: Querier) -> None:
        querier.reset(self._later())
        self._current = None

    def _after(self, error: ConnectError, querier: Querier) -> None:
        """What follows a failed query: another try, now or later, or the end of the task."""
        if isinstance(error, TableGoneError):
            if not querier.gone:
                log.warning("%s; going on without it until it is there", error.message)
            querier.gone = True
            self._roll_back()
            self._leave(querier)
            return
        querier.reset(time.monotonic())
        self._current = None
        if isinstance(error, DatabaseLostError):
            self._after_loss(error, querier)
        elif isinstance(error, AuthenticationError | DatabaseUnreachableError | UnreachableError):
            self._disconnect()
            self._after_refusal(error)
        elif isinstance(error, TableChangedError) and querier.failures == 0:
            log.info("%s; looking at the table again", error.message)
            querier.failures = 1
            self._roll_back()
        elif isinstance(error, DataError) and querier.feed.label not in error.message:
            raise DataError(f"Reading {querier.feed.label}: {error.message}") from error
        else:
            raise error

    def _after_loss(self, error: DatabaseLostError, querier: Querier) -> None:
        self._disconnect()
        querier.failures += 1
        most = self.settings.query_attempts
        if 0 < most <= querier.failures:
            raise ConnectError(f"{error.message} (given up after query.retry.attempts={most})") from error
        wait_s = min(_FIRST_PAUSE_S * 2 ** min(querier.failures - 1, 10), max(self.settings.connection.backoff_ms / 1000, 0.1))
        self._not_before = time.monotonic() + wait_s
        log.warning("%s; trying again in %.1f s", error.message, wait_s)

    def _after_refusal(self, error: ConnectError) -> None:
        connection = self.settings.connection
        self._refused += 1
        if isinstance(error, AuthenticationError) or self._refused >= connection.attempts:
            raise error
        self._not_before = time.monotonic() + connection.backoff_ms / 1000
        log.warning("%s (attempt %d of %d)", error.message, self._refused, connection.attempts)

    def _roll_back(self) -> None:
        if self._session is not None:
            self._session.rollback()

    def _release(self) -> None:
        """Closes the connection between queries where others wait for it."""
        if self._current is None and self._session is not None and self._session.dialect.releases_when_idle:
            self._disconnect()

    def _disconnect(self) -> None:
        for querier in self._queriers:
            if querier.querying:
                querier.reset(querier.due)
        self._current = None
        session, self._session = self._session, None
        if session is not None:
            session.close()


class AivenJdbcSourceTask(JdbcSourceTask):
    flavor = ConnectorFlavor.AIVEN
