"""Incremental snapshots: rows are read in chunks while their table changes, and the replayed topic is the table."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from connect.record import ErrantSourceRecord, SourceRecord
from connectors.mysql.server import ServerInfo
from connectors.mysql.types import MYSQL_JAVA_KEYS
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.integration.mysql.signaling import ReplayedTopic, SignaledSource, is_read
from tests.support import randomness
from tests.support.cases import first_fast
from tests.support.waiting import Deadline


class Workload:
    """Sessions that change a table all the time."""

    def __init__(self, source: SignaledSource, change: Callable[[Any, random.Random], None], sessions: int = 2) -> None:
        self._source = source
        self._change = change
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(sessions)]

    def _run(self, number: int) -> None:
        rng = randomness.chance(f"session-{number}")
        try:
            with self._source.source.server.connect(self._source.database) as db, db.cursor() as cursor:
                while not self._stopped.is_set():
                    self._change(cursor, rng)
                    self._stopped.wait(0.002)
        except BaseException as e:
            self._errors.append(e)

    def __enter__(self) -> Workload:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        assert not self._errors


def change_anything(db: Any, rng: random.Random) -> None:
    """Each of these locks one row, or rows in the order of the key, so that sessions do not deadlock."""
    key = rng.randrange(1, 4000)
    match rng.randrange(5):
        case 0:
            db.execute("INSERT IGNORE INTO t VALUES (%s, 'new')", (key,))
        case 1:
            db.execute("DELETE FROM t WHERE id = %s", (key,))
        case 2:
            db.execute("UPDATE IGNORE t SET id = %s WHERE id = %s", (key + 10_000, key))
        case 3:
            db.execute("BEGIN")
            for text in ("a", "b"):
                name = f"{text}{rng.random()}"
                db.execute("UPDATE t SET name = %s WHERE id = %s", (name, key))
            db.execute("COMMIT")
        case _:
            db.execute("UPDATE t SET name = %s WHERE id = %s", (f"c{rng.random()}", key))


@pytest.fixture
def table(source: MariaDbRunningSource) -> SignaledSource:
    """A table with rows that were never captured."""
    made = SignaledSource(source)
    made.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(50))")
    made.execute("INSERT INTO t SELECT seq, 'old' FROM seq_1_to_3000")
    return made


@pytest.mark.parametrize("read_only", first_fast(["false", "true"]))
def test_topic_equals_a_table_that_changes_during_the_snapshot(table: SignaledSource, read_only: str) -> None:
    table.start(incremental_snapshot_chunk_size="100", read_only=read_only)
    replayed = ReplayedTopic("t")
    with Workload(table, change_anything):
        table.request("t")
        records = table.until_read(replayed)
    replayed.apply(table.source.quiet())
    assert replayed.listed() == table.rows_of()
    assert replayed.operations.count("r") > 1500
    assert len(replayed.operations) > replayed.operations.count("r")
    written = [r.value["after"]["type"] for r in records if r.topic.endswith(".signals") and r.value["after"]]
    assert ("snapshot-window-open" in written) == (read_only == "false")


@pytest.mark.long
def test_restarts_at_any_point_continue_at_the_chunk_and_lose_nothing(table: SignaledSource) -> None:
    table.start(incremental_snapshot_chunk_size="150")
    replayed = ReplayedTopic("t")
    rng = randomness.chance("restarts")
    restarts = 0
    with Workload(table, change_anything):
        table.request("t")
        deadline = Deadline("the end of the snapshot", lambda: table.task.progress())
        while "incremental_snapshot" not in table.task.progress():
            deadline.check()
            if found := table.poll():
                replayed.apply(found)
                table.source.store(found[-1])
        while "incremental_snapshot" in table.task.progress():
            deadline.check()
            records = table.poll()
            if not records:
                continue
            # Of a batch, the broker gets some records, and fewer have their offset stored when the worker is killed.
            sent = rng.randrange(1, len(records) + 1) if restarts < 8 and rng.random() < 0.3 else len(records)
            replayed.apply(records[:sent])
            if rng.random() < 0.7:
                table.source.store(records[rng.randrange(sent)])
            if restarts < 8 and (sent < len(records) or rng.random() < 0.2):
                restarts += 1
                table.restart()
    replayed.apply(table.source.quiet())
    assert restarts > 3
    assert replayed.listed() == table.rows_of()


def test_signal_outlives_a_kill_before_its_snapshot_starts(table: SignaledSource) -> None:
    table.start()
    table.request("t")
    received = table.poll()
    while not received:
        received = table.poll()
    table.source.store(received[-1])
    table.restart()
    replayed = ReplayedTopic("t")
    table.until_read(replayed)
    assert len(replayed.rows) == 3000


@pytest.mark.long
def test_pause_resume_and_stop(table: SignaledSource) -> None:
    table.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    table.execute("INSERT INTO u VALUES (1)")
    table.start(incremental_snapshot_chunk_size="10")
    replayed = ReplayedTopic("t")
    table.request("t", "u")
    while len(replayed.rows) < 100:
        replayed.apply(table.poll())
    table.signal("pause-snapshot")
    found = table.source.quiet()
    replayed.apply(found)
    paused_at = len(replayed.rows)
    assert 0 < paused_at < 3000
    assert table.task.progress()["incremental_snapshot"]["paused"] is True
    table.source.store(found[-1])
    table.restart()
    assert table.source.quiet() == []
    table.signal("resume-snapshot")
    while len(replayed.rows) < paused_at + 20:
        replayed.apply(table.poll())
    table.signal("stop-snapshot", {"data-collections": [f"{table.database}.t"]})
    other = ReplayedTopic("u")
    table.until_read(other)
    assert other.listed() == [(1,)]
    table.source.quiet()
    table.source.flush()
    assert not [key for key in table.stored if key.startswith("incremental")]


def test_conditions_and_tables_by_regular_expression(table: SignaledSource) -> None:
    table.execute("CREATE TABLE t2 (id INT PRIMARY KEY, name VARCHAR(50))")
    table.execute("INSERT INTO t2 SELECT seq, 'x' FROM seq_1_to_9")
    table.start(incremental_snapshot_chunk_size="7")
    condition = {"data-collection": f"{table.database}.t", "filter": "id > 100 AND id <= 150 OR id = 3"}
    table.request(r"t\d?", **{"additional-conditions": [condition]})
    one, two = ReplayedTopic("t"), ReplayedTopic("t2")
    records = table.until_read(one)
    two.apply(records)
    assert [row[0] for row in one.listed()] == [3, *range(101, 151)]
    assert len(two.rows) == 9
    rows = list(filter(is_read, records))
    block = rows[0].value["source"].as_dict()
    assert (block["snapshot"], block["db"], block["table"], block["connector"]) == ("incremental", table.database, "t", "mariadb")
    assert rows[0].source_offset is not None
    assert (block["file"], block["pos"]) == (rows[0].source_offset["file"], rows[0].source_offset["pos"])
    assert rows[0].headers is None


def test_condition_that_the_server_rejects_skips_the_table(table: SignaledSource, caplog: Any) -> None:
    table.execute("CREATE TABLE t2 (id INT PRIMARY KEY)")
    table.execute("INSERT INTO t2 VALUES (1)")
    table.start()
    condition = {"data-collection": f"{table.database}.t", "filter": "nothing = 1"}
    table.request("t", "t2", **{"additional-conditions": [condition]})
    other = ReplayedTopic("t2")
    table.until_read(other)
    assert other.listed() == [(1,)]
    assert f"skipping {table.database}.t: " in caplog.text
    assert "Unknown column 'nothing'" in caplog.text


@pytest.mark.parametrize("column", first_fast(["a INT NOT NULL", "a INT NULL", "a VARCHAR(9) CHARACTER SET latin1"]))
def test_tables_without_a_key_need_a_surrogate_key(table: SignaledSource, caplog: Any, column: str) -> None:
    table.execute(f"CREATE TABLE n ({column}, b INT)")
    value = "IF(seq > 180, NULL, seq DIV 10)" if "NOT NULL" not in column else "seq DIV 10"
    table.execute(f"INSERT INTO n SELECT {value}, seq FROM seq_1_to_200")
    table.start(incremental_snapshot_chunk_size="7")
    table.request("n")
    table.source.quiet()
    assert f"{table.database}.n has no key; name a column that orders its rows in surrogate-key of the signal" in caplog.text
    table.request("n", **{"surrogate-key": "A"})
    records = table.until_read()
    rows = [r for r in records if r.topic.endswith(".n")]
    assert sorted(r.value["after"]["b"] for r in rows) == list(range(1, 201))
    assert {r.key for r in rows} == {None}


@pytest.mark.parametrize("key", first_fast(["", ":a"]))
def test_rows_without_a_key_that_change_are_neither_lost_nor_old(table: SignaledSource, key: str) -> None:
    """Nothing says which row a change replaces, so the events are replayed as a multiset of whole rows."""
    table.execute("CREATE TABLE n (a INT NOT NULL, b VARCHAR(40), INDEX (a))")
    table.execute("INSERT INTO n SELECT seq DIV 3, 'old' FROM seq_1_to_900")

    def change(db: Any, rng: random.Random) -> None:
        db.execute("UPDATE n SET b = %s WHERE a = %s LIMIT 1", (f"new{rng.randrange(5)}", rng.randrange(300)))

    keys = {"message_key_columns": f"{table.database}.n{key}"} if key else {}
    table.start(incremental_snapshot_chunk_size="50", read_only="true", **keys)
    with Workload(table, change):
        table.request("n", **{"surrogate-key": "a"})
        records = table.until_read()
    rows: list[tuple[Any, ...]] = []
    for record in [*records, *table.source.quiet()]:
        if record.topic.endswith(".n"):
            before, after, op = record.value["before"], record.value["after"], record.value["op"]
            if op == "u" and (old := tuple(before.values)) in rows:
                rows.remove(old)
            elif op == "u":
                continue  # its row comes with a later chunk, as it is then
            rows.append(tuple(after.values))
    assert sorted(rows) == table.rows_of("n")


KEYS = [
    ("TINYINT", "seq - 30.0"),
    ("BIGINT UNSIGNED", "9223372036854775807 - seq"),
    ("DECIMAL(30,10)", "seq / 7 - 3"),
    ("FLOAT", "seq / 3"),
    ("DOUBLE", "seq / -3"),
    ("BIT(20)", "seq * 1000"),
    ("YEAR", "1950 + seq"),
    ("DATE", "'1999-12-01' + INTERVAL seq DAY"),
    ("DATETIME(6)", "'0999-12-31 23:59:59.9' + INTERVAL seq * 100001 MICROSECOND"),
    ("TIMESTAMP(3)", "FROM_UNIXTIME(seq * 1000.5)"),
    ("TIME(2)", "SEC_TO_TIME(seq * 3000 - 90000.25)"),
    ("CHAR(20) COLLATE utf8mb4_bin", "CONCAT('it''s \\\\ ', seq, '%')"),
    ("VARCHAR(20) COLLATE utf8mb4_general_ci", "CONCAT(ELT(1 + seq % 4, 'a', 'B', 'ä', 'Z'), seq)"),
    ("VARCHAR(20) COLLATE utf8mb4_unicode_ci", "CONCAT(ELT(1 + seq % 4, 'ss', 'ß', 'Ö', '€'), seq)"),
    ("VARCHAR(20) COLLATE utf8mb4_unicode_nopad_ci", "CONCAT('a', SPACE(seq % 3), seq)"),
    ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci", "CONCAT(ELT(1 + seq % 4, 'ä', 'ae', 'ß', 'X'), seq)"),
    ("VARCHAR(20) CHARACTER SET utf16 COLLATE utf16_general_ci", "CONCAT(ELT(1 + seq % 3, 'é', 'E', '😀'), seq)"),
    ("VARCHAR(20) CHARACTER SET sjis", "CONCAT('表', seq)"),
    ("BINARY(3)", "UNHEX(CONCAT(LPAD(HEX(seq), 2, '0'), '00'))"),
    ("VARBINARY(20)", "UNHEX(MD5(seq))"),
    ("ENUM('z','m','a')", "1 + seq % 3"),
    ("SET('z','m','a')", "seq % 8"),
    ("UUID", "CONCAT('00000000-0000-1000-8000-', LPAD(HEX(seq * 77), 12, '0'))"),
    ("INET6", "CONCAT('::', HEX(seq * 999))"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value"), first_fast(KEYS), ids=[type_ for type_, _ in KEYS])
def test_keys_of_any_type(table: SignaledSource, type_: str, value: str) -> None:
    table.execute(f"CREATE TABLE k (a {type_}, b INT, name TEXT, PRIMARY KEY (a, b))")
    table.execute(f"INSERT INTO k SELECT {value}, seq, 'x' FROM seq_1_to_60")
    table.start(incremental_snapshot_chunk_size="13")
    table.request("k")
    found: list[SourceRecord] = []
    while len(found) < 20:
        found += table.poll()
    table.source.store([r for r in found if r.topic.endswith(".k")][-1])
    table.restart()
    found += table.until_read()
    rows = [r.value["after"]["b"] for r in found if r.topic.endswith(".k")]
    assert sorted(rows) == list(range(1, 61))


@pytest.mark.long
def test_a_table_may_be_altered_and_truncated(table: SignaledSource) -> None:
    table.start(incremental_snapshot_chunk_size="100")
    replayed = ReplayedTopic("t")
    table.request("t")
    while len(replayed.rows) < 500:
        replayed.apply(table.poll())
    table.execute("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7")
    while len(replayed.rows) < 1000:
        replayed.apply(table.poll())
    assert replayed.rows[(999,)] == {"id": 999, "name": "old", "c": 7}
    table.execute("ALTER TABLE t MODIFY id BIGINT, DROP COLUMN name")
    while len(replayed.rows) < 2000:
        replayed.apply(table.poll())
    assert replayed.rows[(1999,)] == {"id": 1999, "c": 7}
    table.execute("TRUNCATE TABLE t")
    table.execute("INSERT INTO t VALUES (5000, 8)")
    table.until_read(replayed, started=True)
    replayed.apply(table.source.quiet())
    assert replayed.rows[(5000,)] == {"id": 5000, "c": 8}
    assert len(replayed.rows) < 3000


@pytest.mark.parametrize(
    ("type_", "value", "changed"),
    first_fast(
        [
            (
                "VARCHAR(9) COLLATE utf8mb4_bin",
                "CONCAT(CHAR(65 + seq % 58 USING latin1), seq)",
                "VARCHAR(9) COLLATE utf8mb4_general_ci",
            ),
            ("ENUM('z','m','a')", "1 + seq % 3", "ENUM('a','m','z')"),
        ]
    ),
)
def test_a_table_whose_key_has_another_order_is_read_from_its_start(
    table: SignaledSource, caplog: Any, type_: str, value: str, changed: str
) -> None:
    table.execute(f"CREATE TABLE k (a {type_} NOT NULL, b INT, PRIMARY KEY (a, b))")
    table.execute(f"INSERT INTO k SELECT {value}, seq FROM seq_1_to_600")
    table.start(incremental_snapshot_chunk_size="20")
    table.request("k")
    replayed = ReplayedTopic("k")
    while len(replayed.operations) < 200:
        replayed.apply(table.poll())
    table.execute(f"ALTER TABLE k MODIFY a {changed} NOT NULL")
    table.until_read(replayed)
    replayed.apply(table.source.quiet())
    assert f"the key of {table.database}.k has changed; reading the table from its start" in caplog.text
    assert sorted(row["b"] for row in replayed.rows.values()) == list(range(1, 601))


@pytest.mark.parametrize(
    "change",
    first_fast(["ADD COLUMN c INT NOT NULL DEFAULT 7", "DROP COLUMN name", "RENAME COLUMN name TO title", "MODIFY name INT"]),
)
def test_a_chunk_is_read_again_if_the_table_changes_before_its_position(table: SignaledSource, change: str) -> None:
    table.execute("UPDATE t SET name = '5'")
    table.start(incremental_snapshot_chunk_size="100", read_only="true")
    table.execute(f"ALTER TABLE t {change}")
    # The chunk is read with the structure before the statement, which is streamed after that.
    table.task.signal("1", "execute-snapshot", json.dumps(table.request_data("t")))
    replayed = ReplayedTopic("t")
    table.until_read(replayed)
    assert replayed.listed() == table.rows_of()
    columns = [row[0] for row in table.execute("SHOW COLUMNS FROM t")]
    assert {tuple(row) for row in replayed.rows.values()} == {tuple(columns)}


def test_a_table_may_be_read_as_soon_as_it_exists(table: SignaledSource) -> None:
    table.start(read_only="true")
    table.execute("CREATE TABLE late (id INT PRIMARY KEY)")
    table.execute("INSERT INTO late VALUES (1), (2)")
    # The signal is handled before the stream has the table.
    table.task.signal("1", "execute-snapshot", json.dumps(table.request_data("late")))
    records = [record for record in table.until_read() if record.topic.endswith(".late")]
    assert [(record.value["op"], record.key["id"]) for record in records] == [("c", 1), ("c", 2), ("r", 1), ("r", 2)]


def test_a_table_that_is_dropped_is_skipped(table: SignaledSource, caplog: Any) -> None:
    table.start(incremental_snapshot_chunk_size="100")
    replayed = ReplayedTopic("t")
    table.request("t")
    while len(replayed.rows) < 500:
        replayed.apply(table.poll())
    table.execute("DROP TABLE t")
    table.until_read(replayed, started=True)
    assert f"skipping {table.database}.t: table {table.database}.t does not exist or is not captured" in caplog.text


def test_names_may_have_any_characters_and_engines_no_transactions(table: SignaledSource) -> None:
    table.execute('CREATE TABLE `my."`` %s` (`a b` VARCHAR(9), `50%` INT, PRIMARY KEY (`50%`, `a b`)) ENGINE = MyISAM')
    table.execute("INSERT INTO `my.\"`` %s` SELECT 'x', seq FROM seq_1_to_50")
    table.execute("RENAME TABLE signals TO `sig %s`")
    table.start(signal_data_collection=f'{table.database}."sig %s"', incremental_snapshot_chunk_size="7")
    table.task.signal("1", "execute-snapshot", json.dumps(table.request_data("my.*")))
    records = [record for record in table.until_read() if is_read(record)]
    assert [record.value["after"]["50%"] for record in records] == list(range(1, 51))
    types = [type_ for (type_,) in table.execute("SELECT type FROM `sig %s`")]
    assert set(types) == {"snapshot-window-open", "snapshot-window-close"}


def test_chunks_wait_for_a_table_that_is_locked(table: SignaledSource) -> None:
    table.start(read_only="true")
    replayed = ReplayedTopic("t")
    with table.source.server.connect(table.database) as db, db.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        table.task.signal("1", "execute-snapshot", json.dumps(table.request_data("t")))
        for _ in range(3):
            replayed.apply(table.poll())
        assert replayed.rows == {}
        cursor.execute("UNLOCK TABLES")
    table.until_read(replayed)
    assert len(replayed.rows) == 3000


@pytest.mark.parametrize("surrogate_key", first_fast(["", "grp"]))
def test_chunks_of_large_rows_are_smaller(table: SignaledSource, surrogate_key: str) -> None:
    table.execute("CREATE TABLE large (id INT PRIMARY KEY, grp INT, body MEDIUMTEXT)")
    table.execute("INSERT INTO large SELECT seq, seq DIV 2, REPEAT('x', 100000) FROM seq_1_to_60")
    table.start(
        max_queue_size_in_bytes="1000000",
        notification_enabled_channels="sink",
        notification_sink_topic_name="notes",
    )
    table.request("large", **({"surrogate-key": surrogate_key} if surrogate_key else {}))
    replayed = ReplayedTopic("large")
    records = table.until_read(replayed)
    assert [row[0] for row in replayed.listed()] == list(range(1, 61))
    assert len(replayed.operations) == 60
    chunks = [r for r in records if r.topic == "notes" and r.value["type"] == "IN_PROGRESS"]
    # A surrogate key need not be unique: rows with one value cannot be divided.
    assert len(chunks) == 0 if surrogate_key else len(chunks) > 3


def test_notifications_of_a_snapshot(table: SignaledSource) -> None:
    table.execute("CREATE TABLE empty (id INT PRIMARY KEY)")
    table.start(
        incremental_snapshot_chunk_size="2000",
        notification_enabled_channels="log,sink",
        notification_sink_topic_name="notes",
    )
    table.request("t", "empty")
    records = table.until_read(ReplayedTopic("t"))
    notes = [r.value.as_dict() for r in [*records, *table.source.quiet()] if r.topic == "notes"]
    assert [note["type"] for note in notes] == [
        "STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "TABLE_SCAN_COMPLETED", "COMPLETED",
    ]  # fmt: skip
    name = f"{table.database}.t"
    assert notes[1]["additional_data"] == {
        "connector_name": "shop", "data_collections": f"{name},{table.database}.empty", "current_collection_in_progress": name,
        "maximum_key": "3000", "last_processed_key": "2000",
    }  # fmt: skip
    assert [n["additional_data"]["status"] for n in notes[2:4]] == ["SUCCEEDED", "EMPTY"]


def test_an_incremental_snapshot_of_debezium_is_continued(table: SignaledSource) -> None:
    table.start(incremental_snapshot_chunk_size="100")
    table.request("t")
    while not table.task.progress().get("incremental_snapshot", {}).get("last_key"):
        if records := table.poll():
            table.source.store(records[-1])
    del table.stored["incremental_snapshot_chunk"]
    read = MYSQL_JAVA_KEYS.parse(table.stored["incremental_snapshot_primary_key"])
    assert read is not None
    table.restart()
    replayed = ReplayedTopic("t")
    table.until_read(replayed)
    assert min(replayed.rows) == (int(read[0] or 0) + 1,)
    assert max(replayed.rows) == (3000,)


def test_rows_that_cannot_be_converted_are_reported_one_by_one(table: SignaledSource) -> None:
    table.execute("CREATE TABLE d (id INT PRIMARY KEY, day DATE)")
    with table.source.server.connect(table.database) as db, db.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("INSERT INTO d VALUES (1, '2024-01-01'), (2, '2024-02-31'), (3, '2024-01-03')")
    table.start()
    table.request("d")
    records = [r for r in table.until_read() if r.topic.endswith(".d")]
    assert [r.key["id"] for r in records if not isinstance(r, ErrantSourceRecord)] == [1, 3]
    assert isinstance(records[1], ErrantSourceRecord)
    assert "(id=2) cannot be converted: column day: 2024-02-31 is no date" in records[1].error.message


def no_position(connection: Any) -> None:
    """A server that does not say what a snapshot has, such as MySQL without GTIDs."""


def test_without_a_position_of_the_snapshot_watermarks_make_rows_visible(table: SignaledSource, monkeypatch: Any) -> None:
    monkeypatch.setattr("connectors.mysql.incremental.visibility.read_snapshot_position", no_position)
    table.start(incremental_snapshot_chunk_size="100")
    replayed = ReplayedTopic("t")
    with Workload(table, change_anything):
        table.request("t")
        table.until_read(replayed)
    replayed.apply(table.source.quiet())
    assert replayed.listed() == table.rows_of()


def test_without_a_position_and_watermarks_the_table_is_skipped(table: SignaledSource, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("connectors.mysql.incremental.visibility.read_snapshot_position", no_position)
    table.start(read_only="true")
    table.request("t")
    assert not any(map(is_read, table.source.quiet()))
    assert "the server does not say which transactions a snapshot has: enable GTIDs (gtid_mode=ON)" in caplog.text


def test_chunks_wait_for_streamed_transactions_that_are_not_visible_yet(table: SignaledSource) -> None:
    """With semi-synchronous replication, the stream has a commit before other sessions see it."""
    settings = {"enabled": "ON", "wait_point": "AFTER_SYNC", "timeout": "600000"}
    table.start(read_only="true")
    replayed = ReplayedTopic("t")

    def update() -> None:
        table.execute("UPDATE t SET name = 'newer' WHERE id = 5")

    thread = threading.Thread(target=update)
    before = dict(table.execute("SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync_master_%'"))
    try:
        for name, value in settings.items():
            table.execute(f"SET GLOBAL rpl_semi_sync_master_{name} = {value}")
        thread.start()
        replayed.apply(table.source.read_before_failure(1))
        table.task.signal("1", "execute-snapshot", json.dumps(table.request_data("t")))
        replayed.apply(table.source.quiet())
        assert replayed.operations == ["u"]
        assert table.execute("SELECT name FROM t WHERE id = 5") == [("old",)]
    finally:
        for name in settings:
            table.execute(f"SET GLOBAL rpl_semi_sync_master_{name} = {before[f'rpl_semi_sync_master_{name}']}")
        thread.join()
    table.until_read(replayed)
    assert len(replayed.rows) == 3000
    assert replayed.rows[(5,)]["name"] == "newer"


@pytest.mark.parametrize(("mode", "read"), [("created", []), ("all", [1, 2])])
def test_tables_that_the_configuration_captures_later_are_backfilled_if_asked_for(
    table: SignaledSource, mode: str, read: list[int]
) -> None:
    table.execute("CREATE TABLE n (id INT PRIMARY KEY)")
    table.execute("INSERT INTO n VALUES (1), (2)")
    table.start(table_include_list=f"{table.database}.t", backfill_new_tables=mode)
    table.execute("INSERT INTO t VALUES (-1, 'x')")
    table.source.store(table.source.read(1)[-1])
    table.source.config["table.include.list"] = f"{table.database}.[tn]"
    for _ in range(2):  # the first time, nothing of it is stored
        table.restart()
        found = table.source.quiet()
        assert [record.value["after"]["id"] for record in found if is_read(record)] == read
    table.execute("INSERT INTO t VALUES (-2, 'x')")
    table.source.store(table.source.read(1)[-1])
    table.restart()
    assert table.source.quiet() == []


def test_chunks_are_not_read_from_another_server_than_the_stream(table: SignaledSource) -> None:
    table.start(read_only="true")
    replayed = ReplayedTopic("t")
    with pytest.MonkeyPatch.context() as patch:
        # A load balancer leads the next connection to another server.
        other = ServerInfo("11.4.5-MariaDB", (11, 4, 5), True, {"server_uid": "another", "server_id": "2"})
        patch.setattr("connectors.mysql.incremental.chunks.read_server", lambda connection: other)
        table.task.signal("1", "execute-snapshot", json.dumps(table.request_data("t")))
        assert not any(map(is_read, table.source.quiet()))
        assert "incremental_snapshot" in table.task.progress()
    table.until_read(replayed, started=True)
    assert len(replayed.rows) == 3000
