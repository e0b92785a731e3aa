"""Writes the changes of a batch in one transaction, without the rows that the database refuses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from connect import crash_points
from connect.errors import ConnectError, DataError
from connect.record import SinkRecord
from connectors.jdbc.connection.statement_cancel import CancellableSession
from connectors.jdbc.database import Database, Session
from connectors.jdbc.dialects.dialect import Dialect, RowWriter
from connectors.jdbc.errors import RowRejectedError, TableChangedError
from connectors.jdbc.sink.row_changes import Changes, Operation, Planner, Refuse, Refused, RefusedError, Shape
from connectors.jdbc.sink.statement_batches import by_table, halves, portions, steps
from connectors.jdbc.sink.table_manager import Tables
from connectors.jdbc.sink.writer_config import SinkSettings
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

Portion = list[Changes]

_STOP_PATIENCE_S = 3.0
"""Below the default of task.shutdown.graceful.timeout.ms, after which the worker abandons the task."""


class SinkEngine:
    """The database of one task. Used on the task's thread; between two calls it holds no transaction and no record."""

    def __init__(self, settings: SinkSettings, stop: threading.Event) -> None:
        """``stop`` ends waits for a connection. Raises ConfigError when the database's driver is not there."""
        self._settings = settings
        self._database = Database(settings.connection, stop)
        self._tables = Tables(settings)
        self._in_use = CancellableSession("jdbc-sink-cancel")

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    @property
    def label(self) -> str:
        return self._database.label

    def stop(self) -> None:
        """From another thread: a statement that goes on for long, as behind a lock, is ended, and nothing of its batch happens.
        Else it would be committed when others have written what is newer (promise 4)."""
        self._in_use.cancel(_STOP_PATIENCE_S)

    def close(self) -> None:
        self._in_use.join()
        self._database.close()

    def write(self, planner: Planner, records: Sequence[SinkRecord]) -> list[Refused]:
        """Commits what the records mean; returns those that could not be written, which are not in the database.

        On return everything else is durable (promise 2). When it raises nothing is, except that what a database without
        savepoints, or one that ends transactions at CREATE and ALTER, has committed on the way stays: the same records may come
        again. Raises RefusedError for the first record that cannot be written when that is not tolerated, RetriableError when the
        database was lost.
        """
        refused: list[Refused] = []
        changes = planner.plan(records, self._refuse(refused))
        session = self._database.session()
        try:
            with self._in_use.using(session):
                self._write_all(session, changes, refused)
                crash_points.point("jdbc.written")
                session.commit()
                crash_points.point("jdbc.committed")
        except BaseException:
            session.rollback()
            raise
        finally:
            session.close()
        return refused

    def _write_all(self, session: Session, changes: Sequence[Changes], refused: list[Refused]) -> None:
        planned = len(refused)
        try:
            self._write(session, changes, refused)
        except TableChangedError as e:
            # Dropped or altered since it was looked at, or by the look of the statement itself, which then fails again.
            log.info("The tables are looked up anew: %s", e.message)
            session.rollback()
            self._tables.forget()
            del refused[planned:]
            self._write(session, changes, refused)

    def require(self, names: Iterable[TableName]) -> None:
        """Raises ConnectError, naming the nearest tables, when one of them is not in the database."""
        session = self._database.session()
        try:
            for name in names:
                self.dialect.find(session, name)
        finally:
            session.rollback()
            session.close()

    def _refuse(self, refused: list[Refused]) -> Refuse:
        def refuse(record: SinkRecord, error: ConnectError) -> None:
            found = Refused(record, error if self._settings.shows_values else _trimmed(error))
            if not self._settings.tolerates_refusals:
                raise RefusedError(found) from found.error
            refused.append(found)

        return refuse

    def _write(self, session: Session, changes: Sequence[Changes], refused: list[Refused]) -> None:
        refuse = self._refuse(refused)
        writers = self._writers(session, changes, refuse)
        session.rollback()  # what was looked up is known; the transaction of the records begins with their first statement
        tables = [
            list(portions([one for one in table if one.shape in writers], self._settings.batch_rows))
            for table in by_table(changes)
        ]
        todo = [portion for table in tables for portion in table]
        if self.dialect.savepoints:
            for portion in todo:
                self._write_portion(session, portion, writers, refuse)
            return
        try:
            for portion in todo:
                self._apply(session, portion, writers)
        except DataError:
            session.rollback()
            if not self._settings.tolerates_refusals:
                self._find_refused(session, [one for portion in todo for one in portion], writers, refuse)
            for portion in todo:
                self._commit_portion(session, portion, writers, refuse)

    def _writers(self, session: Session, changes: Sequence[Changes], refuse: Refuse) -> dict[Shape, RowWriter | None]:
        """A writer for each shape that there is something to do for. Tables are created and altered here, before anything is
        written; those that records are written to before those that only lose some."""
        shapes = sorted({one.shape: None for one in changes}, key=lambda shape: shape.operation is not Operation.WRITE)
        writers: dict[Shape, RowWriter | None] = {}
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
                            refuse(record, e)
                continue
            if writer is not None:
                writers[shape] = writer
        return writers

    def _apply(self, session: Session, portion: Sequence[Changes], writers: dict[Shape, RowWriter | None]) -> None:
        for step in steps(portion, self._settings.insert_mode):
            writer = writers[step.shape]
            if writer is not None:
                writer.write(session, step.rows)
            else:
                session.execute(self.dialect.truncate(step.shape.table), f"emptying {step.shape.table}")

    def _write_portion(self, session: Session, portion: Portion, writers: dict[Shape, RowWriter | None], refuse: Refuse) -> None:
        try:
            with session.savepoint():
                self._apply(session, portion, writers)
        except DataError as e:
            # Promise 7: the bad rows are found by halves, in order; all others land.
            if (record := _single(portion)) is not None:
                refuse(record, e)
                return
            for half in halves(portion):
                self._write_portion(session, half, writers, refuse)

    def _commit_portion(self, session: Session, portion: Portion, writers: dict[Shape, RowWriter | None], refuse: Refuse) -> None:
        """The same for a database without savepoints: each part is a transaction."""
        try:
            self._apply(session, portion, writers)
            session.commit()
        except DataError as e:
            session.rollback()
            if (record := _single(portion)) is not None:
                refuse(record, e)
                return
            for half in halves(portion):
                self._commit_portion(session, half, writers, refuse)

    def _find_refused(self, session: Session, changes: Portion, writers: dict[Shape, RowWriter | None], refuse: Refuse) -> None:
        """Refuses the first record that the database refuses after those before it, without leaving anything behind."""
        good, bad = 0, sum(map(len, changes))
        error: DataError | None = None
        while bad - good > 1 or error is None:
            middle = bad if error is None else (good + bad) // 2
            try:
                for portion in portions(next(portions(changes, middle)), self._settings.batch_rows):
                    self._apply(session, portion, writers)
                good = middle
                if error is None:
                    return
            except DataError as e:
                bad, error = middle, e
            finally:
                session.rollback()
        records = [record for one in changes for record in one.records]
        refuse(records[bad - 1], error)


def _single(portion: Portion) -> SinkRecord | None:
    records = [record for one in portion for record in one.records[:2]]
    return records[0] if len(records) == 1 else None


def _trimmed(error: ConnectError) -> ConnectError:
    """The error without the database's words, or those of a conversion, which have values in them."""
    kind = "the database refuses it" if isinstance(error, RowRejectedError) else "it does not fit its table"
    return DataError(f"The record is left out or stops the task: {kind} (trim.sensitive.log=true keeps the reason to itself)")
