"""Snapshots: modes, resuming, several transactions, and requests by signals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect.errors import BadRequestError, ConfigError
from connect.record import SourceRecord
from tests.integration.sqlite.conftest import SqliteCase, events, sources
from tests.support.cases import first_fast
from tests.support.replayed_events import plain

ITEMS = "CREATE TABLE items(id INTEGER PRIMARY KEY, n INT)"
FILL = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {n}) INSERT INTO {table} SELECT i, 0 FROM c"


def _fill(case: SqliteCase, n: int = 10_000, table: str = "items") -> None:
    case.run(ITEMS.replace("items", table), FILL.format(n=n, table=table))


def _replay(*parts: list[SourceRecord]) -> dict[int, int]:
    """The rows that the events add up to. Changes of rows that are not read yet can come before them."""
    rows: dict[int, int] = {}
    for op, before, after in (event for part in parts for event in events(part)):
        if op == "d":
            rows.pop(before["id"], None)
        else:
            rows[after["id"]] = after["n"]
    return rows


def test_markers_of_several_tables(case: SqliteCase) -> None:
    case.run(*(f"CREATE TABLE t{i}(id INTEGER PRIMARY KEY)" for i in range(4)), "INSERT INTO t0 VALUES (1), (2), (3)")
    case.run("INSERT INTO t2 VALUES (1), (2)")
    case.start()
    assert [(s["table"], s["snapshot"]) for s in sources(case.read_all())] == [
        ("t0", "first"), ("t0", "true"), ("t0", "last_in_data_collection"), ("t2", "first_in_data_collection"), ("t2", "last")
    ]  # fmt: skip


def test_snapshot_continues_after_a_restart(case: SqliteCase) -> None:
    """Rows that the stored offset covers are not read again; changes come before the rows that are read after them."""
    _fill(case)
    harness = case.start()
    records = case.poll_until(lambda found: len(found) > 4000)
    case.commit()
    case.stop()
    first = len(records)
    assert first < 10_000
    case.run(
        "UPDATE items SET n = 5 WHERE id IN (1, 9000)",
        "DELETE FROM items WHERE id IN (2, 9001)",
        "INSERT INTO items VALUES (10001, 1)",
    )
    harness = case.start()
    assert not harness.task.is_loaded()
    rest = case.read_all()
    assert harness.task.is_loaded()
    ops = [op for op, _, _ in events(rest)]
    assert ops.count("r") == 10_000 - first
    assert ops[:5] == ["u", "u", "d", "d", "c"]
    assert _replay(records, rest) == dict(case.table("items"))


@pytest.mark.parametrize("journal", first_fast(["WAL", "DELETE"]))
def test_snapshot_in_many_transactions_lets_others_write(case: SqliteCase, journal: str) -> None:
    case.run(f"PRAGMA journal_mode={journal}")
    _fill(case)
    case.start(snapshot_transaction_max_ms="1")
    found: list[SourceRecord] = []
    writer = case.connect()
    for n in range(1, 30):
        writer.execute("UPDATE items SET n = ? WHERE id % 1000 = 7", [n])
        assert case.harness is not None
        found += case.harness.poll()
    writer.close()
    found += case.read_all()
    assert _replay(found) == dict(case.table("items"))
    assert [e for e in events(found) if e[0] == "r"]


def test_rows_deleted_after_a_snapshot_without_a_stored_offset_are_deleted(case: SqliteCase) -> None:
    _fill(case, 3)
    case.start()
    records = case.read_all()
    case.stop()
    case.run("DELETE FROM items WHERE id = 2")
    case.start()
    again = case.read_all()
    assert [op for op, _, _ in events(again)] == ["d", "r", "r"]
    assert _replay(records, again) == dict(case.table("items"))


def test_order_of_rows_and_changes_is_in_the_sequence(case: SqliteCase) -> None:
    """sequence.by=source of the Spark sink orders by it: rows of a resumed snapshot are newer than the changes before them."""
    _fill(case, 5000)
    case.start()
    records = case.poll_until(lambda found: len(found) > 4000)
    case.commit()
    case.stop()
    case.run("UPDATE items SET n = 1 WHERE id = 4999")
    case.start()
    rest = case.read_all()
    assert {s["sequence"] for s in sources(records)} == {'[null,"1"]'}
    assert [s["sequence"] for s in sources(rest)][:2] == ['["1","2"]', '["2","2"]']


@pytest.mark.parametrize(
    ("mode", "first", "again"),
    [("initial", 3, 0), ("always", 3, 3), ("when_needed", 3, 0), ("no_data", 0, 0), ("never", 0, 0), ("initial_only", 3, 0)],
)
def test_modes(case: SqliteCase, mode: str, first: int, again: int) -> None:
    _fill(case, 3)
    case.start(snapshot_mode=mode)
    assert [op for op, _, _ in case.events()] == ["r"] * first
    case.commit()
    case.restart()
    assert [op for op, _, _ in case.events()] == ["r"] * again
    case.run("DELETE FROM items WHERE id = 1")
    assert [op for op, _, _ in case.events()] == ([] if mode == "initial_only" else ["d"])
    has_triggers = case.writer.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() != (0,)
    assert has_triggers == (mode != "initial_only")


def test_tables_and_rows_of_the_snapshot_can_be_chosen(case: SqliteCase) -> None:
    _fill(case, 5)
    _fill(case, 5, "others")
    _fill(case, 2, "thirds")
    case.config["snapshot.select.statement.overrides.main.items"] = "SELECT * FROM items WHERE id > 3;"
    case.start(
        snapshot_include_collection_list="main.items,main.thirds", snapshot_select_statement_overrides="main.items",
        snapshot_tables_order_by_row_count="ascending",
    )  # fmt: skip
    records = case.read_all()
    assert [(s["table"], plain(r.key)["id"]) for r in records for s in sources([r])] == [
        ("thirds", 1), ("thirds", 2), ("items", 4), ("items", 5)
    ]  # fmt: skip
    case.run("DELETE FROM others WHERE id = 1")
    assert [op for op, _, _ in case.events()] == ["d"]


def test_keys_of_all_kinds_are_in_offsets(case: SqliteCase) -> None:
    case.run("CREATE TABLE w(a, b, PRIMARY KEY (a, b)) WITHOUT ROWID")
    keys = [("x", 1), ("x", 1.5), (b"\0\xff", "y"), ("é", float("inf")), (3, b"")]
    case.writer.executemany("INSERT INTO w VALUES (?, ?)", keys)
    case.start(snapshot_mode="no_data", incremental_snapshot_chunk_size="1")
    case.read_all()
    assert case.harness is not None
    case.harness.task.signal("1", "execute-snapshot", json.dumps({"data-collections": ["main.w"]}))
    found: list[SourceRecord] = []
    while len(found) < len(keys):
        found += case.poll_until(bool)
        case.commit()
        case.restart()
    assert case.read_all() == []
    assert len(found) == len(keys)
    assert {s["snapshot"] for s in sources(found)} == {"incremental"}


@pytest.mark.parametrize(
    ("channel", "kind"),
    first_fast(
        [
            ("table", "incremental"),
            ("file", "blocking"),
            ("rest", "incremental"),
            ("table", "blocking"),
            ("file", "incremental"),
            ("rest", "blocking"),
        ],
        3,
    ),
)
def test_signal_reads_a_table_again(case: SqliteCase, tmp_path: Path, kind: str, channel: str) -> None:
    _fill(case, 3000)
    case.run("CREATE TABLE signals(id TEXT PRIMARY KEY, type TEXT, data TEXT)")
    case.start(
        signal_data_collection="main.signals", signal_enabled_channels="source,file", signal_file=str(tmp_path / "signals.txt"),
        signal_poll_interval_ms="1",
    )  # fmt: skip
    case.read_all()
    condition = [{"data-collection": "main.items", "filter": "id > 2000"}]
    data = json.dumps({"data-collections": ["main.it.*"], "type": kind, "additional-conditions": condition})
    assert case.harness is not None
    if channel == "table":
        case.writer.execute("INSERT INTO signals VALUES ('1', 'execute-snapshot', ?)", [data])
    elif channel == "file":
        (tmp_path / "signals.txt").write_text(json.dumps({"id": "1", "type": "execute-snapshot", "data": data}) + "\n")
    else:
        case.harness.task.signal("1", "execute-snapshot", data)
    found = case.poll_until(lambda records: len([r for r in records if r.topic == "shop.main.items"]) >= 1000)
    assert len([r for r in found if r.topic == "shop.main.items"]) == 1000
    marks = {s["snapshot"] for s in sources(found) if s["table"] == "items"}
    assert marks == ({"incremental"} if kind == "incremental" else {"first", "true", "last"})
    case.commit()
    assert case.events() == []
    assert not (tmp_path / "signals.txt").exists() or not (tmp_path / "signals.txt").read_text()


def test_incremental_snapshot_can_be_paused_and_stopped(case: SqliteCase) -> None:
    _fill(case, 3000)
    case.start(snapshot_mode="no_data", incremental_snapshot_chunk_size="100")
    case.read_all()
    assert case.harness is not None
    task = case.harness.task
    task.signal("1", "execute-snapshot", json.dumps({"data-collections": ["main.items"]}))
    case.poll_until(lambda records: len(records) >= 200)
    task.signal("2", "pause-snapshot", None)
    before = case.poll_until(lambda records: task.progress()["phase"] == "streaming")
    assert len(before) < 2500
    assert case.events() == []
    case.run("DELETE FROM items WHERE id = 1")
    assert [op for op, _, _ in case.events()] == ["d"]
    task.signal("3", "resume-snapshot", None)
    case.poll_until(lambda records: len(records) >= 100)
    task.signal("4", "stop-snapshot", json.dumps({"data-collections": ["main.items"]}))
    case.poll_until(lambda records: task.progress()["phase"] == "streaming")
    assert case.events() == []


def test_paused_incremental_snapshot_stays_paused_across_a_restart(case: SqliteCase) -> None:
    _fill(case, 3000)
    case.start(snapshot_mode="no_data", incremental_snapshot_chunk_size="100")
    case.read_all()
    assert case.harness is not None
    case.harness.task.signal("1", "execute-snapshot", json.dumps({"data-collections": ["main.items"]}))
    found = case.poll_until(lambda records: len(records) >= 200)
    case.harness.task.signal("2", "pause-snapshot", None)
    found += case.read_all()
    case.commit()
    task = case.restart().task
    assert case.read_all() == []
    assert task.progress()["incremental_snapshot"]["paused"]
    task.signal("3", "resume-snapshot", None)
    found += case.poll_until(lambda records: len(records) >= 3000 - len(found))
    assert [plain(record.key)["id"] for record in found] == list(range(1, 3001))
    case.commit()
    task = case.restart().task
    task.signal("4", "execute-snapshot", json.dumps({"data-collections": ["main.items"]}))
    assert len(case.poll_until(lambda records: len(records) >= 3000)) == 3000


@pytest.mark.parametrize("type_", ["stop-snapshot", "pause-snapshot"])
def test_signal_in_the_table_ends_or_pauses_an_incremental_snapshot(case: SqliteCase, type_: str) -> None:
    _fill(case, 3000)
    case.run("CREATE TABLE signals(id TEXT PRIMARY KEY, type TEXT, data TEXT)")
    case.start(
        snapshot_mode="no_data", signal_data_collection="main.signals", incremental_snapshot_chunk_size="100",
        signal_poll_interval_ms="1",
    )  # fmt: skip
    case.read_all()
    data = json.dumps({"data-collections": ["main.items"]})
    case.writer.execute("INSERT INTO signals VALUES ('1', 'execute-snapshot', ?)", [data])
    case.poll_until(lambda records: len(records) >= 200)
    case.writer.execute("INSERT INTO signals VALUES ('2', ?, ?)", [type_, data])
    assert case.harness is not None
    task = case.harness.task
    found = case.poll_until(lambda records: task.progress()["phase"] == "streaming")
    assert len(found) < 2500
    case.run("DELETE FROM items WHERE id = 1")
    assert [op for op, _, _ in case.events()] == ["d"]


def test_signal_table_is_not_read_by_snapshots(case: SqliteCase) -> None:
    case.run("CREATE TABLE signals(id TEXT PRIMARY KEY, type TEXT, data TEXT)", "INSERT INTO signals VALUES ('0', 'log', NULL)")
    _fill(case, 3)
    case.start(signal_data_collection="main.signals", capture_loss_mode="reread")
    assert {record.topic for record in case.read_all()} == {"shop.main.items"}
    assert case.harness is not None
    case.harness.task.signal("1", "execute-snapshot", json.dumps({"data-collections": ["main[.].*"]}))
    found = case.poll_until(lambda records: len(records) >= 3) + case.read_all()
    assert {record.topic for record in found} == {"shop.main.items"}
    # Its triggers were gone for some time: what was inserted meanwhile is no reason to read it, or to fail.
    (name,) = case.writer.execute("SELECT name FROM sqlite_master WHERE name LIKE '%_insert' AND tbl_name = 'signals'").fetchone()
    case.run(f"DROP TRIGGER {name}", "INSERT INTO signals VALUES ('2', 'log', NULL)")
    assert case.read_all() == []


def test_changes_before_a_requested_snapshot_are_emitted(case: SqliteCase) -> None:
    _fill(case, 5)
    case.start(snapshot_mode="no_data")
    case.read_all()
    assert case.harness is not None
    case.run("DELETE FROM items WHERE id = 2", "DELETE FROM items WHERE id = 3")
    case.harness.task.signal("1", "execute-snapshot", json.dumps({"data-collections": ["main.items"]}))
    found = case.poll_until(lambda records: len([r for r in records if r.topic == "shop.main.items"]) >= 5)
    assert [op for op, _, _ in events(found)] == ["d", "d", "r", "r", "r"]


@pytest.mark.parametrize("key", first_fast(["TEXT PRIMARY KEY", "TEXT"]))
def test_override_of_a_table_with_a_hidden_rowid_reads_all_rows(case: SqliteCase, key: str) -> None:
    case.run(
        f"CREATE TABLE t(k {key}, n)",
        "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 10000) INSERT INTO t SELECT 'k' || i, i FROM s",
    )
    name = "snapshot.select.statement.overrides"
    case.config |= {name: "main.t", f"{name}.main.t": "SELECT rowid, * FROM t"}
    case.start()
    assert len(case.read_all()) == 10_000
    case.stop()
    case.offsets = type(case.offsets)()
    case.config[f"{name}.main.t"] = "SELECT * FROM t"
    case.start()
    with pytest.raises(ConfigError, match="must select all columns of the table, and rowid"):
        case.read_all()


def test_signal_with_a_wrong_filter_does_not_fail_the_task(case: SqliteCase) -> None:
    _fill(case, 3)
    case.start()
    case.read_all()
    assert case.harness is not None
    condition = [{"data-collection": "main.items", "filter": "no_such_column > 1"}]
    data = json.dumps({"data-collections": ["main.items"], "additional-conditions": condition})
    case.harness.task.signal("1", "execute-snapshot", data)
    assert case.events() == []
    with pytest.raises(BadRequestError, match="unknown signal type"):
        case.harness.task.signal("2", "no-such-signal", None)


@pytest.mark.parametrize("length", first_fast([10_000, 40, 300_000]))
def test_large_rows_come_in_small_batches(case: SqliteCase, length: int) -> None:
    """Of max.queue.size.in.bytes, in a snapshot and in the stream."""
    case.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
    fill = "WITH RECURSIVE c(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM c WHERE i < ?) INSERT INTO t SELECT i, ? FROM c"
    case.writer.execute(fill, [1, 200, "x" * length])
    harness = case.start(max_queue_size_in_bytes="100000")
    most = 2 * 100_000 // length + 8
    for op in ("r", "c"):
        if op == "c":
            case.writer.execute(fill, [201, 400, "x" * length])
        batches: list[list[SourceRecord]] = []
        while sum(map(len, batches)) < 200:
            batches.append(harness.poll())
            assert len(batches) < 5000
        assert [e[0] for batch in batches for e in events(batch)] == [op] * 200
        assert max(map(len, batches)) <= most


def test_heartbeats_carry_the_position(case: SqliteCase) -> None:
    _fill(case, 1)
    case.run("CREATE TABLE beats(n INT)")
    case.start(heartbeat_interval_ms="1", heartbeat_action_query="INSERT INTO beats VALUES (1)", table_exclude_list="main.beats")
    records = case.poll_until(lambda found: len(found) > 3)
    beats = [r for r in records if r.topic == "__debezium-heartbeat.shop"]
    assert beats
    assert (beats[-1].source_offset or {})["seq"] == 1
    assert case.table("beats")


def test_metrics_and_progress(case: SqliteCase) -> None:
    _fill(case, 10)
    case.start()
    case.read_all()
    case.run("DELETE FROM items WHERE id = 1")
    case.read_all()
    assert case.harness is not None
    metrics = {metric.name: metric.value for metric in case.harness.task.metrics()}
    assert (metrics["sqlite_snapshot_rows"], metrics["sqlite_events_total"], metrics["sqlite_lag_rows"]) == (10, 1, 0)


@pytest.mark.long
def test_rows_without_a_key_are_emitted_once_though_they_change_during_the_snapshot(case: SqliteCase) -> None:
    case.run("PRAGMA journal_mode=DELETE", "CREATE TABLE notes(n INT)")
    case.run("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 9000) INSERT INTO notes SELECT i FROM c")
    case.start()
    records = case.poll_until(bool)
    assert len(records) < 9000
    case.run("INSERT INTO notes VALUES (-1)", "UPDATE notes SET n = -2 WHERE n = 8000", "DELETE FROM notes WHERE n IN (1, 8001)")
    records += case.read_all()
    rows = sorted(after["n"] for _, _, after in events(records) if after is not None)
    gone = [before["n"] for op, before, _ in events(records) if op == "d"]
    assert gone == [1]
    rows.remove(1)
    assert rows == [n for (n,) in case.table("notes")]
