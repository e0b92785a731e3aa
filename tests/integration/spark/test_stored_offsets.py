"""Offsets in a table's state: where a task continues without reading the history, and what it refuses."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink
from connectors.spark.tables import open_table
from sluice.demo.delta_table import read_delta_table
from tests.integration.spark.change_events import fill

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TP = TopicPartition("t", 0)
UNKNOWN = json.dumps(
    {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["new"], "writerFeatures": ["new"]}}
)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All SQL statements from now on."""
    found: list[str] = []
    monkeypatch.setattr(SparkSession, "sql", _recorded(SparkSession.sql, found))
    return found


def _recorded(execute: Callable[..., Any], found: list[str]) -> Callable[..., Any]:
    def sql(spark: SparkSession, text: str, *args: Any, **kwargs: Any) -> Any:
        found.append(text)
        return execute(spark, text, *args, **kwargs)

    return sql


def histories(statements: list[str]) -> int:
    return sum("HISTORY" in text for text in statements)


def offsets_in(props: dict[str, str], table: str = "t") -> Counter[int]:
    return Counter(read_delta_table(f"{props['table.location']}/{table}")["__offset"].to_pylist())


def execute(props: dict[str, str], statement: str, table: str = "t") -> None:
    lease = session.lease(parse_config(props).spark)
    lease.session().sql(statement.replace("{t}", f"delta.`{props['table.location']}/{table}`"))
    lease.release()


def test_no_start_reads_the_history(props: Any, run: Any, topic: Any, statements: list[str]) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    t.logs[1] = []  # a partition without records
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    execute(props, "OPTIMIZE {t}")
    fill(t, 10, 5)
    restarted = run(props, [t], raw=True, group={})
    assert restarted.position[TP] == 10
    restarted.deliver()
    restarted.close()
    assert offsets_in(props) == Counter(range(15))
    assert histories(statements) == 0


@pytest.mark.long
def test_table_that_spark_has_written_is_continued_by_spark(
    props: Any, run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    fill(t, 100, 3, partition=1)
    with monkeypatch.context() as patch:
        patch.setattr(open_table, "reaches_jvm", lambda spark: False)
        first = run(props, [t], raw=True, group={})
        first.deliver()
        first.close()
    fill(t, 10, 5)
    continued = run(props, [t], raw=True, group={})
    assert continued.position == {TP: 10, TopicPartition("t", 1): 3}
    continued.deliver()
    continued.close()
    assert offsets_in(props) == Counter([*range(15), *range(3)])
    assert SparkSink().alter_offsets({**props, "append.replay": "repeat"}, {TP: 14})
    restarted = run(props, [t], raw=True, group={})
    assert restarted.position[TP] == 14
    restarted.deliver()
    restarted.close()
    assert offsets_in(props) == Counter([*range(15), 14, *range(3)])


@pytest.mark.long
def test_retention_of_transaction_identifiers_is_refused(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    name = "delta.setTransactionRetentionDuration"
    execute(props, f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = 'interval 1 day')")
    fill(t, 10, 5)
    task_run.deliver()
    with pytest.raises(ConnectError, match=rf"{name}.*ALTER TABLE .* UNSET TBLPROPERTIES"):
        task_run.commit()
    task_run.task.close()
    with pytest.raises(ConnectError, match=name):
        run(props, [t], raw=True, group={})
    execute(props, f"ALTER TABLE {{t}} UNSET TBLPROPERTIES ('{name}')")
    restarted = run(props, [t], raw=True, group={})
    restarted.deliver()
    restarted.close()
    assert offsets_in(props) == Counter(range(15))


def test_gap_that_retention_left_stops_the_task_until_its_offset_is_set(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    fill(t, 10, 10)
    t.beginnings[0] = 15
    with pytest.raises(ConnectError, match=r"up to offset 10.*begins at 15.*5 records.*PATCH /connectors/<name>/offsets"):
        run(props, [t], raw=True, group={})
    assert SparkSink().alter_offsets(props, {TP: 15})
    restarted = run(props, [t], raw=True, group={})
    assert restarted.position[TP] == 15
    restarted.deliver()
    restarted.close()
    assert offsets_in(props) == Counter([*range(10), *range(15, 20)])


def test_offsets_of_topics_that_a_router_renamed_can_be_moved(props: Any, run: Any, topic: Any) -> None:
    one, two = topic("one", schemas=False), topic("two", schemas=False)
    fill(one, 0, 5)
    fill(two, 100, 8)
    settings = {**props, "append.replay": "repeat"}

    def deliver() -> None:
        task_run = run(settings, [one, two], raw=False, group={})
        put = task_run.task.put

        def routed(records: Any) -> None:
            for record in records:
                record.topic = "both"
            put(records)

        task_run.task.put = routed
        task_run.deliver()
        task_run.close()

    deliver()
    assert SparkSink().alter_offsets(settings, {TopicPartition("one", 0): 3})
    deliver()
    assert offsets_in(props, "both") == Counter([*range(5), 3, 4, *range(8)])


def test_tables_of_others_do_not_block_changes_of_offsets_and_starts(
    props: Any, run: Any, topic: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def deliver(connector: str, table: str, start: int) -> None:
        fill_table = topic(f"of_{connector}", schemas=False)
        for i in range(start, start + 3):
            event = {"before": None, "after": {"id": i}, "source": {"ts_ms": i, "table": table}, "op": "c"}
            fill_table.add(json.dumps({"id": i}).encode(), json.dumps(event).encode(), 0)
        task_run = run({**settings, "name": connector}, [fill_table], raw=True, group={})
        task_run.deliver()
        task_run.close()

    settings = {**props, "table.name.format": "${table}", "append.replay": "repeat"}
    lake = Path(props["table.location"])
    deliver("other", "expiring", 0)
    deliver("mine", "own", 0)
    execute(props, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 day')", "expiring")
    for name, text in (("damaged", "{"), ("unknown", UNKNOWN)):
        shutil.copytree(lake / "expiring", lake / name)
        for path in (lake / name / "_delta_log").glob("*.crc"):
            path.unlink()
        for path in (lake / name / "_delta_log").glob(".*"):
            path.unlink()
        newest = max((lake / name / "_delta_log").glob("*.json"))
        newest.with_name(f"{int(newest.stem) + 1:020d}.json").write_text(text)
    caplog.clear()
    assert SparkSink().alter_offsets({**settings, "name": "mine"}, {TopicPartition("of_mine", 0): 1})
    deliver("mine", "own", 0)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.split(" is skipped")[0] for text in warnings if "skipped" in text] == 2 * [f"Table damaged at {lake}/damaged"]
    assert not any("Spark writes the rows" in message for message in caplog.messages)
    assert offsets_in(props, "own") == Counter([0, 1, 1, 2, 2])
