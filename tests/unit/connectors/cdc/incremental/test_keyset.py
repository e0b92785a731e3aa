"""Conditions for the rows behind a position, evaluated by a database: SQLite, whose nulls come first."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence

import pytest

from connectors.cdc.incremental.keyset import BoundColumn, order_by, rows_behind

_VALUES = (None, 1, 2, 3)


def literal(value: int | None) -> str | None:
    return None if value is None else str(value)


@pytest.mark.parametrize("nulls_first", [True, False])
def test_each_row_is_either_behind_a_position_or_up_to_it(nulls_first: bool) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("create table t(a int, b int)")
    db.executemany("insert into t values (?, ?)", itertools.product(_VALUES, _VALUES))
    nulls = "" if nulls_first else " nulls last"
    ordered: Sequence[tuple[int | None, int | None]] = db.execute(f"select a, b from t order by a{nulls}, b{nulls}").fetchall()
    for number, position in enumerate(ordered):
        bounds = [BoundColumn(name, literal(value), True) for name, value in zip("ab", position, strict=True)]
        behind = rows_behind(bounds, nulls_first=nulls_first)
        order = f"order by a{nulls}, b{nulls}"
        assert db.execute(f"select a, b from t where {behind} {order}").fetchall() == ordered[number + 1 :]
        assert db.execute(f"select a, b from t where not {behind} {order}").fetchall() == ordered[: number + 1]


def test_columns_that_are_never_null_are_compared_plainly() -> None:
    bounds = [BoundColumn("a", "1"), BoundColumn("b", "2")]
    expected = "(((a > 1)) OR (a = 1 AND (b > 2)))"
    assert rows_behind(bounds, nulls_first=True) == rows_behind(bounds, nulls_first=False) == expected


def test_order_of_columns() -> None:
    assert order_by(["a", "b"]) == "a, b"
    assert order_by(["a", "b"], descending=True) == "a DESC, b DESC"
