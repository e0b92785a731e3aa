"""Watches the source on a connection and a thread of its own, so that the state is known while the task is paused, behind, in a
long transaction, or waits for the broker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from psycopg.pq import DiagnosticField
from psycopg.pq.abc import PGresult

from connect.errors import ConnectError
from connect.pending_work import PendingWork
from connectors.cdc.errors import SourceChangedError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.errors import SlotInUseError
from connectors.postgres.monitoring import slot_checks
from connectors.postgres.monitoring.problems import Problem, ProblemList
from connectors.postgres.monitoring.publication_watch import PublicationWatch, TableNames
from connectors.postgres.monitoring.slot_checks import SlotLag
from connectors.postgres.monitoring.slot_status import ServerStatus, SlotStatus, lagging_standbys, read_status
from connectors.postgres.monitoring.wal_history import WalHistory
from connectors.postgres.offsets import format_lsn
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.streaming import slots
from connectors.postgres.streaming.publication_state import PublicationState
from connectors.postgres.streaming.session import ReadPosition

log = logging.getLogger(__name__)

SLOT = "slot"
_ADMIN_SHUTDOWN = "57P01"
_SHUTDOWN_RETRY_S = 0.2
_SHUTDOWN_GRACE_S = 1.0
"""How long a server that shuts down may wait for the stream's reader, which lets it end if it has read everything."""
_CLOSE_TIMEOUT_S = 10.0
_RELEASE_S = 0.5
"""How long the monitor may keep a connection that the task needs."""


@dataclass(frozen=True, slots=True)
class MonitoredTask:
    """What the monitor asks of the task, on its own thread: where it is, the captured tables, to give up its stream, and
    whether the slot should advance."""

    position: Callable[[], ReadPosition | None]
    tables: Callable[[], TableNames]
    end_stream: Callable[[], None]
    is_streaming: Callable[[], bool]
    pending_work: PendingWork
    """Gets the slot while it does not advance."""


