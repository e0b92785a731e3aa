"""``commit.scope=transaction`` in other write modes, with errant records, and after offsets were moved over REST."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connect.errors import BadRequestError
from connect.record import TopicPartition
from connect.testing.harness import MemoryReporter
from connectors.spark import task
from connectors.spark.connector import SparkSink
from connectors.spark.tables.iceberg.library import IcebergLibrary
from tests.integration.spark.conftest import Context
from tests.integration.spark.crashes import Crash, crash_at
from tests.integration.spark.transaction_source import (
    TransactionSource,
    all_topics,
    commit,
    create_source,
    read_points,
    read_versions,
    transaction_settings,
)
from tests.support.iceberg_rest import TOKEN, rest_catalog

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ACCOUNTS, SAVINGS = TopicPartition("shop.public.accounts", 0), TopicPartition("shop.public.savings", 0)
ENDS = TopicPartition("shop.transaction", 0)
KEY = "spark.conf.spark.sql.catalog.rest"


@pytest.fixture
def settings(props: dict[str, str]) -> dict[str, str]:
    return transaction_settings(props)


@pytest.fixture
def reporter(monkeypatch: pytest.MonkeyPatch) -> MemoryReporter:
    """Stands for the dead letter queue."""
    made = MemoryReporter()
    monkeypatch.setattr(Context, "errant_record_reporter", made)
    return made


def present_rows(rows: Sequence[dict[str, Any]]) -> dict[int, int]:
    """The value of each row that a table has in any write mode, given its rows, events, or versions."""
    if rows and "__current" in rows[0]:
        return {row["id"]: row["v"] for row in rows if row["__current"]}
    if not rows or "__op" not in rows[0]:
        return {row["id"]: row["v"] for row in rows}
    found: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: (row["__partition"], row["__offset"])):
        if row["__op"] == "d":
            found.pop(row["id"], None)
        elif row["__op"] != "tombstone":
            found[row["id"]] = row["v"]
    return found


def check(settings: dict[str, str], source: TransactionSource) -> list[str]:
    """Checks every point of upsert tables; returns their transactions."""
    found = []
    for row, rows in read_points(settings):
        assert rows == source.history[row["transaction_id"]], row
        found.append(row["transaction_id"])
    return found


@pytest.mark.parametrize("mode", ["append", "both", "scd2"])
def test_versions_of_a_round_have_whole_transactions_in_each_write_mode(
    settings: dict[str, str], run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(task, "_MAX_THREADS", 1)  # the next table's commit does not start before the crash
    settings |= {"write.mode": mode}
    source = create_source(topic, partitions=2)
    group: dict[TopicPartition, int] = {}
    source.snapshot("accounts", 1, 100)
    first = source.commit([("accounts", 1, 90), ("savings", 1, 10)])
    task_run = run(settings, all_topics(source), raw=True, group=group)
    task_run.deliver()
    commit(task_run)
    source.commit([("accounts", 1, 80), ("savings", 2, 5), ("savings", 1, None)])
    source.commit([("savings", 2, 6), ("accounts", 2, 1)])
    task_run.deliver()
    with monkeypatch.context() as patch:
        crash_at(patch, "spark.committed", 2 if mode == "both" else 1)
        with pytest.raises(Crash):
            task_run.commit()
    task_run = run(settings, all_topics(source), raw=True, group=group)
    last = source.commit([("accounts", 1, None), ("savings", 1, 3)])
    task_run.deliver()
    commit(task_run)
    task_run.close()

    points = read_versions(settings)
    assert [row["transaction_id"] for row, _ in points] == [first, last]
    for row, versions in points:
        suffixes = ("", "_changelog") if mode == "both" else ("",)
        assert versions.keys() == {f"{name}{suffix}" for name in source.topics for suffix in suffixes}
        for table, rows in versions.items():
            assert present_rows(rows) == source.history[row["transaction_id"]][table.removesuffix("_changelog")], table
    for table, rows in points[-1][1].items():
        log = source.topics[table.removesuffix("_changelog")].logs
        offsets = sorted((row["__partition"], row["__offset"]) for row in rows if "__offset" in row)
        if mode == "append" or table.endswith("_changelog"):
            assert offsets == [(partition, offset) for partition in log for offset in range(len(log[partition]))]
    if mode == "scd2":
        versions = points[-1][1]
        assert sorted((row["id"], row["v"]) for row in versions["accounts"]) == [(1, 80), (1, 90), (1, 100), (2, 1)]
        assert sorted((row["id"], row["v"]) for row in versions["savings"]) == [(1, 3), (1, 10), (2, 5), (2, 6)]


def without_key(key: bytes | None, value: bytes) -> tuple[bytes | None, bytes]:
    """Refused when the table is committed."""
    return None, value


def with_text(key: bytes | None, value: bytes) -> tuple[bytes | None, bytes]:
    """Refused when the record is decoded."""
    return key, value.replace(b'"v": ', b'"v": "text", "was": ')


def unreadable(key: bytes | None, value: bytes) -> tuple[bytes | None, bytes]:
    """Nobody knows its transaction."""
    return key, b"{broken"


def test_errant_records_hold_up_no_round_and_are_reported_once(
    settings: dict[str, str], run: Any, topic: Any, reporter: MemoryReporter
) -> None:
    settings |= {"errors.tolerance": "all"}
    source = create_source(topic)
    group: dict[TopicPartition, int] = {}
    source.commit([("accounts", 1, 90), ("savings", 1, 10)])
    task_run = run(settings, all_topics(source), raw=True, group=group)
    task_run.deliver()
    commit(task_run)
    source.commit(
        [("accounts", 1, 80), ("accounts", 2, 5), ("savings", 2, 1), ("savings", 3, 2)], spoil={2: with_text, 3: without_key}
    )
    task_run.deliver()
    commit(task_run)
    # A transaction of which nothing is left, and one that waits until the next one proves that its event does not come.
    source.commit([("savings", 3, 9)], spoil={1: without_key})
    source.commit([("accounts", 3, 7), ("savings", 1, 8)], spoil={1: unreadable})
    source.commit([("accounts", 1, 70), ("savings", 1, 7)])
    task_run.deliver()
    commit(task_run)
    progress = task_run.task.progress()
    task_run.close()
    assert (progress["refused"], progress["transactions"]["incomplete"]) == (4, 1)
    source.commit([("savings", 1, None)])
    again = run(settings, all_topics(source), raw=True, group={})
    again.deliver()
    commit(again)
    again.close()
    names = list(source.history)
    assert check(settings, source) == [names[0], names[1], names[4], names[5]]
    reported = [(record.topic, record.offset) for record, _ in reporter.reported_raw]
    assert sorted(reported) == [(ACCOUNTS.topic, 2), (ACCOUNTS.topic, 3), (SAVINGS.topic, 1), (SAVINGS.topic, 3)]


def test_round_with_an_errant_record_is_still_committed_at_once(
    settings: dict[str, str],
    run: Any,
    topic: Any,
    reporter: MemoryReporter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A catalog of Iceberg commits the tables of a round together, also after one of them had to leave a record out."""
    del settings["table.location"]
    together: list[list[str]] = []
    commit_all = IcebergLibrary.commit_all

    def counted(library: IcebergLibrary, commits: Any) -> Any:
        done = commit_all(library, commits)
        together.append(sorted(one.name.name for one in commits))
        return done

    monkeypatch.setattr(IcebergLibrary, "commit_all", counted)
    source = create_source(topic)
    with rest_catalog(tmp_path / "warehouse") as uri:
        settings |= {
            "errors.tolerance": "all",
            KEY: "org.apache.iceberg.spark.SparkCatalog",
            f"{KEY}.type": "rest",
            f"{KEY}.token": TOKEN,
            f"{KEY}.uri": uri,
            f"{KEY}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            f"{KEY}.cache-enabled": "false",
            "table.format": "iceberg",
            "table.catalog": "rest.shop",
            "table.properties.format-version": "2",
            "commit.interval.ms": "0",
        }
        source.commit([("accounts", 1, 90), ("savings", 1, 10)])
        task_run = run(settings, all_topics(source), raw=True, group={})
        task_run.deliver()
        commit(task_run)
        together.clear()
        source.commit([("accounts", 1, 80), ("accounts", 2, 1), ("savings", 1, 20)], spoil={2: without_key})
        task_run.deliver()
        commit(task_run)
        assert task_run.task.progress()["transactions"]["atomic"] is True
        task_run.close()
        assert len(check(settings, source)) == 2
    assert together == [["accounts", "savings"]]
    assert len(reporter.reported_raw) == 1


