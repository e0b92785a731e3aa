"""Rows that REPLACE deletes: which candidates a later row confirms."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.sqlite.schema.catalog import SqliteColumn, SqliteTable, TableCapture, UniqueKey, dump_table, load_table
from connectors.sqlite.snapshot.jobs import JobKind, TableJob, dump_jobs, parse_jobs
from connectors.sqlite.streaming.replaced_rows import ReplacedRows

COLUMNS = tuple(SqliteColumn(name, "", False, None) for name in ("id", "a", "b"))
UNIQUE = (UniqueKey(()), UniqueKey((("a", "NOCASE"),)), UniqueKey((("b", "RTRIM"), ("a", "BINARY"))))
TABLE = SqliteTable("t", COLUMNS, ("id",), "id", False, UNIQUE)


def entry(id: int, a: Any, b: Any, at: float = 0.0) -> tuple[Any, ...]:
    return 1, 1, 1, at, id, id, a, b


@pytest.fixture
def replaced() -> ReplacedRows:
    found = ReplacedRows(TableCapture(1, TABLE, ("id", "a", "b")))
    found.add(entry(1, "x", "y"))
    return found


@pytest.mark.parametrize(
    ("new", "is_replaced"),
    [
        (entry(1, "other", "o"), True),
        (entry(2, "X", "o"), True),
        (entry(2, "Ä", "o"), False),
        (entry(2, "other", "y"), False),
        (entry(2, None, "y"), False),
    ],
)
def test_row_with_the_same_unique_values_confirms(replaced: ReplacedRows, new: tuple[Any, ...], is_replaced: bool) -> None:
    assert replaced.take(new) == ([entry(1, "x", "y")] if is_replaced else [])
    assert bool(replaced) != is_replaced


def test_candidate_that_changes_or_is_deleted_was_not_replaced(replaced: ReplacedRows) -> None:
    replaced.forget(entry(1, "x", "y"))
    assert replaced.take(entry(2, "x", "y")) == []


def test_candidate_of_an_earlier_statement_was_not_replaced(replaced: ReplacedRows) -> None:
    """VACUUM may have given its rowid to another row since then."""
    assert replaced.take(entry(2, "x", "y", at=1.0)) == []
    assert not replaced
    replaced.add(entry(1, "x", "y"))
    replaced.add(entry(3, "z", "z", at=1.0))
    assert replaced.take(entry(2, "x", "y", at=1.0)) == []
    assert replaced.take(entry(2, "Z", "q", at=1.0)) == [entry(3, "z", "z", at=1.0)]


def test_statement_that_ignores_many_rows_leaves_few_candidates() -> None:
    replaced = ReplacedRows(TableCapture(1, TABLE, ("id", "a", "b")))
    for i in range(1000):
        replaced.add(entry(i, f"a{i}", "b"))
    assert [len(replaced.take(entry(-1, f"a{i}", None))) for i in (0, 799, 800, 999)] == [0, 0, 1, 1]


def test_row_is_replaced_once_though_several_of_its_keys_conflict(replaced: ReplacedRows) -> None:
    replaced.add(entry(1, "x", "z"))
    assert replaced.take(entry(1, "x", "z")) == [entry(1, "x", "z")]
    assert replaced.take(entry(1, "x", "z")) == []


def test_structures_survive_storage() -> None:
    assert load_table(dump_table(TABLE)) == TABLE


def test_jobs_survive_storage() -> None:
    jobs = [
        TableJob("t", JobKind.INITIAL, (1, 1.5, "é", b"\0\xff", None, float("inf"))),
        TableJob("u", JobKind.INCREMENTAL, None, "id > 5", "signal"),
    ]
    assert parse_jobs(dump_jobs(jobs)) == jobs
    assert parse_jobs(None) == []
