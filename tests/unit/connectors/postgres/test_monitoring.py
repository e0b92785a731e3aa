"""The age of positions in the WAL, and the problems of a slot."""

from __future__ import annotations

import logging

import pytest

from connectors.postgres.config import SafetySettings
from connectors.postgres.monitoring.problems import Problem, ProblemList
from connectors.postgres.monitoring.slot_checks import exceeded_limit, find_problems, measure
from connectors.postgres.monitoring.slot_status import SlotStatus
from connectors.postgres.monitoring.wal_history import WalHistory

MB = 1 << 20


def history(*samples: tuple[float, int], limit: int = 720) -> WalHistory:
    found = WalHistory(limit)
    for time_s, lsn in samples:
        found.add(time_s, lsn)
    return found


@pytest.mark.parametrize(
    ("lsn", "age_s"),
    [(300, 0.0), (400, 0.0), (200, 10.0), (250, 5.0), (100, 20.0), (99, None)],
)
def test_age_of_a_position_is_that_of_the_wal_after_it(lsn: int, age_s: float | None) -> None:
    assert history((0, 100), (10, 200), (20, 300)).age_s(lsn) == age_s


def test_position_at_the_end_of_an_idle_wal_has_no_age() -> None:
    assert history((0, 100), (1000, 100)).age_s(100) == 0
    assert history((0, 100), (1000, 100), (1010, 200)).age_s(100) == 10


def test_another_server_starts_the_history_over() -> None:
    found = history((0, 100), (10, 200), (20, 50))
    assert found.age_s(40) is None
    assert found.span_s == 0
    assert found.age_s(50) == 0


def test_history_is_limited_and_keeps_its_reach() -> None:
    found = history(*((float(i), i * 10) for i in range(10_000)), limit=100)
    assert len(found._times) <= 100
    assert found.age_s(0) == 9999.0
    assert found.age_s(99_980) == pytest.approx(1.0)


def test_growth_is_that_of_the_last_ten_minutes() -> None:
    assert history((0, 0)).bytes_per_s() == 0
    assert history((0, 0), (1000, 1_000_000), (1600, 1_000_600), (1610, 1_000_610)).bytes_per_s() == pytest.approx(1.0)


SETTINGS = SafetySettings(10.0, 100 * MB, 3600.0, 0, 0.0, "fail", 3600.0, 0, "warn")


def slot(wal_status: str = "reserved", safe: int | None = None, invalidation: str = "") -> SlotStatus:
    return SlotStatus(10 * MB, 5 * MB, wal_status, safe, True, 1, False, invalidation)


def codes(status: SlotStatus | None, *, wal_end: int = 20 * MB, age_s: float | None = 1.0, rate: float = MB) -> list[str]:
    lag = measure(status, wal_end, age_s, rate) if status is not None else None
    return [problem.code for problem in find_problems("s", status, lag, SETTINGS)]


def test_problems_of_a_slot() -> None:
    assert codes(slot()) == []
    assert codes(None) == ["slot_missing"]
    assert codes(slot("lost", invalidation="idle_timeout")) == ["slot_lost"]
    assert codes(slot("extended")) == []
    assert codes(slot("unreserved")) == ["wal_about_to_be_removed"]
    assert codes(slot(safe=3000 * MB)) == ["wal_loss_forecast"]
    assert codes(slot(safe=4000 * MB)) == []
    assert codes(slot(safe=100), rate=0) == []
    assert codes(slot(), wal_end=111 * MB) == ["slot_lag"]
    assert codes(slot(), age_s=3601) == ["slot_lag"]
    assert codes(slot(), age_s=None) == []


def test_lag_is_measured_from_the_confirmed_position() -> None:
    lag = measure(slot(safe=50 * MB), 20 * MB, 3.0, 5.0 * MB)
    assert (lag.bytes, lag.seconds, lag.retained_bytes, lag.lost_in_s) == (10 * MB, 3.0, 15 * MB, 10.0)


def test_limits_name_their_key() -> None:
    lag = measure(slot(), 20 * MB, 7.0, 0)
    assert exceeded_limit(lag, SETTINGS) is None
    limits = SafetySettings(10.0, 0, 0, 5 * MB, 0, "fail", 0, 0, "warn")
    assert exceeded_limit(lag, limits) == f"slot.lag.max.bytes={5 * MB}"
    limits = SafetySettings(10.0, 0, 0, 0, 5.0, "fail", 0, 0, "warn")
    assert exceeded_limit(lag, limits) == "slot.lag.max.ms=5000"


def test_problems_are_logged_when_they_appear_and_when_they_are_resolved(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = ProblemList()
    found.add(Problem("table_dropped", "table a was dropped", "a"))
    for _ in range(2):
        found.update([Problem("slot_lag", "10 behind")])
    assert [problem["code"] for problem in found.as_json()] == ["table_dropped", "slot_lag"]
    found.update([])
    assert [problem["code"] for problem in found.as_json()] == ["table_dropped"]
    assert [record.message for record in caplog.records] == ["table a was dropped", "10 behind", "resolved: 10 behind"]
