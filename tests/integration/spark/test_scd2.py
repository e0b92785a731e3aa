"""``write.mode=scd2``: every version of a row, compared with a model that applies the changes one by one."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from connect import crash_points
from connect.errors import BadRequestError, ConnectError
from connect.record import TopicPartition
from connectors.spark.connector import SparkSink
from connectors.spark.tables import open_table
from tests.integration.spark.change_events import PLACEHOLDER, change, field, key
from tests.integration.spark.crashes import Crash
from tests.support import randomness

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROW = [field("id", "int64"), field("v", "string"), field("n", "int32")]
ADDED = [*ROW, field("more", "string")]
STEPS = randomness.size("SLUICE_STEPS", 6)
"""Commits of random changes."""


def at(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


class Versions:
    """A topic of random changes, and the versions that they give."""

    def __init__(self, topic: Any) -> None:
        self.topic = topic
        self.chance = randomness.chance("versions")
        self.rows: list[dict[str, Any]] = []
        self.ms = 0

    def close(self, id_: int | None) -> dict[str, Any] | None:
        """Closes the open version of a key, or all of them."""
        found = [row for row in self.rows if row["__current"] and id_ in (None, row["id"])]
        for row in found:
            row |= {"__valid_to": at(self.ms), "__current": False}
        return found[0] if found else None

    def change(self, schema: list[dict[str, Any]]) -> None:
        self.ms += 1
        id_, kind = self.chance.randrange(5), self.chance.random()
        if kind < 0.04:
            self.close(None)
            self.topic.add(None, change("t", None, None, schema, self.ms))
            return
        old = self.close(id_)
        if kind < 0.2:
            self.topic.add(key(id_), change("d", {"id": id_, "v": None, "n": None}, None, schema, self.ms))
            self.topic.add(key(id_), None)
            return
        row: dict[str, Any] = {"id": id_, "v": f"v{self.ms}", "n": self.ms}
        if schema is ADDED:
            row["more"] = "more"
        sent = dict(row)
        if old is not None and kind < 0.6:
            row["v"], sent["v"] = old["v"], PLACEHOLDER
        self.topic.add(key(id_), change("u" if old else "c", None, sent, schema, self.ms))
        self.rows.append({"more": None, **row, "__valid_from": at(self.ms), "__valid_to": None, "__current": True})


@pytest.mark.long
def test_random_changes_with_crashes_and_compaction_give_the_versions_of_the_model(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = topic("t", schemas=True)
    versions = Versions(t)
    settings = {**props, "write.mode": "scd2", "compaction.min.files": "3"}
    task_run = run(settings, [t], raw=True, group={})
    for step in range(STEPS):
        for _ in range(versions.chance.randrange(1, 25)):
            versions.change(ROW if step < STEPS // 2 else ADDED)
        task_run.deliver(batch=7)
        if step % 3 == 2:
            crashing = "spark.staged" if step == 2 else "spark.committed"

            def point(name: str, crashing: str = crashing) -> None:
                if name == crashing:
                    raise Crash

            monkeypatch.setattr(crash_points, "point", point)
            with pytest.raises(Crash):
                task_run.commit()
            monkeypatch.undo()
            task_run = run(settings, [t], raw=True, group={})  # the table has the offsets
            task_run.deliver()
        task_run.commit()
        if step == STEPS - 2:
            task_run.task.sink.tables.writer("t").maintain(lambda: False)
    task_run.close()
    found = [{n: v for n, v in row.items() if n != "__seq"} for row in read("t")]
    assert sorted(found, key=lambda row: row["__valid_from"]) == versions.rows
    with pytest.raises(BadRequestError, match=r"table t has the records.*append\.replay=repeat"):
        SparkSink().alter_offsets(settings, {TopicPartition("t", 0): 0})


def test_table_that_spark_would_have_to_write_is_refused(
    props: Any, run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: False)
    t = topic("t", schemas=True)
    t.add(key(1), change("c", None, {"id": 1, "v": "a", "n": 1}, ROW))
    task_run = run({**props, "write.mode": "scd2"}, [t], raw=True, group={})
    task_run.deliver()
    with pytest.raises(ConnectError, match=r"table t at .*: write\.mode=scd2 needs a table whose files the worker can write"):
        task_run.commit()
    task_run.task.close()
