"""What a herder knows about itself and its work, for probes and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from worker.model import Readiness, State, TaskId


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """A connector whose instance runs on this worker, or is to."""

    name: str
    state: State
    type: str
    class_name: str
    version: str


@dataclass(frozen=True, slots=True)
class RebalanceView:
    """This worker's group (``connect-worker-rebalance-metrics``)."""

    protocol: str
    """EAGER, COMPATIBLE, or SESSIONED."""
    leader_url: str
    epoch: int
    completed: int
    is_rebalancing: bool
    max_ms: float
    avg_ms: float
    since_last_ms: float
    """0 before the first one."""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker and what runs on it."""

    worker_id: str
    version: str
    commit: str
    connectors: Sequence[ConnectorView]
    tasks: Sequence[tuple[TaskId, State]]
    rebalance: RebalanceView | None = None
    """None for a standalone worker."""


class WorkerCondition(Protocol):
    """Answers probes and scrapes for one kind of worker. Safe from any thread."""

    def liveness(self) -> Readiness: ...

    def readiness(self) -> Readiness: ...

    def view(self) -> WorkerView:
        """Returns what the worker runs, without waiting for anything."""

    def close(self) -> None:
        """Ends what probes have opened."""
