"""Another server takes over: a replica, which has the same transactions in a log of its own files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.record import SourceRecord
from connectors.mysql.snapshot import row_stream
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.support.source_runner import shown
from tests.support.waiting import WAIT_S

_DATABASE = "shop"
_NAMED = {
    "lower": {"log_bin": "binlog", "first_files": "1"},
    "higher": {"log_bin": "binlog", "first_files": "9"},
    "other": {"log_bin": "mysql-bin", "first_files": "1"},
}
"""The files of the replica, compared with those of the first server."""
_BIG = 4_000


@dataclass
class Pair:
    """A server and its replica. The source reads from the first one."""

    first: EmbeddedMariaDB
    replica: EmbeddedMariaDB
    source: MariaDbRunningSource

    def replicate(self) -> None:
        """Waits until the replica has everything of domain 0."""
        ((gtids,),) = self.source.sql("select regexp_substr(@@gtid_binlog_pos, '\\\\b0-[0-9-]+')")
        with self.replica.connect() as connection, connection.cursor() as cursor:
            cursor.execute("select master_gtid_wait(%s, %s)", (gtids, WAIT_S))
            assert cursor.fetchone()[0] == 0

    def fail_over(self) -> None:
        """Ends the first server; the replica takes its address over."""
        port = self.first.port
        with self.replica.connect() as connection, connection.cursor() as cursor:
            cursor.execute("stop slave")
            cursor.execute("reset slave all")
        self.first.kill()
        self.replica.stop()
        successor = EmbeddedMariaDB(
            self.replica.data_dir,
            port=port,
            password=self.replica.password,
            dies_with_parent=True,
            settings=self.replica._settings,
        )
        self.replica = self.source.server = successor
        successor.start()


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    named = _NAMED[getattr(request, "param", "lower")]
    first = EmbeddedMariaDB(tmp_path / "first", password="secret", dies_with_parent=True)
    # It divides transactions into other events.
    settings = {"server_id": "2", "log_bin": named["log_bin"], "log_slave_updates": "1", "binlog_row_event_max_size": "1024"}
    replica = EmbeddedMariaDB(tmp_path / "replica", password="secret", dies_with_parent=True, settings=settings)
    with contextlib.ExitStack() as stack:
        for server in (first, replica):
            server.start()
            stack.callback(server.kill)
        made = Pair(first, replica, MariaDbRunningSource(first, _DATABASE, tmp_path / "history.jsonl"))
        stack.callback(lambda: made.replica.kill())
        stack.callback(made.source.kill)
        first.create_database(_DATABASE)
        with first.connect() as connection, connection.cursor() as cursor:
            for _ in range(4):
                cursor.execute("flush binary logs")
        with replica.connect() as connection, connection.cursor() as cursor:
            for _ in range(int(named["first_files"]) - 1):
                cursor.execute("flush binary logs")
            cursor.execute(
                f"change master to master_host = '{first.host}', master_port = {first.port}, master_user = '{first.user}', "
                "master_password = 'secret', master_use_gtid = slave_pos, master_ssl = 0, ignore_domain_ids = (7)"
            )
            cursor.execute("start slave")
        yield made


def _ids(records: list[SourceRecord]) -> list[int]:
    return [record.value["after"]["id"] for record in records]


def test_task_continues_on_the_replica_with_the_next_transaction(pair: Pair) -> None:
    source = pair.source
    source.sql("create table t(id int primary key)")
    source.begin()
    source.sql("insert into t values (1)")
    assert _ids(source.read(1)) == [1]
    source.sql("alter table t add n int")
    source.sql("insert into t values (2, 2), (3, 3)")
    pair.replicate()
    pair.fail_over()
    source.sql("insert into t values (4, 4)")
    records = source.read(3)
    assert [shown(record)[3] for record in records] == [{"id": n, "n": n} for n in (2, 3, 4)]
    assert [record.value["source"]["server_id"] for record in records] == [1, 1, 2]
    source.store(records[-1])
    source.kill()
    source.sql("insert into t values (5, 5)")
    source.start()
    assert _ids(source.read(1)) == [5]


@pytest.mark.parametrize("has_own", [False, True], ids=["missing domain", "own domain"])
@pytest.mark.long
def test_transactions_that_are_not_read_need_not_be_on_the_replica(pair: Pair, has_own: bool) -> None:
    source = pair.source
    source.sql("create table t(id int primary key)")
    source.begin(gtid_source_excludes="7-.*")
    source.sql("set gtid_domain_id = 7", *(f"insert into t values ({n})" for n in range(100, 105)))
    source.sql("insert into t values (1)")
    assert _ids(source.read(1)) == [1]
    pair.replicate()
    if has_own:
        with pair.replica.connect(_DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute("set gtid_domain_id = 7")
            cursor.execute("insert into t values (200)")
    pair.fail_over()
    source.sql("set global gtid_slave_pos = ''")  # it has the transactions that the replica has left out
    source.sql("insert into t values (2)")
    assert _ids(source.read(1)) == [2]
    source.sql("set gtid_domain_id = 7", "insert into t values (201)")
    source.sql("insert into t values (3)")
    assert _ids(source.read(1)) == [3]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["reconnected", "restarted"])
@pytest.mark.long
def test_big_transaction_that_the_replica_takes_over_is_repeated_from_its_beginning(pair: Pair, is_restarted: bool) -> None:
    source = pair.source
    source.sql("create table t(id int primary key, v longtext)")
    source.begin(max_batch_size="100")
    source.sql(
        "insert into t values (-1, '')",
        "start transaction",
        f"insert into t select seq, repeat('x', 10000) from seq_1_to_{_BIG}",
        "commit",
    )
    pair.replicate()
    begun = source.read_before_failure(200)
    source.store(begun[-1])
    assert source.offsets.stored is not None
    assert source.offsets.stored["event"] > 0
    if is_restarted:
        source.kill()
    pair.fail_over()
    source.sql("insert into t values (0, '')")
    if is_restarted:
        source.start()
    found: list[int] = []
    while not found or found[-1] != 0:
        found += _ids(source.read_before_failure(1))
    assert _ids(begun) == [-1, *range(1, len(begun))]
    again = found.index(1)
    if is_restarted:
        assert again == 0
    assert found[:again] == list(range(len(begun), len(begun) + again)), "what the first server has sent"
    assert len(begun) + again < _BIG, "the failover is within the transaction"
    assert found[again:] == [*range(1, _BIG + 1), 0]


@pytest.mark.parametrize("pair", list(_NAMED), indirect=True)
@pytest.mark.long
def test_interrupted_snapshot_continues_on_the_replica(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "BATCH_ROWS", 100)
    source = pair.source
    source.sql("create table t(id int primary key, v varchar(20))", "insert into t select seq, seq from seq_1_to_1000")
    source.start()
    records = source.read_before_failure(500)
    source.store(records[-1])
    source.kill()
    source.sql("update t set v = 'changed' where id % 10 = 0", "delete from t where id % 50 = 7")
    pair.replicate()
    pair.fail_over()
    source.sql("update t set v = 'new' where id % 20 = 0", "delete from t where id % 50 = 8", "insert into t values (0, '')")
    source.start()
    records += source.until("streaming")
    rows: dict[int, str | None] = {}
    for record in records:
        if record.value is not None:
            after = record.value["after"]
            rows[record.key["id"]] = None if after is None else after["v"]
    assert {id: v for id, v in rows.items() if v is not None} == dict(source.sql("select * from t"))
