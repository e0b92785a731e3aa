"""Figures of tasks as plain data between processes."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import DataError
from connect.metrics import Histogram, Metric, MetricKind
from worker.executors import wire
from worker.model import ErrorCounts, TaskId
from worker.observability.metrics.task_figures import (
    NO_OBSERVATIONS,
    PluginFacts,
    TaskFigures,
    TaskNumbers,
    TaskPlugins,
    decode_figures,
    encode_figures,
    figures_of_plain,
    figures_to_plain,
)

PLUGINS = TaskPlugins(
    PluginFacts("a:Task", "1"),
    PluginFacts("Key", "2"),
    PluginFacts("Value", ""),
    PluginFacts("Header", ""),
    (PluginFacts("Cast", "3", "cast"),),
)


def figures(name: str, plugins: TaskPlugins | None = PLUGINS) -> TaskFigures:
    times = Histogram((0.1, 1.0))
    times.observe(0.5)
    ages = Histogram((1.0,))
    ages.observe(3.0)
    own = [
        Metric("x_bytes", 7.0, "Some bytes.", labels={"table": "t"}),
        Metric("x_age_seconds", ages.figures(), "Ages.", MetricKind.HISTOGRAM),
    ]
    return TaskFigures(
        TaskId(name, 0), True, TaskNumbers(running_ratio=0.5, incoming_total=3), ErrorCounts(failures=2, last_error_ms=5),
        times.figures(), NO_OBSERVATIONS, {"t-0": 4}, plugins, own, False,
    )  # fmt: skip


def test_figures_come_out_as_they_went_in() -> None:
    sent = [figures("a"), figures("b"), figures("c", None)]
    assert decode_figures(wire.decode(wire.encode(encode_figures(sent)))) == sent
    plain = figures_to_plain(sent)
    assert len(plain["plugins"]) == 1
    assert len(plain["shapes"]) == 2
    assert sorted(plain["bounds"]) == [[0.1, 1.0], [1.0]]


def test_names_that_are_no_unicode_are_sent_too() -> None:
    sent = [figures("half of a pair: \ud800")]
    assert decode_figures(encode_figures(sent)) == sent


@pytest.mark.parametrize("encoded", [None, {}, b"", b"[]", b"\xff", b'{"tasks": 1, "plugins": [], "shapes": [], "bounds": []}'])
def test_anything_but_figures_is_rejected(encoded: object) -> None:
    with pytest.raises(DataError):
        decode_figures(encoded)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.pop("shapes"),
        lambda plain: plain["tasks"][0].pop(),
        lambda plain: plain["tasks"][0].__setitem__(0, 5),
        lambda plain: plain["tasks"][0].__setitem__(3, ["x"]),
        lambda plain: plain["tasks"][0].__setitem__(3, [1.0] * 99),
        lambda plain: plain["tasks"][0].__setitem__(3, [None]),
        lambda plain: plain["tasks"][0].__setitem__(3, [[1.0]]),
        lambda plain: plain["tasks"][0].__setitem__(5, [0, [1], 1.0]),
        lambda plain: plain["tasks"][0].__setitem__(5, [9, [1, 2, 3], 1.0]),
        lambda plain: plain["bounds"][0].__setitem__(0, "x"),
        lambda plain: plain["bounds"].pop(),
        lambda plain: plain["tasks"][0].__setitem__(7, {"t-0": "x"}),
        lambda plain: plain["tasks"][0].__setitem__(8, 7),
        lambda plain: plain["tasks"][0].__setitem__(9, [[9, [], 1.0]]),
        lambda plain: plain["tasks"][0].__setitem__(7, {"t-0": float("inf")}),
        lambda plain: plain["tasks"][0][9][0].__setitem__(2, 10**400),
        lambda plain: plain["shapes"][0].__setitem__(0, 'x"} 1\nsluice_fake'),
        lambda plain: plain["shapes"][0].__setitem__(0, 5),
        lambda plain: plain["shapes"][0].__setitem__(3, ['table="a",x']),
        lambda plain: plain["shapes"][0].__setitem__(1, "unknown"),
        lambda plain: plain["plugins"][0].pop(),
    ],
)
def test_invalid_figures_of_an_executor_are_rejected(change: Any) -> None:
    plain = figures_to_plain([figures("a")])
    change(plain)
    with pytest.raises(DataError):
        figures_of_plain(plain)
