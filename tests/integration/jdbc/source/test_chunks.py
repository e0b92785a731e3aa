"""Large tables that several tasks read in chunks, and the incremental reading that follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from connect.record import SourceRecord
from connect.testing.harness import MemoryOffsets
from tests.integration.jdbc.source.conftest import Database, Source, Sources, column

ORDERS = "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, changed TIMESTAMP NOT NULL)"
INCREMENTING = {"mode": "incrementing", "incrementing_column_name": "id"}
BY_TIME = {"mode": "timestamp", "timestamp_column_name": "changed"}
BOTH = {"mode": "timestamp+incrementing", "timestamp_column_name": "changed", "incrementing_column_name": "id"}


def insert(*numbers: int, time: str = "2024-01-02 03:04:05") -> str:
    return "INSERT INTO orders VALUES " + ",".join(f"({n}, '{time}')" for n in numbers)


def start_chunked(
    start: Sources,
    database: Database,
    keys: Mapping[str, str] = {},
    /,
    *,
    offsets: MemoryOffsets | None = None,
    tasks: int = 3,
    **more_keys: str,
) -> Source:
    """Starts a connector that reads chunks, and waits until it has tasks."""
    chunked = {"snapshot_chunks": "10", "table_poll_interval_ms": "50"}
    source = start(database, {**chunked, **keys, **more_keys}, offsets=offsets, tasks=tasks)
    if not source.harnesses:
        source.await_deal()
    return source


def chunks_of(records: list[SourceRecord]) -> set[str]:
    return {
        record.source_partition["chunk"] for record in records if record.source_partition and "chunk" in record.source_partition
    }


def committed(source: Source, count: int) -> list[SourceRecord]:
    """Reads at least so many records, with a commit after each round, as a worker would."""
    found: list[SourceRecord] = []

    def enough(more: list[SourceRecord]) -> bool:
        source.commit()
        return len(more) >= count

    found += source.read_until(enough)
    source.commit()
    return found


@pytest.mark.parametrize("keys", [INCREMENTING, BY_TIME, BOTH])
def test_all_tasks_read_a_table_once_and_then_continue_with_new_rows(
    database: Database, start: Sources, keys: dict[str, str]
) -> None:
    database.execute(ORDERS, insert(*range(1, 96)), insert(96, 97, 98, time="2024-01-02 03:04:06"))
    source = start_chunked(start, database, keys)
    assert len(source.harnesses) == 3
    snapshot = committed(source, 95)
    assert len(chunks_of(snapshot)) == 10
    own = {"protocol": "1", "table": database.name("orders")}
    tail = [record for record in snapshot if record.source_partition == own]
    rest = [*snapshot, *(committed(source, 98 - len(snapshot)) if len(snapshot) < 98 else [])]
    assert sorted(column(rest, "id")) == list(range(1, 99))
    tail = [record for record in rest if record.source_partition == own]
    assert 98 in column(tail, "id")  # so that the originals could go on from here
    database.execute(insert(99, time="2024-01-02 03:04:07"))
    new = committed(source, 1)
    assert column(new, "id") == [99]
    assert (new[0].source_partition, new[0].source_offset) == (own, source.offsets.offset(own))


def test_tables_are_assigned_as_usual_after_their_chunks(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(*range(1, 50)))
    source = start_chunked(start, database, INCREMENTING)
    committed(source, 49)
    source.await_deal(1)
    assert source.poll() == []
    database.execute(insert(50))
    assert column(source.read(1), "id") == [50]


def test_restart_reads_only_unfinished_chunks(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(*range(1, 101)))
    source = start_chunked(start, database, INCREMENTING, batch_max_rows="4")
    first: list[SourceRecord] = []
    while len(first) < 40:
        first += source.poll()
        source.commit()
    source.stop()
    restarted = start_chunked(start, database, INCREMENTING, offsets=source.offsets)
    rest = committed(restarted, 100 - len(first))
    assert Counter(column(first + rest, "id")) == Counter(range(1, 101))


def test_rows_that_change_during_chunked_reading_are_not_lost(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(*range(2, 202, 2)))
    source = start_chunked(start, database, BY_TIME, batch_max_rows="3")
    seen = source.read(20)
    source.commit()
    database.execute(
        "UPDATE orders SET changed = '2024-01-02 03:05:00' WHERE id IN (2, 50, 200)",
        insert(1, 51, 301, time="2024-01-02 03:05:01"),
        "DELETE FROM orders WHERE id = 150",
    )
    everything = {*range(2, 202, 2), 1, 51, 301} - {150}

    def complete(more: list[SourceRecord]) -> bool:
        source.commit()
        found = {(record.value["id"], record.value["changed"].minute) for record in seen + more}
        return {(n, 5) for n in (1, 2, 50, 51, 200, 301)} <= found and everything <= {number for number, _ in found}

    source.read_until(complete)


def test_chunks_with_deleted_rows_count_as_done(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(*range(1, 101)))
    source = start_chunked(start, database, INCREMENTING, tasks=2)
    database.execute("DELETE FROM orders WHERE id BETWEEN 20 AND 60", insert(101))
    records = committed(source, 60)
    assert sorted(column(records, "id")) == [*range(1, 20), *range(61, 102)]


def test_keys_with_gaps_and_text_keys_are_divided_evenly(database: Database, start: Sources) -> None:
    database.execute("CREATE TABLE gaps (id BIGINT NOT NULL PRIMARY KEY)", "CREATE TABLE texts (id VARCHAR(20) PRIMARY KEY)")
    database.execute(*(f"INSERT INTO gaps VALUES ({n**7})" for n in range(40)))
    database.execute(*(f"INSERT INTO texts VALUES ('it''s {n}')" for n in range(40)))
    source = start_chunked(start, database, mode="bulk", poll_interval_ms="60000")
    records = committed(source, 80)
    by_chunk = Counter((record.topic, (record.source_partition or {}).get("chunk")) for record in records)
    assert sorted(by_chunk.values()) == [10] * 8
    assert {record.value["id"] for record in records} == {n**7 for n in range(40)} | {f"it's {n}" for n in range(40)}


def test_chunked_bulk_copy_resumes_and_starts_over_when_complete(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(*range(1, 41)))
    keys = {"mode": "bulk", "poll_interval_ms": "60000", "batch_max_rows": "5"}
    source = start_chunked(start, database, keys, tasks=1)
    first = source.read(25)
    source.commit()
    source.stop()
    restarted = start_chunked(start, database, keys, offsets=source.offsets, tasks=1)
    # Chunks that were done are copied again, as a copy is at every start; those that were not go on.
    again = restarted.read(40 - len(first))
    unfinished = [record for record in again if record.value["id"] > first[-1].value["id"]]
    assert {*column(first, "id"), *column(unfinished, "id")} == set(range(1, 41))


def test_progress_counts_chunks_and_rows(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(*range(1, 101)))
    source = start_chunked(start, database, INCREMENTING, tasks=1)
    task = source.harnesses[0].task
    before = task.progress()
    assert (before["tables"], before["chunks_done"], before["chunks_total"]) == (1, 0, 10)
    assert before["chunk_rows_estimate"] == 100
    committed(source, 100)
    assert task.progress()["chunks_done"] == 10
    assert task.progress()["rows"] == 100


def test_small_and_partly_read_tables_are_not_chunked(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(*range(1, 101)))
    offsets = MemoryOffsets()
    offsets.store({"protocol": "1", "table": database.name("orders")}, {"incrementing": 90})
    source = start_chunked(start, database, INCREMENTING, offsets=offsets)
    assert len(source.harnesses) == 1
    assert column(source.read(10), "id") == list(range(91, 101))
    assert len(start_chunked(start, database, INCREMENTING, snapshot_chunks="auto").harnesses) == 1


def test_restart_does_not_split_rows_with_the_plans_timestamp(database: Database, start: Sources) -> None:
    database.execute(ORDERS, insert(*range(30)), insert(*range(30, 50), time="2024-01-02 03:04:06"))
    own = {"protocol": "1", "table": database.name("orders")}
    source = start_chunked(start, database, BY_TIME, batch_max_rows="5")

    def has_rows_after_the_snapshot(more: list[SourceRecord]) -> bool:
        if any(record.source_partition == own for record in more):
            return True
        source.commit()
        return False

    found = source.read_until(has_rows_after_the_snapshot)
    source.commit()
    source.stop()
    assert len([record for record in found if record.source_partition == own]) < 20
    again = start_chunked(start, database, BY_TIME, offsets=source.offsets)
    found += again.read_until(lambda more: {*range(30, 50)} <= {*column(found + more, "id")})
    assert {*column(found, "id")} == {*range(50)}
    again.commit()
    assert source.offsets.offset(own) == {"timestamp": 1704164646000, "timestamp_nanos": 0}


def test_table_with_null_in_its_key_is_not_chunked(sqlite: Database, start: Sources) -> None:
    sqlite.execute("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER)")
    sqlite.execute("INSERT INTO t VALUES " + ",".join(f"({'NULL' if n % 10 == 0 else n}, {n})" for n in range(50)))
    assert {*column(start_chunked(start, sqlite, mode="bulk").read(50), "n")} == {*range(50)}
