"""Collects all metrics of a worker for one scrape."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from worker.executor import Executor
from worker.observability.metrics.families import MetricFamily, MetricSource, gauge
from worker.observability.metrics.task_families import task_families
from worker.observability.worker_metrics.processes import ProcessTree, process_families
from worker.observability.worker_metrics.start_counts import Instance, StartCounts
from worker.observability.worker_metrics.worker_families import worker_families
from worker.observability.worker_metrics.worker_view import WorkerView

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
"""The longest wait for executors, well below Prometheus's 10 s: one that hangs is reported as such, with the others' figures."""


class WorkerMetrics:
    """Safe from any thread. Costs nothing between scrapes."""

    def __init__(self, executor: Executor, view: Callable[[], WorkerView], starts: StartCounts) -> None:
        self._executor = executor
        self._view = view
        self._starts = starts
        self._tree = ProcessTree()
        self._sources: list[MetricSource] = []

    def add_source(self, source: MetricSource) -> None:
        """Adds further families to each scrape. An error of the source is logged, and the others are served."""
        self._sources.append(source)

    def collect(self, timeout_s: float = TIMEOUT_S) -> list[MetricFamily]:
        """Returns all families, at most about this much later."""
        started = time.monotonic()
        executors = self._executor.figures(timeout_s)
        view = self._view()
        present: set[Instance] = {*(one.name for one in view.connectors), *(task for task, _ in view.tasks)}
        found = list(worker_families(view, self._starts.figures(present), executors))
        for source in (lambda: process_families(self._tree, {e.pid: e.process for e in executors if e.pid}), *self._sources):
            found += _safely(source)
        tasks = task_families([task for one in executors for task in one.tasks])
        # A connector cannot take the name of another metric.
        names = {family.name for family in found}
        found += [family for family in tasks if family.name not in names]
        found.append(gauge("sluice_scrape_seconds", "How long it took to collect these metrics.").add(time.monotonic() - started))
        return found


def _safely(source: MetricSource) -> Iterable[MetricFamily]:
    try:
        return list(source())
    except Exception:
        log.exception("A part of the metrics is missing")
        return ()
