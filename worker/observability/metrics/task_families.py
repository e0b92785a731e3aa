"""The metrics of tasks. :data:`TASK_METRICS` is the one table of them: names, Apache's attributes, and help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from operator import attrgetter

from connect.metrics import MetricKind
from worker.observability.metrics.families import MetricFamily, Value, gauge, merged, render_labels, with_label
from worker.observability.metrics.task_figures import PluginFacts, TaskFigures, TaskPlugins

PREFIX = "sluice_"
"""Of metrics that Apache's workers do not have."""


class Tasks(Enum):
    """The tasks that have a metric."""

    ALL = "all"
    SOURCES = "source"
    SINKS = "sink"


@dataclass(frozen=True, slots=True)
class TaskMetric:
    """One metric of tasks. ``apache`` is the JMX group and attribute, empty for ours."""

    name: str
    apache: str
    help: str
    attribute: str
    """Of :class:`TaskFigures`, with dots."""
    kind: MetricKind = MetricKind.GAUGE
    tasks: Tasks = Tasks.ALL


def _apache(
    group: str,
    attribute: str,
    figure: str,
    help: str,
    *,
    tasks: Tasks = Tasks.ALL,
) -> TaskMetric:
    name = f"kafka_connect_{group.removesuffix('-metrics')}_{attribute}".replace("-", "_")
    kind = MetricKind.COUNTER if attribute.endswith("-total") else MetricKind.GAUGE
    return TaskMetric(name, f"{group}: {attribute}", help, figure, kind, tasks)


_TASK, _SOURCE, _SINK, _ERROR = "connector-task-metrics", "source-task-metrics", "sink-task-metrics", "task-error-metrics"


def _source(attribute: str, figure: str, help: str) -> TaskMetric:
    return _apache(_SOURCE, attribute, figure, help, tasks=Tasks.SOURCES)


def _sink(attribute: str, figure: str, help: str) -> TaskMetric:
    return _apache(_SINK, attribute, figure, help, tasks=Tasks.SINKS)


