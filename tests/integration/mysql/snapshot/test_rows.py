"""Snapshots of a real MariaDB: rows, their markers, and their order."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConfigError
from connect.record import ErrantSourceRecord
from connectors.cdc.errors import TablesChangedError
from connectors.mysql.offsets import parse_offset
from connectors.mysql.snapshot import row_stream
from tests.integration.mysql.snapshot.rig import SnapshotSource, is_row, markers, replay, table_of, values_of


def test_rows_are_events_with_debeziums_markers(source: SnapshotSource) -> None:
    source.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE empty (id INT PRIMARY KEY)",
        "INSERT INTO a VALUES (1, 'x'), (2, NULL), (3, 'é\"\\\\\\t')",
        "INSERT INTO b VALUES (1, 'y')",
        "INSERT INTO c VALUES (1, 'y'), (2, '𝄞'), (3, '')",
    )
    attempt = source.attempt()
    attempt.snapshot.start()
    records = attempt.read_all()
    assert [(table_of(r), r.value["after"]["id"], r.value["source"]["snapshot"]) for r in records] == [
        ("a", 1, "first"),
        ("a", 2, "true"),
        ("a", 3, "last_in_data_collection"),
        ("b", 1, "last_in_data_collection"),
        ("c", 1, "first_in_data_collection"),
        ("c", 2, "true"),
        ("c", 3, "last"),
    ]
    assert [r.value["after"]["v"] for r in records] == ["x", None, 'é"\\\t', "y", "y", "𝄞", ""]
    first = records[0]
    assert first.topic == f"shop.{source.database}.a"
    assert (first.value["op"], first.value["before"], first.key["id"]) == ("r", None, 1)
    block = first.value["source"]
    position = attempt.snapshot.position
    assert (block["connector"], block["name"], block["db"], block["table"]) == ("mariadb", "shop", source.database, "a")
    assert (block["file"], block["pos"], block["row"], block["server_id"], block["gtid"]) == (
        position.file, position.position, 0, 0, None,
    )  # fmt: skip
    stored = [parse_offset(r.source_offset or {}) for r in records]
    assert [offset.snapshot_completed for offset in stored] == [False] * 6 + [True]
    assert {offset.position for offset in stored} == {position}
    assert attempt.snapshot.progress()["tables_done"] == 4


def test_last_row_of_one_table_and_only_row(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (7)")
    (record,) = source.take()
    assert (record.value["source"]["snapshot"], record.value["after"]["id"]) == ("last", 7)
    assert parse_offset(record.source_offset or {}).snapshot_completed


def test_empty_database_has_no_rows(source: SnapshotSource, caplog: pytest.LogCaptureFixture) -> None:
    attempt = source.attempt()
    attempt.snapshot.start()
    assert attempt.read_all() == []
    assert attempt.snapshot.position.gtids
    assert "no table" in caplog.text


def test_tables_without_rows_complete_the_snapshot(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT)")
    assert source.take() == []


def test_tables_without_a_key_are_read(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT, v VARCHAR(5))", "INSERT INTO a SELECT seq, 'v' FROM seq_1_to_5000")
    records = source.take()
    assert sorted(values_of(records, "a")) == list(range(1, 5001))
    assert all(record.key is None for record in records)
    assert markers(records) == [("a", "first"), ("a", "last")]


def test_batches_are_records_only_when_somebody_looks(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT PRIMARY KEY, v TEXT)", "INSERT INTO a SELECT seq, seq FROM seq_1_to_7000")
    records = source.take()
    assert values_of(records, "a") == list(range(1, 7001))
    assert replay(records, "a") == source.rows("a")


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_blocks_of_any_size_have_all_rows(source: SnapshotSource, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "BATCH_ROWS", rows)
    source.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a SELECT seq FROM seq_1_to_50")
    assert values_of(source.take(), "a") == list(range(1, 51))


def test_large_values_are_read(source: SnapshotSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than a block, and of more than a packet of the protocol."""
    source.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v LONGTEXT)",
        "INSERT INTO a VALUES (1, REPEAT('a', 300000)), (2, 'b'), (3, REPEAT('c', 17000000)), (5, 'e')",
        "INSERT INTO a VALUES (4, REPEAT('d', 16777200))",
    )
    monkeypatch.setattr(row_stream, "BATCH_BYTES", 1 << 20)
    found = [record.value["after"]["v"] for record in source.take()]
    assert [(text[0], len(text)) for text in found] == [("a", 300000), ("b", 1), ("c", 17000000), ("d", 16777200), ("e", 1)]


def test_only_included_tables_are_read(source: SnapshotSource) -> None:
    for name in "abc":
        source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    records = source.take(snapshot_include_collection_list=rf"{source.database}\.(a|c)")
    assert markers(records) == [("a", "first"), ("c", "last")]


def test_order_of_tables_by_rows(source: SnapshotSource) -> None:
    for name, count in (("a", 20), ("b", 3000), ("c", 400)):
        source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} SELECT seq FROM seq_1_to_{count}")
        source.execute(f"ANALYZE TABLE {name}")
    source.config["snapshot.tables.order.by.row.count"] = "descending"
    records = source.take()
    assert list(dict.fromkeys(map(table_of, records))) == ["b", "c", "a"]


