"""Writes the changes of a batch in one transaction, without the rows that the database rejects."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from functools import partial

from connect import crash_points
from connect.errors import ConnectError, DataError
from connect.record import SinkRecord
from connectors.jdbc.connection.statement_cancel import CancellableSession
from connectors.jdbc.database import Database, Session
from connectors.jdbc.dialects.dialect import Dialect, RowWriter
from connectors.jdbc.errors import RowRejectedError, TableChangedError
from connectors.jdbc.sink.config import SinkWriterConfig
from connectors.jdbc.sink.row_changes import (
    ChangePlanner,
    ErrantRecord,
    ErrantRecordError,
    Operation,
    Reject,
    RowChanges,
    RowShape,
)
from connectors.jdbc.sink.statement_batches import group_by_table, plan_statements, split_batches, split_in_halves
from connectors.jdbc.sink.table_manager import TableManager
from connectors.jdbc.table_name import TableName
from connectors.sink_support.batch_isolation import deliver_in_order

log = logging.getLogger(__name__)

Batch = list[RowChanges]
Writers = dict[RowShape, RowWriter | None]
"""Writer per shape; None for truncates."""

_STOP_TIMEOUT_S = 3.0
"""Less than the default of task.shutdown.graceful.timeout.ms, after which the worker abandons the task."""


class JdbcBatchWriter:
    """Writes the batches of one task. Used on the task's thread; between calls it holds no transaction and no records."""

    def __init__(self, settings: SinkWriterConfig, stop: threading.Event) -> None:
        """``stop`` interrupts waiting for a connection. Raises ConfigError if the database driver is not installed."""
        self._settings = settings
        self._database = Database(settings.connection, stop)
        self._tables = TableManager(settings)
        self._in_use = CancellableSession("jdbc-sink-cancel")

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    @property
    def label(self) -> str:
        return self._database.label

    def stop(self) -> None:
        """Cancels a statement that takes long, for example because it waits for a lock, so that its batch is not committed.
        Otherwise it could be committed after newer changes of the task's successor (promise 4). Any thread."""
        self._in_use.cancel(_STOP_TIMEOUT_S)

    def close(self) -> None:
        self._in_use.join()
        self._database.close()

    def write(self, planner: ChangePlanner, records: Sequence[SinkRecord]) -> list[ErrantRecord]:
        """Commits the changes of the records; returns the errant records, of which nothing is in the database.

        On return everything else is durable (promise 2). If it raises, nothing is, with one exception: a database without
        savepoints, or one that commits at CREATE and ALTER, may have committed a part, so the same records may be written again.
        Raises ErrantRecordError for the first errant record if errors are not tolerated, and RetriableError if the connection was
        lost.
        """
        errant: list[ErrantRecord] = []
        changes = planner.plan(records, self._rejecting_into(errant))
        session = self._database.session()
        try:
            with self._in_use.using(session):
                self._write_with_retry(session, changes, errant)
                crash_points.point("jdbc.written")
                session.commit()
                crash_points.point("jdbc.committed")
        except BaseException:
            session.rollback()
            raise
        finally:
            session.close()
        return errant

    def _write_with_retry(self, session: Session, changes: Sequence[RowChanges], errant: list[ErrantRecord]) -> None:
        planned = len(errant)
        try:
            self._write(session, changes, errant)
        except TableChangedError as e:
            # Dropped or altered since it was described. A statement that is wrong in itself fails again.
            log.info("Describing the tables again: %s", e.message)
            session.rollback()
            self._tables.forget()
            del errant[planned:]
            self._write(session, changes, errant)

    def require(self, names: Iterable[TableName]) -> None:
        """Raises ConnectError, naming the nearest tables, if one of them is not in the database."""
        session = self._database.session()
        try:
            for name in names:
                self.dialect.find(session, name)
        finally:
            session.rollback()
            session.close()

    def _rejecting_into(self, errant: list[ErrantRecord]) -> Reject:
        def reject(record: SinkRecord, error: ConnectError) -> None:
            found = ErrantRecord(record, error if self._settings.shows_values_in_errors else _hide_values(error))
            if not self._settings.tolerates_errors:
                raise ErrantRecordError(found) from found.error
            errant.append(found)

        return reject

    def _write(self, session: Session, changes: Sequence[RowChanges], errant: list[ErrantRecord]) -> None:
        reject = self._rejecting_into(errant)
        writers = self._prepare_writers(session, changes, reject)
        session.rollback()  # the transaction of the records starts with their first statement, not with looking up tables
        tables = [
            list(split_batches([one for one in table if one.shape in writers], self._settings.batch_rows))
            for table in group_by_table(changes)
        ]
        batches = [batch for table in tables for batch in table]
        if self.dialect.savepoints:
            for batch in batches:
                self._isolate_errant(batch, partial(self._apply_in_savepoint, session, writers), reject)
            return
        try:
            for batch in batches:
                self._apply(session, writers, batch)
        except DataError:
            session.rollback()
            if not self._settings.tolerates_errors:
                self._reject_first_errant(session, writers, [one for batch in batches for one in batch], reject)
            for batch in batches:
                self._isolate_errant(batch, partial(self._apply_and_commit, session, writers), reject)

    def _prepare_writers(self, session: Session, changes: Sequence[RowChanges], reject: Reject) -> Writers:
        """Returns a writer for each shape that needs one. Creates and alters tables before anything is written; tables that rows
        are written to come before tables that rows are only deleted from."""
        shapes = sorted({one.shape: None for one in changes}, key=lambda shape: shape.operation is not Operation.WRITE)
        writers: Writers = {}
        for shape in shapes:
            if shape.operation is Operation.TRUNCATE:
                if self._tables.exists(session, shape.table):
                    writers[shape] = None
                continue
            try:
                writer = self._tables.writer(session, shape)
            except DataError as e:
                for one in changes:
                    if one.shape is shape:
                        for record in one.records:
                            reject(record, e)
                continue
            if writer is not None:
                writers[shape] = writer
        return writers

    def _apply(self, session: Session, writers: Writers, batch: Sequence[RowChanges]) -> None:
        for statement in plan_statements(batch, self._settings.insert_mode):
            writer = writers[statement.shape]
            if writer is not None:
                writer.write(session, statement.rows)
            else:
                session.execute(self.dialect.truncate(statement.shape.table), f"emptying {statement.shape.table}")

    def _apply_in_savepoint(self, session: Session, writers: Writers, batch: Batch) -> None:
        with session.savepoint():
            self._apply(session, writers, batch)

    def _apply_and_commit(self, session: Session, writers: Writers, batch: Batch) -> None:
        """For a database without savepoints: each part is a transaction."""
        try:
            self._apply(session, writers, batch)
            session.commit()
        except DataError:
            session.rollback()
            raise

    @staticmethod
    def _isolate_errant(batch: Batch, apply: partial[None], reject: Reject) -> None:
        # Promise 7: bisection finds the bad rows in order; all others are written.
        for single, error in deliver_in_order(batch, apply, split_in_halves):
            reject(next(record for one in single for record in one.records), error)

    def _reject_first_errant(self, session: Session, writers: Writers, changes: Batch, reject: Reject) -> None:
        """Rejects the first record that fails after those before it. Writes nothing."""
        good, bad = 0, sum(map(len, changes))
        error: DataError | None = None
        while bad - good > 1 or error is None:
            middle = bad if error is None else (good + bad) // 2
            try:
                for batch in split_batches(next(split_batches(changes, middle)), self._settings.batch_rows):
                    self._apply(session, writers, batch)
                good = middle
                if error is None:
                    return
            except DataError as e:
                bad, error = middle, e
            finally:
                session.rollback()
        records = [record for one in changes for record in one.records]
        reject(records[bad - 1], error)


def _hide_values(error: ConnectError) -> ConnectError:
    """The error without the message of the database or the conversion, which has values in it."""
    kind = "the database refuses it" if isinstance(error, RowRejectedError) else "it does not fit its table"
    return DataError(f"The record cannot be written: {kind} (trim.sensitive.log=true hides the reason)")
