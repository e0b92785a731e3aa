"""How many ranges a table is read in."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.postgres.config import parse_config
from connectors.postgres.snapshot.key_ranges import KeyColumn
from connectors.postgres.snapshot.table_plan import MIN_PARALLEL_BYTES, RANGE_BYTES, TablePlan, count_ranges

BASE = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
ROWS: Any = None
KEY = (KeyColumn("id", "bigint", 0),)
THREADS = {"snapshot.max.threads": "4", "snapshot.max.threads.multiplier": "3"}


@pytest.mark.parametrize(
    ("plan", "config", "count"),
    [
        (TablePlan(ROWS, "f", (), 100 * RANGE_BYTES, 0), THREADS, 1),
        (TablePlan(ROWS, "f", KEY, 0, 0), {}, 1),
        (TablePlan(ROWS, "f", KEY, RANGE_BYTES, 0, is_correlated=True), {}, 1),
        (TablePlan(ROWS, "f", KEY, RANGE_BYTES + 1, 0, is_correlated=True), {}, 2),
        (TablePlan(ROWS, "f", KEY, 1000 * RANGE_BYTES, 0, is_correlated=True), {}, 256),
        (TablePlan(ROWS, "f", KEY, 1000 * RANGE_BYTES, 0), {}, 4),
        (TablePlan(ROWS, "f", KEY, MIN_PARALLEL_BYTES, 0), THREADS, 12),
        (TablePlan(ROWS, "f", KEY, MIN_PARALLEL_BYTES - 1, 0), THREADS, 1),
        (TablePlan(ROWS, "f", KEY, 1000 * RANGE_BYTES, 0), {**THREADS, "legacy.snapshot.max.threads": "true"}, 1),
    ],
)
def test_number_of_ranges(plan: TablePlan, config: dict[str, str], count: int) -> None:
    assert count_ranges(plan, parse_config({**BASE, **config})) == count
