"""Upserts of changes that lack values: tombstones under soft deletes, and unavailable values; with files, and with MERGE:
with ``--all`` all of them, otherwise those that need most of a statement."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConnectError
from connectors.spark.tables import open_table
from tests.integration.spark.change_events import PLACEHOLDER, change, field, key
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROW = [field("id", "int64"), field("name", "string"), field("n", "int32")]


@pytest.fixture(params=first_fast(["files", "merge"]))
def upsert(request: Any, props: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Settings of an upsert table that the worker writes, or Spark."""
    monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: request.param == "files")
    return {**props, "write.mode": "upsert"}


# A MERGE costs several times what files do.
rarely_with_merge = pytest.mark.parametrize("upsert", ["files", pytest.param("merge", marks=pytest.mark.long)], indirect=True)


def write(topic: Any, id_: int, name: str | None, op: str = "u") -> None:
    topic.add(key(id_), change(op, None, {"id": id_, "name": name, "n": id_}, ROW))


def deliver_and_commit(task_run: Any) -> None:
    task_run.deliver()
    task_run.commit()


def unavailable(task_run: Any) -> int:
    return int(task_run.task.progress()["tables"]["t"]["unavailable"])


@rarely_with_merge
def test_tombstones_alone_keep_the_other_columns_under_soft_deletes(upsert: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=True)
    write(t, 1, "one")
    # Neither a tombstone of an unknown row nor a soft delete has an unavailable value.
    task_run = run({**upsert, "delete.mode": "soft", "unavailable.value": "fail"}, [t], raw=True, group={})
    deliver_and_commit(task_run)
    t.add(key(1), None)
    t.add(key(2), None)
    deliver_and_commit(task_run)
    assert unavailable(task_run) == 0
    task_run.close()
    assert sorted(read("t"), key=lambda row: row["id"]) == [
        {"id": 1, "name": "one", "n": 1, "__deleted": True},
        {"id": 2, "name": None, "n": None, "__deleted": True},
    ]


@pytest.mark.parametrize("upsert", ["files"], indirect=True)
def test_soft_truncate_keeps_what_arrived_before_it_in_the_same_commit(upsert: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=True)
    write(t, 1, "one")
    task_run = run({**upsert, "delete.mode": "soft"}, [t], raw=True, group={})
    deliver_and_commit(task_run)
    write(t, 1, "changed")
    write(t, 2, "two")
    t.add(None, change("t", None, None, ROW))
    write(t, 3, "three")
    write(t, 2, PLACEHOLDER)
    deliver_and_commit(task_run)
    assert task_run.task.progress()["tables"]["t"]["skipped"] == 0
    task_run.close()
    assert sorted((r["id"], r["name"], r["__deleted"]) for r in read("t")) == [
        (1, "changed", True),
        (2, "two", False),
        (3, "three", False),
    ]


@pytest.mark.long
@pytest.mark.parametrize("upsert", ["merge"], indirect=True)
def test_soft_truncate_of_a_table_that_spark_writes_is_refused(upsert: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=True)
    write(t, 1, "one")
    task_run = run({**upsert, "delete.mode": "soft"}, [t], raw=True, group={})
    deliver_and_commit(task_run)
    t.add(None, change("t", None, None, ROW))
    task_run.deliver()
    with pytest.raises(ConnectError, match=r"a truncate with delete\.mode=soft needs a table whose files the worker can write"):
        task_run.commit()
    task_run.task.close()
    assert [(row["id"], row["__deleted"]) for row in read("t")] == [(1, False)]


@rarely_with_merge
def test_truncate_is_applied_when_a_task_receives_nothing_else_after_its_start(
    upsert: Any, run: Any, topic: Any, read: Any
) -> None:
    t = topic("t", schemas=True)
    write(t, 1, "one")
    task_run = run(upsert, [t], raw=True, group={})
    deliver_and_commit(task_run)
    task_run.close()
    t.add(None, change("t", None, None, ROW))
    restarted = run(upsert, [t], raw=True, group={})
    deliver_and_commit(restarted)
    restarted.close()
    assert read("t") == []


def test_unavailable_value_of_an_absent_row_becomes_null_and_is_counted(
    upsert: Any, run: Any, topic: Any, read: Any, caplog: Any
) -> None:
    t = topic("t", schemas=True)
    write(t, 1, "one")
    task_run = run(upsert, [t], raw=True, group={})
    deliver_and_commit(task_run)
    write(t, 1, PLACEHOLDER)
    write(t, 2, PLACEHOLDER)
    deliver_and_commit(task_run)
    assert unavailable(task_run) == 1
    assert sorted((r["id"], r["name"]) for r in read("t")) == [(1, "one"), (2, None)]
    t.add(None, change("t", None, None, ROW))
    write(t, 1, PLACEHOLDER)
    deliver_and_commit(task_run)
    assert unavailable(task_run) == 2
    task_run.close()
    assert [(r["id"], r["name"]) for r in read("t")] == [(1, None)]
    assert caplog.text.count("unavailable values have become null") == 1


@rarely_with_merge
def test_unavailable_value_of_an_absent_row_is_refused_where_the_config_asks_for_it(
    upsert: Any, run: Any, topic: Any, read: Any
) -> None:
    t = topic("t", schemas=True)
    write(t, 1, "one")
    settings = {**upsert, "unavailable.value": "fail"}
    task_run = run(settings, [t], raw=True, group={})
    deliver_and_commit(task_run)
    write(t, 1, PLACEHOLDER)
    write(t, 2, PLACEHOLDER)
    for _ in range(2):
        with pytest.raises(ConnectError, match=r"unavailable value.*name.*unavailable\.value=merge.*REPLICA IDENTITY FULL"):
            deliver_and_commit(task_run)
        task_run.task.close()
        task_run = run(settings, [t], raw=True, group={})
        # Then with an empty table.
        t.add(None, change("t", None, None, ROW))
        write(t, 1, PLACEHOLDER)
    task_run.task.close()
    assert [(r["id"], r["name"]) for r in read("t")] == [(1, "one")]


@rarely_with_merge
def test_unavailable_values_are_always_null_where_the_config_asks_for_it(upsert: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=True)
    write(t, 1, "one")
    write(t, 2, "two")
    task_run = run({**upsert, "unavailable.value": "null"}, [t], raw=True, group={})
    deliver_and_commit(task_run)
    write(t, 1, PLACEHOLDER)
    write(t, 3, "three")
    write(t, 3, PLACEHOLDER)
    deliver_and_commit(task_run)
    assert unavailable(task_run) == 2
    task_run.close()
    assert sorted((r["id"], r["name"], r["n"]) for r in read("t")) == [(1, None, 1), (2, "two", 2), (3, None, 3)]
