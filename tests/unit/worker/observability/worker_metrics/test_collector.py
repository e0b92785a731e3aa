"""One scrape of a worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics

from tests.unit.worker.executors.conftest import RecordingListener
from worker.executor import Executor, ExecutorFigures
from worker.model import State, TaskId
from worker.observability.metrics.exposition import Format, render
from worker.observability.metrics.families import MetricFamily, gauge
from worker.observability.worker_metrics.collector import WorkerMetrics
from worker.observability.worker_metrics.start_counts import StartCounts
from worker.observability.worker_metrics.worker_view import ConnectorView, RebalanceView, WorkerView

VIEW = WorkerView(
    "host:8083",
    "1.0",
    "abc",
    [ConnectorView("c", State.RUNNING, "source", "Class", "1"), ConnectorView("broken", State.FAILED, "unknown", "No", "")],
    [(TaskId("c", 0), State.RUNNING), (TaskId("c", 1), State.FAILED)],
    RebalanceView("SESSIONED", "http://leader:8083/", 7, 2, False, 30.0, 20.0, 1000.0),
)


class Silent:
    """An executor of which one process does not answer."""

    def figures(self, timeout_s: float) -> list[ExecutorFigures]:
        return [ExecutorFigures("shared-1", None, True, ()), ExecutorFigures("shared-2", None, False, ())]


def collect(*sources: Any) -> dict[str, float]:
    metrics = WorkerMetrics(cast(Executor, Silent()), lambda: VIEW, StartCounts(RecordingListener()))
    for source in sources:
        metrics.add_source(source)
    page = render(metrics.collect(), Format.OPEN_METRICS).decode()
    return {
        one.name + "".join(f" {name}={value}" for name, value in sorted(one.labels.items())): one.value
        for family in parse_open_metrics(page)
        for one in family.samples
    }


def test_states_of_connectors_and_tasks_are_exported_also_of_those_that_failed_to_start() -> None:
    found = collect()
    assert found["sluice_connector_status connector=broken status=failed"] == 1
    assert found["kafka_connect_connector_status connector=c status=failed task=1"] == 1
    assert found["kafka_connect_worker_connector_failed_task_count connector=c"] == 1
    assert found["kafka_connect_worker_connector_total_task_count connector=c"] == 2
    assert found["kafka_connect_worker_connector_count"] == 2


def test_group_of_a_distributed_worker_is_exported() -> None:
    found = collect()
    assert found["kafka_connect_worker_rebalance_epoch"] == 7
    assert found["kafka_connect_worker_rebalance_completed_rebalances_total"] == 2
    assert found["kafka_connect_worker_rebalance_leader_name_info leader_name=http://leader:8083/"] == 1
    assert found["kafka_connect_coordinator_assigned_tasks clientId=connect-host:8083"] == 2


def test_executor_that_does_not_answer_is_marked() -> None:
    found = collect()
    assert (found["sluice_executor_up process=shared-1"], found["sluice_executor_up process=shared-2"]) == (1, 0)


def test_source_that_fails_does_not_hide_the_others() -> None:
    def fails() -> Iterable[MetricFamily]:
        raise ValueError("boom")

    found = collect(fails, lambda: [gauge("sluice_extra", "x").add(5)])
    assert found["sluice_extra"] == 5
    assert found["kafka_connect_worker_task_count"] == 2
