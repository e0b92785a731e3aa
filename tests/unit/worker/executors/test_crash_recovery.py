"""Recovery of connectors and tasks whose process has exited: restart, quarantine, failure, and their reports."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, cast

import pytest

from connect.errors import ConnectError
from connect.testing import ManualClock
from tests.unit.worker.executors.conftest import connector_spec, task_spec
from worker.config.secrets import SecretMask
from worker.executors.crash_recovery import CrashRecovery
from worker.executors.placement import WINDOW_S, CrashHistory, ProcessKind
from worker.executors.process_handle import ProcessExit, ProcessHandle, ProcessSpec
from worker.executors.state_reports import StateReports
from worker.executors.work_registry import ConnectorEntry, Entry, TaskEntry, WorkRegistry
from worker.model import Stall, State, TargetState, TaskId

CRASH = ProcessExit("was ended by signal 9 (SIGKILL)")


class FakeProcess:
    """The part of a process handle that recovery needs."""

    def __init__(self, key: str, kind: ProcessKind) -> None:
        self.spec = ProcessSpec(key, kind=kind)
        self.key = key
        self.pid = 1
        self.is_cleaned_up = False


class Pool:
    """A registry with crash recovery. ``events`` has reports and restarts in order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.registry = WorkRegistry()
        self.events: list[tuple[str, str]] = []
        self.traces: dict[str, str] = {}
        reports = StateReports(self.registry, self, SecretMask())
        self.recovery = CrashRecovery(self.registry, reports, CrashHistory(self.clock.monotonic), self._restart)

    def process(self, key: str = "shared-1", kind: ProcessKind = ProcessKind.SHARED) -> ProcessHandle:
        return cast(ProcessHandle, FakeProcess(key, kind))

    def add_task(self, name: str, process: ProcessHandle, number: int = 0) -> TaskEntry:
        entry = TaskEntry(1, task_spec(name, number), paused=False, process=process)
        self.registry.tasks[entry.spec.id] = entry
        return entry

    def add_connector(self, name: str, process: ProcessHandle) -> ConnectorEntry:
        entry = ConnectorEntry(1, connector_spec(name), TargetState.STARTED, process=process)
        self.registry.connectors[name] = entry
        return entry

    def _restart(self, entry: Entry) -> None:
        self.events.append((entry.name, "restart queued"))

    # --- ExecutorListener

    def on_connector_state(self, start_id: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        self.events.append((name, state.value))
        self.traces[name] = trace or ""

    def on_task_state(self, start_id: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        self.events.append((str(task), state.value))
        self.traces[str(task)] = trace or ""

    def on_reconfiguration_requested(self, start_id: int, name: str) -> None:
        raise AssertionError("no reconfiguration is due")

    def on_topics(self, start_id: int, task: TaskId, topics: Collection[str]) -> None:
        raise AssertionError("no topics were used")

    def on_stall(self, start_id: int, instance: str | TaskId, stall: Stall | None) -> None:
        raise AssertionError("nothing has stalled")


@pytest.fixture
def pool() -> Pool:
    return Pool()


def test_first_crash_restarts_everything_and_reports_before_it_queues_the_restart(pool: Pool) -> None:
    process = pool.process()
    entries: list[Entry] = [pool.add_connector("a", process), pool.add_task("b", process)]
    pool.recovery.recover(process, CRASH)
    assert process.is_cleaned_up
    assert [entry.process for entry in entries] == [None, None]
    assert pool.events == [("a", "RESTARTING"), ("a", "restart queued"), ("b-0", "RESTARTING"), ("b", "restart queued")]
    assert pool.recovery.quarantine_of("a") is None


def test_connectors_of_other_processes_are_not_touched(pool: Pool) -> None:
    crashed, other = pool.process("shared-1"), pool.process("shared-2")
    pool.add_task("a", crashed)
    entry = pool.add_task("b", other)
    pool.recovery.recover(crashed, CRASH)
    assert entry.process is other
    assert "b-0" not in pool.traces


def test_second_crash_quarantines_each_connector_until_crashes_are_old(pool: Pool) -> None:
    process = pool.process()
    entries = [pool.add_task(name, process) for name in ("a", "b")]
    for _ in range(2):
        for entry in entries:
            entry.process = process
        pool.recovery.recover(process, CRASH)
    keys = {pool.recovery.quarantine_of(name) for name in ("a", "b")}
    assert len(keys) == 2
    assert None not in keys
    pool.clock.advance(WINDOW_S + 1)
    assert pool.recovery.quarantine_of("a") is None


def test_connector_alone_in_a_crashing_quarantine_fails_and_its_start_fails(pool: Pool) -> None:
    entry = pool.add_connector("a", pool.process())
    for process in (pool.process(), pool.process(), pool.process("quarantine-1", ProcessKind.QUARANTINE)):
        entry.process = process
        pool.recovery.recover(process, CRASH)
    assert pool.events[-1] == ("a", "FAILED")
    assert entry.failed
    assert "executor quarantine-1" in pool.traces["a"]
    assert "was ended by signal 9 (SIGKILL)" in pool.traces["a"]
    assert isinstance(entry.started.exception(0), ConnectError)


def test_permanent_exit_fails_at_once(pool: Pool) -> None:
    process = pool.process("dedicated-a", ProcessKind.DEDICATED)
    pool.add_task("a", process)
    pool.recovery.recover(process, ProcessExit("used 300 MiB of memory", is_permanent=True))
    assert pool.events == [("a-0", "FAILED")]


def test_excused_exits_never_count_as_crashes(pool: Pool) -> None:
    process = pool.process()
    entry = pool.add_task("a", process)
    for _ in range(10):
        entry.process = process
        pool.recovery.recover(process, ProcessExit("exited: the worker was frozen", is_excused=True))
    assert pool.events[-1] == ("a", "restart queued")
    assert pool.recovery.quarantine_of("a") is None


def test_stopped_and_failed_entries_do_not_restart(pool: Pool) -> None:
    process = pool.process()
    stopped, failed = pool.add_task("a", process), pool.add_task("b", process)
    pool.registry.take_tasks([stopped.spec.id])
    failed.failed = True
    pool.recovery.recover(process, CRASH)
    assert pool.events == []


def test_entry_stopped_while_its_restart_is_reported_is_not_queued(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    process = pool.process()
    entry = pool.add_task("a", process)

    def stop(*_: Any) -> None:
        pool.registry.take_tasks([entry.spec.id])

    monkeypatch.setattr(pool, "on_task_state", stop)
    pool.recovery.recover(process, CRASH)
    assert pool.events == []


def test_failure_of_a_replaced_entry_is_not_reported(pool: Pool) -> None:
    entry = pool.add_connector("a", pool.process())
    replacement = pool.add_connector("a", pool.process("shared-2"))
    started: Future[None] = entry.started
    StateReports(pool.registry, pool, SecretMask()).failed(entry, ConnectError("gone"))
    assert pool.events == []
    assert not started.done()
    assert not replacement.failed
