"""Stalls of connectors and tasks in an executor, found while their threads hang."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from tests.support.waiting import WAIT_S, eventually
from tests.unit.worker.executors.conftest import RecordingListener, connector_spec, task_spec
from tests.unit.worker.executors.plugins import SCRIPTS
from worker.executors.hang_reports import HangReports
from worker.executors.local import LocalExecutor
from worker.executors.messages import progress_of_plain, progress_to_plain, stall_of_plain, stall_to_plain
from worker.executors.process_handle import ProcessHandle
from worker.executors.stall_watch import StallCheck, StallWatch
from worker.executors.work_registry import TaskEntry, WorkRegistry
from worker.model import Stall, TargetState, TaskId
from worker.observability.stalls import executor_stall

_NOW = {"task__stall__timeout__ms": "1"}


def _check_until(executor: LocalExecutor, listener: RecordingListener, start_id: int, who: str, what: str) -> None:
    def is_reported() -> bool:
        executor.check_stalls()
        return what in listener.reported(start_id, who)

    eventually(is_reported, f"{what} of {who}", lambda: listener.reports)


def test_connector_whose_start_hangs_is_reported_and_reported_again_when_it_moves(
    executor: LocalExecutor, listener: RecordingListener, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    SCRIPTS[name].hang_in = "start"
    executor.start_connector(3, connector_spec(name, **_NOW), TargetState.STARTED)
    assert SCRIPTS[name].hanging.wait(WAIT_S)
    with caplog.at_level(logging.WARNING):
        _check_until(executor, listener, 3, name, "stalled call start")
        executor.check_stalls()
        SCRIPTS[name].proceed.set()
        listener.wait_for(3, name, "RUNNING")
        executor.check_stalls()
    assert listener.reported(3, name) == ["stalled call start", "stalled call start", "RUNNING", "moves"]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith(f"Connector {name} has stalled since 20")
    assert lines[0].endswith("start() of the connector has not returned")
    assert lines[1].startswith(f"Connector {name} moves again; it had stalled since 20")


def test_task_whose_poll_hangs_answers_for_its_progress_and_activity(
    executor: LocalExecutor, listener: RecordingListener, name: str
) -> None:
    SCRIPTS[name].hang_in = "poll"
    spec = task_spec(name)
    config = {**spec.connector.config, "task.stall.timeout.ms": "1", "task.stall.quiet.timeout.ms": "1"}
    executor.start_task(4, replace(spec, connector=replace(spec.connector, given=config, config=config)))
    assert SCRIPTS[name].hanging.wait(WAIT_S)
    _check_until(executor, listener, 4, f"{name}-0", "stalled call polling")
    progress = executor.progress(TaskId(name, 0))
    assert progress is not None
    assert progress.activity is not None
    assert progress.stalled is not None
    assert (progress.activity.phase, progress.stalled.message) == ("polling", "poll() has not returned")
    assert progress_of_plain(progress_to_plain(progress)) == progress


class StallListener(RecordingListener):
    """Keeps the stall of each instance, as a status does."""

    def __init__(self) -> None:
        super().__init__()
        self.stalls: list[Stall | None] = []

    def on_stall(self, start_id: int, instance: str | TaskId, stall: Stall | None) -> None:
        super().on_stall(start_id, instance, stall)
        self.stalls.append(stall)


def watch_stalls(listener: StallListener, checks: Sequence[StallCheck | Exception]) -> StallWatch:
    """Returns a watch that finds these checks of task ``c-0``, one after the other."""
    task, remaining = TaskId("c", 0), iter(checks)

    def find() -> dict[str | TaskId, StallCheck]:
        found = next(remaining)
        if isinstance(found, Exception):
            raise found
        return {task: found}

    return StallWatch(listener, find, has_thread=False)


def test_stall_is_reported_again_as_it_was_found_first(caplog: pytest.LogCaptureFixture) -> None:
    listener = StallListener()
    first, other = Stall("retries", "idle", 5, "refused"), Stall("call", "putting", 9, "put() has not returned")
    found = [first, Stall("retries", "idle", 7, "timed out"), other, None, None]
    watch = watch_stalls(listener, [StallCheck(1, stall) for stall in found])
    with caplog.at_level(logging.WARNING):
        for _ in found:
            watch.check()
    assert listener.stalls == [first, first, other, None]
    assert len(caplog.records) == 3


def test_other_pending_work_is_another_stall() -> None:
    listener = StallListener()
    table, slot = Stall("pending", "idle", 5, "a table commit has not ended"), Stall("pending", "idle", 7, "the slot is in use")
    watch = watch_stalls(listener, [StallCheck(1, one) for one in (table, replace(table, since_ms=6), slot)])
    for _ in range(3):
        watch.check()
    assert listener.stalls == [table, table, slot]


class AnsweringProcess:
    """A process that has not answered for these times, check by check."""

    def __init__(self, *unanswered_s: float) -> None:
        self._unanswered_s = list(unanswered_s)
        self.ended = threading.Event()

    def unanswered_s(self, now: float) -> float:
        return self._unanswered_s.pop(0)


def test_stall_is_reported_again_after_its_process_did_not_respond() -> None:
    listener, registry, process = StallListener(), WorkRegistry(), cast(ProcessHandle, AnsweringProcess(20, 0))
    spec = task_spec("c")
    registry.tasks[spec.id] = TaskEntry(1, spec, False, process)
    hangs = HangReports(registry, listener, 10)
    stall = Stall("call", "polling", 5, "poll() has not returned")
    watch = watch_stalls(listener, [StallCheck(1, stall)] * 2)
    watch.check()
    hangs.check(process, 100.0)
    hangs.check(process, 101.0)
    watch.check()
    assert [None if one is None else one.kind for one in listener.stalls] == ["call", "executor", None, "call"]


def test_failed_check_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    listener, stall = StallListener(), Stall("call", "polling", 5, "poll() has not returned")
    watch = watch_stalls(listener, [ValueError("no"), StallCheck(1, stall)])
    watch.check()
    watch.check()
    assert listener.stalls == [stall]
    assert caplog.records[0].getMessage() == "Looking for stalled tasks failed"


def test_stall_crosses_the_interface_as_plain_data() -> None:
    stall = executor_stall(17)
    assert stall_of_plain(stall_to_plain(stall)) == stall
    assert stall_of_plain(stall_to_plain(None)) is None
    assert Stall(**stall_to_plain(stall) or {}) == stall
