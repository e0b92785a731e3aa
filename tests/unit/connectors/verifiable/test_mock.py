"""Mock connectors: one task, and configured failures."""

from __future__ import annotations

import threading

import pytest

from connect.connector import SinkConnector, SourceConnector
from connect.errors import ConfigError
from connect.testing import SinkHarness, SourceHarness
from connectors.verifiable import MockSink, MockSinkTask, MockSource, MockSourceTask
from connectors.verifiable.mock import TaskFailure
from tests.support.waiting import WAIT_S, call_with_timeout

BOTH = pytest.mark.parametrize("connector_class", [MockSource, MockSink])
FAIL_TASK = {"mock_mode": "task-failure", "delay_ms": "0"}


class Context:
    """A connector's context that keeps what was raised."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.raised = threading.Event()

    def request_task_reconfiguration(self) -> None:
        raise AssertionError("nothing to reconfigure")

    def raise_error(self, error: Exception) -> None:
        self.errors.append(error)
        self.raised.set()


def started(
    connector_class: type[SourceConnector | SinkConnector], config: dict[str, str]
) -> tuple[SourceConnector | SinkConnector, Context]:
    connector, context = connector_class(), Context()
    connector.initialize(context)
    connector.start({"name": "mock", **config})
    return connector, context


@BOTH
def test_there_is_one_task_with_the_connectors_configuration(connector_class: type[SourceConnector | SinkConnector]) -> None:
    connector, _ = started(connector_class, {"delay_ms": "0"})
    assert connector.task_configs(3) == [{"name": "mock", "delay_ms": "0"}]


@BOTH
def test_the_connector_fails_after_its_delay(
    connector_class: type[SourceConnector | SinkConnector], monkeypatch: pytest.MonkeyPatch
) -> None:
    delays_s: list[float] = []
    start = threading.Timer.start

    def note(timer: threading.Timer) -> None:
        delays_s.append(timer.interval)
        start(timer)

    monkeypatch.setattr(threading.Timer, "start", note)
    connector, context = started(connector_class, {"mock_mode": "connector-failure", "delay_ms": "30"})
    assert context.raised.wait(WAIT_S)
    assert delays_s == [0.03]
    assert [str(error) for error in context.errors] == ["mock_mode=connector-failure"]
    connector.stop()


@BOTH
def test_a_stopped_connector_does_not_fail(connector_class: type[SourceConnector | SinkConnector]) -> None:
    connector, context = started(connector_class, {"mock_mode": "connector-failure"})
    assert any(thread.name == "mock-failure-mock" for thread in threading.enumerate())
    connector.stop()
    connector.stop()
    assert not any(thread.name == "mock-failure-mock" for thread in threading.enumerate())
    assert not context.errors


@BOTH
@pytest.mark.parametrize("mode", ["task-failure", "other"])
def test_other_modes_leave_the_connector_alone(connector_class: type[SourceConnector | SinkConnector], mode: str) -> None:
    connector, context = started(connector_class, {"mock_mode": mode, "delay_ms": "0"})
    assert not any(thread.name == "mock-failure-mock" for thread in threading.enumerate())
    connector.stop()
    assert not context.errors


def test_an_invalid_delay_fails_the_start() -> None:
    with pytest.raises(ConfigError, match="delay_ms"):
        started(MockSource, {"mock_mode": "connector-failure", "delay_ms": "soon"})


@pytest.mark.parametrize(("delay", "due_s"), [({}, 15.0), ({"delay_ms": "250"}, 0.25)])
def test_a_task_fails_exactly_after_the_delay(delay: dict[str, str], due_s: float) -> None:
    now_s = 1000.0
    failure = TaskFailure({"mock_mode": "task-failure", **delay}, lambda: now_s)
    assert failure.remaining_s() == due_s
    now_s += due_s - 0.01
    failure.raise_if_due()
    now_s += 0.01
    with pytest.raises(RuntimeError, match="mock_mode=task-failure"):
        failure.raise_if_due()


def test_a_source_task_fails_in_poll() -> None:
    with SourceHarness(MockSourceTask(), FAIL_TASK) as harness, pytest.raises(RuntimeError, match="mock_mode=task-failure"):
        harness.poll()


def test_a_source_task_returns_nothing_and_waits_until_it_is_stopped() -> None:
    with SourceHarness(MockSourceTask(), {"mock_mode": "connector-failure", "delay_ms": "0"}) as harness:
        polling = threading.Thread(target=harness.poll, name="polling")
        polling.start()
        harness.task.stop()
        polling.join(WAIT_S)
        assert not polling.is_alive()
        assert call_with_timeout(harness.poll, "a poll after the stop") == []


def test_a_sink_task_requests_a_put_and_fails_in_it() -> None:
    with SinkHarness(MockSinkTask(), {**FAIL_TASK, "delay_ms": "60000"}) as harness:
        assert 30_000 < (harness.context.requested_timeout_ms or 0) <= 60_001
        harness.context.requested_timeout_ms = None
        harness.put_values("t", [1])
        assert 30_000 < (harness.context.requested_timeout_ms or 0) <= 60_001
    with SinkHarness(MockSinkTask(), FAIL_TASK) as harness:
        assert harness.context.requested_timeout_ms == 1
        with pytest.raises(RuntimeError, match="mock_mode=task-failure"):
            harness.put([])


def test_a_sink_task_without_a_failure_accepts_all_records() -> None:
    with SinkHarness(MockSinkTask(), {}) as harness:
        harness.put_values("t", [1, 2, 3])
        assert harness.context.requested_timeout_ms is None
        assert list(harness.commit().values()) == [3]
