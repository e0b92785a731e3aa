"""Verifies the connectors of this worker that have ``verify.interval.ms``, one after another.

The worker that runs a connector's instance owns its schedule, so each connector has one in a cluster. When a run is due follows
from the end of the last one, which is stored with the results: it outlives workers and rebalances. A run that fails, for whatever
reason, is stored too, and repeated.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from connect.errors import ConnectError, NotFoundError
from worker.config.secrets import SecretMask
from worker.observability.log_context import log_context
from worker.observability.verifications import StoredVerification, VerificationAttempt, VerificationResults
from worker.operations.verification.child import Answer
from worker.operations.verification.settings import Config, ScheduleSettings, VerifySettings
from worker.operations.verification.timetable import Timetable, next_ms

log = logging.getLogger(__name__)

OnResult = Callable[[Mapping[str, Any]], None]

_TICK_S = 1.0
_EXTRA_MS = 60_000
"""How much longer than its own timeout a process may run: it also starts, and reads tables."""
_CLOSE_S = 10.0


class Child(Protocol):
    """A process: :class:`worker.operations.verification.child.VerificationChild`."""

    def has_ended(self) -> bool: ...

    def close(self) -> str | None: ...


StartChild = Callable[[str, Sequence[str], Answer], Child]


@dataclass(slots=True)
class _Run:
    """A verification in progress."""

    name: str
    config: Config
    settings: VerifySettings
    child: Child
    started_ms: int
    results: list[StoredVerification] = field(default_factory=list)


class VerificationSchedule:
    """Owns a thread, from :meth:`start` to :meth:`close`. Other methods are safe from any thread."""

    def __init__(
        self,
        results: VerificationResults,
        all_configs: Callable[[], Mapping[str, Config]],
        running_here: Callable[[], Mapping[str, Config]],
        resolve: Callable[[Config], Config],
        make_answer: Callable[[OnResult], Answer],
        mask: SecretMask,
        start_child: StartChild,
        worker_id: str,
        epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """``all_configs`` returns the configurations of all connectors, ``running_here`` those of connectors that run on this
        worker and are neither paused nor stopped, ``resolve`` one with the values of config providers."""
        self.results = results
        self._all_configs = all_configs
        self._running_here = running_here
        self._make_answer = make_answer
        self._mask = mask
        self._start_child = start_child
        self._worker_id = worker_id
        self._epoch_ms = epoch_ms
        self._timetable = Timetable()
        self._settings = ScheduleSettings(resolve, mask)
        self._run: _Run | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="verifications", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the process of a verification that is in progress, and the thread, within a few seconds."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_S)

    def shown(self, name: str, config: Config, *, is_started: bool) -> dict[str, Any] | None:
        """Returns the schedule of a connector, wherever it runs, for REST; None if it has none. Of one with references to config
        providers, it is known within seconds."""
        settings = self._settings.shown(name, config)
        if settings is None:
            return None
        attempt = self.results.attempt(name)
        return {
            "interval_ms": settings.interval_ms,
            "paused": not is_started,
            "last_ms": None if attempt is None else attempt.ended_ms,
            "error": None if attempt is None else attempt.error,
            "worker_id": None if attempt is None else attempt.worker_id,
            "failing_since_ms": None if attempt is None else attempt.failing_since_ms,
            "next_ms": next_ms(attempt, settings.interval_ms, self._epoch_ms()) if attempt and is_started else None,
        }

    def all_active(self, is_started: Callable[[str], bool]) -> dict[str, dict[str, Any]]:
        """Returns the schedules of all connectors that have one, and are neither paused nor stopped."""
        return {
            name: one
            for name, config in self._all_configs().items()
            if is_started(name) and (one := self.shown(name, config, is_started=True)) is not None
        }

    # --- the thread

    def _work(self) -> None:
        while not self._stop.wait(_TICK_S):
            try:
                self.tick()
            except Exception:
                log.exception("The schedule of verifications failed; it continues")
        if self._run is not None:
            self._cancel("the worker stops")

    def tick(self) -> None:
        """Ends, judges, and starts what is due."""
        now_ms = self._epoch_ms()
        running = self._running_here()
        scheduled = self._settings.read(running, self._all_configs(), now_ms)
        self._timetable.keep(scheduled, now_ms)
        if (run := self._run) is not None:
            if run.name not in scheduled or running[run.name] != run.config:
                self._cancel("the connector does not run here any more, or has another configuration")
            elif run.child.has_ended():
                self._finish(run, None)
            elif now_ms - run.started_ms > run.settings.timeout_ms + _EXTRA_MS:
                self._finish(run, f"it did not end within verify.timeout.ms={run.settings.timeout_ms}")
        if self._run is None and self.results.is_read:
            due = self._next_due(scheduled, now_ms)
            if due is not None:
                self._begin(due, running[due], scheduled[due])

    def _next_due(self, scheduled: Mapping[str, VerifySettings], now_ms: int) -> str | None:
        """Returns the connector that has been due for longest."""
        due = {
            name: self._timetable.due_ms(name, settings.interval_ms, self.results.attempt(name), now_ms)
            for name, settings in scheduled.items()
        }
        name = min(due, key=lambda one: due[one], default=None)
        return name if name is not None and due[name] <= now_ms else None

    # --- one run

    def _begin(self, name: str, config: Config, settings: VerifySettings) -> None:
        results: list[StoredVerification] = []
        answer = self._make_answer(lambda document: results.append(self._store(name, config, document)))
        options = {
            "source": settings.source,
            "tables": settings.tables,
            "ignore-columns": settings.ignored_columns,
            "timeout": f"{settings.timeout_ms / 1000:.3f}s",
        }
        # One word per option: no value becomes another option.
        words = [f"--{option}={value}" for option, value in options.items() if value]
        started_ms = self._epoch_ms()
        with log_context(name):
            log.info("Verifying the tables of connector %s", name)
            try:
                child = self._start_child(name, words, answer)
            except OSError as e:
                self._end(name, settings, f"sluice verify could not be started: {e.strerror or e}")
                return
        self._run = _Run(name, config, settings, child, started_ms, results)

    def _store(self, name: str, config: Config, document: Mapping[str, Any]) -> StoredVerification:
        """Stores a result for sink and source, as the command does. Raises ConnectError, also if the connector is not verified
        here any more."""
        if self._running_here().get(name) != config:
            raise NotFoundError(f"Connector {name} was deleted, moved, paused, stopped, or changed")
        others = {str(document.get("sink")), str(document.get("source"))} - {name}
        for other in others & self._all_configs().keys():
            self.results.store(other, document)
        stored = self.results.store(name, document)
        self._discard_deleted({name, *others})
        return stored

    def _discard_deleted(self, names: Collection[str]) -> None:
        """Deletes what was stored of connectors that were deleted at the same time."""
        for gone in set(names) - self._all_configs().keys():
            self.results.discard(gone)

    def _cancel(self, why: str) -> None:
        run, self._run = self._run, None
        assert run is not None
        run.child.close()
        with log_context(run.name):
            log.info("The verification of connector %s was ended: %s", run.name, why)

    def _finish(self, run: _Run, error: str | None) -> None:
        self._run = None
        reason = run.child.close()
        with log_context(run.name):
            for one in run.results:
                _log_result(run.name, one)
            if error is None and reason is None and not run.results:
                reason = "sluice verify ended without a result"
            self._end(run.name, run.settings, error or reason)

    def _end(self, name: str, settings: VerifySettings, error: str | None) -> None:
        """Logs why a run has failed, if it has, and stores that it has ended."""
        now_ms = self._epoch_ms()
        shown = None if error is None else self._mask.mask(error)
        last = self._timetable.last(name, self.results.attempt(name))
        attempt = VerificationAttempt.after(last, now_ms, shown, self._worker_id)
        self._timetable.ended(name, attempt)
        if shown is not None:
            due_s = (next_ms(attempt, settings.interval_ms, now_ms) - now_ms) // 1000
            log.warning("The scheduled verification of connector %s failed; the next one is due in %d s: %s", name, due_s, shown)
        try:
            self.results.store_attempt(name, attempt)
        except ConnectError as e:
            log.warning("The end of the verification was not stored: %s", e.message)
        self._discard_deleted([name])


def _log_result(name: str, found: StoredVerification) -> None:
    if found.equal:
        log.info("The tables of connector %s equal the database: %d rows in %.1f s", name, found.rows, found.seconds)
        return
    log.warning(
        "The tables of connector %s do not equal the database: %d of %d rows differ, %d are not settled. List them with sluice "
        "verify %s, and mend them with --repair",
        name, found.differences, found.rows, found.unsettled, name,
    )  # fmt: skip
