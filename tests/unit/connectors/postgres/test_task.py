"""The task without a server: retries, states, and what the worker sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect.errors import ConfigError, ConnectError, UnreachableError
from connect.record import SourceRecord
from connect.source import SourceTaskContext
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.states import CaptureState
from connectors.postgres import PostgresSourceTask, task
from connectors.postgres.errors import SlotInUseError

BASE = {
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.password": "s3cret",
    "database.dbname": "d",
    "retriable.restart.connector.wait.ms": "0",
    "slot.retry.delay.ms": "0",
}
RECORD = SourceRecord({"server": "p"}, {"lsn": 5}, "t")


class FakeCapture:
    """Does what the test says: a list of records, an error, or a state."""

    def __init__(self, *_: Any) -> None:
        self.sessions = SimpleNamespace(interrupt=Interrupt())
        self.state = CaptureState.STARTING
        self.uses_slot = False
        self.steps: list[Any] = []
        self.left: list[SourceRecord] = []
        self.disconnects = 0
        self.check_error: Exception | None = None
        self.signals = SimpleNamespace(
            open_channels=lambda context, stored: None, offsets_stored=lambda offsets: None, close_channels=lambda: None
        )

    def check(self) -> None:
        if self.check_error is not None:
            raise self.check_error

    def read(self) -> list[SourceRecord]:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, CaptureState):
            self.state = step
            return []
        return list(step)

    def take_records(self) -> Sequence[SourceRecord]:
        left, self.left = self.left, []
        return left

    def disconnect(self) -> None:
        self.disconnects += 1
        self.left = []


class FakeContext:
    """No offset is stored."""

    offset_reader = SimpleNamespace(offset=lambda partition: None)


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCapture]:
    made = FakeCapture()
    monkeypatch.setattr(task, "ChangeCapture", lambda *_: made)
    yield made
    made.sessions.interrupt.close()


def start(**keys: str) -> PostgresSourceTask:
    made = PostgresSourceTask()
    made.initialize(cast(SourceTaskContext, FakeContext()))
    made.start({**BASE, **{name.replace("_", "."): value for name, value in keys.items()}})
    return made


def test_records_read_before_a_lost_connection_are_returned(capture: FakeCapture) -> None:
    source = start()
    capture.steps, capture.left = [ConnectionLostError("lost"), [RECORD]], [RECORD]
    assert source.poll() == [RECORD]
    assert capture.state is CaptureState.RECONNECTING
    assert capture.disconnects == 1
    assert source.poll() == [RECORD]


def test_a_slot_in_use_is_a_state_until_it_fails_the_task(capture: FakeCapture) -> None:
    source = start(slot_max_retries="1000000", slot_retry_delay_ms="1")
    capture.steps = [SlotInUseError("slot is active for PID 7")]
    assert source.poll() is None
    assert capture.state is CaptureState.WAITING_FOR_SLOT
    source = start(slot_max_retries="0")
    capture.steps = [SlotInUseError("slot is active for PID 7")]
    with pytest.raises(ConnectError, match="slot is active for PID 7"):
        source.poll()


def test_a_server_that_is_unavailable_at_the_start_is_waited_for(capture: FakeCapture) -> None:
    capture.check_error = UnreachableError("cannot reach it")
    source = start()
    assert capture.state is CaptureState.RECONNECTING
    capture.steps = [[RECORD]]
    assert source.poll() == [RECORD]
    with pytest.raises(ConnectError, match=r"gave up after errors\.max\.retries=0"):
        start(errors_max_retries="0")


def test_pending_work_names_the_latest_error_since_the_first(capture: FakeCapture) -> None:
    source = start(slot_max_retries="1000000", slot_retry_delay_ms="1")
    capture.steps = [ConnectionLostError("connection reset by h:5432"), SlotInUseError("slot s is active for PID 7"), [RECORD]]
    source.poll()
    lost = source.pending_work.oldest()
    assert lost is not None
    assert "connection reset by h:5432" in lost.message
    while source.pending_work.oldest() == lost:
        source.poll()
    waits = source.pending_work.oldest()
    assert waits is not None
    assert "slot s is active for PID 7" in waits.message
    assert waits.since == lost.since
    while capture.steps:
        source.poll()
    assert source.pending_work.oldest() is None


def test_a_wrong_configuration_fails_the_start(capture: FakeCapture) -> None:
    capture.check_error = ConfigError("no such database", key="database.dbname")
    with pytest.raises(ConfigError):
        start()


def test_streaming_is_delayed_after_a_snapshot(capture: FakeCapture) -> None:
    source = start(streaming_delay_ms="60000", poll_interval_ms="1")
    capture.steps = [CaptureState.SNAPSHOT, [RECORD], CaptureState.SNAPSHOT_COMPLETED]
    assert [source.poll() for _ in range(3)] == [None, [RECORD], None]
    assert source._retries.remaining_s() > 50
    source.stop()  # ends the wait
    assert source.poll() is None


def test_polls_end_after_stop_and_progress_is_known_before_start(capture: FakeCapture) -> None:
    assert PostgresSourceTask().progress() == {"phase": "starting"}
    PostgresSourceTask().close()
    source = start()
    source.stop()
    capture.steps = [[RECORD]]
    assert source.poll() is None
