"""Snapshot and stream: what becomes of each statement."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from connectors.sqlite.streaming.reader import ChangeTableReader
from tests.integration.sqlite.conftest import SqliteCase, events, sources
from tests.support.replayed_events import plain

ITEMS = "CREATE TABLE items(id INTEGER PRIMARY KEY, name TEXT UNIQUE, qty INT)"


def item(id: int, name: str, qty: int | None) -> dict[str, object]:
    return {"id": id, "name": name, "qty": qty}


def test_snapshot_and_stream_have_debeziums_envelope(case: SqliteCase) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5), (2, 'b', NULL)")
    case.start()
    records = case.read_all()
    assert events(records) == [("r", None, item(1, "a", 5)), ("r", None, item(2, "b", None))]
    assert [source["snapshot"] for source in sources(records)] == ["first", "last"]
    assert records[0].topic == "shop.main.items"
    assert plain(records[0].key) == {"id": 1}
    case.run("INSERT INTO items VALUES (3, 'c', 1)", "UPDATE items SET qty = 7 WHERE id = 3", "DELETE FROM items WHERE id = 3")
    records = case.read_all()
    assert events(records) == [
        ("c", None, item(3, "c", 1)),
        ("u", item(3, "c", 1), item(3, "c", 7)),
        ("d", item(3, "c", 7), None),
    ]
    assert records[-1].value is None
    assert plain(records[-1].key) == {"id": 3}
    source = sources(records)[0]
    assert (source["connector"], source["db"], source["schema"], source["table"]) == ("sqlite", "shop", "main", "items")
    assert [s["seq"] for s in sources(records)] == [2, 3, 4]
    assert source["sequence"] == '["1","2"]'
    headers = {h.key for h in records[0].headers or ()}
    assert "__debezium.context.connectorLogicalName" in headers


def test_replace_of_the_same_key_is_an_update(case: SqliteCase) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")
    case.start()
    case.read_all()
    case.run("REPLACE INTO items VALUES (1, 'a', 6)")
    assert case.events() == [("u", item(1, "a", 5), item(1, "a", 6))]


def test_an_update_is_not_skipped_if_a_mask_hides_the_change_of_its_key(case: SqliteCase) -> None:
    case.config |= {"skip.messages.without.change": "true", "column.mask.with.3.chars": "main.t.id"}
    case.run("CREATE TABLE t(id TEXT PRIMARY KEY NOT NULL, n INT)", "INSERT INTO t VALUES ('a', 1), ('b', 1)")
    case.start()
    case.read_all()
    case.run("UPDATE t SET id = 'ax' WHERE id = 'a'", "UPDATE t SET n = 1", "DELETE FROM t WHERE id = 'b'")
    records = [record for record in case.read_all() if record.value is not None]
    assert [plain(record.key)["id"] for record in records] == ["a", "ax", "b"]
    masked = {"id": "***", "n": 1}
    assert events(records) == [("d", masked, None), ("c", None, masked), ("d", masked, None)]


@pytest.mark.parametrize("recursive", [False, True])
def test_replace_deletes_rows_with_other_keys(case: SqliteCase, recursive: bool) -> None:
    """Without recursive_triggers, SQLite fires no trigger for the rows that REPLACE deletes."""
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5), (2, 'b', 6)", f"PRAGMA recursive_triggers = {recursive}")
    case.start()
    case.read_all()
    case.run("INSERT OR REPLACE INTO items VALUES (2, 'a', 7)", "UPDATE OR REPLACE items SET name = 'a' WHERE id = 2")
    found = case.events()
    rows = {1: item(1, "a", 5), 2: item(2, "b", 6)}
    for op, before, after in found:
        if op in "d":
            assert rows.pop(before["id"]) == before
        else:
            rows[after["id"]] = after
    assert rows == {2: item(2, "a", 7)}
    assert ("d", item(1, "a", 5), None) in found


def test_update_or_replace_deletes_the_row_in_the_way(case: SqliteCase) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5), (2, 'b', 6)")
    case.start()
    case.read_all()
    case.run("UPDATE OR REPLACE items SET name = 'a' WHERE id = 2")
    assert case.events() == [("d", item(1, "a", 5), None), ("u", item(2, "b", 6), item(2, "a", 6))]


def test_rows_that_are_ignored_or_updated_in_place_delete_nothing(case: SqliteCase) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")
    case.start()
    case.read_all()
    case.run(
        "INSERT OR IGNORE INTO items VALUES (2, 'a', 0)",
        "INSERT INTO items VALUES (3, 'a', 1) ON CONFLICT(name) DO UPDATE SET qty = excluded.qty",
        "INSERT INTO items VALUES (4, 'd', 1)",
    )
    assert case.events() == [("u", item(1, "a", 5), item(1, "a", 1)), ("c", None, item(4, "d", 1))]


def test_ignored_rows_leave_no_candidates_for_later_statements(case: SqliteCase) -> None:
    """VACUUM gives rows other rowids, so that a new row has that of an old candidate."""
    case.run("CREATE TABLE notes(body TEXT)", "INSERT INTO notes VALUES ('a'), ('b'), ('c')")
    case.start(message_key_columns="main.notes:body")
    case.read_all()
    case.run("INSERT OR IGNORE INTO notes(rowid, body) VALUES (3, 'x')")
    case.wait_for_clock()
    case.run("DELETE FROM notes WHERE body = 'a'", "VACUUM", "INSERT INTO notes VALUES ('d')")
    assert [(op, (before or after)["body"]) for op, before, after in case.events()] == [("d", "a"), ("c", "d")]


@pytest.mark.long
def test_cascade_between_a_candidate_and_its_row_may_be_long(case: SqliteCase) -> None:
    case.run(
        "PRAGMA foreign_keys = ON",
        "CREATE TABLE parents(id INTEGER PRIMARY KEY, name TEXT UNIQUE)",
        "CREATE TABLE children(id INTEGER PRIMARY KEY, parent INT REFERENCES parents ON DELETE CASCADE)",
        "INSERT INTO parents VALUES (1, 'a')",
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 4000) INSERT INTO children SELECT i, 1 FROM c",
    )
    case.start(max_batch_size="100")
    case.read_all()
    case.run("INSERT OR REPLACE INTO parents VALUES (2, 'a')")
    records = case.poll_until(lambda found: len(found) >= 7000)  # with a tombstone for each
    case.commit()
    case.restart()
    found = [event for event in events(records) + case.events() if "name" in (event[1] or event[2])]
    assert found == [("d", {"id": 1, "name": "a"}, None), ("c", None, {"id": 2, "name": "a"})]


def test_candidate_is_remembered_across_a_restart(case: SqliteCase) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)", "CREATE TABLE log(id INTEGER PRIMARY KEY)")
    # Between the candidate and its insert, a trigger of the user changes another table.
    case.run("CREATE TRIGGER note BEFORE INSERT ON items BEGIN INSERT INTO log VALUES (NULL); END")
    case.start()
    case.read_all()
    case.run("DROP TRIGGER note", "CREATE TRIGGER note BEFORE INSERT ON items BEGIN INSERT INTO log VALUES (NULL); END")
    case.read_all()
    case.run("INSERT OR REPLACE INTO items VALUES (2, 'a', 7)")
    records = case.read_all()
    assert events(records) == [
        ("c", None, {"id": 1}), ("d", item(1, "a", 5), None), ("c", None, item(2, "a", 7))
    ]  # fmt: skip
    case.offsets.store(records[0].source_partition or {}, records[0].source_offset or {})
    case.restart()
    assert case.events() == [("d", item(1, "a", 5), None), ("c", None, item(2, "a", 7))]


def test_change_of_the_key_deletes_and_creates(case: SqliteCase) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")
    case.start()
    case.read_all()
    case.run("UPDATE items SET id = 9")
    records = case.read_all()
    assert events(records) == [("d", item(1, "a", 5), None), ("c", None, item(9, "a", 5))]
    assert [plain(r.key) for r in records] == [{"id": 1}, {"id": 1}, {"id": 9}]
    (new,) = [h for h in records[0].headers or () if h.key == "__debezium.newkey"]
    (old,) = [h for h in records[2].headers or () if h.key == "__debezium.oldkey"]
    assert (plain(new.value), plain(old.value)) == ({"id": 9}, {"id": 1})


def test_table_without_rowid_and_generated_columns(case: SqliteCase) -> None:
    case.run(
        "CREATE TABLE parts(region TEXT COLLATE NOCASE, no INT, price REAL, gross REAL AS (price * 2) VIRTUAL, "
        "cents INT AS (price * 100) STORED, PRIMARY KEY (region, no)) WITHOUT ROWID",
        "INSERT INTO parts VALUES ('eu', 1, 1.5)",
    )
    case.start()
    first = {"region": "eu", "no": 1, "price": 1.5, "gross": 3.0, "cents": 150}
    assert case.events() == [("r", None, first)]
    case.run("UPDATE parts SET price = 2", "INSERT OR REPLACE INTO parts VALUES ('EU', 1, 3)")
    second = {"region": "eu", "no": 1, "price": 2.0, "gross": 4.0, "cents": 200}
    third = {"region": "EU", "no": 1, "price": 3.0, "gross": 6.0, "cents": 300}
    assert case.events() == [("u", first, second), ("d", second, None), ("c", None, third)]


def test_table_without_a_key_has_no_record_key(case: SqliteCase) -> None:
    case.run("CREATE TABLE notes(body TEXT)", "INSERT INTO notes VALUES ('a')")
    case.start()
    records = case.read_all()
    case.run("UPDATE notes SET body = 'b'", "DELETE FROM notes")
    records += case.read_all()
    a, b = {"body": "a"}, {"body": "b"}
    assert events(records) == [("r", None, a), ("u", a, b), ("d", b, None)]
    assert {(r.key_schema, r.key) for r in records} == {(None, None)}


def test_rowid_can_be_the_record_key(case: SqliteCase) -> None:
    case.run("CREATE TABLE notes(body TEXT)", "INSERT INTO notes VALUES ('a')")
    case.start(message_key_columns="main.notes:rowid")
    records = case.read_all()
    case.run("DELETE FROM notes")
    records += case.read_all()
    row = {"body": "a", "rowid": 1}
    assert events(records) == [("r", None, row), ("d", row, None)]
    assert [plain(r.key) for r in records] == [{"rowid": 1}] * 3


def test_cascades_and_deletes_of_all_rows_are_captured(case: SqliteCase) -> None:
    case.run(
        "PRAGMA foreign_keys = ON",
        "CREATE TABLE parents(id INTEGER PRIMARY KEY)",
        "CREATE TABLE children(id INTEGER PRIMARY KEY, parent INT REFERENCES parents ON DELETE CASCADE)",
        "INSERT INTO parents VALUES (1), (2)",
        "INSERT INTO children VALUES (7, 1)",
    )
    case.start()
    case.read_all()
    case.run("DELETE FROM parents")
    assert sorted(e[1]["id"] for e in case.events()) == [1, 2, 7]


def test_rolled_back_changes_are_not_emitted(case: SqliteCase) -> None:
    case.run(ITEMS)
    case.start()
    case.read_all()
    case.run("BEGIN", "INSERT INTO items VALUES (1, 'a', 5)", "ROLLBACK", "INSERT INTO items VALUES (2, 'b', 5)")
    assert case.events() == [("c", None, item(2, "b", 5))]


def test_trigger_that_changes_the_row_again_leaves_the_last_state_last(case: SqliteCase) -> None:
    """Triggers fire in the reverse order of their creation, so the connector's must be the newest."""
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")
    case.start()
    case.read_all()
    case.run(
        "CREATE TRIGGER double AFTER UPDATE ON items BEGIN UPDATE items SET qty = NEW.qty * 2 WHERE id = NEW.id; END",
        "UPDATE items SET qty = 10",
    )
    assert case.events()[-1][2] == item(1, "a", 20)
    case.run("UPDATE items SET qty = 30")
    assert case.events() == [
        ("u", item(1, "a", 20), item(1, "a", 30)), ("u", item(1, "a", 30), item(1, "a", 60))
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_all_journal_modes(case: SqliteCase, mode: str) -> None:
    case.run(f"PRAGMA journal_mode={mode}", ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")
    case.start()
    assert len(case.read_all()) == 1
    case.run("INSERT INTO items VALUES (2, 'b', 5)")
    assert case.events() == [("c", None, item(2, "b", 5))]
    case.commit()


def test_changes_are_deleted_only_after_their_offset_is_stored(case: SqliteCase) -> None:
    case.run(ITEMS)
    case.start()
    case.read_all()
    case.run("BEGIN", *(f"INSERT INTO items VALUES ({i}, 'n{i}', 0)" for i in range(2500)), "COMMIT")
    records = case.read_all()
    assert len(records) == 2500
    assert len(case.table("_sluice_changes")) == 2501
    case.commit()
    left = case.table("_sluice_changes")
    assert left[-1][0] == 2501
    assert len(left) == 1001
    case.restart()
    assert case.events() == []
    case.run("DELETE FROM items WHERE id = 5")
    assert [op for op, _, _ in case.events()] == ["d"]


@pytest.mark.long
def test_deletion_keeps_up_in_short_transactions_and_does_not_wait_for_writers(case: SqliteCase) -> None:
    case.run("CREATE TABLE n(i INTEGER PRIMARY KEY)")
    # Whoever waits for the lock that long hangs.
    case.start(database_busy_timeout_ms="3600000")
    case.read_all()
    case.run("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 60000) INSERT INTO n SELECT i FROM c")
    case.read_all()
    assert case.harness is not None

    def left() -> int:
        return int(case.writer.execute("SELECT count(*) FROM _sluice_changes").fetchone()[0])

    case.run("BEGIN IMMEDIATE")
    case.commit()
    case.harness.poll()
    assert left() == 60_001
    case.run("ROLLBACK")
    counts = [left()]
    for _ in range(40):
        case.harness.poll()
        counts.append(left())
    assert counts[-1] == 1_001
    deleted = [before - after for before, after in itertools.pairwise(counts)]
    # More than a read returns, without one long transaction.
    assert 2048 < max(deleted) < 20_000


def test_idle_poll_reads_the_change_table_once(case: SqliteCase, monkeypatch: pytest.MonkeyPatch) -> None:
    case.run(ITEMS)
    harness = case.start()
    case.read_all()
    reads: list[int] = []
    read = ChangeTableReader.read

    def count(*args: Any) -> Any:
        reads.append(args[2].sequence)
        return read(*args)

    monkeypatch.setattr(ChangeTableReader, "read", count)
    assert harness.poll() == []
    assert reads == [1]
    case.run("INSERT INTO items VALUES (1, 'a', 5)")
    assert len(case.poll_until(bool)) == 1


def test_restart_at_any_record_continues_with_the_next_one(case: SqliteCase) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")
    case.start()
    case.read_all()
    case.commit()
    case.run(
        "INSERT INTO items VALUES (2, 'b', 1)", "UPDATE items SET id = 3 WHERE id = 2",
        "INSERT OR REPLACE INTO items VALUES (4, 'a', 1)", "DELETE FROM items", "INSERT INTO items VALUES (5, 'e', 1)",
    )  # fmt: skip
    records = case.read_all()
    for cut, record in enumerate(records):
        case.stop()
        case.offsets.store(record.source_partition or {}, record.source_offset or {})
        case.start()
        again = case.read_all()
        # A change of several records is read again as a whole.
        assert len(again) >= len(records) - cut - 1
        assert [(plain(r.key), r.source_offset) for r in again] == [
            (plain(r.key), r.source_offset) for r in records[len(records) - len(again) :]
        ]
        whole = [r for r in records[cut + 1 :] if r.source_offset != record.source_offset]
        assert len(again) >= len(whole)
