"""Names of the metrics of tasks: those that the usual rules of the JMX exporter give Apache's."""

from __future__ import annotations

import re

import pytest

from connect.metrics import Metric, MetricKind
from worker.model import ErrorCounts, TaskId
from worker.observability.metrics.exposition import Format, render
from worker.observability.metrics.task_families import TASK_METRICS, task_families
from worker.observability.metrics.task_figures import NO_OBSERVATIONS, TaskFigures, TaskNumbers

# prometheus/jmx_exporter, examples/kafka-connect.yml: "kafka.connect<type=(.+)-metrics, connector=(.+), task=(.+)><>(.+)" is
# named kafka_connect_$1_$4, in lower case and with underscores.
RULE = re.compile(r"(?P<type>[a-z-]+)-metrics: (?P<attribute>[a-z-]+)")

# The attributes of these groups in Apache Kafka 4.3.1 (ConnectMetricsRegistry) that are numbers.
APACHE = {
    "connector-task-metrics": "running-ratio pause-ratio offset-commit-max-time-ms offset-commit-avg-time-ms batch-size-max "
    "batch-size-avg offset-commit-failure-percentage offset-commit-success-percentage",
    "source-task-metrics": "source-record-poll-rate source-record-poll-total source-record-write-rate source-record-write-total "
    "poll-batch-max-time-ms poll-batch-avg-time-ms source-record-active-count source-record-active-count-max "
    "source-record-active-count-avg transaction-size-min transaction-size-max transaction-size-avg",
    "sink-task-metrics": "sink-record-read-rate sink-record-read-total sink-record-send-rate sink-record-send-total "
    "sink-record-lag-max partition-count offset-commit-seq-no offset-commit-completion-rate offset-commit-completion-total "
    "offset-commit-skip-rate offset-commit-skip-total put-batch-max-time-ms put-batch-avg-time-ms sink-record-active-count "
    "sink-record-active-count-max sink-record-active-count-avg",
    "task-error-metrics": "total-record-failures total-record-errors total-records-skipped total-retries total-errors-logged "
    "deadletterqueue-produce-requests deadletterqueue-produce-failures last-error-timestamp",
}


def figures(*metrics: Metric, is_source: bool = True) -> TaskFigures:
    return TaskFigures(
        TaskId("c", 0), is_source, TaskNumbers(), ErrorCounts(), NO_OBSERVATIONS, NO_OBSERVATIONS, {"a-b-1": 5}, None, metrics
    )


def test_every_attribute_of_apache_is_exported_under_the_name_of_the_usual_rules() -> None:
    expected = {
        (f"{group}: {attribute}", f"kafka_connect_{group.removesuffix('-metrics')}_{attribute}".replace("-", "_"))
        for group, attributes in APACHE.items()
        for attribute in attributes.split()
    }
    assert {(one.apache, one.name) for one in TASK_METRICS if one.apache} == expected


def test_sources_and_sinks_have_their_own_metrics() -> None:
    page = render(task_families([figures(is_source=False)]), Format.TEXT).decode()
    assert "kafka_connect_sink_task_partition_count" in page
    assert "source_record_poll" not in page
    assert 'sluice_sink_lag_records{connector="c",task="0",topic="a-b",partition="1"} 5\n' in page


def test_metrics_of_a_connector_get_prefix_and_labels() -> None:
    own = Metric("postgres_slot_lag_bytes", 7.0, "Lag.", labels={"slot": "s", "connector": "other"})
    page = render(task_families([figures(own)]), Format.TEXT).decode()
    assert 'sluice_postgres_slot_lag_bytes{connector="c",task="0",slot="s"} 7.0\n' in page


@pytest.mark.parametrize("name", ["task_bytes_total", "offset_commit_seconds"])
def test_connector_cannot_add_samples_to_metrics_of_the_worker(name: str) -> None:
    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    found = task_families([figures(Metric(name, 666.0, "x", kind))])
    assert len({family.name for family in found}) == len(found)
    assert "666" not in render(found, Format.TEXT).decode()
