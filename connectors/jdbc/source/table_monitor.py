"""Thread of a connector that lists the tables regularly, and requests new task configurations when they change."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from connect.errors import ConfigError, ConnectError
from connectors.jdbc.database import Database, Session, StopRequested
from connectors.jdbc.source.config import JdbcSourceConfig
from connectors.jdbc.source.table_discovery import DiscoveredTables

log = logging.getLogger(__name__)

_JOIN_S = 2.0


class TableMonitor:
    """Lists tables in a thread; a connector starts and stops it. ``wait_for_tables`` and ``stop`` may be called on any thread."""

    def __init__(
        self,
        settings: JdbcSourceConfig,
        discover: Callable[[Session], Iterator[DiscoveredTables]],
        on_change: Callable[[], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        """``discover`` yields results, of which the last counts. ``on_change`` is called when a result differs from the previous
        one, ``on_failure`` once, after ``connection.attempts`` failures in a row, unless a caller still waits for a result."""
        self._settings = settings
        self._discover, self._on_change, self._on_failure = discover, on_change, on_failure
        self._stop = threading.Event()
        self._condition = threading.Condition()
        self._tables: DiscoveredTables | None = None
        self._error: Exception | None = None
        self._last_error: Exception | None = None
        self._session: Session | None = None
        connection = replace(settings.connection, attempts=1, backoff_ms=0, pool_size=1)
        self._database = Database(connection, self._stop)
        self._thread = threading.Thread(target=self._run, name="jdbc-table-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread and waits for it. May be called twice."""
        self._stop.set()
        with self._condition:
            session = self._session
            self._condition.notify_all()
        if session is not None:
            session.cancel()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
            if self._thread.is_alive():
                log.warning("the thread that lists the tables of %s did not stop in time", self._database.label)
        self._database.close()

    def wait_for_tables(self, timeout_s: float) -> DiscoveredTables:
        """Returns the latest result; waits for the first one. Raises the error of the thread, or ConnectError on timeout."""
        deadline = time.monotonic() + timeout_s
        with self._condition:
            while self._tables is None and self._error is None and not self._stop.is_set():
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0 or not self._condition.wait(remaining_s):
                    break
            if self._error is not None:
                raise self._error
            if self._tables is not None:
                return self._tables
        reason = (
            f": {self._last_error}" if self._last_error is not None else "; increase table.monitoring.startup.polling.limit.ms"
        )
        raise ConnectError(f"The tables of {self._database.label} were not listed within {timeout_s:g} s{reason}")

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                self._refresh()
                failures = 0
            except StopRequested:
                return
            except Exception as e:
                if self._stop.is_set():
                    return
                failures += 1
                self._last_error = e
                if (
                    not isinstance(e, ConnectError)
                    or isinstance(e, ConfigError)
                    or failures >= self._settings.connection.attempts
                ):
                    self._give_up(e)
                    return
                log.warning("Listing the tables of %s failed (%s); retrying", self._database.label, e)
                self._stop.wait(self._settings.connection.backoff_ms / 1000)
                continue
            self._stop.wait(self._settings.table_poll_interval_s)

    def _refresh(self) -> None:
        session = self._database.session()
        with self._condition:
            self._session = session
        try:
            for tables in self._discover(session):
                self._publish(tables)
        finally:
            with self._condition:
                self._session = None
            session.close()

    def _publish(self, tables: DiscoveredTables) -> None:
        with self._condition:
            before, self._tables = self._tables, tables
            self._condition.notify_all()
        if before is None:
            log.info("%s: tables to read: %s", self._database.label, tables)
        elif before != tables:
            log.info("%s: tables to read changed to: %s", self._database.label, tables)
            self._on_change()

    def _give_up(self, error: Exception) -> None:
        with self._condition:
            waiting = self._tables is None
            self._error = error
            self._condition.notify_all()
        if not waiting:
            self._on_failure(error)
