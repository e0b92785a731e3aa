"""When the task connects again."""

from __future__ import annotations

import pytest

from connect.errors import ConnectError
from connect.testing import ManualClock
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.retries import STABLE_S
from connectors.postgres.config import parse_config
from connectors.postgres.errors import SlotInUseError
from connectors.postgres.retries import SlotRetrySchedule

BASE = {
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.password": "s3cret",
    "database.dbname": "d",
}
LOST = ConnectionLostError("lost")


def schedule(clock: ManualClock, **keys: str) -> SlotRetrySchedule:
    return SlotRetrySchedule(
        parse_config({**BASE, **{name.replace("_", "."): value for name, value in keys.items()}}), clock.monotonic
    )


def test_waits_grow_with_each_failure_until_a_connection_is_stable() -> None:
    clock = ManualClock()
    retries = schedule(clock, retriable_restart_connector_wait_ms="500")
    waits = []
    for _ in range(5):
        waits.append(retries.connection_lost(LOST))
        assert retries.remaining_s() == pytest.approx(waits[-1])
        clock.advance(waits[-1])
        assert retries.remaining_s() <= 0
        retries.connected()
        clock.advance(1)  # works for a second, with or without records, and breaks again
    assert waits == [0.1, 0.2, 0.4, 0.5, 0.5]
    retries.connected()
    clock.advance(STABLE_S)
    assert retries.connection_lost(LOST) == 0.1


def test_a_connection_that_keeps_breaking_uses_up_the_retries() -> None:
    clock = ManualClock()
    retries = schedule(clock, errors_max_retries="2")
    for _ in range(2):
        retries.connection_lost(LOST)
        retries.connected()
        clock.advance(1)
    with pytest.raises(ConnectError, match=r"lost \(gave up after errors\.max\.retries=2 retries\)"):
        retries.connection_lost(LOST)


def test_a_slot_in_use_is_waited_for_a_limited_time() -> None:
    clock = ManualClock()
    retries = schedule(clock, slot_max_retries="2", slot_retry_delay_ms="1000")
    busy = SlotInUseError("slot is active for PID 7")
    assert retries.slot_in_use(busy)
    clock.advance(1.9)
    assert not retries.slot_in_use(busy)
    clock.advance(0.1)
    with pytest.raises(ConnectError, match=r"replication slot debezium on PostgreSQL at .*: slot is active for PID 7"):
        retries.slot_in_use(busy)
    retries.connected()
    assert retries.slot_in_use(busy)
