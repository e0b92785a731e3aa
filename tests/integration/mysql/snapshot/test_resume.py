"""Snapshots that are interrupted: what was completed is not read again, and the topics still equal the tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from connect.record import SourceRecord
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import StoredBinlogOffset, parse_offset
from connectors.mysql.server import ServerInfo, read_server
from connectors.mysql.snapshot import row_stream, table_plan
from tests.integration.mysql.snapshot import rig
from tests.integration.mysql.snapshot.rig import SnapshotSource, SourceAttempt, is_row, markers, replay, values_of
from tests.support import randomness
from tests.support.cases import first_fast

KEYS = {
    "BIGINT": "CAST(seq AS SIGNED) - 500",
    "BIGINT UNSIGNED": "seq",
    "INT(8) ZEROFILL": "seq",
    "DECIMAL(12,3)": "seq / 7 - 20",
    "DOUBLE": "seq / 3e0 - 50",
    "FLOAT": "seq / 3e0 - 50",
    "VARCHAR(20) CHARACTER SET utf8mb4": "CONCAT('k''\\\\', CHAR(9), seq, CHAR(10), 'é𝄞')",
    "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin": "CONCAT(IF(seq % 2, 'A', 'a'), seq)",
    "VARCHAR(20) CHARACTER SET utf8mb3": "CONCAT('é', seq)",
    "VARCHAR(20) CHARACTER SET latin1": "CONCAT('é', seq)",
    "CHAR(12) CHARACTER SET cp1251": "CONCAT('ж', seq)",
    "VARCHAR(20) CHARACTER SET ucs2": "CONCAT('é', seq)",
    "VARCHAR(20) CHARACTER SET binary": "CONCAT('é', seq)",
    "VARBINARY(16)": "UNHEX(MD5(seq))",
    "BINARY(16)": "CONCAT(seq, CHAR(0), 'x')",
    "DATE": "DATE '1000-01-01' + INTERVAL seq DAY",
    "DATETIME(6)": "TIMESTAMP '1999-12-31 23:59:59' + INTERVAL seq * 1001 MICROSECOND",
    "TIMESTAMP(3)": "TIMESTAMP '2001-12-31 23:59:59' + INTERVAL seq * 1001000 MICROSECOND",
    "TIME(2)": "SEC_TO_TIME(seq * 100.01 - 30000)",
    "YEAR": "1901 + seq % 100",
    "BIT(20)": "seq",
    "ENUM('z', 'it''s', 'a\\\\b')": "1 + seq % 3",
    "SET('z', 'y', 'x')": "seq % 8",
    "BOOLEAN": "seq % 2",
    "UUID": "CONCAT(LPAD(HEX(seq * 7919 % 65536), 8, '0'), '-0000-1000-8000-', LPAD(HEX(seq), 12, '0'))",
    "INET4": "INET_NTOA(167772160 + seq)",
    "INET6": "CONCAT('2001:db8::', HEX(seq))",
}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "BATCH_ROWS", 100)
    monkeypatch.setattr(table_plan, "MIN_PARALLEL_BYTES", 16 << 10)


def stored(records: list[SourceRecord]) -> StoredBinlogOffset:
    """What the worker has stored after these records."""
    return parse_offset(records[-1].source_offset or {})


def resume(source: SnapshotSource, offset: StoredBinlogOffset) -> tuple[SourceAttempt, list[SourceRecord]]:
    """A new task: it streams from the stored position to that of a new snapshot, and may then read the rest."""
    attempt = source.attempt()
    attempt.structures.recover(offset.extras)
    attempt.snapshot.start(offset.snapshot_state, records_structure=False)
    return attempt, attempt.stream(offset.position, attempt.snapshot.position)


def test_only_missing_rows_are_read_after_an_interruption(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t SELECT seq, seq FROM seq_1_to_1000")
    attempt = source.attempt()
    attempt.snapshot.start()
    records = attempt.read_some(300)
    done = len(records)
    attempt.close()
    source.execute(
        "UPDATE t SET v = 'early' WHERE id IN (1, 2)",
        "UPDATE t SET v = 'late' WHERE id IN (999, 1000)",
        "DELETE FROM t WHERE id IN (3, 998)",
        "INSERT INTO t VALUES (-1, 'new'), (2000, 'new')",
        "UPDATE t SET id = id + 5000 WHERE id IN (5, 6)",
        "UPDATE t SET id = id - 5000 WHERE id = 990",
    )
    again, between = resume(source, stored(records))
    rest = again.read_all()
    assert replay(records + between + rest, "t") == source.rows("t")
    assert not set(values_of(records, "t")) & set(values_of(rest, "t"))
    assert len(values_of(rest, "t")) == 1000 - done - 2 + 3  # deleted, moved away, moved here, and inserted
    assert markers(records + rest) == [("t", "first"), ("t", "last")]
    assert stored(rest).snapshot_completed
    assert stored(rest).snapshot_state is None


def test_completed_tables_are_not_read_again(source: SnapshotSource) -> None:
    for name in "abcd":
        source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} SELECT seq FROM seq_1_to_50")
    source.execute("CREATE TABLE nokey (id INT)", "INSERT INTO nokey SELECT seq FROM seq_1_to_150")
    attempt = source.attempt()
    attempt.snapshot.start()
    records: list[SourceRecord] = []
    while not values_of(records, "c"):
        records += attempt.read_some(1)
    attempt.close()
    again, between = resume(source, stored(records))
    rest = again.read_all()
    assert between == []
    assert [len(values_of(rest, name)) for name in "abd"] == [0, 0, 50]
    assert sorted(values_of(records + rest, "c")) == list(range(1, 51))
    assert len(values_of(rest, "nokey")) == 150
    assert markers(rest)[-1] == ("nokey", "last")


def test_tables_without_a_key_start_over(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE nokey (id INT, v INT)", "INSERT INTO nokey SELECT seq, 1 FROM seq_1_to_500")
    attempt = source.attempt()
    attempt.snapshot.start()
    records = attempt.read_some(250)
    attempt.close()
    again, _ = resume(source, stored(records))
    assert len(values_of(again.read_all(), "nokey")) == 500


@pytest.mark.parametrize("type_", first_fast(KEYS, 3))
def test_keys_of_many_types_are_resumed_and_split(source: SnapshotSource, type_: str) -> None:
    """With a second column, which makes keys unique."""
    source.execute(
        f"CREATE TABLE t (k {type_}, id INT, v VARCHAR(80), PRIMARY KEY (k, id))",
        f"INSERT INTO t SELECT {KEYS[type_]}, seq, REPEAT('x', 80) FROM seq_1_to_1000",
        "ANALYZE TABLE t",
    )
    attempt = source.attempt(snapshot_max_threads="2")
    attempt.snapshot.start()
    records = attempt.read_some(350)
    attempt.close()
    source.execute("UPDATE t SET v = 'changed' WHERE id % 10 = 0", "DELETE FROM t WHERE id % 50 = 7")
    again, between = resume(source, stored(records))
    rest = again.read_all()
    assert Counter(values_of(records, "t")) & Counter(values_of(rest, "t")) == Counter()
    assert len(values_of(records, "t")) + len(values_of(rest, "t")) < 1010
    assert replay(records + between + rest, "t") == source.rows("t")


def test_case_insensitive_keys_are_read_once(source: SnapshotSource) -> None:
    source.execute(
        "CREATE TABLE t (id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT CONCAT(IF(seq % 2, 'É', 'e'), IF(seq % 3, 'b', 'B'), seq), seq FROM seq_1_to_600",
    )
    attempt = source.attempt(snapshot_max_threads="2")
    attempt.snapshot.start()
    records = attempt.read_some(250)
    attempt.close()
    again, _ = resume(source, stored(records))
    rest = again.read_all()
    assert Counter(values_of(records + rest, "t")) == Counter(str(name) for (name,) in source.sql.query("SELECT id FROM t"))


def test_tables_that_were_altered_are_read_again(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 1 FROM seq_1_to_500")
    attempt = source.attempt()
    attempt.snapshot.start()
    records = attempt.read_some(250)
    attempt.close()
    source.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 5", "UPDATE t SET w = 6 WHERE id = 1")
    again, between = resume(source, stored(records))
    rest = again.read_all()
    assert len(values_of(rest, "t")) == 500
    assert replay(records + between + rest, "t", "id", "v", "w") == source.rows("t", "id, v, w")


@pytest.mark.parametrize(
    "change",
    [
        "MODIFY name VARCHAR(9) COLLATE utf8mb4_bin NOT NULL",
        "MODIFY name VARCHAR(9) CHARACTER SET latin1 NOT NULL",
        "CONVERT TO CHARACTER SET latin1",
        "MODIFY kind ENUM('b', 'a') NOT NULL",
    ],
)
def test_tables_whose_key_has_another_order_are_read_again(source: SnapshotSource, change: str) -> None:
    source.execute(
        "CREATE TABLE t (name VARCHAR(9), kind ENUM('a', 'b'), id INT, PRIMARY KEY (name, kind)) COLLATE utf8mb4_general_ci",
        "INSERT INTO t SELECT CONCAT(CHAR(65 + seq % 26 + seq % 2 * 32 USING latin1), seq), 1 + seq % 2, seq FROM seq_1_to_500",
    )
    attempt = source.attempt()
    attempt.snapshot.start()
    records = attempt.read_some(250)
    attempt.close()
    source.execute(f"ALTER TABLE t {change}")
    again, _ = resume(source, stored(records))
    assert len(values_of(again.read_all(), "t")) == 500


def test_tables_created_and_dropped_meanwhile(source: SnapshotSource) -> None:
    for name in "ab":
        source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} SELECT seq FROM seq_1_to_300")
    attempt = source.attempt()
    attempt.snapshot.start()
    records = attempt.read_some(150)
    attempt.close()
    source.execute("DROP TABLE b", "CREATE TABLE c (id INT PRIMARY KEY, v INT)", "INSERT INTO c VALUES (1, 1)")
    again, between = resume(source, stored(records))
    rest = again.read_all()
    assert values_of(rest, "b") == []
    assert sorted(values_of(records + rest, "a")) == list(range(1, 301))
    assert replay(between + rest, "c") == source.rows("c")


def test_structure_that_the_history_lacks_is_stored_before_rows_are_read(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 1 FROM seq_1_to_500")
    attempt = source.attempt()
    attempt.snapshot.start()
    records = attempt.read_some(250)
    attempt.close()
    source.execute("SET sql_log_bin = 0", "ALTER TABLE t ADD COLUMN w INT", "SET sql_log_bin = 1")
    again, _ = resume(source, stored(records))
    rest = again.read_all()
    later = source.attempt()
    later.structures.recover(rest[-1].source_offset or {})
    (table,) = later.structures.tables.values()
    assert [column.name for column in table.columns] == ["id", "v", "w"]


def test_without_resumption_rows_are_read_as_they_are_stored(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 1 FROM seq_1_to_500")
    attempt = source.attempt(snapshot_resume_enabled="false")
    attempt.snapshot.start()
    records = attempt.read_some(250)
    assert stored(records).snapshot_state is None
    attempt.close()
    again, _ = resume(source, stored(records))
    assert len(values_of(again.read_all(), "t")) == 500


@pytest.mark.parametrize("number", range(3))
@pytest.mark.long
def test_random_interruptions_under_writes(source: SnapshotSource, number: int) -> None:
    chance = randomness.chance(f"interruptions-{number}")
    for name in "ab":
        source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(40))")
        source.execute(f"INSERT INTO {name} SELECT seq, 'x' FROM seq_1_to_1500", f"ANALYZE TABLE {name}")
    attempt = source.attempt(snapshot_max_threads=chance.choice("13"))
    attempt.snapshot.start()
    all_records: list[SourceRecord] = []
    while True:
        for _ in range(chance.randint(1, 6)):
            all_records += attempt.snapshot.read()
            if attempt.snapshot.done:
                break
        if attempt.snapshot.done:
            break
        offset = stored([record for record in all_records if is_row(record)]) if all_records else None
        attempt.close()
        for _ in range(chance.randint(0, 5)):
            name, key = chance.choice("ab"), chance.randint(-50, 1600)
            source.execute(
                chance.choice(
                    (
                        f"UPDATE {name} SET v = 'u{key}' WHERE id BETWEEN {key} AND {key + 20}",
                        f"DELETE FROM {name} WHERE id BETWEEN {key} AND {key + 20}",
                        f"REPLACE INTO {name} VALUES ({key}, 'r')",
                        f"UPDATE IGNORE {name} SET id = 1700 - id WHERE id = {key}",
                    )
                )
            )
        if offset is None:
            attempt = source.attempt()
            attempt.snapshot.start()
        else:
            attempt, between = resume(source, offset)
            all_records += between
    for name in "ab":
        assert replay(all_records, name) == source.rows(name)


def test_without_full_images_tables_are_read_again(source: SnapshotSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """With binlog_row_image=NOBLOB, a row that moves to a completed range is not in the stream with all its values."""

    def read_noblob(sql: MySqlConnection) -> ServerInfo:
        server = read_server(sql)
        return replace(server, variables={**server.variables, "binlog_row_image": "NOBLOB"})

    monkeypatch.setattr(rig, "read_server", read_noblob)
    source.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t SELECT seq, 1 FROM seq_1_to_500")
    attempt = source.attempt()
    attempt.snapshot.start()
    records = attempt.read_some(250)
    attempt.close()
    again, _ = resume(source, stored(records))
    assert len(values_of(again.read_all(), "t")) == 500