TASK_METRICS: tuple[TaskMetric, ...] = (
    _apache(_TASK, "running-ratio", "numbers.running_ratio", "Fraction of time that the task has been running."),
    _apache(_TASK, "pause-ratio", "numbers.pause_ratio", "Fraction of time that the task has been paused."),
    _apache(_TASK, "batch-size-max", "numbers.batch_size_max", "Largest recent batch, in records."),
    _apache(_TASK, "batch-size-avg", "numbers.batch_size_avg", "Average recent batch, in records."),
    _apache(_TASK, "offset-commit-max-time-ms", "numbers.commit_time_max_ms", "Longest recent offset commit."),
    _apache(_TASK, "offset-commit-avg-time-ms", "numbers.commit_time_avg_ms", "Average recent offset commit."),
    _apache(
        _TASK, "offset-commit-success-percentage", "numbers.commit_success_ratio",
        "Fraction (0 to 1) of recent offset commits that succeeded.",
    ),
    _apache(
        _TASK, "offset-commit-failure-percentage", "numbers.commit_failure_ratio",
        "Fraction (0 to 1) of recent offset commits that failed.",
    ),
    _source("source-record-poll-total", "numbers.incoming_total", "Records polled, before transformations."),
    _source("source-record-poll-rate", "numbers.incoming_rate", "Records polled per second, recently."),
    _source("source-record-write-total", "numbers.outgoing_total", "Records written to Kafka and acknowledged."),
    _source("source-record-write-rate", "numbers.outgoing_rate", "Records written to Kafka per second, recently."),
    _source("poll-batch-max-time-ms", "numbers.batch_time_max_ms", "Longest recent poll that returned records."),
    _source("poll-batch-avg-time-ms", "numbers.batch_time_avg_ms", "Average recent poll that returned records."),
    _source("source-record-active-count", "numbers.active_count", "Records that Kafka has not acknowledged yet."),
    _source("source-record-active-count-max", "numbers.active_max", "Most unacknowledged records, recently."),
    _source("source-record-active-count-avg", "numbers.active_avg", "Average unacknowledged records, recently."),
    _source("transaction-size-min", "numbers.transaction_min", "Smallest recent transaction, in records."),
    _source("transaction-size-max", "numbers.transaction_max", "Largest recent transaction, in records."),
    _source("transaction-size-avg", "numbers.transaction_avg", "Average recent transaction, in records."),
    _sink("sink-record-read-total", "numbers.incoming_total", "Records read from Kafka, before transformations."),
    _sink("sink-record-read-rate", "numbers.incoming_rate", "Records read from Kafka per second, recently."),
    _sink("sink-record-send-total", "numbers.outgoing_total", "Records put into the task."),
    _sink("sink-record-send-rate", "numbers.outgoing_rate", "Records put into the task per second, recently."),
    _sink("sink-record-lag-max", "numbers.lag_max", "Largest lag of a partition (never set by Apache)."),
    _sink("partition-count", "numbers.partitions", "Assigned topic partitions."),
    _sink("offset-commit-seq-no", "numbers.commit_seq_no", "Sequence number of the last offset commit."),
    _sink("offset-commit-completion-total", "numbers.completions_total", "Offset commits that succeeded."),
    _sink("offset-commit-completion-rate", "numbers.completions_rate", "Offset commits per second, recently."),
    _sink("offset-commit-skip-total", "numbers.skips_total", "Offset commits whose answers came too late."),
    _sink("offset-commit-skip-rate", "numbers.skips_rate", "Late answers to offset commits per second, recently."),
    _sink("put-batch-max-time-ms", "numbers.batch_time_max_ms", "Longest recent put."),
    _sink("put-batch-avg-time-ms", "numbers.batch_time_avg_ms", "Average recent put."),
    _sink("sink-record-active-count", "numbers.active_count", "Records put whose offsets are not committed yet."),
    _sink("sink-record-active-count-max", "numbers.active_max", "Most uncommitted records, recently."),
    _sink("sink-record-active-count-avg", "numbers.active_avg", "Average uncommitted records, recently."),
    _apache(_ERROR, "total-record-failures", "errors.failures", "Operations on records that failed."),
    _apache(_ERROR, "total-record-errors", "errors.errors", "Records that failed after all retries."),
    _apache(_ERROR, "total-records-skipped", "errors.skipped", "Records skipped because of errors."),
    _apache(_ERROR, "total-retries", "errors.retries", "Retried operations."),
    _apache(_ERROR, "total-errors-logged", "errors.logged", "Errors of records that were logged."),
    _apache(_ERROR, "deadletterqueue-produce-requests", "errors.dead_letters", "Records sent to the DLQ."),
    _apache(
        _ERROR, "deadletterqueue-produce-failures", "errors.dead_letter_failures",
        "Records that could not be written to the DLQ.",
    ),
    _apache(
        _ERROR, "last-error-timestamp", "errors.last_error_ms",
        "When a record failed last, in ms since 1970; 0 if none has.",
    ),
    TaskMetric(
        f"{PREFIX}task_bytes_total", "", "Bytes of keys and values: written to Kafka by a source, read from Kafka by a sink.",
        "numbers.bytes_total", MetricKind.COUNTER,
    ),
    TaskMetric(
        f"{PREFIX}task_metrics_current", "", "1 if the connector's code answered this scrape; 0 if its own metrics are older.",
        "are_current",
    ),
)  # fmt: skip
"""Metrics with one sample per task."""

_NUMBERS = "numbers."
_READERS = [(one, one.attribute.startswith(_NUMBERS), attrgetter(one.attribute.removeprefix(_NUMBERS))) for one in TASK_METRICS]

POLL_TIMES, PUT_TIMES = f"{PREFIX}source_poll_seconds", f"{PREFIX}sink_put_seconds"
COMMIT_TIMES, LAG = f"{PREFIX}offset_commit_seconds", f"{PREFIX}sink_lag_records"
TASK_INFO = "kafka_connect_connector_task_info"
TRANSFORM_INFO, PREDICATE_INFO = "kafka_connect_connector_transform_info", "kafka_connect_connector_predicate_info"


