"""What probes and metrics show about a distributed worker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from worker.config.isolation import ENVIRONMENT
from worker.distributed.bootstrap import WorkerComponents
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.executor import ConnectorFacts
from worker.model import Health, HealthCheck, Readiness, State
from worker.observability.worker_metrics.worker_view import ConnectorView, WorkerView
from worker.version import server_info

_HEALTH_TIMEOUT_S = 10.0
_SILENT_S = 120.0
"""How long the herder's thread may be busy until a restart is the remedy. No job takes nearly as long."""

FindFacts = Callable[[tuple[str, str | None]], ConnectorFacts | None]
"""Returns what is known about a connector's class in an environment."""


class DistributedCondition:
    """Implements :class:`worker.observability.worker_metrics.worker_view.WorkerCondition`. Waits for nothing."""

    def __init__(self, parts: WorkerComponents, find_facts: FindFacts) -> None:
        self._parts = parts
        self._find_facts = find_facts

    def liveness(self) -> Readiness:
        return find_liveness(self._parts.loop)

    def readiness(self) -> Readiness:
        return find_readiness(self._parts.loop, self._parts.group)

    def view(self) -> WorkerView:
        parts = self._parts
        state, statuses, group = parts.config_sync.store.snapshot(), parts.status_store, parts.group
        connectors = []
        # Copies, because the herder's thread changes the originals.
        for name in list(parts.instances.connectors):
            config, status = state.config(name) or {}, statuses.get(name)
            class_name = config.get("connector.class") or ""
            facts = self._find_facts((class_name, config.get(ENVIRONMENT)))
            known = ("unknown", class_name, "") if facts is None else (facts.type, facts.class_name, facts.version or "")
            connectors.append(ConnectorView(name, State.UNASSIGNED if status is None else status.state, *known))
        tasks = []
        for task in list(parts.instances.tasks):
            status = statuses.get(task)
            tasks.append((task, State.UNASSIGNED if status is None else status.state))
        info = server_info(None)
        rebalance = group.times.view(group.current, is_rebalancing=group.is_rebalancing)
        return WorkerView(parts.worker_id, info.version, info.commit, connectors, tasks, rebalance)

    def close(self) -> None:
        """Does nothing: the probes have opened nothing."""


def find_liveness(loop: HerderLoop) -> Readiness:
    """Returns whether the herder's thread responds. Its start may have to wait for a broker, for as long as that takes."""
    operation = loop.activity.now()
    doing = "" if operation is None else f" {operation.sentence()}"
    if loop.has_ended:
        check = HealthCheck("herder", False, f"The herder's thread has ended.{doing}")
    elif loop.silent_s > _SILENT_S:
        check = HealthCheck("herder", False, f"The herder's thread has not responded for {loop.silent_s:.0f} s.{doing}")
    else:
        check = HealthCheck("herder", True, "responds")
    return Readiness([check])


def find_readiness(loop: HerderLoop, group: GroupSession) -> Readiness:
    """Returns whether the worker runs its share of a cluster."""
    # The member leaves the group when it has not reached the coordinator for a heartbeat interval.
    in_group, awaits = group.current.number >= 0, group.is_rebalancing
    return Readiness(
        [
            *find_liveness(loop).checks,
            HealthCheck("startup", group.is_ready, "complete" if group.is_ready else "Worker is still starting up."),
            HealthCheck("group", in_group, "member" if in_group else "not a member, or no broker answers"),
            HealthCheck("rebalance", not awaits, "in progress" if awaits else "complete"),
        ]
    )


def find_health(loop: HerderLoop, group: GroupSession) -> Health:
    """Returns the state of Apache's ``/health``. Waits until the herder's thread has answered, for a few seconds at most."""
    answered: Future[None] = Future()
    loop.post(lambda: answered.set_result(None))
    try:
        answered.result(_HEALTH_TIMEOUT_S if group.is_ready else 1.0)
    except FutureTimeout:
        operation = loop.activity.now()
        doing = f" {operation.sentence()}" if operation is not None else ""
        if not group.is_ready:
            return Health("starting", f"Worker is still starting up.{doing}")
        return Health("unhealthy", f"Worker was unable to handle this request and may be unable to handle other requests.{doing}")
    if not group.is_ready:
        return Health("starting", "Worker is still starting up.")
    return Health("healthy", "Worker has completed startup and is ready to handle requests.")
