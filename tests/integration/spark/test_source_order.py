"""Order by the source's positions in Delta and Iceberg tables: late, repeated, and repartitioned changes do no harm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connect import crash_points
from connect.errors import ConnectError
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables import open_table
from connectors.spark.tables.source_order.order_state import FOLDER
from tests.integration.spark.crashes import Crash
from tests.integration.spark.table_access import CATALOG, DeltaAccess, IcebergAccess, TableAccess, catalog_props
from tests.support import randomness
from tests.support.cases import first_fast
from tests.support.source_order_histories import Event, apply_in_order, make_arrival, make_history

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("no_maintenance_thread"),
]

HISTORIES = randomness.size("SLUICE_HISTORIES", 1)
PARTITIONS = 3


class Lake:
    """A table in one of the formats, the settings of its connector, and what readers see."""

    def __init__(self, format_: str, props: dict[str, str]) -> None:
        location = Path(props["table.location"])
        self.access: TableAccess = DeltaAccess(location / "t")
        self.settings = {**props, "write.mode": "upsert", "sequence.by": "source", "compaction.min.files": "2"}
        if format_ != "delta":
            warehouse = Path(self.settings.pop("table.location"))
            self.access = IcebergAccess(warehouse / "t")
            self.settings |= {f"spark.conf.{key}": value for key, value in catalog_props(warehouse).items()}
            self.settings |= {"table.format": "iceberg", "table.catalog": CATALOG}
            self.settings["table.properties.format-version"] = format_.removeprefix("iceberg ")

    def rows(self, branch: str | None = None) -> dict[int, str | None]:
        """The rows that are not deleted, which both engines agree on. Only Iceberg tables have branches."""
        access = self.access if branch is None else IcebergAccess(self.access.path, branch)
        lease = session.lease(parse_config(self.settings).spark)
        try:
            tables = [access.by_spark(lease.session()), access.by_second_engine()]
        finally:
            lease.release()
        found = []
        for table in tables:
            rows = [row for row in table.to_pylist() if not row.get("__deleted")]
            found.append({row["id"]: row["v"] for row in rows})
            assert len(found[-1]) == len(rows)
        assert found[0] == found[1]
        return found[0]


@pytest.fixture
def lake(request: Any, props: dict[str, str]) -> Lake:
    return Lake(request.param, props)


def add(topic: Any, events: Sequence[Event], partition: int = 0) -> None:
    for event in events:
        topic.add(event.key(), event.message(), partition)


def commit(task_run: Any) -> None:
    task_run.deliver()
    task_run.commit()


def figures(task_run: Any) -> dict[str, Any]:
    found: dict[str, Any] = task_run.task.progress()["tables"]["t"]
    return found


@pytest.mark.parametrize("lake", ["delta", "iceberg 3"], indirect=True)
@pytest.mark.parametrize("number", range(HISTORIES))
def test_any_arrival_gives_the_rows_of_the_history_with_two_tasks_and_crashes(
    lake: Lake, run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    chance = randomness.chance(f"arrival-{number}")
    events = make_history(chance, 10)
    t = topic("t", schemas=False)
    for partition in range(PARTITIONS):
        t.logs[partition] = []
    for event in make_arrival(events, chance):
        add(t, [event], chance.randrange(PARTITIONS))
    group: dict[Any, int] = {}
    assigned = [{0, 1}, {2}]
    runs: dict[int, Any] = {}
    lake.settings["delete.mode"] = ["hard", "soft"][number % 2]
    crashes = [2]

    def reach(point: str) -> None:
        if point == "spark.staged" and crashes[0] and chance.random() < 0.4:
            crashes[0] -= 1
            raise Crash

    monkeypatch.setattr(crash_points, "point", reach)
    while True:
        for task in (0, 1):
            if task not in runs:
                props = {**lake.settings, "spark.sink.task": str(task)}
                runs[task] = run(props, [t], raw=True, group=group, partitions=assigned[task])
        left = [(task, tp) for task, r in runs.items() for tp in r.position if r.position[tp] < len(t.logs[tp.partition])]
        if not left:
            break
        task, tp = chance.choice(left)
        end = min(len(t.logs[tp.partition]), runs[task].position[tp] + chance.randint(1, 5))
        runs[task].deliver_partition(t, tp.partition, end)
        try:
            runs[task].commit()
        except Crash:
            runs.pop(task).task.close()
            continue
        if chance.random() < 0.3 and (writer := runs[task].task.sink.tables.queue("t").writer) is not None:
            writer.maintain(lambda: False)
    assert lake.rows() == apply_in_order(events)
    for one in runs.values():
        one.close()


@pytest.mark.long
@pytest.mark.parametrize("lake", first_fast(["delta", "iceberg 2"]), indirect=True)
def test_deletes_and_truncates_are_remembered_after_a_restart(lake: Lake, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    t.logs[1] = []
    first = run(lake.settings, [t], raw=True, group={})
    add(t, [Event("c", 1, 2, "a"), Event("c", 2, 4, "b"), Event("c", 3, 11, "c")])
    commit(first)
    add(t, [Event("d", 1, 6), Event("tombstone", 1, 6)])
    commit(first)
    assert lake.rows() == {2: "b", 3: "c"}
    assert figures(first)["deleted_keys"] == 1
    first.close()
    second = run(lake.settings, [t], raw=True, group={})
    add(t, [Event("u", 1, 5, "late")], 1)
    commit(second)
    assert lake.rows() == {2: "b", 3: "c"}
    assert figures(second)["outdated"] == 1
    add(t, [Event("t", None, 10)], 1)
    commit(second)
    assert lake.rows() == {3: "c"}
    second.close()
    third = run(lake.settings, [t], raw=True, group={})
    add(t, [Event("c", 4, 8, "late"), Event("c", 5, 12, "new"), Event("u", 3, 9, "late")])
    commit(third)
    assert lake.rows() == {3: "c", 5: "new"}
    assert figures(third)["outdated"] == 2
    third.close()


@pytest.mark.parametrize("lake", ["iceberg 3"], indirect=True)
def test_branch_has_an_order_of_its_own(lake: Lake, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    t.logs[1] = []
    on_main = run(lake.settings, [t], raw=True, group={})
    add(t, [Event("c", 1, 2, "a"), Event("c", 2, 4, "b"), Event("c", 3, 5, "c"), Event("d", 3, 9)])
    commit(on_main)
    on_main.close()
    lake.settings["table.branch"] = "audit"
    first = run(lake.settings, [t], raw=True, group={})
    add(t, [Event("d", 1, 11), Event("u", 2, 12, "d"), Event("c", 4, 13, "e")])
    commit(first)
    first.close()
    second = run(lake.settings, [t], raw=True, group={})
    # Before a delete on the branch, before an update there, and before a delete on main.
    add(t, [Event("u", 1, 10, "late"), Event("u", 2, 10, "late"), Event("u", 3, 8, "late"), Event("u", 4, 14, "f")], 1)
    commit(second)
    assert figures(second)["outdated"] == 3
    second.close()
    assert lake.rows("audit") == {2: "d", 4: "f"}
    assert lake.rows() == {1: "a", 2: "b"}


@pytest.mark.long
@pytest.mark.parametrize("lake", first_fast(["delta", "iceberg 3"]), indirect=True)
def test_soft_truncates_mark_older_rows_only(lake: Lake, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    t.logs[1] = []
    one = run({**lake.settings, "delete.mode": "soft"}, [t], raw=True, group={})
    add(t, [Event("c", 1, 2, "a"), Event("c", 2, 20, "b")])
    commit(one)
    add(t, [Event("t", None, 10)], 1)
    commit(one)
    assert lake.rows() == {2: "b"}
    add(t, [Event("u", 1, 8, "late"), Event("c", 3, 8, "late")])
    commit(one)
    assert lake.rows() == {2: "b"}
    add(t, [Event("u", 1, 12, "again")])
    commit(one)
    assert lake.rows() == {1: "again", 2: "b"}
    one.close()


@pytest.mark.parametrize("mode", first_fast(["upsert", "scd2"]))
@pytest.mark.parametrize("lake", first_fast(["iceberg 3", "delta", "iceberg 2"]), indirect=True)
def test_truncates_by_arrival_are_part_of_the_commit_of_their_offsets(
    lake: Lake, run: Any, topic: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends before the commit has changed nothing, although some rows of the table stay as deleted ones."""
    t = topic("t", schemas=False)
    deletes = "soft" if mode == "upsert" else "hard"
    settings = {**lake.settings, "sequence.by": "log", "write.mode": mode, "delete.mode": deletes}
    marks = ["__deleted"] if mode == "upsert" else ["__current", "__valid_to"]

    def rows() -> list[tuple[Any, ...]]:
        lease = session.lease(parse_config(settings).spark)
        try:
            by_spark, by_other = lake.access.by_spark(lease.session()), lake.access.by_second_engine()
        finally:
            lease.release()
        columns = ["id", "v", *marks]
        found = [
            sorted(tuple(row[c] for c in columns) for row in table.to_pylist()) for table in (by_spark, by_other)
        ]  # fmt: skip
        assert found[0] == found[1]
        return found[0]

    first = run(settings, [t], raw=True, group={})
    add(t, [Event("c", 1, 2, "a"), Event("c", 2, 4, "b"), Event("c", 3, 6, "c")])
    commit(first)
    before = rows()
    add(t, [Event("u", 1, 7, "late"), Event("t", None, 8), Event("c", 3, 10, "again"), Event("c", 4, 12, "d")])
    first.deliver()

    def crash(name: str) -> None:
        if name == "spark.staged":
            raise Crash(name)

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "point", crash)
        with pytest.raises(Crash):
            first.commit()
    first.task.close()
    assert rows() == before
    second = run(settings, [t], raw=True, group={})
    commit(second)
    second.close()
    if mode == "upsert":
        assert rows() == [(1, "late", True), (2, "b", True), (3, "again", False), (4, "d", False)]
    else:
        times = {"a": 7, "late": 8, "b": 8, "c": 8}
        assert [row[:3] for row in rows()] == [
            (1, "a", False),
            (1, "late", False),
            (2, "b", False),
            (3, "again", True),
            (3, "c", False),
            (4, "d", True),
        ]
        valid_to = {v: ended and ended.timestamp() * 1000 for _, v, _, ended in rows()}
        assert valid_to == {**times, "again": None, "d": None}


