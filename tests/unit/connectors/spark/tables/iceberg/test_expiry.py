"""When snapshots expire: by how many the table has and how old they are, not by a task's uptime."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spark.tables.iceberg.creation import _PROPERTIES
from connectors.spark.tables.iceberg.expiry import Retention
from tests.unit.connectors.spark.tables.iceberg.fake_catalog import TP, FakeCatalog, offsets, rows

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.mark.parametrize("runs_for_s", [600, 10**9])
def test_snapshots_stay_few_also_if_tasks_restart_every_ten_minutes(tmp_path: Path, runs_for_s: int) -> None:
    catalog = FakeCatalog(tmp_path / "t")
    catalog.properties |= _PROPERTIES
    started, task = 0.0, catalog.open(expire_interval_s=86_400)
    task.load([TP])
    most = 0
    for number in range(260):
        catalog.now_s += 60
        if catalog.now_s - started >= runs_for_s:
            started, task = catalog.now_s, catalog.open(expire_interval_s=86_400)
            task.load([TP])
        assert task.append(rows(number), offsets(number, number + 1)) is not None
        task.maintain(lambda: False)
        most = max(most, len(catalog.snapshots))
    assert most <= 201
    assert len(catalog.snapshots) >= 100
    assert catalog.open().load([TP]).ends == {TP: 260}


@pytest.mark.parametrize(
    ("count", "old", "oldest_age_ms", "due"),
    [
        (3_700, 100, HOUR_MS, False),
        (7_200, 3_600, 2 * HOUR_MS, True),  # half of them
        (250, 150, 2 * HOUR_MS, True),
        (100, 100, 30 * DAY_MS, False),  # the least number that the table keeps
        (101, 100, DAY_MS, False),
        (101, 100, DAY_MS + HOUR_MS, True),
        (101, 0, 0, False),
    ],
)
def test_many_snapshots_expire_together_and_few_after_a_day(count: int, old: int, oldest_age_ms: int, due: bool) -> None:
    now_ms = 1_700_000_000_000
    assert Retention.read(_PROPERTIES).is_due(count, old, now_ms - oldest_age_ms, DAY_MS, now_ms) is due
    assert not Retention.read({**_PROPERTIES, "gc.enabled": "false"}).is_due(count, old, 0, DAY_MS, now_ms)


def test_tables_of_others_keep_snapshots_as_iceberg_does() -> None:
    assert Retention.read({}) == Retention(5 * DAY_MS, 1, True)