class SourceMonitor:
    """Checks slot, WAL, publication, and tables every ``source.check.interval.ms``.

    The task calls ``start`` each time that it has connected, when its slot exists; ``close`` ends and joins the thread. What the
    monitor finds is read from any thread with ``progress``; ``raise_failure`` is called on the task's thread.
    """

    def __init__(self, settings: PostgresConfig, task: MonitoredTask, publication: PublicationState | None) -> None:
        """``publication`` is that of the stored offset."""
        self._settings = settings
        self._task = task
        self._interrupt = Interrupt()
        self._thread: threading.Thread | None = None
        self._wal = WalHistory()
        self.publication = PublicationWatch(settings.slot.publication, publication)
        self._problems = ProblemList()
        self._status: ServerStatus | None = None
        self._lag: SlotLag | None = None
        self._failure: ConnectError | None = None
        self._read_lsn: int | None = None
        self._noted: tuple[int, int | None] | None = None
        """The start of the task and the slot's confirmed LSN at the last check."""
        self._shutting_down = False
        self._starts = 0
        self._connected = threading.Event()

    def start(self, tables: Iterable[CapturedTable], connection: Connection) -> None:
        """Starts the thread, or tells it that the task has connected again: what it found before may be outdated."""
        self.publication.expected = {(table.schema, table.name): table.oid for table in tables}
        self._add_problems(self.publication.begin(connection, self._task.tables()))
        self._starts += 1
        self._failure = None
        self._connected.set()
        if self._thread is None and self._settings.safety.interval_s:
            name = f"postgres-monitor-{self._settings.slot.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def check_publication(self, connection: Connection) -> None:
        """Takes note of the publication at once, on the task's thread: its tables are part of offsets from the next read on."""
        self._add_problems(self.publication.check(connection, self._task.tables())[0])

    def _add_problems(self, found: Iterable[Problem]) -> None:
        for problem in found:
            self._problems.add(problem)

    def task_disconnected(self) -> None:
        """The task has closed its connections. The monitor closes its own, and opens none before the task, which may need the
        last one there is."""
        self._connected.clear()
        # From now on the task waits for something else than its slot.
        self._task.pending_work.end(SLOT)

    def close(self) -> None:
        """Ends the thread. May be called twice."""
        self._interrupt.set()
        self._connected.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)
            self._thread = None
        self._interrupt.close()

    def raise_failure(self) -> None:
        """Raises what the monitor has found: SourceChangedError, once, if a new start decides, or ConnectError."""
        failure = self._failure
        if isinstance(failure, SourceChangedError):
            self._failure = None
            self._connected.clear()
        if failure is not None:
            raise failure

    # --- what others read -----------------------------------------------------------------------------------------------------

    @property
    def wal_end(self) -> int:
        """The end of the server's WAL at the last check; 0 before the first one."""
        status = self._status
        return status.wal_end if status is not None else 0

    def progress(self) -> dict[str, Any]:
        """The slot and the problems as of the last check."""
        status, lag = self._status, self._lag
        answer: dict[str, Any] = {}
        if status is not None and (position := self._task.position()) is not None:
            answer["lag_seconds"] = _rounded(self._age_s(status, position.lsn, position.commit_us))
        if status is not None and status.slot is not None and lag is not None:
            slot = status.slot
            answer["slot"] = {
                "active": slot.is_active,
                "wal_status": slot.wal_status,
                "lag_bytes": lag.bytes,
                "lag_seconds": _rounded(lag.seconds),
                "retained_bytes": lag.retained_bytes,
                "safe_wal_size": slot.safe_wal_size,
                "wal_lost_in_seconds": _rounded(lag.lost_in_s),
                "checked_at_ms": int(status.time_s * 1000),
            }
        answer["problems"] = self._problems.as_json()
        return answer

    def _age_s(self, status: ServerStatus, lsn: int, commit_us: int | None) -> float:
        """The age of the WAL after a position, at least: if it is older than the first sample, that of the sample, or of the last
        commit that was read."""
        if (age_s := self._wal.age_s(lsn)) is not None:
            return age_s
        return max(self._wal.span_s, status.time_s - commit_us / 1_000_000 if commit_us is not None else 0.0)

    # --- the thread -----------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        settings = self._settings
        lost_at: float | None = None
        while not self._interrupt.is_set:
            connection = None
            self._connected.wait()
            try:
                connection = Connection.open(settings.address, self._interrupt, query_timeout_s=settings.query_timeout_s or 60.0)
                connection.pgconn.notice_handler = self._on_notice
                connection.execute("SET application_name = 'sluice-monitor'")
                self._shutting_down, lost_at = False, None
                self._check_until_lost(connection)
            except WaitInterrupted:
                return
            except ConnectError as e:
                if _ADMIN_SHUTDOWN in e.message:
                    self._shutting_down = True
                lost_at = lost_at or time.monotonic()
                if connection is None and not self._shutting_down:
                    self._problems.update(
                        [Problem("source_not_checked", f"replication slot {settings.slot.name} cannot be checked: {e.message}")]
                    )
            except Exception:
                log.exception("checks of replication slot %s ended", settings.slot.name)
                return
            finally:
                if connection is not None:
                    connection.close()
                if not self._connected.is_set():
                    self._task.pending_work.end(SLOT)  # a check that was running may have begun it again
            self._after_loss(lost_at)

    def _after_loss(self, lost_at: float | None) -> None:
        """Waits before the next connection. A server that shuts down waits for the stream's reader, so the stream is ended."""
        if self._shutting_down:
            if lost_at is not None and time.monotonic() - lost_at >= _SHUTDOWN_GRACE_S:
                log.info("the server shuts down: ending the stream of slot %s", self._settings.slot.name)
                self._task.end_stream()
                self._shutting_down = False
            else:
                self._interrupt.wait(_SHUTDOWN_RETRY_S)
        else:
            self._interrupt.wait(max(0.2, min(self._settings.safety.interval_s, 10.0)))

    def _on_notice(self, notice: PGresult) -> None:
        if notice.error_field(DiagnosticField.SQLSTATE) == _ADMIN_SHUTDOWN.encode():
            self._shutting_down = True

    def _check_until_lost(self, connection: Connection) -> None:
        """Checks at the interval until the connection is lost, which it raises, or the task has closed its own."""
        while self._connected.is_set():
            self._check(connection)
            checks_at = time.monotonic() + self._settings.safety.interval_s
            while self._connected.is_set() and (wait_s := checks_at - time.monotonic()) > 0:
                connection.wait_idle(min(wait_s, _RELEASE_S))

    def _check(self, connection: Connection) -> None:
        name, safety, start = self._settings.slot.name, self._settings.safety, self._starts
        status = read_status(connection, name)
        self._wal.add(status.time_s, status.wal_end)
        slot, lag = status.slot, None
        if slot is not None:
            commit_us = position.commit_us if (position := self._task.position()) is not None else None
            age_s = self._age_s(status, slot.confirmed_lsn, commit_us)
            lag = slot_checks.measure(slot, status.wal_end, age_s, self._wal.bytes_per_s())
        self._status, self._lag = status, lag
        self._note_advance(slot, lag, start)
        problems = slot_checks.find_problems(name, slot, lag, safety)
        stands_still = self._stands_still(status)
        if slot is not None and stands_still and slot.waits_for_standby:
            problems.append(self._standby_problem(connection, status))
        if slot is not None and stands_still and slot.wal_status == "unreserved":
            # The server's checkpoint waits until the slot has no reader, which may wait for a task that does not read.
            self._task.end_stream()
        self._problems.update(problems)
        if problems and problems[0].code in ("slot_missing", "slot_lost"):
            self._fail(SourceChangedError(problems[0].message), start)
        elif lag is not None and safety.limit_action != "warn":
            self._enforce_limit(connection, lag, start)
        self._check_publication(connection, start)

    def _note_advance(self, slot: SlotStatus | None, lag: SlotLag | None, start: int) -> None:
        """Tells the worker since when the slot has not advanced, although the server has more WAL and the task is connected."""
        found = start, None if slot is None else slot.confirmed_lsn
        before, self._noted = self._noted, found
        pending = self._task.pending_work
        is_behind = slot is not None and lag is not None and lag.bytes > 0 and self._task.is_streaming()
        if not is_behind or before != found:
            pending.end(SLOT)
        if is_behind and slot is not None and self._settings.slot.confirms and self._connected.is_set():
            lsn = format_lsn(slot.confirmed_lsn)
            pending.begin(SLOT, f"replication slot {self._settings.slot.name} does not advance from {lsn}, although WAL follows")

    def _fail(self, error: ConnectError, start: int) -> bool:
        """Has the task raise the error, unless it has connected again since the check began, or is about to; returns whether."""
        if self._failure is not None or not self._connected.is_set() or start != self._starts:
            return False
        self._failure = error
        return True

    def _check_publication(self, connection: Connection, start: int) -> None:
        found, loss = self.publication.check(connection, self._task.tables())
        self._add_problems(found)
        if loss is not None and self._fail(SourceChangedError(loss), start):
            self._problems.add(Problem("publication_lost", f"{loss}: changes since then may be missing"))

    def _stands_still(self, status: ServerStatus) -> bool:
        """Whether the task has read nothing since the last check, although there is more."""
        position = self._task.position()
        before, self._read_lsn = self._read_lsn, position.lsn if position is not None else None
        return before is not None and before == self._read_lsn and before < status.wal_end

    def _standby_problem(self, connection: Connection, status: ServerStatus) -> Problem:
        """Names the standbys that a failover slot waits for."""
        lagging = "; ".join(lagging_standbys(connection, status.wal_end)) or "see synchronized_standby_slots"
        return Problem(
            "standby_lagging",
            f"the server sends no changes to slot {self._settings.slot.name} until the standbys in synchronized_standby_slots "
            f"have them: {lagging}. Repair the standby, or remove its slot there",
        )

    def _enforce_limit(self, connection: Connection, lag: SlotLag, start: int) -> None:
        settings = self._settings
        limit = slot_checks.exceeded_limit(lag, settings.safety)
        if limit is None or self._failure is not None:
            return
        message = f"replication slot {settings.slot.name} is {lag.bytes} bytes behind, more than {limit}"
        if settings.safety.limit_action == "drop_slot":
            log.error("%s: dropping the slot", message)
            self._fail(SlotInUseError(f"{message}: the slot is being dropped"), start)
            self._task.end_stream()
            slots.end_reader_and_drop_slot(connection, settings.slot.name, self._interrupt)
            message += ": the slot was dropped (slot.lag.limit.action=drop_slot). Take a new snapshot"
        else:
            message += " (slot.lag.limit.action=fail)"
            log.error("%s", message)
        self._failure = ConnectError(message)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
