"""A connection that is dead without an error."""

from __future__ import annotations

from connect.testing import ManualClock
from connectors.postgres.streaming.replication import SilenceMonitor


def test_the_server_is_asked_once_and_has_half_of_the_time_to_answer() -> None:
    clock = ManualClock()
    monitor = SilenceMonitor(60, clock.monotonic)
    clock.advance(29)
    assert not monitor.should_ask()
    clock.advance(1)
    assert monitor.should_ask()
    assert not monitor.should_ask()
    clock.advance(29)
    assert not monitor.is_over
    clock.advance(1)
    assert monitor.is_over


def test_an_answer_starts_over() -> None:
    clock = ManualClock()
    monitor = SilenceMonitor(60, clock.monotonic)
    clock.advance(30)
    assert monitor.should_ask()
    monitor.heard()
    clock.advance(29)
    assert not monitor.should_ask()
    assert not monitor.is_over


def test_a_pause_of_the_reader_is_no_silence_of_the_server() -> None:
    clock = ManualClock()
    monitor = SilenceMonitor(60, clock.monotonic)
    clock.advance(3_600)
    assert not monitor.is_over
    assert monitor.should_ask()
    assert not monitor.is_over


def test_without_a_timeout_the_server_may_be_silent() -> None:
    clock = ManualClock()
    monitor = SilenceMonitor(0, clock.monotonic)
    clock.advance(3_600)
    assert not monitor.should_ask()
    assert not monitor.is_over
