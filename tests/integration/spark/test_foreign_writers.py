"""Other writers change a table while a task writes it: nothing is doubled, overwritten, or continued in silence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect import crash_points
from connect.errors import ConnectError, DataError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.effects import Effect
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.staging import open_location
from sluice.demo.delta_table import read_delta_table
from tests.integration.spark.change_events import fill
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.usefixtures("no_maintenance_thread"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TP = TopicPartition("t", 0)
REPLACEMENTS = {
    "RESTORE": "RESTORE TABLE {t} TO VERSION AS OF 1",
    "TRUNCATE": "TRUNCATE TABLE {t}",
    "CREATE OR REPLACE": "CREATE OR REPLACE TABLE {t} USING delta AS SELECT id, 'x' AS v FROM range(0)",
    "WRITE": "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id < 10",
}


@pytest.fixture
def sql(props: dict[str, str]) -> Iterator[Callable[[str], Any]]:
    """Executes a statement in another session; ``{t}`` is the table t."""
    lease = session.lease(parse_config(props).spark)
    spark = lease.session()
    yield lambda statement: spark.sql(statement.replace("{t}", f"delta.`{props['table.location']}/t`"))
    lease.release()


def at_point(monkeypatch: pytest.MonkeyPatch, name: str, action: Callable[[], object]) -> None:
    """Runs an action when a commit reaches this point, once."""
    left = [action]

    def point(reached: str) -> None:
        if reached == name and left:
            left.pop()()

    monkeypatch.setattr(crash_points, "point", point)


def deliver_and_commit(task_run: Any) -> None:
    task_run.deliver()
    task_run.commit()


@pytest.mark.long
@pytest.mark.parametrize("operation", first_fast(REPLACEMENTS))
@pytest.mark.parametrize("spark_writes", [False, True], ids=["worker", "Spark"])
def test_replaced_rows_stop_the_task_until_its_offsets_are_set(
    props: Any, run: Any, topic: Any, sql: Any, operation: str, spark_writes: bool
) -> None:
    settings = {**props, "metadata.columns": "none", "compaction.min.files": "2"}
    if spark_writes:
        sql("CREATE TABLE {t} (id BIGINT NOT NULL, v STRING) USING delta")
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    task_run = run(settings, [t], raw=True, group={})
    deliver_and_commit(task_run)
    fill(t, 10, 10)
    deliver_and_commit(task_run)
    sql(REPLACEMENTS[operation])
    explained = rf"{operation}.* replaced the table's rows in version \d+, .*PATCH /connectors/<name>/offsets"
    if not spark_writes:
        # Nor does maintenance continue, whose commit would follow that of the other writer.
        with pytest.raises(ConnectError, match=explained):
            task_run.task.sink.tables.writer("t").maintain(lambda: False)
    fill(t, 20, 5)
    with pytest.raises(ConnectError, match=explained):
        deliver_and_commit(task_run)
    task_run.task.close()
    with pytest.raises(ConnectError, match=explained):
        run(settings, [t], raw=True, group={})
    left = 10 if operation in ("RESTORE", "WRITE") else 0
    assert SparkSink().alter_offsets({**settings, "append.replay": "repeat"}, {TP: left or None})
    restarted = run(settings, [t], raw=True, group={})
    assert restarted.position[TP] == left
    restarted.deliver()
    restarted.close()
    assert Counter(read_delta_table(f"{props['table.location']}/t")["id"].to_pylist()) == Counter(range(25))


DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
COMMITS = [
    ("INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'a')", Effect.ADDS_ROWS),
    ("INSERT INTO {t} VALUES (4, 'a'), (5, 'b')", Effect.ADDS_ROWS),
    ("UPDATE {t} SET id = 9 WHERE id = 1", Effect.CHANGES_ROWS),
    ("DELETE FROM {t} WHERE id = 9", Effect.CHANGES_ROWS),
    (
        "MERGE INTO {t} t USING (SELECT 6 AS id) s ON s.id = t.id WHEN NOT MATCHED THEN INSERT (id, day) VALUES (6, 'a')",
        Effect.ADDS_ROWS,
    ),
    ("INSERT OVERWRITE {t} PARTITION (day = 'a') SELECT 7", Effect.CHANGES_ROWS),
    ("INSERT INTO {t} REPLACE WHERE day = 'a' VALUES (8, 'a')", Effect.CHANGES_ROWS),
    ("OPTIMIZE {t}", Effect.REARRANGES),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('kept.by' = 'me')", Effect.ALTERS),
    (f"SET {DYNAMIC}=dynamic", None),
    ("INSERT OVERWRITE {t} VALUES (10, 'a')", Effect.CHANGES_ROWS),
    (f"SET {DYNAMIC}=static", None),
    ("INSERT OVERWRITE {t} VALUES (11, 'a')", Effect.CHANGES_ROWS | Effect.MOVES_HISTORY),
    ("TRUNCATE TABLE {t}", Effect.CHANGES_ROWS | Effect.MOVES_HISTORY),
    ("RESTORE TABLE {t} TO VERSION AS OF 1", Effect.ADDS_ROWS | Effect.ALTERS | Effect.MOVES_HISTORY),
    (
        "CREATE OR REPLACE TABLE {t} USING delta AS SELECT 1 AS id, 'a' AS day",
        Effect.CHANGES_ROWS | Effect.ALTERS | Effect.MOVES_HISTORY,
    ),
]


@pytest.mark.long
def test_commits_of_spark_are_told_apart_by_what_they_do(props: Any, sql: Any) -> None:
    sql("CREATE TABLE {t} (id INT, day STRING) USING delta PARTITIONED BY (day)")
    files, folder = open_location(f"{props['table.location']}/t")
    log = DeltaLog(files, folder)
    found: list[Effect | None] = []
    version = 0
    for statement, effect in COMMITS:
        sql(statement).collect()
        if effect is None:
            found.append(None)
            continue
        version += 1
        commit = log.commit(version)
        assert commit is not None, statement
        found.append(commit.effect)
    assert found == [effect for _, effect in COMMITS]


@pytest.mark.long
def test_a_partition_that_is_overwritten_does_not_stop_the_task(props: Any, run: Any, topic: Any, sql: Any) -> None:
    t = topic("t", schemas=False)
    settings = {**props, "metadata.columns": "none", "partition.columns": "v"}
    task_run = run(settings, [t], raw=True, group={})
    fill(t, 0, 3)
    deliver_and_commit(task_run)
    sql(f"SET {DYNAMIC}=dynamic")
    sql("INSERT OVERWRITE {t} (id, v) VALUES (100, 'v0')")
    fill(t, 3, 2)
    deliver_and_commit(task_run)
    task_run.close()
    assert sorted(read_delta_table(f"{props['table.location']}/t")["id"].to_pylist()) == [1, 2, 3, 4, 100]


@pytest.mark.long
def test_rows_that_are_replaced_during_a_commit_stop_the_task_at_its_next_start(
    props: Any, run: Any, topic: Any, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = topic("t", schemas=False)
    task_run = run(props, [t], raw=True, group={})
    for first in (0, 10):
        fill(t, first, 10)
        deliver_and_commit(task_run)
    fill(t, 20, 5)
    at_point(monkeypatch, "spark.staged", lambda: sql(REPLACEMENTS["RESTORE"]))
    with pytest.raises(ConnectError, match=r"RESTORE replaced the table's rows in version 3"):
        deliver_and_commit(task_run)
    task_run.task.close()
    for _ in range(2):
        with pytest.raises(ConnectError, match=r"RESTORE replaced the table's rows in version 3"):
            run(props, [t], raw=True, group={})
    assert SparkSink().alter_offsets({**props, "append.replay": "repeat"}, {TP: 10})
    assert run(props, [t], raw=True, group={}).position[TP] == 10


def test_compaction_keeps_columns_that_another_writer_added(props: Any, run: Any, topic: Any, sql: Any) -> None:
    t = topic("t", schemas=False)
    settings = {**props, "metadata.columns": "none", "compaction.min.files": "2"}
    task_run = run(settings, [t], raw=True, group={})
    for first in (0, 10):
        fill(t, first, 10)
        deliver_and_commit(task_run)
    sql("ALTER TABLE {t} ADD COLUMNS (note STRING)")
    sql("INSERT INTO {t} VALUES (100, 'other', 'note')")
    writer = task_run.task.sink.tables.writer("t")
    writer.maintain(lambda: False)
    fill(t, 20, 5)
    deliver_and_commit(task_run)
    writer.maintain(lambda: False)
    files = len(sql("SELECT * FROM {t}").inputFiles())
    assert task_run.task.progress()["tables"]["t"]["files"] == files
    task_run.close()
    rows = read_delta_table(f"{props['table.location']}/t").to_pylist()
    assert sorted((r["id"], r["note"]) for r in rows) == [*((i, None) for i in range(25)), (100, "note")]


@pytest.mark.long
def test_table_that_is_replaced_during_a_commit_gets_no_rows_of_the_old_schema(
    props: Any, run: Any, topic: Any, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    task_run = run(props, [t], raw=True, group={})
    deliver_and_commit(task_run)
    fill(t, 10, 10)
    replace = "CREATE OR REPLACE TABLE {t} USING delta AS SELECT 'text' AS id"
    at_point(monkeypatch, "spark.staged", lambda: sql(replace))
    with pytest.raises(ConnectError, match=r"replaced the table's rows in version 2"):
        deliver_and_commit(task_run)
    task_run.task.close()
    assert read_delta_table(f"{props['table.location']}/t").to_pylist() == [{"id": "text"}]
    assert sql("SELECT * FROM {t}").toArrow().to_pylist() == [{"id": "text"}]


def test_keys_that_another_writer_inserts_during_a_commit_are_not_doubled(
    props: Any, run: Any, topic: Any, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    task_run = run({**props, "write.mode": "upsert"}, [t], raw=True, group={})
    deliver_and_commit(task_run)
    fill(t, 10, 10)
    at_point(monkeypatch, "spark.staged", lambda: sql("INSERT INTO {t} VALUES (12, 'other'), (100, 'other')"))
    task_run.deliver()
    task_run.close()
    rows = read_delta_table(f"{props['table.location']}/t").to_pylist()
    assert sorted((r["id"], r["v"]) for r in rows) == [*((i, f"v{i}") for i in range(20)), (100, "other")]


@pytest.mark.parametrize("first", first_fast([1, 1.5]))
def test_tables_that_two_tasks_create_at_once_with_different_types_are_readable(
    props: Any, run: Any, topic: Any, sql: Any, monkeypatch: pytest.MonkeyPatch, first: float
) -> None:
    t = topic("t", schemas=False)
    values = [first, 2.5 - first]
    for partition, value in enumerate(values):
        t.add(None, json.dumps({"v": value}).encode(), partition)
    runs = [run({**props, "spark.sink.task": str(i)}, [t], raw=True, group={}, partitions=[i]) for i in (0, 1)]
    for task_run in runs:
        task_run.deliver()
    create = FileTable.create
    left = [runs[0].commit]

    def create_later(table: FileTable[Any, Any], *args: Any) -> None:
        if left:
            left.pop()()  # the other task creates the table and writes its row
        create(table, *args)

    monkeypatch.setattr(FileTable, "create", create_later)
    if first == 1:
        with pytest.raises(DataError, match=r"partition 1, offset 0: .*column v is BIGINT in the table, but DOUBLE"):
            runs[1].commit()
        expected: list[float] = [1]
    else:
        runs[1].commit()
        expected = [1.0, 1.5]
    for task_run in runs:
        task_run.task.close()
    assert sorted(sql("SELECT v FROM {t}").toArrow()["v"].to_pylist()) == expected
    assert sorted(read_delta_table(f"{props['table.location']}/t")["v"].to_pylist()) == expected
