"""The metrics of a worker, its group, and its connectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from connect.metrics import MetricKind
from worker.executor import ExecutorFigures
from worker.model import State
from worker.observability.metrics.families import MetricFamily, Value, counter, gauge, render_labels, with_label
from worker.observability.metrics.task_families import task_labels
from worker.observability.worker_metrics.start_counts import StartFigures, Startups
from worker.observability.worker_metrics.worker_view import RebalanceView, WorkerView

TASK_STATUS, CONNECTOR_STATUS = "kafka_connect_connector_status", "sluice_connector_status"
_COUNTED = (State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED, State.RESTARTING)


_shown = {state: state.value.lower() for state in State}.__getitem__


@lru_cache(2048)
def _connector_label(name: str) -> str:
    return render_labels({"connector": name})


@lru_cache(256)
def _class_labels(type: str, class_name: str, version: str) -> str:
    return render_labels({"connector_type": type, "connector_class": class_name, "connector_version": version})


def worker_families(view: WorkerView, starts: StartFigures, executors: Sequence[ExecutorFigures]) -> Iterator[MetricFamily]:
    """Yields everything that is not about one task."""
    client = {"clientId": f"connect-{view.worker_id}"}
    yield gauge("kafka_connect_version_info", "Version of the worker; always 1.").add(1, {**client, "version": view.version})
    yield gauge("kafka_connect_commit_id_info", "Commit of the worker; always 1.").add(1, {**client, "commit_id": view.commit})
    yield from _counts(view, starts)
    yield from _connectors(view)
    yield from _tasks(view, starts)
    if view.rebalance is not None:
        yield from _rebalances(view.rebalance)
        yield gauge("kafka_connect_coordinator_assigned_connectors", "Connectors assigned to this worker.").add(
            len(view.connectors), client
        )
        yield gauge("kafka_connect_coordinator_assigned_tasks", "Tasks assigned to this worker.").add(len(view.tasks), client)
    up = gauge("sluice_executor_up", "1 if the executor process answered this scrape; 0 if its tasks' figures are older.")
    for one in executors:
        up.add(1 if one.answered else 0, {"process": one.process})
    yield up


def _counts(view: WorkerView, starts: StartFigures) -> Iterator[MetricFamily]:
    yield gauge("kafka_connect_worker_connector_count", "Connectors on this worker.").add(len(view.connectors))
    yield gauge("kafka_connect_worker_task_count", "Tasks on this worker.").add(len(view.tasks))
    for name, found in (("connector", starts.connectors), ("task", starts.tasks)):
        yield from _startups(name, found)


def _startups(name: str, found: Startups) -> Iterator[MetricFamily]:
    prefix, attempts = f"kafka_connect_worker_{name}_startup", found.succeeded + found.failed
    yield counter(f"{prefix}_attempts_total", f"Starts of {name}s.").add(attempts)
    for outcome, label, count in (("success", "succeeded", found.succeeded), ("failure", "failed", found.failed)):
        yield counter(f"{prefix}_{outcome}_total", f"Starts of {name}s that {label}.").add(count)
        ratio = count / attempts if attempts else 0.0
        yield gauge(f"{prefix}_{outcome}_percentage", f"Fraction (0 to 1) of the starts of {name}s that {label}.").add(ratio)


def _connectors(view: WorkerView) -> Iterator[MetricFamily]:
    status = gauge(CONNECTOR_STATUS, "The state of a connector; always 1.")
    info = gauge("kafka_connect_connector_info", "Type, class, and version of a connector; always 1.")
    for one in view.connectors:
        status.add(1, with_label(_connector_label(one.name), "status", _shown(one.state)))
        info.add(1, f"{_connector_label(one.name)},{_class_labels(one.type, one.class_name, one.version)}")
    yield status
    yield info


def _tasks(view: WorkerView, starts: StartFigures) -> Iterator[MetricFamily]:
    status = gauge(TASK_STATUS, "The state of a task; always 1.")
    states: dict[str, list[State]] = {}
    for task, state in view.tasks:
        status.add(1, with_label(task_labels(task.connector, task.task), "status", _shown(state)))
        states.setdefault(task.connector, []).append(state)
    yield status
    yield from _task_counts(states)
    connectors = counter("sluice_connector_restarts_total", "Starts of a connector on this worker after its first one.")
    tasks = counter("sluice_task_restarts_total", "Starts of a task on this worker after its first one.")
    for instance, restarts in starts.restarts.items():
        if isinstance(instance, str):
            connectors.add(restarts, _connector_label(instance))
        else:
            tasks.add(restarts, task_labels(instance.connector, instance.task))
    yield connectors
    yield tasks
    yield from _stalls(starts)


def _stalls(starts: StartFigures) -> Iterator[MetricFamily]:
    connectors = gauge("sluice_connector_stalled", "1 for a connector that does not move, by the kind of its stall.")
    tasks = gauge("sluice_task_stalled", "1 for a task that is RUNNING and does not move, by the kind of its stall.")
    for instance, kind in starts.stalls.items():
        if isinstance(instance, str):
            connectors.add(1, with_label(_connector_label(instance), "kind", kind))
        else:
            tasks.add(1, with_label(task_labels(instance.connector, instance.task), "kind", kind))
    yield connectors
    yield tasks


def _task_counts(states: Mapping[str, Sequence[State]]) -> Iterator[MetricFamily]:
    """``states`` are those of the tasks of each connector."""
    labels, found = [_connector_label(name) for name in states], states.values()

    def family(of: str, help: str, counts: list[Value]) -> MetricFamily:
        return MetricFamily(f"kafka_connect_worker_connector_{of}_task_count", MetricKind.GAUGE, help, labels, counts)

    yield family("total", "Tasks of a connector on this worker.", [len(one) for one in found])
    for state in _COUNTED:
        label = state.value.lower()
        yield family(label, f"Tasks of a connector here that are {label}.", [one.count(state) for one in found])
    # A task that no longer exists has no status here, so there is none to count.
    yield family("destroyed", "Always 0: deleted tasks have no status.", [0] * len(labels))


def _rebalances(view: RebalanceView) -> Iterator[MetricFamily]:
    prefix = "kafka_connect_worker_rebalance"
    yield gauge(f"{prefix}_connect_protocol_info", "The protocol of the group; always 1.").add(
        1, {"connect_protocol": view.protocol}
    )
    yield gauge(f"{prefix}_leader_name_info", "The URL of the group's leader; always 1.").add(1, {"leader_name": view.leader_url})
    yield gauge(f"{prefix}_epoch", "Generation of the group; -1 outside of it.").add(view.epoch)
    yield counter(f"{prefix}_completed_rebalances_total", "Rebalances that this worker has completed.").add(view.completed)
    yield gauge(f"{prefix}_rebalancing", "1 while this worker awaits a rebalance.").add(1 if view.is_rebalancing else 0)
    yield gauge(f"{prefix}_rebalance_max_time_ms", "Longest recent rebalance.").add(view.max_ms)
    yield gauge(f"{prefix}_rebalance_avg_time_ms", "Average recent rebalance.").add(view.avg_ms)
    yield gauge(f"{prefix}_time_since_last_rebalance_ms", "Time since the last rebalance; 0 before the first one.").add(
        view.since_last_ms
    )
