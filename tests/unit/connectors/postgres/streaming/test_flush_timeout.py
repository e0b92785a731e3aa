"""A status update that the network does not take."""

from __future__ import annotations

import logging

import pytest

from connect.errors import ConnectError
from connect.testing import ManualClock
from connectors.postgres.config import parse_config
from connectors.postgres.streaming.flush_timeout import FlushTimeout
from tests.unit.connectors.postgres.test_config import BASE


def started(clock: ManualClock, action: str) -> FlushTimeout:
    config = {**BASE, "lsn.flush.timeout.ms": "5000", "lsn.flush.timeout.action": action}
    return FlushTimeout(parse_config(config).slot, clock.monotonic)


def test_a_flush_that_takes_too_long_fails() -> None:
    clock = ManualClock()
    timeout = started(clock, "fail")
    timeout.sent(0x10, complete=False)
    clock.advance(4)
    timeout.sent(0x20, complete=False)
    timeout.check()
    clock.advance(1)
    with pytest.raises(ConnectError, match=r"LSN 0/10 could not be flushed within lsn\.flush\.timeout\.ms=5000"):
        timeout.check()


@pytest.mark.parametrize(("action", "level"), [("warn", logging.WARNING), ("ignore", logging.DEBUG)])
def test_a_flush_that_takes_too_long_is_logged(action: str, level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clock = ManualClock()
    timeout = started(clock, action)
    timeout.sent(0x10, complete=False)
    clock.advance(5)
    timeout.check()
    assert [record.levelno for record in caplog.records] == [level]
    assert not timeout.is_pending


def test_a_flush_that_completes_in_time_is_forgotten() -> None:
    clock = ManualClock()
    timeout = started(clock, "fail")
    timeout.sent(0x10, complete=False)
    assert timeout.is_pending
    timeout.sent(0x10, complete=True)
    clock.advance(60)
    timeout.check()


def test_a_status_update_that_confirms_nothing_has_no_timeout() -> None:
    clock = ManualClock()
    timeout = started(clock, "fail")
    timeout.sent(0, complete=False)
    assert not timeout.is_pending