@pytest.mark.long
def test_vacuum_keeps_what_is_known_of_deleted_keys(props: dict[str, str], run: Any, topic: Any) -> None:
    lake = Lake("delta", props)
    t = topic("t", schemas=False)
    t.logs[1] = []
    first = run(lake.settings, [t], raw=True, group={})
    add(t, [Event("c", 1, 2, "a"), Event("d", 1, 6), Event("c", 2, 8, "b")])
    commit(first)
    first.close()
    lease = session.lease(parse_config(lake.settings).spark)
    spark = lease.session()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    lake.access.change(spark, "OPTIMIZE {table}")
    lake.access.change(spark, "VACUUM {table} RETAIN 0 HOURS")
    lease.release()
    assert len(list((lake.access.path / FOLDER).iterdir())) == 1
    second = run(lake.settings, [t], raw=True, group={})
    add(t, [Event("u", 1, 4, "late")], 1)
    commit(second)
    assert lake.rows() == {2: "b"}
    second.close()


def test_tables_that_spark_writes_are_refused(
    props: dict[str, str], run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: False)
    t = topic("t", schemas=False)
    add(t, [Event("c", 1, 2, "a")])
    one = run(Lake("delta", props).settings, [t], raw=True, group={})
    one.deliver()
    with pytest.raises(ConnectError, match=r"sequence\.by=source needs a table whose files the worker can write"):
        one.commit()
    one.task.close()
