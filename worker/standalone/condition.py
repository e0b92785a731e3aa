"""What probes and metrics show about a standalone worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from worker.config.worker_config import WorkerConfig
from worker.kafka.broker_probe import BrokerProbe
from worker.model import HealthCheck, Readiness, TaskId
from worker.observability.worker_metrics.worker_view import ConnectorView, WorkerView
from worker.standalone.connector import StandaloneConnector
from worker.version import server_info

_LOCK_TIMEOUT_S = 1.0


class StandaloneCondition:
    """Implements :class:`worker.observability.worker_metrics.worker_view.WorkerCondition`."""

    def __init__(
        self,
        config: WorkerConfig,
        worker_id: str,
        lock: threading.Lock,
        connectors: Mapping[str, StandaloneConnector],
        is_started: Callable[[], bool],
    ) -> None:
        """``lock`` guards ``connectors``."""
        self._worker_id = worker_id
        self._lock = lock
        self._connectors = connectors
        self._is_started = is_started
        self._broker = BrokerProbe(config.bootstrap_servers, config.originals)

    def liveness(self) -> Readiness:
        if answers := self._lock.acquire(timeout=_LOCK_TIMEOUT_S):
            self._lock.release()
        return Readiness([HealthCheck("herder", answers, "responds" if answers else "is blocked")])

    def readiness(self) -> Readiness:
        started = self._is_started()
        check = HealthCheck("startup", started, "complete" if started else "Worker is still starting up.")
        return Readiness([check, self._broker.check()])

    def view(self) -> WorkerView:
        with self._lock:
            connectors = list(self._connectors.values())
        views, tasks = [], []
        for connector in connectors:
            definition = connector.definition
            name, facts = definition.name, definition.facts
            for number, status in connector.state.statuses():
                if number is None:
                    views.append(ConnectorView(name, status.state, facts.type, facts.class_name, facts.version or ""))
                else:
                    tasks.append((TaskId(name, number), status.state))
        info = server_info(None)
        return WorkerView(self._worker_id, info.version, info.commit, views, tasks)

    def close(self) -> None:
        self._broker.close()
