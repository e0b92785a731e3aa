"""Tables that somebody alters, drops, or replaces while the sink writes them: what the task says, and how it continues."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.connector import SparkSink
from tests.integration.spark.lake import Lake

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

YEAR_S = 365 * 86_400


@pytest.fixture
def open_lake(run: Any, topic: Any, spark_props: dict[str, str], tmp_path: Path) -> Iterator[Callable[[str], Lake]]:
    """Opens a lake whose table has records of two commits."""
    opened: list[Lake] = []

    def lake(mode: str) -> Lake:
        opened.append(Lake(run, topic, spark_props, mode, tmp_path / f"lake{len(opened)}"))
        opened[-1].write(6)
        opened[-1].write(3)
        return opened[-1]

    yield lake
    for one in opened:
        one.close()


@pytest.mark.long
def test_values_of_generated_and_identity_columns_are_left_to_spark(
    run: Any, topic: Any, spark_props: dict[str, str], tmp_path: Path
) -> None:
    with contextlib.closing(Lake(run, topic, spark_props, "upsert", tmp_path / "lake")) as lake:
        lake.sql(
            "CREATE TABLE {t} (id INT, v STRING, twice INT GENERATED ALWAYS AS (id * 2), number BIGINT GENERATED ALWAYS AS "
            "IDENTITY, d STRING DEFAULT 'x') USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        )
        lake.write(3)
        lake.write(6)
        lake.check(with_spark=True)
        frame = lake.lease.session().read.format("delta").load(lake.path)
        assert sorted(tuple(row) for row in frame.select("id", "twice", "d").collect()) == [(n, 2 * n, None) for n in range(4)]
        assert len({row["number"] for row in frame.collect()} - {None}) == 4
        assert SparkSink().alter_offsets(lake.props, {TopicPartition("t", 0): None})
        lake.group.clear()
        lake.restarted_writes_all(with_spark=True)


def test_each_alteration_is_reported_with_the_statement_that_undoes_it(open_lake: Callable[[str], Lake]) -> None:
    lake = open_lake("upsert")
    for statement, reason in (
        (
            "ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 1000)",
            r"t at .*/t was altered .*: it has delta\.constraints\.small",
        ),
        ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')", "it has no deletion vectors"),
        ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')", r"t at .*/t has the property delta\.appendOnly"),
    ):
        lake.sql(statement)
        lake.follow(lake.refuses(ConnectError, reason))
        lake.write()
        lake.check()


@pytest.mark.long
def test_what_row_tracking_leaves_is_undone_by_the_statements_of_one_message(open_lake: Callable[[str], Lake]) -> None:
    lake = open_lake("upsert")
    lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    reason = r"it has delta\.enableRowTracking and it has the feature rowTracking\. Undo it with .*; .*DROP FEATURE rowTracking"
    lake.follow(lake.refuses(ConnectError, reason))
    lake.write()
    lake.check()


@pytest.mark.long
def test_wider_key_column_is_written_without_a_restart(open_lake: Callable[[str], Lake]) -> None:
    lake = open_lake("upsert")
    lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    lake.sql("ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT")
    lake.write()
    lake.restarted_writes_all(with_spark=True)


@pytest.mark.long
def test_dropped_column_is_reported_with_the_column_mapping_that_it_needs(open_lake: Callable[[str], Lake]) -> None:
    lake = open_lake("append")
    lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lake.sql("ALTER TABLE {t} DROP COLUMN v")
    for _ in range(2):  # also at its start, not only while it runs
        lake.refuses(
            ConnectError, r"it has delta\.columnMapping\.mode.*SET TBLPROPERTIES \('delta\.columnMapping\.mode' = 'none'\)"
        )
        lake.stop()
    assert lake.group  # the records of the refused commits will be read again
    assert set(lake.group.values()) == {9}


@pytest.mark.long
@pytest.mark.parametrize("readers", [True, False], ids=["reader", "writer"])
def test_feature_that_nobody_knows_is_reported(open_lake: Callable[[str], Lake], readers: bool) -> None:
    lake = open_lake("append")
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "teleportation"]}
    if readers:
        protocol |= {"minReaderVersion": 3, "readerFeatures": ["teleportation"]}
    number = int(lake.newest_commit().stem) + 1
    commit = lake.log / f"{number:020d}.json"
    commit.write_text(json.dumps({"protocol": protocol}) + "\n")
    for _ in range(2):
        lake.refuses(ConnectError, r"table t at .*(DROP FEATURE teleportation|teleportation.*DROP FEATURE)")
        lake.stop()
    lake.props["name"] = "another"
    # A connector that has not written the table leaves it to Spark, which refuses it, too.
    lake.refuses(ConnectError, r"table t at .*teleportation.*DROP FEATURE")


def test_dropped_table_is_created_again_after_a_restart(open_lake: Callable[[str], Lake]) -> None:
    lake = open_lake("upsert")
    lake.forget()
    shutil.rmtree(lake.folder)
    lake.refuses(ConnectError, r"table t at .* was dropped .*Restart the task")
    # A task that is stopping commits once more: not to a new table, whose first records would be missing.
    lake.refuses(ConnectError, r"table t at .* was dropped .*Restart the task")
    lake.restarted_writes_all()


@pytest.mark.long
def test_table_without_its_log_is_not_overwritten(open_lake: Callable[[str], Lake]) -> None:
    lake = open_lake("append")
    lake.forget()
    shutil.rmtree(lake.log)
    lake.refuses(ConnectError, "table t at .* was dropped")
    lake.stop()
    lake.refuses(ConnectError, r"cannot be created, because there are other files, such as \.?part-.*Move what is there away")
    shutil.rmtree(lake.folder)
    lake.restarted_writes_all()


def test_replaced_table_stops_the_task_until_its_offsets_are_set(open_lake: Callable[[str], Lake]) -> None:
    lake = open_lake("upsert")
    lake.sql("TRUNCATE TABLE {t}")
    for _ in range(2):
        lake.refuses(ConnectError, r"table t at .*: TRUNCATE replaced the table's rows in version \d+.*DELETE|PATCH")
        lake.stop()
    assert SparkSink().alter_offsets(lake.props, {TopicPartition("t", 0): None})
    lake.group.clear()
    lake.restarted_writes_all()


@pytest.mark.long
def test_vacuum_without_retention_beside_the_task_loses_nothing(
    open_lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = open_lake("upsert")
    # Another writer adds a file, rewrites it, and deletes it, before the task hears of it.
    lake.sql("UPDATE {t} SET v = v WHERE id = 1")
    added = set(lake.folder.glob("*.snappy.parquet"))
    lake.sql("OPTIMIZE {t}")
    for path in added:
        path.unlink()
    lake.write()
    lake.check()
    session = lake.lease.session()
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    left = [1]

    def point(name: str) -> None:
        if name == "spark.staged" and left:
            left.pop()
            session.sql(f"VACUUM delta.`{lake.folder}` RETAIN 0 HOURS")

    monkeypatch.setattr(crash_points, "point", point)
    lake.refuses(RetriableError, r"table t at .*: deletion_vector_.*, part-.* was deleted before it was committed")
    lake.write()  # the same task repeats it
    lake.check()
    lake.restarted_writes_all()


def test_clock_that_was_set_back_does_not_disturb_commits(open_lake: Callable[[str], Lake]) -> None:
    lake = open_lake("upsert")
    for path in [*lake.log.iterdir(), *lake.folder.glob("*.*")]:
        later = path.stat().st_mtime + YEAR_S
        os.utime(path, (later, later))
    lake.write()
    lake.restarted_writes_all()
