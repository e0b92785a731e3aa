"""Signals from all channels, and the blocking snapshots that they ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from connect.errors import BadRequestError
from connect.record import SourceRecord
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.integration.mysql.signaling import ReplayedTopic, SignaledSource, is_read
from tests.support.waiting import WAIT_S


@pytest.fixture
def table(source: MariaDbRunningSource) -> SignaledSource:
    made = SignaledSource(source)
    made.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    made.execute("INSERT INTO t SELECT seq FROM seq_1_to_20")
    made.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    made.execute("INSERT INTO u VALUES (1)")
    return made


def read_rows(table: SignaledSource, count: int) -> list[SourceRecord]:
    """Polls until that many rows of snapshots have been read; returns all records."""
    return table.source.poll_until(lambda found: sum(map(is_read, found)) >= count, f"{count} rows")


def changes(records: Sequence[SourceRecord]) -> list[tuple[str, str, Any]]:
    return [
        (r.topic.rpartition(".")[2], r.value["op"], (r.value["after"] or r.value["before"])["id"])
        for r in records
        if r.value is not None and not r.topic.endswith(".signals")
    ]


# --- channels -----------------------------------------------------------------------------------------------------------------


def test_signals_from_rest(table: SignaledSource) -> None:
    table.start()
    with pytest.raises(BadRequestError, match="data-collections is missing"):
        table.task.signal("1", "execute-snapshot", "{}")
    with pytest.raises(BadRequestError, match="unknown signal type x"):
        table.task.signal("1", "x", None)
    table.task.signal("1", "execute-snapshot", json.dumps(table.request_data("t")))
    replayed = ReplayedTopic()
    table.until_read(replayed)
    assert len(replayed.rows) == 20


def test_signals_in_a_file_are_read_once_and_removed(table: SignaledSource, tmp_path: Path, caplog: Any) -> None:
    file = tmp_path / "signals.txt"
    table.start(signal_enabled_channels="file", signal_file=str(file), signal_poll_interval_ms="10", read_only="true")
    signal = json.dumps({"id": "2", "type": "execute-snapshot", "data": table.request_data("t")})
    file.write_text(f'{{"id": "1", "type": "no-such-type", "data": {{}}}}\nnot json\n{signal}\n')
    table.source.store(read_rows(table, 20)[-1])
    table.source.idle_until(lambda: not file.read_text(), "an empty file", flushes=True)
    assert caplog.text.count("signal 1 has the unknown type no-such-type") == 1
    assert "skipping a signal that cannot be read" in caplog.text


def test_signals_in_a_topic_are_neither_lost_nor_run_twice(
    table: SignaledSource, broker: EmbeddedBroker, unique_name: Callable[[str], str]
) -> None:
    topic = unique_name("signals")
    signal = json.dumps({"type": "execute-snapshot", "data": table.request_data("t")})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in (("other", signal), ("shop", "not json"), ("shop", signal)):
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(WAIT_S) == 0
    table.start(
        signal_enabled_channels="kafka", signal_kafka_topic=topic, signal_kafka_bootstrap_servers=broker.bootstrap,
        signal_kafka_groupId=unique_name("group"), signal_poll_interval_ms="50", read_only="true",
    )  # fmt: skip
    # With the first offset, that of a position without the signal.
    read_rows(table, 20)
    table.restart()
    table.source.store(read_rows(table, 20)[-1])
    assert table.stored["signal_topic_position"] == 3
    table.restart()
    assert table.source.quiet() == []


def test_a_user_who_may_not_write_reads_chunks_without_watermarks(
    table: SignaledSource, unique_name: Callable[[str], str], caplog: Any
) -> None:
    user = unique_name("reader")
    table.execute(f"CREATE USER {user} IDENTIFIED BY 'secret'")
    try:
        table.execute(f"GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR, SHOW DATABASES ON *.* TO {user}")
        table.start(database_user=user, database_password="secret", snapshot_locking_mode="none")
        table.request("t")
        replayed = ReplayedTopic()
        table.until_read(replayed)
        assert len(replayed.rows) == 20
        assert f"cannot write watermarks to the signal table {table.database}.signals; continuing without" in caplog.text
    finally:
        table.source.kill()
        table.execute(f"DROP USER {user}")


@pytest.mark.parametrize("strategy", ["insert_insert", "insert_delete"])
def test_watermarks_are_debeziums(table: SignaledSource, strategy: str) -> None:
    table.start(incremental_snapshot_watermarking_strategy=strategy)
    table.request("t")
    table.until_read()
    written = [row for row in table.execute("SELECT id, type, data FROM signals") if row[1] != "execute-snapshot"]
    if strategy == "insert_delete":
        assert written == []
        return
    by_type = {type_: (id_, json.loads(data)) for id_, type_, data in written}
    assert set(by_type) == {"snapshot-window-open", "snapshot-window-close"}
    opened, closed = by_type["snapshot-window-open"], by_type["snapshot-window-close"]
    assert opened[0].removesuffix("-open") == closed[0].removesuffix("-close")
    assert closed[1]["openWindowTimestamp"] == opened[1]["openWindowTimestamp"] < closed[1]["closeWindowTimestamp"]
    assert opened[1]["dataCollectionId"] == f"{table.database}.t"


def test_a_signal_table_with_other_columns_is_reported(table: SignaledSource, caplog: Any) -> None:
    table.execute("ALTER TABLE signals ADD COLUMN more INT")
    table.start()
    table.execute("INSERT INTO signals VALUES ('1', 'log', NULL, 5)")
    table.source.read(1)
    assert f"signal table {table.database}.signals must have 3 columns (id, type, data), but has 4" in caplog.text


# --- blocking snapshots -------------------------------------------------------------------------------------------------------


def request_blocking(table: SignaledSource, *tables: str, **data: Any) -> None:
    table.request(*tables, type="BLOCKING", **data)


def test_rows_come_between_the_changes_before_and_after_them(table: SignaledSource) -> None:
    table.start()
    table.execute("INSERT INTO t VALUES (100)")
    request_blocking(table, "t")
    table.execute("INSERT INTO t VALUES (101)")
    found = read_rows(table, 1)
    table.execute("INSERT INTO t VALUES (102)")
    table.execute("INSERT INTO u VALUES (2)")
    found += table.source.poll_until(lambda found: ("u", "c", 2) in changes(found), "the last row")
    shown = changes(found)
    rows = [c for c in shown if c[1] == "r"]
    assert sorted(rows) == [("t", "r", i) for i in [*range(1, 21), 100, 101]]
    assert [c for c in shown if c[1] != "r"] == [("t", "c", 100), ("t", "c", 101), ("t", "c", 102), ("u", "c", 2)]
    assert shown.index(("t", "c", 101)) < shown.index(rows[0])
    assert shown.index(rows[-1]) < shown.index(("t", "c", 102))
    markers = [r.value["source"]["snapshot"] for r in found if is_read(r)]
    assert (markers[0], markers[-1]) == ("first", "last")
    assert all("snapshot" not in (r.source_offset or {}) for r in found)


@pytest.mark.long
def test_a_snapshot_that_was_interrupted_starts_over(table: SignaledSource) -> None:
    table.start()
    condition = {"data-collection": f"{table.database}.t", "filter": "id > 18 OR id = 1"}
    request_blocking(table, "[tu]", **{"additional-conditions": [condition]})
    table.source.store(table.source.read_before_failure(1)[-1])
    table.source.kill()
    table.execute("DELETE FROM t WHERE id = 20")
    table.source.start()
    found = table.source.until("streaming")
    assert sorted(c for c in changes(found) if c[1] == "r") == [("t", "r", 1), ("t", "r", 19), ("u", "r", 1)]
    table.source.store(found[-1])
    table.restart()
    assert table.source.quiet() == []


def test_a_snapshot_that_fails_does_not_stop_the_stream(table: SignaledSource, caplog: Any) -> None:
    table.start()

    def condition(sql: str) -> dict[str, Any]:
        return {"additional-conditions": [{"data-collection": f"{table.database}.t", "filter": sql}]}

    request_blocking(table, "t", **condition("no_such_column > 18"))
    request_blocking(table, "no_such_table")
    request_blocking(table, "t", **condition(f"SELECT * FROM {table.database}.t WHERE id = 3"))
    found = read_rows(table, 1)
    table.execute("INSERT INTO t VALUES (100)")
    found += table.source.poll_until(lambda found: ("t", "c", 100) in changes(found), "the row")
    assert changes(found) == [("t", "r", 3), ("t", "c", 100)]
    assert "the blocking snapshot failed; streaming continues" in caplog.text
    assert f"no captured table matches {table.database}.no_such_table" in caplog.text


def test_notifications_are_those_of_a_snapshot(table: SignaledSource) -> None:
    table.start(notification_enabled_channels="sink", notification_sink_topic_name="notes")
    table.source.quiet()
    request_blocking(table, "t", "u")
    found = table.source.poll_until(lambda found: "COMPLETED" in [note["type"] for note in _notes(found)], "the end")
    assert [(note["type"], note["additional_data"].get("scanned_collection")) for note in _notes(found)] == [
        ("STARTED", None), ("IN_PROGRESS", None), ("TABLE_SCAN_COMPLETED", f"{table.database}.t"), ("IN_PROGRESS", None),
        ("TABLE_SCAN_COMPLETED", f"{table.database}.u"), ("COMPLETED", None),
    ]  # fmt: skip


def _notes(records: Sequence[SourceRecord]) -> list[dict[str, Any]]:
    return [r.value.as_dict() for r in records if r.topic == "notes"]
