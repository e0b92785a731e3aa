"""Failed connectors and tasks of this worker that restart by themselves (:mod:`worker.operations.auto_restart`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from connect.errors import ConnectError
from worker.config.worker_config import WorkerConfig
from worker.distributed.assignment_reconciler import RunningConnector, RunningTask
from worker.distributed.herder_core import Coordination
from worker.distributed.status_writer import Instance, StatusWriter
from worker.model import Restarts, State, TargetState, TaskId
from worker.operations.auto_restart import Healer, RestartPolicy

log = logging.getLogger(__name__)

_OFF = RestartPolicy()


class Healing:
    """Between the states of what runs here and the healer. Whatever worker is asked for a status, it tells of the restarts."""

    def __init__(self, coordination: Coordination, statuses: StatusWriter, config: WorkerConfig) -> None:
        self._c = coordination
        self._statuses = statuses
        self._config = config
        self._healer = Healer(self._restart)
        self._failed: dict[Instance, tuple[RunningConnector | RunningTask, str | None]] = {}
        """What has FAILED here, with its trace. One that was stopped or started since is another."""
        statuses.healing = self

    def start(self) -> None:
        self._healer.start()

    def close(self) -> None:
        self._healer.close()

    def on_state(self, instance: Instance, state: State, trace: str | None) -> Restarts | None:
        name, task = _parts(instance)
        policy = self._policy(self._c.state.config(name))
        self._failed.pop(instance, None)
        match state:
            case State.FAILED:
                if (running := self._running(instance)) is not None:
                    self._failed[instance] = running, trace
                self._healer.failed(name, task, policy, trace)
            case State.RUNNING:
                self._healer.running(name, task)
            case State.PAUSED | State.STOPPED if self._c.state.target_state(name) is not TargetState.STARTED:
                # Not by a word that comes late, when it was resumed meanwhile and heals again.
                self._healer.forget(name)
            case _:
                pass
        return self._healer.shown(name, task, policy)

    def begin_anew(self, name: str) -> None:
        self._healer.forget(name)
        for instance, (failed, trace) in list(self._failed.items()):
            if _parts(instance)[0] != name:
                continue
            if self._running(instance) is not failed:
                del self._failed[instance]
            elif self._c.state.target_state(name) is TargetState.STARTED:
                # It is not restarted now, and heals from here as one that has just failed.
                self._statuses.tell(instance, State.FAILED, trace)

    def _running(self, instance: Instance) -> RunningConnector | RunningTask | None:
        work = self._c.work
        return work.connectors.get(instance) if isinstance(instance, str) else work.tasks.get(instance)

    def _policy(self, config: Mapping[str, str | None] | None) -> RestartPolicy:
        try:
            return RestartPolicy.of(config or {}, self._config)
        except ConnectError as e:
            log.debug("errors.restart.*: %s", e.message)
            return _OFF

    def _restart(self, name: str, task: int | None) -> None:
        def restart() -> None:
            instance: Instance = name if task is None else TaskId(name, task)
            failed = self._failed.get(instance)
            # Somebody else may have restarted it while this was on its way.
            if failed is None or self._running(instance) is not failed[0]:
                return
            if self._c.state.target_state(name) is not TargetState.STARTED:
                return
            if isinstance(instance, str):
                self._c.restarts.connector(instance, by_hand=False)
            else:
                self._c.restarts.tasks([instance], by_hand=False)

        self._c.loop.post(restart)


def _parts(instance: Instance) -> tuple[str, int | None]:
    return (instance, None) if isinstance(instance, str) else (instance.connector, instance.task)
