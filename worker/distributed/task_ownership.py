"""Whether a task is still this worker's: asked by its transactional producer before it writes (promise 4)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from connect.errors import ConnectError, UnreachableError
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.config_sync import ConfigSync
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.local_instances import LocalInstances
from worker.executors.futures import fail, succeed
from worker.model import TaskId

_CONFIRM_S = 3.0


class TaskOwnership:
    """Called on tasks' threads."""

    def __init__(
        self,
        group_id: str,
        loop: HerderLoop,
        config: ConfigSync,
        instances: LocalInstances,
        reconciler: AssignmentReconciler,
        confirm_membership: Callable[[float], bool],
    ) -> None:
        """``confirm_membership`` asks the group's coordinator, within a time in seconds
        (:meth:`worker.group.member.GroupMember.confirm`)."""
        self._group_id = group_id
        self._loop = loop
        self._config = config
        self._instances = instances
        self._reconciler = reconciler
        self._confirm_membership = confirm_membership

    def confirm(self, start_id: int, task: TaskId, *, with_coordinator: bool) -> None:
        """Raises ConnectError, in Apache's words, when a run of a task is over or its configuration outdated, UnreachableError
        while that cannot be known. ``with_coordinator`` also asks the group's coordinator."""
        # Promise 4: a worker that was frozen or cut off believes to own tasks that others may have by now.
        if with_coordinator and not self._confirm_membership(_CONFIRM_S):
            raise UnreachableError(
                f"the coordinator of group {self._group_id} does not confirm that this worker is a member: it does not "
                "answer, or a rebalance is underway"
            )
        # What the leader wrote before this task's producer fenced its predecessor's must be read.
        self._config.refresh()
        answer: Future[None] = Future()

        def check() -> None:
            try:
                self._require_current(start_id, task)
            except ConnectError as e:
                fail(answer, e)
            else:
                succeed(answer, None)

        self._loop.post(check)
        try:
            answer.result(_CONFIRM_S)
        except TimeoutError as e:
            raise UnreachableError(f"the herder is busy and did not confirm that task {task} is to run") from e

    def _require_current(self, start_id: int, task: TaskId) -> None:
        running = self._instances.tasks.get(task)
        refusal = f"Cannot start source task {task} with exactly-once support as"
        if running is not None and running.generation != self._config.store.snapshot().task_generation(task.connector):
            raise ConnectError(f"{refusal} the connector has already generated a new set of task configs")
        if running is None or running.start_id != start_id or not self._reconciler.owns_task(task):
            raise ConnectError(f"{refusal} it has already been revoked from this worker")
