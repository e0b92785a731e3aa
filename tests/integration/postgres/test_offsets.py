"""Offsets in Debezium's form, and where a task continues from them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from connect.record import SourceRecord
from connectors.postgres.offsets import parse_lsn
from tests.support.waiting import Deadline


def test_heartbeats_have_debeziums_offset_after_a_commit(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never", heartbeat_interval_ms="50")
        source.until("streaming")
        xid = db.execute("with i as (insert into t values (1)) select pg_current_xact_id()::xid::text").fetchone()[0]
        records = source.poll_until(lambda found: any(map(is_row, found)) and not is_row(found[-1]), "a heartbeat behind a row")
    offset = dict(records[-1].source_offset or {})
    row: Any = next(r for r in records if not r.topic.startswith("__debezium-heartbeat"))
    assert (offset["txId"], offset["messageType"]) == (int(xid), "COMMIT")
    assert offset["lsn"] == offset["lsn_proc"] == offset["lsn_commit"] > row.source_offset["tx_lsn"]
    assert offset["ts_usec"] == row.source_offset["ts_usec"]


def is_row(record: SourceRecord) -> bool:
    return not record.topic.startswith("__debezium-heartbeat")


def test_heartbeats_inside_a_transaction_have_the_offset_of_its_last_record(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never", heartbeat_interval_ms="1", max_batch_size="1")
        source.until("streaming")
        with db.transaction():
            for i in range(5):
                db.execute("insert into t values (%s)", [i])
        records: list[SourceRecord] = []
        deadline = Deadline("5 rows", lambda: records)
        while sum(is_row(r) for r in records) < 5:
            deadline.check()
            time.sleep(0.002)  # the next heartbeat is due
            records += source.poll()
    # Behind the last row, a heartbeat may have the position of the commit.
    while not is_row(records[-1]):
        records.pop()
    last = None
    inside = 0
    for record in records:
        if is_row(record):
            last = record.source_offset
        elif last is not None:
            assert record.source_offset == last
            inside += 1
    assert inside


def test_the_slot_moves_after_an_interrupted_snapshot_without_further_changes(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); create table noise(id int); insert into t values (1)")
        source.start(table_include_list="public.t", status_update_interval_ms="100")
        source.until("snapshot")
        source.kill()
        db.execute("insert into t values (2)")
        source.start()
        records = source.until("streaming")
        assert [r.value["op"] for r in records] == ["c", "r", "r"]
        source.store(records[-1])
        before = confirmed(db, source)
        db.execute("insert into noise select generate_series(1, 1000)")
        source.idle_until(lambda: confirmed(db, source) >= before + 10_000, "a later slot", flushes=True)


def confirmed(db: Any, source: Any) -> int:
    sql = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
    return parse_lsn(str(db.execute(sql, [source.config["slot.name"]]).fetchone()[0]))


def test_records_that_the_producer_did_not_send_come_again(source: Any) -> None:
    """Promise 1: a task whose producer fails has polled more than it stores."""
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never", status_update_interval_ms="100")
        source.until("streaming")
        source.flush()
        stored = dict(source.offsets.stored)
        for i in range(4):
            db.execute("insert into t values (%s)", [i])
        records = source.read(4)
        source.flush()  # of nothing: the first record failed
        assert source.offsets.stored == stored
        source.kill()
        source.start()
        assert [r.key["id"] for r in source.read(4)] == [0, 1, 2, 3]
        source.store(records[1])
        source.kill()
        assert confirmed(db, source) <= records[1].source_offset["tx_lsn"]
        source.start()
        assert [r.key["id"] for r in source.read(2)] == [2, 3]


def test_a_transaction_open_across_a_stop_is_not_lost(source: Any) -> None:
    with source.sql() as db, source.sql() as slow:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        with slow.transaction():
            slow.execute("insert into t values (1)")
            for i in range(2, 5):
                db.execute("insert into t values (%s)", [i])
            source.store(source.read(3)[-1])
            source.kill()
            db.execute("insert into t values (5)")
            source.start()
            source.store(source.read(1)[-1])
            source.kill()
            slow.execute("insert into t values (6)")
        source.start()
        assert [r.key["id"] for r in source.read(2)] == [1, 6]


@pytest.mark.long
def test_rows_around_logical_messages_come_once_after_a_restart(source: Any) -> None:
    """Offsets count messages with the rows, whether they are captured or not."""
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never", slot_stream_params="messages=true")
        source.until("streaming")
        with db.transaction():
            for i in range(3):
                db.execute("select pg_logical_emit_message(true, 'a', 'b')")
                db.execute("insert into t values (%s)", [i])
        records = source.read(6)
        contents = [r.key.as_dict() for r in records]
        assert contents == [c for i in range(3) for c in ({"prefix": "a"}, {"id": i})]
        for at, messages in ((0, "true"), (1, "true"), (1, "false"), (2, "false"), (3, "true")):
            source.kill()
            source.offsets.stored = dict(records[at].source_offset)
            source.start(slot_stream_params=f"messages={messages}")
            missing = [c for c in contents[at + 1 :] if messages == "true" or "id" in c]
            assert [r.key.as_dict() for r in source.read(len(missing))] == missing
