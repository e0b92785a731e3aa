"""Verifies the connectors of this worker that have ``verify.interval.ms``, one after another.

The worker that runs a connector's instance owns its schedule, so each connector has one in a cluster. When a run is due follows
from the end of the last one, which is stored with the results: it outlives workers and rebalances. A run that fails, for whatever
reason, is stored too, and the next one is due at its time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from connect.errors import ConfigError, ConnectError
from worker.config.extension_keys import VERIFY_KEYS
from worker.config.secrets import SecretMask
from worker.observability.log_context import log_context
from worker.observability.verifications import StoredVerification, VerificationResults
from worker.operations.verification.child import Answer
from worker.operations.verification.timetable import Timetable, VerifySettings, has_schedule, next_ms

log = logging.getLogger(__name__)

Config = Mapping[str, str | None]
OnResult = Callable[[Mapping[str, Any]], None]

_TICK_S = 1.0
_EXTRA_MS = 60_000
"""How much longer than its own timeout a process may run: it also starts, and reads tables."""
_CLOSE_S = 10.0


class Child(Protocol):
    """A process: :class:`worker.operations.verification.child.VerificationChild`."""

    def has_ended(self) -> bool: ...

    def close(self) -> str: ...


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
        running_here: Callable[[], Mapping[str, Config]],
        resolve: Callable[[Config], Config],
        make_answer: Callable[[OnResult], Answer],
        mask: SecretMask,
        start_child: StartChild,
        epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """``running_here`` returns the configurations of the connectors that run on this worker and are neither paused nor
        stopped, ``resolve`` one with the values of config providers."""
        self.results = results
        self._running_here = running_here
        self._resolve = resolve
        self._make_answer = make_answer
        self._mask = mask
        self._start_child = start_child
        self._epoch_ms = epoch_ms
        self._timetable = Timetable()
        self._settings: dict[str, tuple[Config, VerifySettings | None]] = {}
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

    def shown(self, name: str, config: Config) -> dict[str, Any] | None:
        """Returns the schedule of a connector, wherever it runs, for REST; None if it has none."""
        settings = self._read_settings(config) if has_schedule(config) else None
        if settings is None or not settings.interval_ms:
            return None
        attempt = self.results.attempt(name)
        return {
            "interval_ms": settings.interval_ms,
            "last_ms": None if attempt is None else attempt.ended_ms,
            "error": None if attempt is None else attempt.error,
            "next_ms": None if attempt is None else next_ms(attempt, settings.interval_ms, self._epoch_ms()),
        }

    def all_shown(self, configs: Mapping[str, Config]) -> dict[str, dict[str, Any]]:
        """Returns the schedules of those connectors that have one."""
        return {name: one for name, config in configs.items() if (one := self.shown(name, config)) is not None}

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
        found = {name: config for name, config in self._running_here().items() if has_schedule(config)}
        scheduled = {name: settings for name, config in found.items() if (settings := self._settings_of(name, config))}
        self._settings = {name: one for name, one in self._settings.items() if name in found}
        self._timetable.keep(scheduled, now_ms)
        if (run := self._run) is not None:
            if run.name not in scheduled or found[run.name] != run.config:
                self._cancel("the connector does not run here any more, or has another configuration")
            elif run.child.has_ended():
                self._finish(run, None)
            elif now_ms - run.started_ms > run.settings.timeout_ms + _EXTRA_MS:
                self._finish(run, f"it did not end within verify.timeout.ms={run.settings.timeout_ms}")
        if self._run is None and self.results.is_read:
            due = self._next_due(scheduled, now_ms)
            if due is not None:
                self._begin(due, found[due], scheduled[due])

    def _next_due(self, scheduled: Mapping[str, VerifySettings], now_ms: int) -> str | None:
        """Returns the connector that has been due for longest."""
        due = {
            name: self._timetable.due_ms(name, settings.interval_ms, self.results.attempt(name), now_ms)
            for name, settings in scheduled.items()
        }
        name = min(due, key=lambda one: due[one], default=None)
        return name if name is not None and due[name] <= now_ms else None

    def _settings_of(self, name: str, config: Config) -> VerifySettings | None:
        known = self._settings.get(name)
        if known is None or known[0] != config:
            try:
                resolves = any("${" in (config.get(key.name) or "") for key in VERIFY_KEYS)
                settings = VerifySettings.of(self._resolve(config) if resolves else config)
            except ConfigError as e:
                log.warning("Connector %s is not verified: %s", name, self._mask.mask(e.message))
                known = config, None
            else:
                known = config, settings if settings.interval_ms else None
            self._settings[name] = known
        return known[1]

    def _read_settings(self, config: Config) -> VerifySettings | None:
        try:
            return VerifySettings.of(config)
        except ConfigError:
            return None

    # --- one run

    def _begin(self, name: str, config: Config, settings: VerifySettings) -> None:
        results: list[StoredVerification] = []
        answer = self._make_answer(lambda document: results.append(self._store(name, document)))
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
                self._fail(name, f"sluice verify could not be started: {e.strerror or e}")
                return
        self._run = _Run(name, config, settings, child, started_ms, results)

    def _store(self, name: str, document: Mapping[str, Any]) -> StoredVerification:
        """Stores a result for sink and source, as the command does. Raises ConnectError."""
        for other in {str(document.get("sink")), str(document.get("source"))} - {name}:
            self.results.store(other, document)
        return self.results.store(name, document, is_scheduled=True)

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
            if error is not None or not run.results:
                self._fail(run.name, error or reason)
                return
            self._timetable.ended(run.name, self._epoch_ms())
            for one in run.results:
                _log_result(run.name, one)

    def _fail(self, name: str, reason: str) -> None:
        now_ms = self._epoch_ms()
        self._timetable.ended(name, now_ms)
        shown = self._mask.mask(reason)
        log.warning("The scheduled verification of connector %s failed; the next one is due in its time: %s", name, shown)
        try:
            self.results.store_failure(name, shown)
        except ConnectError as e:
            log.warning("The failure of the verification was not stored: %s", e.message)


def _log_result(name: str, found: StoredVerification) -> None:
    if found.equal:
        log.info("The tables of connector %s equal the database: %d rows in %.1f s", name, found.rows, found.seconds)
        return
    log.warning(
        "The tables of connector %s do not equal the database: %d of %d rows differ, %d are not settled. List them with sluice "
        "verify %s, and mend them with --repair",
        name, found.differences, found.rows, found.unsettled, name,
    )  # fmt: skip
