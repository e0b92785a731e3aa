"""What a distributed worker's self-healing makes of the states it hears of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from worker.config.worker_config import WorkerConfig
from worker.distributed.auto_restart import Healing
from worker.distributed.herder_core import Coordination
from worker.distributed.status_writer import Instance, StatusWriter
from worker.model import State, TargetState, TaskId

TASK = TaskId("c", 0)
CONFIG = {"errors.restart.max.attempts": "2", "errors.restart.delay.initial.ms": "60000"}


@dataclass
class Parts:
    """Stands for the coordination, its work, and the configuration that it goes by."""

    target: TargetState = TargetState.STARTED
    tasks: dict[TaskId, object] = field(default_factory=lambda: {TASK: object()})
    connectors: dict[str, object] = field(default_factory=lambda: {"c": object()})

    @property
    def state(self) -> Parts:
        return self

    @property
    def work(self) -> Parts:
        return self

    def config(self, name: str) -> dict[str, str]:
        return CONFIG

    def target_state(self, name: str) -> TargetState:
        return self.target


class Statuses:
    """Passes on what is told, as the writer does."""

    healing: Any = None

    def tell(self, instance: Instance, state: State, trace: str | None = None) -> None:
        self.healing.on_state(instance, state, trace)


@pytest.fixture
def parts() -> Parts:
    return Parts()


@pytest.fixture
def healing(parts: Parts) -> Healing:
    worker = {"key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "/nowhere/offsets"}
    return Healing(cast(Coordination, parts), cast(StatusWriter, Statuses()), WorkerConfig.standalone(worker))


def waits(healing: Healing) -> bool:
    """Whether the task's restart is awaited; told by what its status would show next."""
    restarts = healing._healer.state("c", 0)
    return restarts is not None and restarts.next_ms is not None


def test_a_pause_that_is_told_after_the_resume_takes_no_restart_back(healing: Healing, parts: Parts) -> None:
    healing.on_state(TASK, State.FAILED, "trace")
    parts.target = TargetState.PAUSED
    healing.begin_anew("c")
    assert not waits(healing)
    parts.target = TargetState.STARTED
    healing.begin_anew("c")
    assert waits(healing)
    healing.on_state("c", State.PAUSED, None)
    assert waits(healing)


@pytest.mark.parametrize("state", [State.PAUSED, State.STOPPED])
def test_nothing_is_restarted_of_a_connector_that_rests(state: State, healing: Healing, parts: Parts) -> None:
    healing.on_state(TASK, State.FAILED, "trace")
    assert waits(healing)
    parts.target = TargetState[state.name]
    healing.on_state("c", state, None)
    assert not waits(healing)


def test_what_runs_anew_is_not_told_to_have_failed_again(healing: Healing, parts: Parts) -> None:
    healing.on_state(TASK, State.FAILED, "trace")
    parts.tasks[TASK] = object()
    healing.begin_anew("c")
    assert not waits(healing)
