"""What is written of what runs on a worker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from worker.config.secrets import SecretMask
from worker.distributed.assignment_reconciler import LocalWork, RunningConnector, RunningTask
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.status_writer import StatusWriter
from worker.model import State, Status, TargetState, TaskId
from worker.storage.config_state import ConfigState
from worker.storage.status_store import StatusStore

TASK = TaskId("c", 0)


class FakeStore:
    def __init__(self) -> None:
        self.written: list[tuple[str | TaskId, State]] = []

    def put(self, instance: str | TaskId, status: Status) -> None:
        self.written.append((instance, status.state))

    put_safe = put


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def loop() -> HerderLoop:
    return HerderLoop()


@pytest.fixture
def writer(store: FakeStore, loop: HerderLoop) -> StatusWriter:
    made = StatusWriter(cast(StatusStore, store), loop, "here:1", SecretMask(), tracks_topics=False, graceful_s=0.1)
    made.work = LocalWork(cast(Any, None), cast(Any, None), loop.post, ConfigState)
    made.work.connectors["c"] = RunningConnector(1, TargetState.STARTED)
    made.work.tasks[TASK] = RunningTask(2, None)
    made.work._latest_runs.update({"c": 1, TASK: 2})
    return made


def tell(writer: StatusWriter, loop: HerderLoop, state: State) -> None:
    writer.on_connector_state(1, "c", state, None, None)
    writer.on_task_state(2, TASK, state, None, None)
    loop.run_due()


def test_what_runs_is_told(writer: StatusWriter, loop: HerderLoop, store: FakeStore) -> None:
    tell(writer, loop, State.RUNNING)
    assert store.written == [("c", State.RUNNING), (TASK, State.RUNNING)]


def test_a_start_that_ends_after_it_was_to_stop_does_not_hide_where_it_runs_now(
    writer: StatusWriter, loop: HerderLoop, store: FakeStore
) -> None:
    assert writer.work is not None
    writer.work.connectors.clear()
    writer.work.tasks.clear()
    tell(writer, loop, State.RUNNING)
    assert store.written == []
    tell(writer, loop, State.UNASSIGNED)
    assert store.written == [("c", State.UNASSIGNED), (TASK, State.UNASSIGNED)]


def test_a_failure_on_the_way_out_is_an_end_as_it_was_asked_for(writer: StatusWriter, loop: HerderLoop, store: FakeStore) -> None:
    assert writer.work is not None
    writer.work.connectors.clear()
    writer.work.tasks.clear()
    tell(writer, loop, State.FAILED)
    assert store.written == [("c", State.UNASSIGNED), (TASK, State.UNASSIGNED)]


def test_a_failure_is_told(writer: StatusWriter, loop: HerderLoop, store: FakeStore) -> None:
    tell(writer, loop, State.FAILED)
    assert store.written == [("c", State.FAILED), (TASK, State.FAILED)]
