"""Finds stalled connectors and tasks of an executor, and reports them until they move again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from worker.executor import ExecutorListener
from worker.model import Stall, TaskId
from worker.observability.log_context import log_context
from worker.observability.stalls import CALL, PENDING, instant

log = logging.getLogger(__name__)

_INTERVAL_S = 5.0

Instance = str | TaskId
"""A connector by name, or a task."""


@dataclass(frozen=True, slots=True)
class StallCheck:
    """The stall of an instance, or None, found for one of its starts."""

    start_id: int
    stall: Stall | None


class StallWatch:
    """Compares each check with the one before. Checks are made by one thread at a time: that of the caller, or the watch's own
    for an executor without a control process that pings it. Its owner closes it."""

    def __init__(
        self,
        listener: ExecutorListener,
        find: Callable[[], Mapping[Instance, StallCheck]],
        *,
        has_thread: bool,
        interval_s: float = _INTERVAL_S,
    ) -> None:
        """``find`` returns everything that runs. With ``has_thread``, :meth:`start` starts a thread that checks periodically."""
        self._listener = listener
        self._find = find
        self._interval_s = interval_s
        self._stalls: dict[Instance, StallCheck] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalls", daemon=True) if has_thread else None

    def start(self) -> None:
        """Starts the thread, if there is one."""
        if self._thread is not None:
            self._thread.start()

    def close(self) -> None:
        """Ends the thread. Nothing is reported afterwards."""
        self._closed.set()
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()

    def check(self) -> None:
        """Reports stalls at each check, and once that an instance moves again; logs changes only. What no longer runs here is
        forgotten. Never raises."""
        try:
            self._report()
        except Exception:
            log.exception("Looking for stalled tasks failed")

    def _report(self) -> None:
        before = self._stalls
        found = {instance: _first(before.get(instance), one) for instance, one in self._find().items()}
        self._stalls = {instance: one for instance, one in found.items() if one.stall is not None}
        for instance, one in found.items():
            last = before.get(instance)
            known = last.stall if last is not None and last.start_id == one.start_id else None
            if known is not one.stall:
                _log(instance, known, one.stall)
            # Repeated, because a status may have lost it: to a new state, or while the whole process did not respond.
            if known is not None or one.stall is not None:
                self._listener.on_stall(one.start_id, instance, one.stall)

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            self.check()


def _first(last: StallCheck | None, found: StallCheck) -> StallCheck:
    """Returns the check that found a stall first, so that its status is not written again."""
    return last if last is not None and last.start_id == found.start_id and _reason(last) == _reason(found) else found


def _reason(check: StallCheck) -> tuple[str, str] | None:
    """What makes a stall another one. Its message may have an error that changes with each retry, its time some jitter, and a
    task that does not move goes through phases, unless one call does not return. Only the message says which work is pending."""
    stall = check.stall
    return None if stall is None else (stall.kind, {CALL: stall.phase, PENDING: stall.message}.get(stall.kind, ""))


def _log(instance: Instance, before: Stall | None, stall: Stall | None) -> None:
    is_task = isinstance(instance, TaskId)
    name = f"{'Task' if is_task else 'Connector'} {instance}"
    with log_context(instance.connector, instance.task) if isinstance(instance, TaskId) else log_context(instance):
        if stall is not None:
            log.warning("%s has stalled since %s: %s", name, instant(stall.since_ms), stall.message)
        elif before is not None:
            log.warning("%s moves again; it had stalled since %s", name, instant(before.since_ms))
