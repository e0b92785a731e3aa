"""Spark's executors decode and write: tables equal those that the worker writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_backlog_is_appended_with_its_offsets(props: dict[str, str], run: Any, topic: Any, read: Callable[..., Any]) -> None:
    source = topic("t", schemas=False)
    for partition in (0, 1):
        for number in range(1500):
            source.add(None, b'{"id":%d,"p":%d}' % (number, partition), partition)
    settings = {**props, "spark.engine": "executors"}
    group: dict[Any, int] = {}
    running = run(settings, [source], raw=True, group=group)
    running.finish()
    assert running.task.progress()["engine"]["jobs"] >= 2, running.task.progress()
    running.close()
    assert sorted(group.values()) == [1500, 1500]
    rows = read("t")
    assert sorted((row["__partition"], row["__offset"], row["id"], row["p"]) for row in rows) == [
        (partition, number, number, partition) for partition in (0, 1) for number in range(1500)
    ]
