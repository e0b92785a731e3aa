"""Offsets in a table's state: where a task continues without reading the history, and what it refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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


def execute(props: dict[str, str], statement: str) -> None:
    lease = session.lease(parse_config(props).spark)
    lease.session().sql(statement.replace("{t}", f"delta.`{props['table.location']}/t`"))
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
