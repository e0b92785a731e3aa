"""The sink on DuckDB, which has no savepoints: a batch with errant rows takes several transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from connect.errors import ConnectError
from connect.testing.harness import MemoryReporter
from tests.unit.connectors.jdbc.sink_rig import OLDER, Records, Sink, reported

UPSERT = {
    "insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true", "auto.create": "true", "auto.evolve": "true",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sink.duckdb"


@pytest.fixture
def people() -> Records:
    return Records()


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(file)) as connection:
        return connection.execute(query).fetchall()


def sink(file: Path, *, reporter: MemoryReporter | None = None, **config: str) -> Sink:
    keys = {key.replace("__", "."): value for key, value in config.items()}
    return Sink({"connection.url": f"jdbc:duckdb:{file}", **UPSERT, **keys}, reporter=reporter)


def test_a_table_is_created_altered_upserted_and_deleted_from(file: Path, people: Records) -> None:
    with sink(file) as one:
        one.put(*[people.keyed(i, "old", schema=OLDER) for i in range(5)])
        one.put(*[people.keyed(i, f"n{i}", i) for i in range(4)], people.tombstone(2), people.keyed(3, "last", schema=OLDER))
    assert rows(file, "SELECT * FROM people ORDER BY id") == [(0, "n0", 0), (1, "n1", 1), (3, "last", 3), (4, "old", None)]


def test_errant_rows_are_reported_and_the_others_are_written(file: Path, people: Records) -> None:
    rows(file, "CREATE TABLE people(id int PRIMARY KEY, name varchar, age int CHECK (age < 100))")
    reporter = MemoryReporter()
    with sink(file, reporter=reporter, errors__tolerance="all") as one:
        one.put(*[people.keyed(i, "x", 200 if i in (7, 31) else 1) for i in range(60)], people.tombstone(2))
    assert rows(file, "SELECT count(*), max(age) FROM people") == [(57, 1)]
    assert [offset for offset, _ in reported(reporter)] == [7, 31]
    assert all("CHECK constraint failed" in words for _, words in reported(reporter))


def test_without_tolerance_an_errant_row_prevents_its_whole_batch(file: Path, people: Records) -> None:
    rows(file, "CREATE TABLE people(id int PRIMARY KEY, name varchar, age int CHECK (age < 100))")
    with sink(file) as one, pytest.raises(ConnectError, match="offset 7 cannot be written"):
        one.put(*[people.keyed(i, "x", 200 if i >= 7 else 1) for i in range(20)])
    assert rows(file, "SELECT count(*) FROM people") == [(0,)]
