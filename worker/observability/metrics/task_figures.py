"""The figures of one task, as plain data: what an executor sends to the control process at each scrape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

import orjson

from connect.errors import DataError
from connect.metrics import HistogramFigures, Metric, MetricKind
from worker.model import ErrorCounts, TaskId

METRIC_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""A connector's metric or label. These names are exported unescaped."""


@dataclass(slots=True)
class TaskNumbers:
    """The numbers of one task. *Incoming* are records polled by a source or read from Kafka by a sink, *outgoing* those written
    to Kafka or put into the sink."""

    running_ratio: float = 0.0
    pause_ratio: float = 0.0
    incoming_total: float = 0.0
    incoming_rate: float = 0.0
    outgoing_total: float = 0.0
    outgoing_rate: float = 0.0
    bytes_total: float = 0.0
    batch_size_max: float = 0.0
    batch_size_avg: float = 0.0
    batch_time_max_ms: float = 0.0
    """Of ``poll`` or ``put``."""
    batch_time_avg_ms: float = 0.0
    active_count: float = 0.0
    """Records of a source that Kafka has not acknowledged, or of a sink whose offsets are not committed."""
    active_max: float = 0.0
    active_avg: float = 0.0
    commit_time_max_ms: float = 0.0
    commit_time_avg_ms: float = 0.0
    commit_success_ratio: float = 0.0
    commit_failure_ratio: float = 0.0
    commit_seq_no: float = 0.0
    completions_total: float = 0.0
    completions_rate: float = 0.0
    skips_total: float = 0.0
    skips_rate: float = 0.0
    transaction_min: float = 0.0
    transaction_max: float = 0.0
    transaction_avg: float = 0.0
    partitions: float = 0.0
    lag_max: float = 0.0


_NUMBERS = attrgetter(*(one.name for one in fields(TaskNumbers)))
_ERRORS = attrgetter(*(one.name for one in fields(ErrorCounts)))


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """A plugin of a task: the class as REST shows it, and its version."""

    class_name: str
    version: str
    alias: str = ""
    """Of a transformation or predicate."""


@dataclass(frozen=True, slots=True)
class TaskPlugins:
    """The plugins that one task uses."""

    task: PluginFacts
    key_converter: PluginFacts
    value_converter: PluginFacts
    header_converter: PluginFacts
    transforms: tuple[PluginFacts, ...] = ()
    predicates: tuple[PluginFacts, ...] = ()


@dataclass(slots=True)
class TaskFigures:
    """Everything that is exported about one task."""

    id: TaskId
    is_source: bool
    numbers: TaskNumbers
    errors: ErrorCounts
    batch_times: HistogramFigures
    """Seconds of each ``poll`` that returned records, or of each ``put``."""
    commit_times: HistogramFigures
    """Seconds of each offset flush or commit."""
    lag: Mapping[str, int] = field(default_factory=dict)
    """Of a sink: undelivered records by ``topic-partition``."""
    plugins: TaskPlugins | None = None
    """None until the task has started."""
    metrics: Sequence[Metric] = ()
    """Those of the connector's own task."""
    are_current: bool = True
    """Whether the connector's own metrics are those of this scrape; False if its code did not answer in time."""


def encode_figures(all_figures: Sequence[TaskFigures]) -> bytes:
    """Returns the figures as JSON: in one piece, because the general encoding of messages takes ten times as long."""
    plain = figures_to_plain(all_figures)
    try:
        return orjson.dumps(plain)
    except TypeError:
        return json.dumps(plain).encode()  # a name with half of a surrogate pair, or a number of more than 64 bits


def decode_figures(encoded: Any) -> list[TaskFigures]:
    """Raises DataError for anything that :func:`encode_figures` does not return: an executor is not trusted."""
    if not isinstance(encoded, bytes):
        raise DataError("not the figures of an executor")
    try:
        plain = orjson.loads(encoded)
    except orjson.JSONDecodeError:
        try:
            plain = json.loads(encoded)
        except ValueError as e:
            raise DataError(f"not the figures of an executor: {e}") from e
    return figures_of_plain(plain)