def test_overrides_select_rows(source: SnapshotSource) -> None:
    table = f"{source.database}.a"
    source.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a SELECT seq, seq % 3 FROM seq_1_to_9")
    source.config |= {
        "snapshot.select.statement.overrides": table,
        f"snapshot.select.statement.overrides.{table}": f"SELECT * FROM {table} WHERE v = 1;",
    }
    assert values_of(source.take(), "a") == [1, 4, 7]


def test_columns_are_filtered_masked_and_converted(source: SnapshotSource) -> None:
    source.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, hidden INT, secret VARCHAR(20), n DECIMAL(10,2), t DATETIME(3), b BINARY(3), "
        "f FLOAT, latin VARCHAR(10) CHARACTER SET latin1, bit BIT(10))",
        "INSERT INTO a VALUES (1, 2, 'x', 1.5, '2024-01-02 03:04:05.678', 'a', 0.1, 'é', 514), (2, NULL, NULL, NULL, NULL, "
        "NULL, NULL, NULL, NULL)",
    )
    table = rf"{source.database}\.a"
    source.config |= {"column.exclude.list": rf"{table}\.hidden", "column.mask.with.5.chars": rf"{table}\.secret"}
    first, second = (record.value["after"].as_dict() for record in source.take())
    assert str(first.pop("n")) == "1.50"
    assert first == {
        "id": 1, "secret": "*****", "t": 1704164645678, "b": b"a\0\0", "f": 0.10000000149011612, "latin": "é", "bit": b"\x02\x02",
    }  # fmt: skip
    assert second == {"id": 2, "secret": "*****", "n": None, "t": None, "b": None, "f": None, "latin": None, "bit": None}


def test_rows_that_cannot_be_converted_are_reported_one_by_one(source: SnapshotSource) -> None:
    source.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v BIGINT UNSIGNED)",
        "INSERT INTO a VALUES (1, 1), (2, 18446744073709551615), (3, 3), (4, 4)",
    )
    records = source.take()
    assert [isinstance(record, ErrantSourceRecord) for record in records] == [False, True, False, False]
    errant = records[1]
    assert isinstance(errant, ErrantSourceRecord)
    assert "the key (id=2) cannot be converted: column v: 18446744073709551615" in errant.error.message
    assert errant.texts["row"] == {"id": "2", "v": "18446744073709551615"}


def test_views_and_sequences_are_no_tables(source: SnapshotSource) -> None:
    source.execute(
        "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", "CREATE VIEW w AS SELECT * FROM a", "CREATE SEQUENCE s"
    )
    assert markers(source.take()) == [("a", "last")]


def test_tables_with_system_versioning_have_their_current_rows(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING", "INSERT INTO a VALUES (1, 1), (2, 1)")
    source.execute("UPDATE a SET v = 2", "DELETE FROM a WHERE id = 1")
    assert replay(source.take(), "a") == [("2", "2")]


def test_user_without_select_is_told_what_to_grant(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    user = f"u_{source.database}"
    source.execute(f"CREATE USER {user} IDENTIFIED BY 'pw'", f"GRANT INSERT ON {source.database}.* TO {user}")
    try:
        attempt = source.attempt(database_user=user, database_password="pw")
        with pytest.raises(ConfigError, match="GRANT SELECT"):
            attempt.snapshot.start()
    finally:
        source.execute(f"DROP USER {user}")


@pytest.mark.parametrize(
    ("statement", "later"),
    [
        ("DROP TABLE b", ["a"]),
        ("TRUNCATE TABLE b", ["a"]),
        ("RENAME TABLE b TO d", ["a", "d"]),
        ("ALTER TABLE b DROP COLUMN v", ["a", "b"]),
        ("ALTER TABLE b ENGINE = InnoDB", ["a", "b"]),
    ],
)
def test_tables_changed_before_they_are_read_need_a_new_snapshot(
    source: SnapshotSource, statement: str, later: list[str]
) -> None:
    for name in "ab":
        source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1)")
    attempt = source.attempt()
    attempt.snapshot.start()
    source.execute(statement)
    with pytest.raises(TablesChangedError, match="changed after the snapshot began"):
        attempt.read_all()
    attempt.snapshot.close()
    assert list(map(table_of, source.take())) == later


def test_progress_counts_rows(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a SELECT seq FROM seq_1_to_9000")
    attempt = source.attempt()
    attempt.snapshot.start()
    attempt.read_some(3000)
    numbers: dict[str, Any] = dict(attempt.snapshot.progress())
    assert (numbers["tables_total"], numbers["table"]) == (1, f"{source.database}.a")
    assert 3000 <= numbers["rows"] < 9000
    assert numbers["bytes"] > 3000
    attempt.snapshot.close()
    assert [step.kind.value for step in attempt.snapshot.take_steps()] == ["STARTED", "IN_PROGRESS", "ABORTED"]


def test_rows_come_first_for_every_reader(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    assert all(is_row(record) for record in source.take())
