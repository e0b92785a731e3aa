"""Reads the figures that connectors' tasks provide themselves, without waiting for code that hangs."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect.metrics import HistogramFigures, Metric, MetricKind
from worker.config.secrets import SecretMask
from worker.executors.task_slot import TaskSlot
from worker.observability.metrics.task_figures import METRIC_NAME, TaskFigures

log = logging.getLogger(__name__)

_MAX_METRICS = 2000
"""Of one task. Each label value is a time series that Prometheus stores."""
_MAX_LABEL = 200
_MAX_HANGING = 8
"""Threads that hang in tasks' code at the same time. When there are more, no task is asked until one returns."""


@dataclass(slots=True)
class _Known:
    """The latest answer of a task."""

    metrics: Sequence[Metric] = ()
    lag: Mapping[str, int] = field(default_factory=dict)


class _Round:
    """One pass over the tasks, on a thread of its own."""

    def __init__(self, slots: Sequence[TaskSlot], mask: SecretMask) -> None:
        self._slots = slots
        self._mask = mask
        self.current: TaskSlot | None = None
        """The task that is being asked."""
        self.found: dict[TaskSlot, _Known] = {}
        self.ended = threading.Event()
        self._given_up = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="figures", daemon=True).start()

    def give_up(self) -> None:
        """Asks no further task; the one that is being asked may never return."""
        self._given_up = True

    def _run(self) -> None:
        try:
            for slot in self._slots:
                if self._given_up:
                    return
                self.current = slot
                try:
                    self.found[slot] = _Known(_valid(slot.plugin_metrics(), self._mask), slot.plugin_lag())
                except Exception as e:
                    log.debug("The metrics of task %s are invalid: %s", slot.id, e)
        finally:
            self.current = None
            self.ended.set()


class PluginFiguresReader:
    """Safe from any thread. Code of a task runs on a thread of this reader; one that hangs costs one thread, and its task is
    skipped until it returns."""

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        self._lock = threading.Lock()
        self._known: dict[TaskSlot, _Known] = {}
        self._hanging: list[_Round] = []

    def add_to(self, tasks: Sequence[tuple[TaskSlot, TaskFigures]], timeout_s: float) -> list[TaskFigures]:
        """Adds the connectors' metrics and lag to the figures, after at most this long. A task whose code does not answer keeps
        its last ones, and its figures say so."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._hanging = [one for one in self._hanging if not one.ended.is_set()]
            skipped = {one.current for one in self._hanging}
            slots = [slot for slot, _ in tasks if slot not in skipped] if len(self._hanging) < _MAX_HANGING else []
        current = _Round(slots, self._mask)
        if slots:
            current.start()
            if not current.ended.wait(max(0.0, deadline - time.monotonic())):
                current.give_up()
                with self._lock:
                    self._hanging.append(current)
                asked = current.current
                log.warning("The metrics of task %s are not current: its code does not answer", "" if asked is None else asked.id)
        found = dict(current.found)
        with self._lock:
            known = self._known = {slot: found.get(slot) or self._known.get(slot) or _Known() for slot, _ in tasks}
        return [_with_details(figures, known[slot], are_current=slot in found) for slot, figures in tasks]


def _with_details(figures: TaskFigures, known: _Known, *, are_current: bool) -> TaskFigures:
    lag = dict(figures.lag)
    for partition, records in known.lag.items():
        lag[partition] = lag.get(partition, 0) + records
    figures.lag, figures.metrics, figures.are_current = lag, known.metrics, are_current
    figures.numbers.lag_max = max(lag.values(), default=0)
    return figures


def _valid(metrics: Sequence[Metric], mask: SecretMask) -> Sequence[Metric]:
    """Returns the metrics that can be exported, without secrets in labels (promise 9)."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Metric] = {}
    for metric in metrics[:_MAX_METRICS]:
        is_histogram = isinstance(metric.value, HistogramFigures)
        if (
            not all(map(METRIC_NAME.fullmatch, (metric.name, *metric.labels)))
            or is_histogram is not (metric.kind is MetricKind.HISTOGRAM)
            or metric.name.endswith("_total") is not (metric.kind is MetricKind.COUNTER)
        ):
            log.debug("Ignoring the metric %s, which is invalid", metric.name)
            continue
        value = metric.value if isinstance(metric.value, HistogramFigures) else float(metric.value)
        if isinstance(value, float) and not math.isfinite(value):
            continue  # unknown
        labels = {name: mask.mask(str(label))[:_MAX_LABEL] for name, label in metric.labels.items()}
        found.setdefault((metric.name, tuple(labels.items())), replace(metric, value=value, labels=labels))
    return list(found.values())
