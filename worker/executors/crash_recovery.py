"""Decides and reports what happens to the connectors and tasks of a process that has exited."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence

from connect.errors import ConnectError
from worker.executors.placement import CrashDecision, CrashHistory, decide_after_crash
from worker.executors.process_handle import ProcessExit, ProcessHandle
from worker.executors.state_reports import StateReports
from worker.executors.work_registry import Entry, WorkRegistry

log = logging.getLogger(__name__)

_MAX_NAMES_LOGGED = 10


class CrashRecovery:
    """Restarts what ran in a process that exited, or fails it. Connectors that were present at two crashes are quarantined."""

    def __init__(
        self,
        registry: WorkRegistry,
        reports: StateReports,
        crashes: CrashHistory,
        restart: Callable[[Entry], None],
    ) -> None:
        """``restart`` queues the start of an entry."""
        self._registry = registry
        self._reports = reports
        self._crashes = crashes
        self._restart = restart
        self._quarantined: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def quarantine_of(self, connector: str) -> str | None:
        """The key of the process that the connector is quarantined in; None once it has not crashed for a while."""
        with self._registry.lock:
            if not self._crashes.count(connector):
                self._quarantined.pop(connector, None)
            return self._quarantined.get(connector)

    def recover(self, process: ProcessHandle, exit_: ProcessExit) -> None:
        """Handles the exit of a process. Called once for each, on the supervisor's thread."""
        with self._registry.lock:
            process.is_cleaned_up = True
            entries = [entry for entry in self._registry.in_process(process) if self._registry.is_current(entry)]
            running = [entry for entry in entries if not entry.failed]
            decision = self._decide({entry.name for entry in running}, process, exit_)
            for group in decision.isolate:
                self._quarantined.update(dict.fromkeys(group, f"quarantine-{next(self._numbers)}"))
            for entry in entries:
                entry.process = None
        _log_exit(process, exit_, running, any_failed=bool(decision.failed))
        for entry in running:
            if entry.name in decision.failed:
                self._reports.failed(entry, _exit_error(process, exit_))
            else:
                self._restart_entry(entry)

    def _decide(self, connectors: set[str], process: ProcessHandle, exit_: ProcessExit) -> CrashDecision:
        if exit_.is_excused:
            return CrashDecision(frozenset(connectors), (), frozenset())
        self._crashes.note(connectors)
        return decide_after_crash(connectors, self._crashes.count, process.spec.kind, is_permanent=exit_.is_permanent)

    def _restart_entry(self, entry: Entry) -> None:
        with self._registry.lock:
            if not self._registry.is_current(entry):
                return
        # Reported before the start is queued: the reports of the next process must come after it. Without the lock: the listener
        # may hold a lock of its own while it calls the executor.
        self._reports.restarting(entry)
        with self._registry.lock:
            if self._registry.is_current(entry):
                self._restart(entry)


def _log_exit(process: ProcessHandle, exit_: ProcessExit, running: Sequence[Entry], *, any_failed: bool) -> None:
    if not running:
        level = logging.DEBUG if exit_.was_requested else logging.ERROR
        log.log(level, "Executor %s (process %s) %s; it was empty", process.key, process.pid, exit_.text)
        return
    connectors = sorted({entry.name for entry in running})
    more = len(connectors) - _MAX_NAMES_LOGGED
    log.error(
        "Executor %s (process %s) %s. Its connectors %s: %s",
        process.key,
        process.pid,
        exit_.text,
        "have failed" if any_failed else "restart",
        ", ".join(connectors[:_MAX_NAMES_LOGGED]) + (f" and {more} more" if more > 0 else ""),
    )


def _exit_error(process: ProcessHandle, exit_: ProcessExit) -> ConnectError:
    advice = "" if exit_.is_permanent else " It crashed repeatedly, so it stays failed until it is restarted."
    return ConnectError(f"The process of the connector (executor {process.key}) {exit_.text}.{advice}")
