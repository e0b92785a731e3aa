"""Restarts of instances on this worker: requested over REST, planned by the leader, or after a failure."""

from __future__ import annotations

from concurrent.futures import Future

from connect.errors import ConnectError
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.local_instances import Instance, LocalInstances, connector_of
from worker.distributed.status_writer import StatusWriter
from worker.model import TaskId
from worker.operations.restart_plan import to_restart
from worker.storage.record_codec import RestartRequest

_START_S = 60.0


class LocalRestarts:
    """Used by the herder's thread only."""

    def __init__(
        self,
        loop: HerderLoop,
        instances: LocalInstances,
        reconciler: AssignmentReconciler,
        statuses: StatusWriter,
        graceful_s: float,
    ) -> None:
        """``graceful_s`` is how long instances may take to stop."""
        self._loop = loop
        self._instances = instances
        self._reconciler = reconciler
        self._statuses = statuses
        self._start_timeout_s = graceful_s + _START_S

    def restart(self, instance: Instance) -> Future[None]:
        """Restarts an instance that runs here, on request. The future is done when it has started or failed."""
        self._stop(instance)
        self._statuses.reset_restarts(connector_of(instance))
        self._reconciler.reconcile()
        return self._await_start(instance)

    def restart_failed(self, instance: Instance) -> None:
        """Restarts an instance that failed here, automatically."""
        self._stop(instance)
        self._reconciler.reconcile()

    def restart_planned(self, request: RestartRequest) -> None:
        """Carries out this worker's share of a restart that the leader wrote into the config topic (KIP-745)."""
        status = self._statuses.connector_status(request.name)
        if status is None:
            return
        connector, numbers = to_restart(status, include_tasks=request.include_tasks, only_failed=request.only_failed)
        tasks = [task for number in numbers if (task := TaskId(request.name, number)) in self._instances.tasks]
        if connector and request.name in self._instances.connectors:
            self._statuses.show_as_restarting([request.name])
            self._reconciler.stop_connector(request.name)
        self._statuses.show_as_restarting(tasks)
        self._reconciler.stop_tasks(tasks)
        self._statuses.reset_restarts(request.name)
        self._reconciler.reconcile()

    def _stop(self, instance: Instance) -> None:
        if isinstance(instance, str):
            self._reconciler.stop_connector(instance)
        else:
            self._reconciler.stop_tasks([instance])

    def _await_start(self, instance: Instance) -> Future[None]:
        outcome = self._instances.await_start(instance)
        if not outcome.done():
            self._loop.post(lambda: self._instances.cancel_awaited(instance, outcome, not_restarted()), self._start_timeout_s)
        return outcome


def not_restarted() -> ConnectError:
    """Builds the error of a restart that did not happen in time, or before the shutdown."""
    return ConnectError("it was not started again: it is no longer assigned to this worker")
