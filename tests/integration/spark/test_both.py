"""``write.mode=both``: the current table and its changelog get each event once, whatever happens between their commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from connect import crash_points
from connect.errors import BadRequestError
from connect.record import TopicPartition
from connectors.spark.connector import SparkSink
from connectors.spark.delivery import commit_scheduler
from tests.integration.spark.crashes import Crash
from tests.integration.spark.histories import Event, Model, make_history, sorted_rows

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

P0 = TopicPartition("t", 0)
METADATA = ("__source_ts", "__topic")


def check(read: Any, events: Sequence[Event]) -> None:
    current, changelog = Model("upsert"), Model("append")
    records = [(0, offset, event) for offset, event in enumerate(events)]
    current.apply(records)
    changelog.apply(records)
    logged = [{n: v for n, v in row.items() if n not in METADATA} for row in read("t_log")]
    assert sorted_rows(logged) == changelog.table()
    assert sorted_rows(read("t")) == current.table()


def test_each_crash_between_the_two_commits_is_repaired(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [e for log in make_history(0, steps=0, events=160).logs for e in log if e.op != "tombstone"]
    t = topic("t", schemas=True)
    settings = {**props, "write.mode": "both", "changelog.table.suffix": "_log"}
    group: dict[TopicPartition, int] = {}
    # One thread commits one table after the other.
    monkeypatch.setattr(commit_scheduler, "MAX_THREADS", 1)
    staged, committed = "spark.staged", "spark.committed"
    crashes = [(staged, 1), (committed, 1), (staged, 2), (committed, 2), (committed, 1), ("", 0)]
    positions = []
    size = len(events) // len(crashes)
    for number, (name, hits) in enumerate(crashes):
        for event in events[number * size : (number + 1) * size]:
            t.add(event.key(), event.value())
        task_run = run(settings, [t], raw=True, group=group)
        positions.append(task_run.position[P0] // size)
        task_run.deliver()
        left = [hits]

        def point(reached: str, name: str = name, left: list[int] = left) -> None:
            left[0] -= reached == name
            if left[0] == 0 and reached == name:
                raise Crash

        monkeypatch.setattr(crash_points, "point", point)
        if name:
            with pytest.raises(Crash):
                task_run.commit()
        else:
            task_run.close()
    # The tables say where to continue, as soon as both do: where the one that is behind ends. The group has no offsets.
    assert positions == [0, 0, 0, 0, 4, 4]
    check(read, events[: size * len(crashes)])
    assert group[P0] == size * len(crashes)
    with pytest.raises(BadRequestError, match=r"table t_log has the records.*append\.replay=repeat"):
        SparkSink().alter_offsets(settings, {P0: 0})
