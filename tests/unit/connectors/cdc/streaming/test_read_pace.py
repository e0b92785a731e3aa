"""When the stream is read: at once after a pause and in a backlog, else with time for changes to gather."""

from __future__ import annotations

from connect.testing import ManualClock
from connectors.cdc.streaming.read_pace import GATHER_S, MOST_KINDS, ReadPace


def test_changes_gather_between_reads_that_find_some() -> None:
    clock = ManualClock()
    pace = ReadPace(clock.monotonic)
    pace.start(kinds=1, is_full=False)
    assert 0 < pace.delay_s() <= GATHER_S
    clock.advance(GATHER_S)
    assert pace.delay_s() <= 0


def test_many_kinds_of_records_gather_longer() -> None:
    pace = ReadPace(ManualClock().monotonic)
    pace.start(kinds=2, is_full=False)
    assert GATHER_S < pace.delay_s() <= 2 * GATHER_S
    pace.start(kinds=100, is_full=False)
    assert 2 * GATHER_S < pace.delay_s() <= MOST_KINDS * GATHER_S


def test_nothing_is_delayed_after_a_pause_or_in_a_backlog() -> None:
    pace = ReadPace(ManualClock().monotonic)
    assert pace.delay_s() <= 0
    pace.start(kinds=1, is_full=True)
    assert pace.delay_s() <= 0
    pace.start(kinds=0, is_full=False)
    assert pace.delay_s() <= 0
