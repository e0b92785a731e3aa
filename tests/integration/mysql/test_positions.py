"""A task continues at the stored offset, whatever it is: nothing is lost, and nothing that was completed is repeated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError
from connect.record import SourceRecord
from connectors.cdc.errors import PositionLostError
from connectors.mysql.errors import ServerReplacedError
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.support.cases import first_fast
from tests.support.source_runner import shown

_BY = {"gtid": "false", "file": "true"}


def _workload(source: MariaDbRunningSource) -> None:
    """Transactions of one and of several events, keys that change, DDL in between, and a new file."""
    source.sql("insert into t values (1, 'a')")
    source.sql(
        "start transaction",
        "insert into t values (2, 'b'), (3, 'c'), (4, 'd')",
        "insert into u values (1)",
        "update t set name = 'x' where id > 2",
        "update t set id = id + 10 where id in (3, 4)",
        "delete from u",
        "commit",
    )
    source.sql("alter table t add extra int default 5 first")
    source.sql("insert into t values (6, 20, 'e'), (7, 21, 'f')")
    source.sql("flush binary logs")
    source.sql("start transaction", "delete from t where id = 20", "insert into t (id) values (30)", "commit")
    source.sql("alter table t drop column name", "insert into t (id) values (31)", "truncate u", "insert into u values (9)")


def _same(record: SourceRecord) -> tuple[Any, ...]:
    block = () if record.value is None else tuple(record.value["source"][name] for name in ("gtid", "file", "pos", "row"))
    return (*shown(record), *block)


@pytest.mark.parametrize("by", first_fast(list(_BY)))
def test_every_offset_continues_with_the_next_record(source: MariaDbRunningSource, by: str) -> None:
    source.sql("create table t(id int primary key, name varchar(10))", "create table u(id int primary key)")
    source.begin(gtid_ignore_on_recovery=_BY[by], max_batch_size="3", poll_interval_ms="10")
    _workload(source)
    records = source.read(22)
    expected = [_same(record) for record in records]
    history = Path(source.config["schema.history.internal.file.filename"])
    complete = history.read_bytes()
    source.kill()
    repeated = 0
    for number, record in enumerate(records):
        history.write_bytes(complete)
        source.offsets.stored = dict(record.source_offset or {})
        source.start()
        try:
            found = [_same(r) for r in source.read(len(records) - number - 1)]
        finally:
            source.kill()
        # A record that others of the same row follow, such as a delete before its tombstone, has the offset before the row.
        extra = len(found) - (len(records) - number - 1)
        assert 0 <= extra <= 2
        assert found == expected[number + 1 - extra :]
        repeated += extra
    assert repeated == 8, "one record for each of two deletes, and three for each of two changed keys"


@pytest.mark.long
def test_rows_of_a_statement_have_its_text_after_a_restart_within_it(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(include_query="true", max_batch_size="1")
    first, second = "insert into t values (1), (2), (3)", "delete from t where id < 3"
    source.sql("start transaction", first, second, "commit")
    records = source.read_before_failure(7)
    source.kill()
    for number, record in enumerate(records[:4]):
        source.offsets.stored = dict(record.source_offset or {})
        source.start()
        rest = [r.value["source"]["query"] for r in source.read(6 - number) if r.value is not None]
        source.kill()
        assert rest == ([first] * (2 - number) + [second] * 2)[-len(rest) :]
        assert len(rest) == max(4 - number, 2)


@pytest.mark.parametrize("by", first_fast(list(_BY)))
def test_sources_that_are_not_read_lose_nothing_of_others(source: MariaDbRunningSource, by: str) -> None:
    """Their structure is followed, and nothing of it is applied again to a table that has changed since."""
    source.sql("create table t(id int primary key)")
    source.begin(gtid_source_excludes="7-.*,0-9", gtid_ignore_on_recovery=_BY[by])
    for number in range(3):
        other = ("set gtid_domain_id = 7", "set server_id = 9")[number % 2]
        source.sql(other, f"alter table t add c{number} int", f"insert into t (id) values ({100 + number})")
        source.sql(f"insert into t (id) values ({2 * number}), ({2 * number + 1})")
        source.sql(other, f"insert into t (id) values ({200 + number})")
    records = source.read(6)
    source.kill()
    expected = [_same(record) for record in records]
    assert [record.value["after"]["id"] for record in records] == list(range(6))
    for number, record in enumerate(records):
        source.offsets.stored = dict(record.source_offset or {})
        source.start()
        try:
            found = source.read(5 - number)
        finally:
            source.kill()
        assert [_same(r) for r in found] == expected[number + 1 :], number


def test_offset_between_transactions_is_stored_without_records(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "create table other(id int primary key)")
    source.begin(table_include_list=f"{source.database}[.]t")
    source.sql("insert into t values (1)")
    (record,) = source.read(1)
    source.store(record)
    stored = source.offsets.stored
    assert stored is not None
    assert "event" not in stored, "the transaction is complete"
    source.sql("insert into other values (1)")
    source.quiet()
    source.flush()
    later = source.offsets.stored
    assert later is not None
    assert later["gtids"] != stored["gtids"]
    assert later["server_uuid"] == stored["server_uuid"]


@pytest.mark.long
def test_task_continues_after_its_connection_is_killed(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin()
    source.sql("insert into t values (1)")
    assert len(source.read(1)) == 1
    source.sql("alter table t add n int", "insert into t values (2, 2)")
    source.kill_readers()
    source.sql("insert into t values (3, 3)")
    assert [shown(r)[3] for r in source.read(2)] == [{"id": 2, "n": 2}, {"id": 3, "n": 3}]


def test_task_continues_after_the_server_is_restarted(source: MariaDbRunningSource, mariadb: EmbeddedMariaDB) -> None:
    source.sql("create table t(id int primary key)")
    source.begin()
    source.sql("insert into t values (1)")
    assert len(source.read(1)) == 1
    mariadb.stop()
    source.until("reconnecting")
    mariadb.start()
    source.sql("insert into t values (2)")
    assert [shown(r)[3] for r in source.read(1)] == [{"id": 2}]


@pytest.mark.parametrize("by", first_fast(list(_BY)))
def test_position_that_was_purged_is_named(source: MariaDbRunningSource, by: str) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(gtid_ignore_on_recovery=_BY[by])
    source.sql("insert into t values (1)")
    (record,) = source.read(1)
    source.store(record)
    source.kill()
    source.sql("flush binary logs", "insert into t values (2)")
    source.purge_log()
    source.start()
    with pytest.raises(PositionLostError, match=r"removed.*snapshot\.mode=when_needed"):
        source.read(1)


@pytest.mark.parametrize("by", first_fast(list(_BY)))
def test_new_snapshot_replaces_a_purged_position_when_needed(source: MariaDbRunningSource, by: str) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(gtid_ignore_on_recovery=_BY[by])
    source.sql("insert into t values (1)")
    (record,) = source.read(1)
    source.store(record)
    source.kill()
    source.sql("flush binary logs", "insert into t values (2)")
    source.purge_log()
    source.start(snapshot_mode="when_needed")
    assert [shown(r)[1:] for r in source.read(2)] == [("r", None, {"id": 1}), ("r", None, {"id": 2})]
    source.until("streaming")
    source.sql("insert into t values (3)")
    assert [shown(r)[1:] for r in source.read(1)] == [("c", None, {"id": 3})]


def test_position_of_another_server_is_named(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(gtid_ignore_on_recovery="true")
    source.sql("insert into t values (1)")
    (record,) = source.read(1)
    source.store(record)
    source.kill()
    assert source.offsets.stored is not None
    source.offsets.stored["server_uuid"] = "another"
    source.start()
    with pytest.raises(ServerReplacedError, match=r"another server.*Enable GTIDs"):
        source.read(1)


def test_position_after_the_end_of_the_log_is_named(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin()
    source.sql("insert into t values (1)")
    (record,) = source.read(1)
    source.store(record)
    source.kill()
    assert source.offsets.stored is not None
    source.offsets.stored["gtids"] = re.sub(r"0-1-\d+", "0-1-999999999", source.offsets.stored["gtids"])
    source.start()
    with pytest.raises(ServerReplacedError, match="was replaced or restored"):
        source.read(1)


def test_lost_schema_history_is_named_and_rebuilt(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin()
    source.sql("insert into t values (1)")
    (record,) = source.read(1)
    source.store(record)
    source.kill()
    history = Path(source.config["schema.history.internal.file.filename"])
    history.unlink()
    source.start()
    with pytest.raises(ConnectError, match=r"schema history in file .* has nothing.*snapshot\.mode=recovery"):
        source.read(1)
    source.kill()
    source.sql("insert into t values (2)")
    source.start(snapshot_mode="recovery")
    assert [shown(r)[3] for r in source.read(1)] == [{"id": 2}]
    source.kill()
    assert history.read_bytes()


def test_recovery_needs_an_offset(source: MariaDbRunningSource) -> None:
    source.start(snapshot_mode="recovery")
    with pytest.raises(ConnectError, match="none is stored"):
        source.read(1)


def test_snapshot_and_stream_join(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "insert into t values (1), (2)")
    source.start(snapshot_mode="initial")
    rows = source.read(2)
    source.until("streaming")
    source.sql("insert into t values (3)")
    rows += source.read(1)
    assert [(shown(r)[1], shown(r)[3]) for r in rows] == [("r", {"id": 1}), ("r", {"id": 2}), ("c", {"id": 3})]
    source.store(rows[-1])
    source.kill()
    source.sql("insert into t values (4)")
    source.start()
    assert [shown(r)[1:] for r in source.read(1)] == [("c", None, {"id": 4})]


def test_initial_only_ends_with_the_snapshot(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "insert into t values (1)")
    source.start(snapshot_mode="initial_only")
    rows = source.until("done")
    assert [shown(r)[1:] for r in rows] == [("r", None, {"id": 1})]
    source.store(rows[-1])
    source.kill()
    source.start()
    assert source.until("done") == []


def test_always_streams_to_the_point_of_its_new_snapshot_first(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "insert into t values (1), (2)")
    source.start(snapshot_mode="always")
    rows = source.read(2)
    source.store(rows[-1])
    source.kill()
    source.sql("delete from t where id = 2", "insert into t values (3)")
    source.start()
    found = [(shown(r)[1], shown(r)[3] if r.value is not None else None) for r in source.read(5)]
    assert found == [("d", None), ("tombstone", None), ("c", {"id": 3}), ("r", {"id": 1}), ("r", {"id": 3})]
