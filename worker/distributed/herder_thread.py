"""The life of a distributed worker: reads its topics, joins the group, and then follows jobs and rebalances until it is stopped.

All state belongs to this thread (:mod:`worker.distributed.herder_loop`). Apache's herder does the same in its ``tick``; unlike
there, nothing waits for a connector: starts, stops, and task configurations come back as jobs, so a connector that hangs delays
neither requests nor the group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from connect.errors import ConfigError, ConnectError, UnreachableError
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.config_sync import ConfigSync
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.local_instances import LocalInstances
from worker.distributed.local_restarts import not_restarted
from worker.distributed.rebalances import RebalanceHandler
from worker.error_text import describe

log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""The longest wait before the group is polled again."""
_STOP_MARGIN_S = 2.0


class HerderThread:
    """Starts the services, runs the loop, and shuts down."""

    def __init__(
        self,
        loop: HerderLoop,
        config: ConfigSync,
        group: GroupSession,
        instances: LocalInstances,
        reconciler: AssignmentReconciler,
        rebalances: RebalanceHandler,
        pool: ThreadPoolExecutor,
        services: Sequence[tuple[str, Callable[[], None]]],
        graceful_s: float,
        on_fatal: Callable[[ConnectError], None],
    ) -> None:
        """``services`` start, with their descriptions, before the group is joined. ``graceful_s`` is how long instances may take
        to stop. ``on_fatal`` is called when the worker cannot continue. The thread shuts ``pool`` down."""
        self._loop = loop
        self._config = config
        self._group = group
        self._instances = instances
        self._reconciler = reconciler
        self._rebalances = rebalances
        self._pool = pool
        self._services = services
        self._graceful_s = graceful_s
        self._on_fatal = on_fatal
        self._is_stopping = False

    def start(self) -> None:
        """Starts the thread."""
        self._loop.start(self._run)

    def stop(self) -> None:
        """Asks the thread to stop everything, leave the group, and end. Any thread; does not block."""
        self._is_stopping = True
        self._loop.wake()

    def _run(self) -> None:
        try:
            if self._start_services():
                while not self._is_stopping:
                    self._step()
        except ConnectError as e:
            if not self._is_stopping:  # else a wait was interrupted
                self._on_fatal(e)
        except Exception as e:
            log.exception("The herder's thread failed")
            self._on_fatal(ConnectError(f"the herder failed: {describe(e)}"))
        finally:
            self._shut_down()

    def _start_services(self) -> bool:
        # In parallel, because most of it is waiting.
        for description, started in [(description, self._pool.submit(start)) for description, start in self._services]:
            if self._is_stopping:
                return False
            with self._loop.doing(description):
                started.result()
        self._config.apply_snapshot()
        with self._loop.doing("looking for the group coordinator"):
            while not self._is_stopping:
                try:
                    self._group.member.start()
                    return True
                except ConnectError as e:
                    if not _is_transient(e):
                        raise
                    log.warning("%s; trying again", e.message)
                    self._loop.wait(_LOOK_S)
        return False

    def _step(self) -> None:
        if self._config.is_behind:
            self._rebalances.catch_up()
        self._rebalances.join_if_due()
        with self._loop.doing("processing requests and changes"):
            next_s = self._loop.run_due()
        if not self._is_stopping:
            self._loop.wait(_LOOK_S if next_s is None else min(_LOOK_S, next_s))

    def _shut_down(self) -> None:
        deadline = time.monotonic() + self._graceful_s + _STOP_MARGIN_S
        self._instances.refuse_awaiting(not_restarted())
        self._reconciler.suspend()  # what has stopped is not restarted while the rest still stops
        self._reconciler.stop_all()
        while self._reconciler.is_stopping and time.monotonic() < deadline:
            self._loop.run_due()
            if self._reconciler.is_stopping:
                self._loop.wait(0.1)
        self._loop.run_due()  # the last reports of tasks
        self._group.member.leave("the worker is stopping")
        self._group.member.close()
        self._group.left()
        self._loop.refuse_all(ConnectError("The worker is shutting down"))
        self._pool.shutdown(wait=False, cancel_futures=True)


def _is_transient(error: ConnectError) -> bool:
    return isinstance(error, UnreachableError) and not isinstance(error, ConfigError)
