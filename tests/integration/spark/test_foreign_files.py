"""An ordinary Spark session, with Spark's own defaults, writes into the tables of the sink, and reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from connectors.spark import session
from connectors.spark.config import parse_config
from tests.integration.spark.change_events import change, field, key

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.usefixtures("no_maintenance_thread"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROW = [field("id", "int64"), field("v", "string"), field("d", "double"), field("f", "float")]
WITH_NAN = ("d > 5", "d = double('NaN')", "f > 5")
Sql = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def sql(props: dict[str, str]) -> Iterator[Sql]:
    """Executes a statement in a session with Spark's defaults; ``{t}`` is the table t."""
    lease = session.lease(parse_config(props).spark)
    spark = lease.session().newSession()
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    path = f"delta.`{props['table.location']}/t`"
    yield lambda statement: [row.asDict(recursive=True) for row in spark.sql(statement.replace("{t}", path)).collect()]
    lease.release()


class Changes:
    """Changes of rows, written by a task."""

    def __init__(self, run: Any, t: Any, settings: dict[str, str]) -> None:
        self.topic = t
        self.task_run = run(settings, [t], raw=True, group={})
        self.ms = 0

    def write(self, *rows: tuple[int, str, Any]) -> None:
        for id_, v, number in rows:
            self.ms += 1
            image = {"id": id_, "v": v, "d": number, "f": number}
            self.topic.add(key(id_), change("c" if v.startswith("new") else "u", None, image, ROW, self.ms))
        self.task_run.deliver()
        self.task_run.commit()

    def maintain(self) -> None:
        self.task_run.task.sink.tables.writer("t").maintain(lambda: False)


def has_int96(folder: Path) -> bool:
    """Whether a data file has timestamps of Spark's default type."""
    schemas = [pq.ParquetFile(path).schema for path in folder.glob("*.parquet")]
    return any(schema.column(number).physical_type == "INT96" for schema in schemas for number in range(len(schema.names)))


def found_with_nan(sql: Sql) -> dict[str, Any]:
    """By condition that only NaN fulfills: the ID of the row that Spark finds; all of them, unless it is one."""
    found = {condition: [row["id"] for row in sql(f"SELECT id FROM {{t}} WHERE {condition}")] for condition in WITH_NAN}
    return {condition: ids[0] if len(ids) == 1 else ids for condition, ids in found.items()}


@pytest.mark.long
def test_spark_finds_nan_and_rewrites_versions_that_are_closed_and_merged_then(
    props: Any, run: Any, topic: Any, sql: Sql
) -> None:
    settings = {**props, "write.mode": "scd2", "compaction.min.files": "2"}
    changes = Changes(run, topic("t", schemas=True), settings)
    changes.write((1, "new", 1.0), (2, "new", "NaN"), (3, "new", 3.0))
    assert found_with_nan(sql) == dict.fromkeys(WITH_NAN, 2)
    sql("UPDATE {t} SET v = 'by Spark' WHERE id <> 2")
    assert has_int96(Path(props["table.location"]) / "t")
    changes.write((1, "second", 1.5))
    changes.write((2, "second", 2.5))
    changes.maintain()
    changes.write((3, "second", 3.5))
    changes.task_run.close()
    rows = sql("SELECT id, v, __current, unix_millis(__valid_from) AS since, unix_millis(__valid_to) AS until FROM {t}")
    found = sorted((row["id"], row["v"], row["__current"], row["since"], row["until"]) for row in rows)
    assert found == [
        (1, "by Spark", False, 1, 4),
        (1, "second", True, 4, None),
        (2, "new", False, 2, 5),
        (2, "second", True, 5, None),
        (3, "by Spark", False, 3, 6),
        (3, "second", True, 6, None),
    ]


@pytest.mark.long
def test_rows_with_nan_are_found_and_deleted_after_a_merge(props: Any, run: Any, topic: Any, sql: Sql) -> None:
    settings = {**props, "write.mode": "upsert", "compaction.min.files": "2"}
    changes = Changes(run, topic("t", schemas=True), settings)
    changes.write((1, "new", 1.0), (2, "new", "NaN"), (3, "new", 3.0))
    changes.write((4, "new", 4.0))
    changes.maintain()
    changes.task_run.close()
    assert len(sql("SELECT DISTINCT _metadata.file_path FROM {t}")) == 1
    assert found_with_nan(sql) == dict.fromkeys(WITH_NAN, 2)
    sql("DELETE FROM {t} WHERE d > 5")
    assert not sql("SELECT id FROM {t} WHERE isnan(d)")
