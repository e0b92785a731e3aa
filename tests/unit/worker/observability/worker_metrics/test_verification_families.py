"""Metrics of the results of ``sluice verify``."""

from __future__ import annotations

from typing import Any

from worker.observability.verifications import StoredVerification, stored_verification
from worker.observability.worker_metrics.verification_families import schedule_families, verification_families

DOCUMENT = {"source": "db", "sink": "lake", "equal": False, "rows": 10, "differences": 2, "unsettled": 1, "seconds": 1.5}


def samples(results: dict[str, StoredVerification], connectors: set[str]) -> dict[str, Any]:
    families = verification_families(results, lambda: connectors)
    return {
        f"{family.name}{{{labels}}}": value
        for family in families
        for labels, value in zip(family.labels, family.values, strict=True)
    }


def stored(**names: dict[str, Any]) -> dict[str, StoredVerification]:
    return {name: stored_verification(document, 1_700_000_000_000) for name, document in names.items()}


def test_last_result_of_a_sink_is_exported_and_the_copy_of_its_source_is_not() -> None:
    found = samples(stored(lake=DOCUMENT, db=DOCUMENT), {"lake", "db"})
    labels = '{connector="lake",source="db"}'
    assert found == {
        f"sluice_verification_timestamp_seconds{labels}": 1_700_000_000,
        f"sluice_verification_equal{labels}": 0,
        f"sluice_verification_rows{labels}": 10,
        f"sluice_verification_differences{labels}": 2,
        f"sluice_verification_unsettled_rows{labels}": 1,
        f"sluice_verification_seconds{labels}": 1.5,
    }


def test_result_of_a_deleted_connector_is_not_exported() -> None:
    assert samples(stored(lake=DOCUMENT), {"other"}) == {}


def test_without_results_nothing_is_exported_or_looked_up() -> None:
    def fail() -> set[str]:
        raise AssertionError

    assert list(verification_families({}, fail)) == []


def test_schedule_is_exported_with_its_last_run() -> None:
    found = {}
    schedules: dict[str, dict[str, Any]] = {
        "new": {"interval_ms": 60_000, "last_ms": None, "error": None},
        "bad": {"interval_ms": 1000, "last_ms": 5000, "error": "why"},
        "good": {"interval_ms": 1000, "last_ms": 6000, "error": None},
    }
    for family in schedule_families(schedules):
        found[family.name] = dict(zip(family.labels, family.values, strict=True))
    new, bad, good = (f'connector="{name}"' for name in ("new", "bad", "good"))
    assert found == {
        "sluice_verification_interval_seconds": {new: 60, bad: 1, good: 1},
        "sluice_verification_last_run_timestamp_seconds": {bad: 5, good: 6},
        "sluice_verification_last_run_failed": {bad: 1, good: 0},
    }
    assert list(schedule_families({})) == []