def test_points_after_offsets_were_moved_are_consistent(settings: dict[str, str], run: Any, topic: Any) -> None:
    settings |= {"transaction.timeout.ms": "0"}  # events that the tables have do not come again
    source = create_source(topic)
    group: dict[TopicPartition, int] = {}

    def run_to_the_end() -> None:
        task_run = run(settings, all_topics(source), raw=True, group=group)
        task_run.deliver()
        commit(task_run)
        task_run.close()

    for v in range(4):
        source.commit([("accounts", 1, v), ("accounts", v, 1), ("savings", 1, v)])
    lasts = list(source.history)[-1:]
    run_to_the_end()
    for moved in ({ACCOUNTS: 1, ENDS: 2}, {SAVINGS: None}, {ACCOUNTS: 0, SAVINGS: 0, ENDS: 0}):
        source.commit([("savings", 2, len(source.history)), ("savings", 3, 1)])
        assert SparkSink().alter_offsets(settings, moved)
        group.update({tp: offset or 0 for tp, offset in moved.items()})
        lasts.append(source.commit([("accounts", 1, len(source.history)), ("savings", 3, None)]))
        run_to_the_end()
    # Skipped transactions: what they changed is changed again.
    source.commit([("accounts", 9, 1), ("savings", 9, 1)])
    ends = {tp: len(log) for one in all_topics(source) for tp, log in zip(one.partitions(), one.logs.values(), strict=True)}
    assert SparkSink().alter_offsets(settings, ends)
    group.update(ends)
    lasts.append(source.commit([("accounts", 9, 2), ("savings", 9, 2)]))
    run_to_the_end()
    assert check(settings, source) == lasts