def figures_to_plain(all_figures: Sequence[TaskFigures]) -> dict[str, Any]:
    """Returns the figures of the tasks of one process. Sets of plugins, the facts about metrics, and the bounds of histograms,
    which many tasks share, are sent once."""
    plugin_sets: dict[TaskPlugins, int] = {}
    shapes: dict[tuple[Any, ...], int] = {}
    bounds: _BoundNumbers = {}
    tasks = []
    for one in all_figures:
        number = -1 if one.plugins is None else plugin_sets.setdefault(one.plugins, len(plugin_sets))
        own = []
        for metric in one.metrics:
            shape = metric.name, metric.kind.value, metric.help, tuple(metric.labels)
            value = metric.value
            sent = _histogram_to_plain(value, bounds) if isinstance(value, HistogramFigures) else value
            own.append([shapes.setdefault(shape, len(shapes)), list(metric.labels.values()), sent])
        tasks.append(
            [
                one.id.connector,
                one.id.task,
                one.is_source,
                list(_NUMBERS(one.numbers)),
                list(_ERRORS(one.errors)),
                _histogram_to_plain(one.batch_times, bounds) if one.batch_times.total else [],
                _histogram_to_plain(one.commit_times, bounds) if one.commit_times.total else [],
                dict(one.lag),
                number,
                own,
                one.are_current,
            ]
        )
    return {
        "tasks": tasks,
        "plugins": [_plugins_to_plain(one) for one in plugin_sets],
        "shapes": [[name, kind, help, list(labels)] for name, kind, help, labels in shapes],
        "bounds": [list(one) for one in bounds],
    }


def figures_of_plain(plain: Any) -> list[TaskFigures]:
    """Raises DataError for anything that :func:`figures_to_plain` does not return: an executor is not trusted."""
    match plain:
        case {"tasks": list(tasks), "plugins": list(plugins), "shapes": list(shapes), "bounds": list(bounds)}:
            pass
        case _:
            raise DataError("not the figures of an executor")
    try:
        plugin_sets = [_plugins_of_plain(one) for one in plugins]
        known = [_shape_of_plain(one) for one in shapes]
        all_bounds = [tuple(map(float, one)) for one in bounds]
        return [_task_of_plain(one, plugin_sets, known, all_bounds) for one in tasks]
    except (TypeError, ValueError, OverflowError, IndexError, AttributeError) as e:
        raise DataError(f"not the figures of a task: {e}") from e


_Shape = tuple[str, MetricKind, str, tuple[str, ...]]
_Bounds = tuple[float, ...]
_BoundNumbers = dict[_Bounds, int]


def _task_of_plain(
    plain: Any, plugin_sets: Sequence[TaskPlugins], shapes: Sequence[_Shape], bounds: Sequence[_Bounds]
) -> TaskFigures:
    connector, task, is_source, numbers, errors, batch_times, commit_times, lag, plugins, own, are_current = plain
    if not isinstance(connector, str) or not isinstance(task, int):
        raise DataError("not a task")
    sum(numbers)  # raises TypeError for anything but numbers
    return TaskFigures(
        TaskId(connector, task),
        is_source is True,
        TaskNumbers(*numbers),
        ErrorCounts(*(None if value is None else int(value) for value in errors)),  # type: ignore[arg-type]  # the last may be None
        _histogram_of_plain(batch_times, bounds),
        _histogram_of_plain(commit_times, bounds),
        {str(partition): int(records) for partition, records in lag.items()},
        None if plugins < 0 else plugin_sets[plugins],
        [_metric_of_plain(one, shapes, bounds) for one in own],
        are_current is True,
    )


def _metric_of_plain(plain: Any, shapes: Sequence[_Shape], bounds: Sequence[_Bounds]) -> Metric:
    number, values, sent = plain
    name, kind, help, labels = shapes[number]
    value = _histogram_of_plain(sent, bounds) if kind is MetricKind.HISTOGRAM else float(sent)
    return Metric(name, value, help, kind, dict(zip(labels, map(str, values), strict=True)))


def _shape_of_plain(plain: Any) -> _Shape:
    name, kind, help, labels = plain
    if not all(map(METRIC_NAME.fullmatch, (name, *labels))):
        raise DataError("not the name of a metric or label")
    return name, MetricKind(kind), str(help), tuple(labels)


def _histogram_to_plain(figures: HistogramFigures, bounds: _BoundNumbers) -> list[Any]:
    return [bounds.setdefault(tuple(figures.bounds), len(bounds)), list(figures.counts), figures.total]


def _histogram_of_plain(plain: Any, all_bounds: Sequence[_Bounds]) -> HistogramFigures:
    if not plain:
        return NO_OBSERVATIONS
    number, counts, total = plain
    bounds = all_bounds[number]
    if len(counts) != len(bounds) + 1:
        raise DataError("not a histogram")
    return HistogramFigures(bounds, tuple(map(int, counts)), float(total))


NO_OBSERVATIONS = HistogramFigures((), (0,), 0.0)


def _plugins_to_plain(plugins: TaskPlugins) -> list[Any]:
    single = plugins.task, plugins.key_converter, plugins.value_converter, plugins.header_converter
    lists = plugins.transforms, plugins.predicates
    return [
        [[one.class_name, one.version, one.alias] for one in single],
        *([[one.class_name, one.version, one.alias] for one in many] for many in lists),
    ]


def _plugins_of_plain(plain: Any) -> TaskPlugins:
    single, transforms, predicates = ([PluginFacts(*map(str, one)) for one in group] for group in plain)
    task, key, value, header = single
    return TaskPlugins(task, key, value, header, tuple(transforms), tuple(predicates))
