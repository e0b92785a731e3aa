"""When failed connectors and tasks are restarted, with a clock that is turned."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

import pytest

from connect.errors import ConfigError
from connect.testing import ManualClock
from worker.config.worker_config import WorkerConfig
from worker.model import Restarts
from worker.operations.auto_restart import Healer, RestartPolicy

POLICY = RestartPolicy(max_attempts=3, initial_ms=1000, max_ms=3000, reset_after_ms=60_000)
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Scene:
    def __init__(self, spread: float = 0.0) -> None:
        self.clock = ManualClock()
        self.restarted: list[tuple[str, int | None]] = []
        self.healer = Healer(
            lambda *instance: self.restarted.append(instance),
            self.clock.monotonic,
            epoch_ms=self.clock.time_ms,
            spread=lambda: spread,
        )

    def pass_s(self, seconds: float) -> list[tuple[str, int | None]]:
        """Turns the clock; what was restarted meanwhile."""
        self.clock.advance(seconds)
        self.restarted.clear()
        self.healer.run_due()
        return list(self.restarted)


def worker(**props: str) -> WorkerConfig:
    base = {"key.converter": JSON, "value.converter": JSON, "offset.storage.file.filename": "offsets"}
    return WorkerConfig.standalone({**base, **props})


def test_off_is_the_default() -> None:
    policy = RestartPolicy.of({}, worker())
    assert policy == RestartPolicy(0, 1000, 60_000, 600_000)
    assert not policy.is_on
    scene = Scene()
    scene.healer.failed("c", 0, policy)
    assert scene.pass_s(1e6) == []
    assert scene.healer.state("c", 0) is None
    assert scene.healer.shown("c", 0, policy) is None


def test_a_connectors_keys_come_before_the_workers() -> None:
    defaults = worker(**{"errors.restart.max.attempts": "5", "errors.restart.delay.initial.ms": "10"})
    policy = RestartPolicy.of({"errors.restart.max.attempts": "-1", "errors.restart.delay.max.ms": "20"}, defaults)
    assert policy == RestartPolicy(-1, 10, 20, 600_000)
    with pytest.raises(ConfigError, match=r"errors\.restart\.max\.attempts"):
        RestartPolicy.of({"errors.restart.max.attempts": "-2"}, defaults)


def test_delays_double_up_to_the_longest_and_end_after_the_last_attempt() -> None:
    scene = Scene()
    for delay in (1, 2, 3):
        scene.healer.failed("c", 0, POLICY)
        assert scene.pass_s(delay - 0.1) == []
        assert scene.pass_s(0.2) == [("c", 0)]
        scene.healer.running("c", 0)
    scene.healer.failed("c", 0, POLICY)
    assert scene.pass_s(1000) == []
    assert scene.healer.state("c", 0) == Restarts(3, None)


def test_without_a_limit_it_goes_on_for_ever() -> None:
    scene = Scene()
    for _ in range(100):
        scene.healer.failed("c", None, replace(POLICY, max_attempts=-1))
        assert scene.pass_s(3.1) == [("c", None)]


def test_randomness_takes_off_a_fifth_at_most() -> None:
    assert Scene(spread=1.0).healer is not None
    assert [POLICY.delay_ms(count, 1.0) for count in (0, 1, 2, 60)] == [800, 1600, 2400, 2400]


def test_the_state_tells_how_often_and_when() -> None:
    scene = Scene()
    assert scene.healer.state("c", 0) is None
    assert scene.healer.shown("c", 0, POLICY) == Restarts(0, None)
    scene.healer.failed("c", 0, POLICY)
    assert scene.healer.state("c", 0) == Restarts(0, scene.clock.time_ms() + 1000)
    scene.pass_s(1)
    scene.healer.running("c", 0)
    assert scene.healer.state("c", 0) == Restarts(1, None)


def test_running_well_for_long_forgets_the_restarts() -> None:
    scene = Scene()
    for _ in range(3):
        scene.healer.failed("c", 0, POLICY)
        scene.pass_s(3.1)
        scene.healer.running("c", 0)
    scene.pass_s(30)
    scene.healer.running("c", 0)  # told again, as after a pause: it has been running all the time
    scene.pass_s(30)
    assert scene.healer.state("c", 0) == Restarts(0, None)
    scene.healer.failed("c", 0, POLICY)
    assert scene.pass_s(1) == [("c", 0)]


def test_what_was_restarted_by_hand_is_left_alone() -> None:
    scene = Scene()
    scene.healer.failed("c", 0, POLICY)
    scene.healer.running("c", 0)
    assert scene.pass_s(100) == []


def test_what_was_paused_stopped_or_deleted_is_left_alone() -> None:
    scene = Scene()
    scene.healer.failed("c", None, POLICY)
    scene.healer.failed("c", 1, POLICY)
    scene.healer.failed("d", 0, POLICY)
    scene.healer.forget("c")
    assert scene.pass_s(100) == [("d", 0)]
    assert scene.healer.state("c", 1) is None


def test_a_second_failure_while_a_restart_is_awaited_is_the_same_one() -> None:
    scene = Scene()
    scene.healer.failed("c", 0, POLICY)
    scene.pass_s(0.9)
    scene.healer.failed("c", 0, POLICY)
    assert scene.pass_s(0.2) == [("c", 0)]


def test_a_policy_that_was_switched_off_ends_what_was_awaited() -> None:
    scene = Scene()
    scene.healer.failed("c", 0, POLICY)
    scene.healer.failed("c", 0, RestartPolicy())
    assert scene.pass_s(100) == []


def test_the_log_tells_of_the_restart_and_of_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    scene = Scene()
    once = replace(POLICY, max_attempts=1)
    scene.healer.failed("c", 0, once, "org.apache.kafka.common.config.ConfigException: Invalid value")
    scene.pass_s(1)
    scene.healer.failed("c", 0, once)
    first, second = [record.getMessage() for record in caplog.records]
    assert first == "Task c-0 failed; restart 1 of 1 in 1.0 s; its configuration is to blame, so that it will hardly help"
    assert second == "Task c-0 failed and stays FAILED: it was restarted 1 times (errors.restart.max.attempts)"


def test_a_restart_that_fails_does_not_end_the_others(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def restart(connector: str, task: int | None) -> None:
        told.append(connector)
        raise RuntimeError("no")

    clock = ManualClock()
    healer = Healer(restart, clock.monotonic, spread=lambda: 0.0)
    for name in ("a", "b"):
        healer.failed(name, None, POLICY)
    clock.advance(1)
    healer.run_due()
    assert told == ["a", "b"]
    assert "Connector a could not be restarted: no" in caplog.text


def test_the_thread_restarts_and_ends_when_it_is_closed() -> None:
    restarted = threading.Event()
    healer = Healer(lambda *_: restarted.set(), spread=lambda: 0.0)
    healer.start()
    healer.failed("c", 0, replace(POLICY, initial_ms=1))
    assert restarted.wait(10)
    healer.close()
    assert "self-healing" not in [thread.name for thread in threading.enumerate()]
    healer.failed("c", 0, POLICY)
    assert healer.state("c", 0) is None