@pytest.mark.parametrize("mode", ["append", "scd2"])
def test_offsets_of_tables_that_would_repeat_rows_are_moved_back_only_if_that_is_wanted(
    settings: dict[str, str], run: Any, topic: Any, mode: str
) -> None:
    settings |= {"write.mode": mode}
    source = create_source(topic)
    group: dict[TopicPartition, int] = {}
    source.commit([("accounts", 1, 1), ("savings", 1, 1)])
    task_run = run(settings, all_topics(source), raw=True, group=group)
    task_run.deliver()
    commit(task_run)
    task_run.close()
    moved = {ACCOUNTS: 0}
    with pytest.raises(BadRequestError, match=r"table accounts has the records.*append\.replay=repeat"):
        SparkSink().alter_offsets(settings, moved)
    settings |= {"append.replay": "repeat"}
    assert SparkSink().alter_offsets(settings, moved)
    group |= moved
    last = source.commit([("accounts", 1, 2), ("savings", 1, 2)])
    again = run(settings, all_topics(source), raw=True, group=group)
    again.deliver()
    commit(again)
    again.close()
    row, versions = read_versions(settings)[-1]
    assert row["transaction_id"] == last
    assert sorted(one["v"] for one in versions["accounts"]) == [1, 1, 2]
    assert sorted(one["v"] for one in versions["savings"]) == [1, 2]
