"""Metrics that connectors' tasks provide themselves: validation, secrets, and code that hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from connect.metrics import Histogram, Metric, MetricKind
from tests.support.waiting import WAIT_S
from worker.config.secrets import SecretMask
from worker.executors.plugin_figures import PluginFiguresReader
from worker.executors.task_slot import TaskSlot
from worker.model import ErrorCounts, TaskId
from worker.observability.metrics.task_figures import NO_OBSERVATIONS, TaskFigures, TaskNumbers


class Slot:
    """A task whose code returns metrics, or hangs until it is released."""

    def __init__(self, name: str, *metrics: Metric) -> None:
        self.id = TaskId(name, 0)
        self.metrics = list(metrics)
        self.hangs = False
        self.asked = 0
        self.release = threading.Event()

    def plugin_metrics(self) -> Sequence[Metric]:
        self.asked += 1
        if self.hangs:
            self.release.wait(WAIT_S)
        return self.metrics

    def plugin_lag(self) -> Mapping[str, int]:
        return {"t-0": 2}

    def figures(self) -> TaskFigures:
        errors = ErrorCounts()
        return TaskFigures(self.id, False, TaskNumbers(), errors, NO_OBSERVATIONS, NO_OBSERVATIONS, {"t-0": 1, "t-1": 9})


@pytest.fixture
def slots() -> Iterator[list[Slot]]:
    found = [Slot("a", Metric("a_rows", 1.0, "x")), Slot("b", Metric("b_rows", 1.0, "x")), Slot("c", Metric("c_rows", 1.0, "x"))]
    yield found
    for slot in found:
        slot.release.set()


def read(reader: PluginFiguresReader, slots: Sequence[Slot], timeout_s: float = WAIT_S) -> list[TaskFigures]:
    return reader.add_to([(cast(TaskSlot, slot), slot.figures()) for slot in slots], timeout_s)


def test_lag_of_the_task_is_added_to_that_of_the_worker(slots: list[Slot]) -> None:
    (found,) = read(PluginFiguresReader(SecretMask()), slots[:1])
    assert found.lag == {"t-0": 3, "t-1": 9}
    assert found.numbers.lag_max == 9


def test_task_that_hangs_keeps_its_last_metrics_and_delays_one_scrape_only(slots: list[Slot]) -> None:
    reader = PluginFiguresReader(SecretMask())
    assert all(one.are_current for one in read(reader, slots))
    slots[1].hangs = True
    found = read(reader, slots, 1.0)
    assert [one.metrics[0].name for one in found] == ["a_rows", "b_rows", "c_rows"]
    assert [one.are_current for one in found][:2] == [True, False]
    # The next scrape does not ask it again, and gets the others'.
    found = read(reader, slots)
    assert [one.are_current for one in found] == [True, False, True]
    assert slots[1].asked == 2
    slots[1].hangs = False
    slots[1].release.set()
    for thread in threading.enumerate():
        if thread.name == "figures":
            thread.join(WAIT_S)
    assert all(one.are_current for one in read(reader, slots))


def test_task_with_a_metric_that_has_no_number_leaves_the_metrics_of_others_alone(slots: list[Slot]) -> None:
    reader = PluginFiguresReader(SecretMask())
    read(reader, slots)
    no_number: Any = None
    slots[1].metrics = [Metric("b_rows", no_number, "x")]
    slots[2].metrics = [Metric("c_rows", 2.0, "x")]
    found = read(reader, slots)
    assert [one.are_current for one in found] == [True, False, True]
    assert [one.metrics[0].value for one in found] == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "metric",
    [
        Metric("Upper_case", 1.0, "x"),
        Metric('x"} 1', 1.0, "x"),
        Metric("x", 1.0, "x", labels={"bad-name": "x"}),
        Metric("x_total", 1.0, "a gauge"),
        Metric("x", 1.0, "a counter", MetricKind.COUNTER),
        Metric("x", 1.0, "no histogram", MetricKind.HISTOGRAM),
        Metric("x", Histogram().figures(), "a histogram"),
    ],
)
def test_invalid_metric_is_dropped(metric: Metric) -> None:
    (found,) = read(PluginFiguresReader(SecretMask()), [Slot("a", metric, Metric("good", 1.0, "x"))])
    assert [one.name for one in found.metrics] == ["good"]


def test_secrets_in_labels_are_masked_and_repeated_samples_dropped() -> None:
    mask = SecretMask()
    mask.learn(["hunter2hunter2"])
    metric = Metric("x", 1.0, "x", labels={"url": "db://u:hunter2hunter2@host"})
    (found,) = read(PluginFiguresReader(mask), [Slot("a", metric, metric)])
    (one,) = found.metrics
    assert "hunter2" not in one.labels["url"]


def test_number_of_metrics_of_a_task_is_bounded() -> None:
    many: list[Any] = [Metric("x", 1.0, "x", labels={"row": str(n)}) for n in range(5000)]
    (found,) = read(PluginFiguresReader(SecretMask()), [Slot("a", *many)])
    assert len(found.metrics) == 2000
