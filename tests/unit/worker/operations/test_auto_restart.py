"""When failed connectors and tasks are restarted automatically."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

import pytest

from connect.errors import ConfigError
from connect.testing import ManualClock
from tests.support.waiting import WAIT_S
from worker.config.worker_config import WorkerConfig
from worker.model import ConnectorStatus, Restarts, State, Status
from worker.operations.auto_restart import AutoRestart, RestartPolicy, RestartScheduler

POLICY = RestartPolicy(max_attempts=3, initial_ms=1000, max_ms=3000, reset_after_ms=60_000)
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Scene:
    def __init__(self, spread: float = 0.0) -> None:
        self.clock = ManualClock()
        self.restarted: list[tuple[str, int | None]] = []
        self.scheduler = RestartScheduler(
            lambda *instance: self.restarted.append(instance),
            self.clock.monotonic,
            epoch_ms=self.clock.time_ms,
            spread=lambda: spread,
        )

    def pass_s(self, seconds: float) -> list[tuple[str, int | None]]:
        """Turns the clock; what was restarted meanwhile."""
        self.clock.advance(seconds)
        self.restarted.clear()
        self.scheduler.run_due()
        return list(self.restarted)


def worker(**props: str) -> WorkerConfig:
    base = {"key.converter": JSON, "value.converter": JSON, "offset.storage.file.filename": "offsets"}
    return WorkerConfig.standalone({**base, **props})


def test_automatic_restarts_are_off_by_default() -> None:
    policy = RestartPolicy.of({}, worker())
    assert policy == RestartPolicy(0, 1000, 60_000, 600_000)
    assert not policy.is_on
    scene = Scene()
    scene.scheduler.failed("c", 0, policy)
    assert scene.pass_s(1e6) == []
    assert scene.scheduler.state("c", 0) is None
    assert AutoRestart(worker(), lambda *_: None).on_state("c", 0, State.FAILED, None, {}) is None


def test_connector_keys_override_worker_keys() -> None:
    defaults = worker(**{"errors.restart.max.attempts": "5", "errors.restart.delay.initial.ms": "10"})
    policy = RestartPolicy.of({"errors.restart.max.attempts": "-1", "errors.restart.delay.max.ms": "20"}, defaults)
    assert policy == RestartPolicy(-1, 10, 20, 600_000)
    with pytest.raises(ConfigError, match=r"errors\.restart\.max\.attempts"):
        RestartPolicy.of({"errors.restart.max.attempts": "-2"}, defaults)


def test_statuses_show_no_restarts_until_the_first_failure() -> None:
    config = {"errors.restart.max.attempts": "3"}
    auto_restart = AutoRestart(worker(), lambda *_: None)
    running = Status(State.RUNNING, "w:1")
    status = ConnectorStatus("c", running, [(0, running)], "source")
    shown = auto_restart.with_restarts(status, config)
    assert (shown.connector.restarts, shown.tasks[0][1].restarts) == (Restarts(0, None), Restarts(0, None))
    assert auto_restart.with_restarts(status, {}) == status
    restarts = auto_restart.on_state("c", 0, State.FAILED, "trace", config)
    assert restarts is not None
    assert restarts.next_ms is not None
    auto_restart.reset("c")
    assert auto_restart.on_state("c", 0, State.UNASSIGNED, None, config) == Restarts(0, None)


def test_invalid_config_provider_values_turn_automatic_restarts_off() -> None:
    auto_restart = AutoRestart(worker(), lambda *_: None)
    assert auto_restart.on_state("c", 0, State.FAILED, None, {"errors.restart.max.attempts": "many"}) is None


def test_delays_double_up_to_the_maximum_and_end_after_the_last_attempt() -> None:
    scene = Scene()
    for delay in (1, 2, 3):
        scene.scheduler.failed("c", 0, POLICY)
        assert scene.pass_s(delay - 0.1) == []
        assert scene.pass_s(0.2) == [("c", 0)]
        scene.scheduler.running("c", 0)
    scene.scheduler.failed("c", 0, POLICY)
    assert scene.pass_s(1000) == []
    assert scene.scheduler.state("c", 0) == Restarts(3, None)


def test_restarts_without_a_limit_never_end() -> None:
    scene = Scene()
    for _ in range(100):
        scene.scheduler.failed("c", None, replace(POLICY, max_attempts=-1))
        assert scene.pass_s(3.1) == [("c", None)]


def test_jitter_shortens_delays_by_a_fifth_at_most() -> None:
    assert Scene(spread=1.0).scheduler is not None
    assert [POLICY.delay_ms(count, 1.0) for count in (0, 1, 2, 60)] == [800, 1600, 2400, 2400]


def test_state_shows_count_and_next_time() -> None:
    scene = Scene()
    assert scene.scheduler.state("c", 0) is None
    scene.scheduler.failed("c", 0, POLICY)
    assert scene.scheduler.state("c", 0) == Restarts(0, scene.clock.time_ms() + 1000)
    scene.pass_s(1)
    scene.scheduler.running("c", 0)
    assert scene.scheduler.state("c", 0) == Restarts(1, None)


def test_instance_has_given_up_only_when_no_restart_is_due_or_under_way() -> None:
    scene = Scene()
    assert scene.scheduler.has_given_up("c", 0), "nothing restarts it"
    for attempt in range(4):
        scene.scheduler.failed("c", 0, POLICY)
        assert scene.scheduler.has_given_up("c", 0) is (attempt == POLICY.max_attempts)
        scene.pass_s(10)  # it is being restarted, and its status is still FAILED
        assert scene.scheduler.has_given_up("c", 0) is (attempt == POLICY.max_attempts)
    scene.scheduler.running("c", 0)
    assert not scene.scheduler.has_given_up("c", 0)


def test_long_run_resets_the_count() -> None:
    scene = Scene()
    for _ in range(3):
        scene.scheduler.failed("c", 0, POLICY)
        scene.pass_s(3.1)
        scene.scheduler.running("c", 0)
    scene.pass_s(30)
    scene.scheduler.running("c", 0)  # told again, as after a pause: it has been running all the time
    scene.pass_s(30)
    assert scene.scheduler.state("c", 0) == Restarts(0, None)
    scene.scheduler.failed("c", 0, POLICY)
    assert scene.pass_s(1) == [("c", 0)]


def test_instance_that_was_restarted_on_request_is_not_restarted_again() -> None:
    scene = Scene()
    scene.scheduler.failed("c", 0, POLICY)
    scene.scheduler.running("c", 0)
    assert scene.pass_s(100) == []


def test_reset_connector_is_not_restarted() -> None:
    scene = Scene()
    scene.scheduler.failed("c", None, POLICY)
    scene.scheduler.failed("c", 1, POLICY)
    scene.scheduler.failed("d", 0, POLICY)
    scene.scheduler.reset("c")
    assert scene.pass_s(100) == [("d", 0)]
    assert scene.scheduler.state("c", 1) is None


def test_second_failure_while_a_restart_is_pending_changes_nothing() -> None:
    scene = Scene()
    scene.scheduler.failed("c", 0, POLICY)
    scene.pass_s(0.9)
    scene.scheduler.failed("c", 0, POLICY)
    assert scene.pass_s(0.2) == [("c", 0)]


def test_disabled_policy_cancels_pending_restarts() -> None:
    scene = Scene()
    scene.scheduler.failed("c", 0, POLICY)
    scene.scheduler.failed("c", 0, RestartPolicy())
    assert scene.pass_s(100) == []


def test_restart_and_final_failure_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    scene = Scene()
    once = replace(POLICY, max_attempts=1)
    scene.scheduler.failed("c", 0, once, "org.apache.kafka.common.config.ConfigException: Invalid value")
    scene.pass_s(1)
    scene.scheduler.failed("c", 0, once)
    first, second = [record.getMessage() for record in caplog.records]
    assert first == "Task c-0 failed; restart 1 of 1 in 1.0 s; its configuration is invalid, so a restart will hardly help"
    assert second == "Task c-0 failed and stays FAILED: it was restarted 1 times (errors.restart.max.attempts)"


def test_failed_restart_does_not_stop_other_restarts(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def restart(connector: str, task: int | None) -> None:
        told.append(connector)
        raise RuntimeError("no")

    clock = ManualClock()
    scheduler = RestartScheduler(restart, clock.monotonic, spread=lambda: 0.0)
    for name in ("a", "b"):
        scheduler.failed(name, None, POLICY)
    clock.advance(1)
    scheduler.run_due()
    assert told == ["a", "b"]
    assert "Connector a could not be restarted: no" in caplog.text


def test_thread_restarts_and_ends_when_closed() -> None:
    restarted = threading.Event()
    scheduler = RestartScheduler(lambda *_: restarted.set(), spread=lambda: 0.0)
    scheduler.start()
    scheduler.failed("c", 0, replace(POLICY, initial_ms=1))
    assert restarted.wait(WAIT_S)
    scheduler.close()
    assert "auto-restart" not in [thread.name for thread in threading.enumerate()]
    scheduler.failed("c", 0, POLICY)
    assert scheduler.state("c", 0) is None