def task_families(tasks: Sequence[TaskFigures]) -> list[MetricFamily]:
    """Returns the metrics of tasks, those of connectors included."""
    sources, sinks = [one for one in tasks if one.is_source], [one for one in tasks if not one.is_source]
    groups = {Tasks.ALL: tasks, Tasks.SOURCES: sources, Tasks.SINKS: sinks}
    rendered = {kind: [task_labels(one.id.connector, one.id.task) for one in group] for kind, group in groups.items()}
    numbers = {kind: [one.numbers for one in group] for kind, group in groups.items()}
    families = [
        # Zero for a time that is unknown; 1 and 0 for a claim.
        MetricFamily(
            one.name,
            one.kind,
            one.help,
            rendered[one.tasks],
            [+(value or 0) for value in map(read, (numbers if is_number else groups)[one.tasks])],
        )
        for one, is_number, read in _READERS
    ]
    families.append(_histogram(POLL_TIMES, "Time of each poll that returned records.", sources, lambda t: t.batch_times))
    families.append(_histogram(PUT_TIMES, "Time of each put.", sinks, lambda t: t.batch_times))
    families.append(_histogram(COMMIT_TIMES, "Time of each offset flush or commit.", tasks, lambda t: t.commit_times))
    families.append(_lag(sinks))
    families += _plugin_families(tasks)
    taken = {family.name for family in families}
    # A connector cannot add samples to the worker's own metrics.
    families += [family for family in merged(_own_families(tasks)) if family.name not in taken]
    return families


@lru_cache(4096)
def task_labels(connector: str, task: int) -> str:
    """Returns the rendered labels of a task."""
    return render_labels({"connector": connector, "task": str(task)})


def _histogram(name: str, help: str, tasks: Sequence[TaskFigures], read: Callable[[TaskFigures], Value]) -> MetricFamily:
    family = MetricFamily(name, MetricKind.HISTOGRAM, help)
    for task in tasks:
        value = read(task)
        if value.count:  # type: ignore[union-attr]  # a histogram; most tasks of an idle worker have no observation
            family.add(value, task_labels(task.id.connector, task.id.task))
    return family


def _lag(sinks: Sequence[TaskFigures]) -> MetricFamily:
    family = gauge(LAG, "Records of a partition that the sink has not delivered.")
    for sink in sinks:
        labels = task_labels(sink.id.connector, sink.id.task)
        for name, records in sink.lag.items():
            topic, _, partition = name.rpartition("-")
            family.add(records, with_label(with_label(labels, "topic", topic), "partition", partition))
    return family


def _plugin_families(tasks: Sequence[TaskFigures]) -> Iterator[MetricFamily]:
    info = gauge(TASK_INFO, "The classes and versions of a task's plugins; always 1.")
    transforms = gauge(TRANSFORM_INFO, "The class and version of a task's transformation; always 1.")
    predicates = gauge(PREDICATE_INFO, "The class and version of a task's predicate; always 1.")
    own_labels: dict[int, str] = {}
    """By the ID of a set of plugins: many tasks have the same."""
    for task in tasks:
        if (plugins := task.plugins) is None:
            continue
        labels = task_labels(task.id.connector, task.id.task)
        if (rendered := own_labels.get(id(plugins))) is None:
            rendered = own_labels[id(plugins)] = _plugin_labels(plugins)
        info.add(1, f"{labels},{rendered}")
        for name, family, many in (("transform", transforms, plugins.transforms), ("predicate", predicates, plugins.predicates)):
            for one in many:
                own = {name: one.alias, f"{name}_class": one.class_name, f"{name}_version": one.version}
                family.add(1, f"{labels},{render_labels(own)}")
    yield from (info, transforms, predicates)


def _plugin_labels(plugins: TaskPlugins) -> str:
    facts: dict[str, PluginFacts] = {
        "task": plugins.task,
        "key_converter": plugins.key_converter,
        "value_converter": plugins.value_converter,
        "header_converter": plugins.header_converter,
    }
    classes = {f"{name}_class": one.class_name for name, one in facts.items()}
    versions = {f"{name}_version": one.version for name, one in facts.items()}
    return render_labels({**classes, **versions})


def _own_families(tasks: Sequence[TaskFigures]) -> Iterator[MetricFamily]:
    """Yields the metrics of connectors. The labels ``connector`` and ``task`` are the worker's."""
    found: dict[tuple[str, MetricKind], MetricFamily] = {}
    for task in tasks:
        if not task.metrics:
            continue
        labels = task_labels(task.id.connector, task.id.task)
        for metric in task.metrics:
            key = metric.name, metric.kind
            family = found.get(key)
            if family is None:
                family = found[key] = MetricFamily(f"{PREFIX}{metric.name}", metric.kind, metric.help)
            own = {name: value for name, value in metric.labels.items() if name not in ("connector", "task", "le")}
            family.add(metric.value, f"{labels},{render_labels(own)}" if own else labels)
    yield from found.values()
