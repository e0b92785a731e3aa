"""The thread of a connector that looks which tables there are, and has the tasks dealt anew when that changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from connect.errors import ConfigError, ConnectError
from connectors.jdbc.database import Database, Session, StopRequested
from connectors.jdbc.source.config import Settings
from connectors.jdbc.source.table_discovery import Survey

log = logging.getLogger(__name__)

_JOIN_S = 2.0


class TableMonitor:
    """Owned by a connector: started and stopped with it. ``survey`` and ``stop`` may be called from any thread."""

    def __init__(
        self,
        settings: Settings,
        look: Callable[[Session], Iterator[Survey]],
        changed: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """``look`` tells what there is, the last survey counts; ``changed`` is called when one differs from the one before,
        ``failed`` once, when looking has failed ``connection.attempts`` times in a row and nobody waits for the first one."""
        self._settings = settings
        self._look, self._changed, self._failed = look, changed, failed
        self._stop = threading.Event()
        self._news = threading.Condition()
        self._survey: Survey | None = None
        self._error: Exception | None = None
        self._last: Exception | None = None
        self._session: Session | None = None
        connection = replace(settings.connection, attempts=1, backoff_ms=0, pool_size=1)
        self._database = Database(connection, self._stop)
        self._thread = threading.Thread(target=self._run, name="jdbc-table-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and waits for it. May be called twice."""
        self._stop.set()
        with self._news:
            session = self._session
            self._news.notify_all()
        if session is not None:
            session.cancel()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
            if self._thread.is_alive():
                log.warning("the list of tables of %s is still being looked up", self._database.label)
        self._database.close()

    def survey(self, timeout_s: float) -> Survey:
        """The last one; waits for the first. Raises what looking failed with, ConnectError when time is over."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while self._survey is None and self._error is None and not self._stop.is_set():
                left = deadline - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    break
            if self._error is not None:
                raise self._error
            if self._survey is not None:
                return self._survey
        why = f": {self._last}" if self._last is not None else "; allow more with table.monitoring.startup.polling.limit.ms"
        raise ConnectError(f"The tables of {self._database.label} were not listed within {timeout_s:g} s{why}")

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
                self._last = e
                if (
                    not isinstance(e, ConnectError)
                    or isinstance(e, ConfigError)
                    or failures >= self._settings.connection.attempts
                ):
                    self._give_up(e)
                    return
                log.warning("Looking up the tables of %s failed (%s); trying again", self._database.label, e)
                self._stop.wait(self._settings.connection.backoff_ms / 1000)
                continue
            self._stop.wait(self._settings.tables_interval_s)

    def _refresh(self) -> None:
        session = self._database.session()
        with self._news:
            self._session = session
        try:
            for survey in self._look(session):
                self._publish(survey)
        finally:
            with self._news:
                self._session = None
            session.close()

    def _publish(self, survey: Survey) -> None:
        with self._news:
            before, self._survey = self._survey, survey
            self._news.notify_all()
        if before is None:
            log.info("%s: the tables to read are %s", self._database.label, survey)
        elif before != survey:
            log.info("%s: the tables to read are now %s", self._database.label, survey)
            self._changed()

    def _give_up(self, error: Exception) -> None:
        with self._news:
            waiting = self._survey is None
            self._error = error
            self._news.notify_all()
        if not waiting:
            self._failed(error)
