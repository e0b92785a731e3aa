"""Progress of many tasks: one request for each process, and code of a task that hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest

from connect.errors import ConnectError
from tests.support.waiting import WAIT_S
from tests.unit.worker.executors.conftest import task_spec
from worker.executors.messages import id_of_plain, progresses_to_plain
from worker.executors.pool_progress import PoolProgress
from worker.executors.process_handle import ProcessHandle
from worker.executors.task_progress import read_progress
from worker.executors.task_slot import TaskSlot
from worker.executors.work_registry import TaskEntry, WorkRegistry
from worker.model import TaskId, TaskProgress

FULL, COUNTS = TaskProgress(2, 2, details={"x": 1}), TaskProgress(1, 1)


class Slot:
    """A task whose code answers at once, or hangs until it is released."""

    def __init__(self, number: int, *, hangs: bool = False) -> None:
        self.id = TaskId("c", number)
        self.release = threading.Event()
        if not hangs:
            self.release.set()

    def progress(self) -> TaskProgress | None:
        self.release.wait(WAIT_S)
        return FULL

    def counts(self) -> TaskProgress | None:
        return COUNTS


@pytest.fixture
def slots() -> Iterator[list[Slot]]:
    found = [Slot(number, hangs=number in (0, 3)) for number in range(8)]
    yield found
    for slot in found:
        slot.release.set()
    for thread in threading.enumerate():
        if thread.name == "progress":
            thread.join(WAIT_S)


def test_tasks_that_hang_have_their_counts_and_keep_no_other_from_answering(slots: list[Slot]) -> None:
    found = read_progress([cast(TaskSlot, slot) for slot in slots], 2.0, patience_s=0.05)
    assert [number for number in range(8) if found[TaskId("c", number)] is COUNTS] == [0, 3]
    assert [one for one in found.values() if one is FULL] == [FULL] * 6


def test_tasks_are_asked_on_one_thread_unless_one_hangs() -> None:
    threads = set()

    class Noting(Slot):
        def progress(self) -> TaskProgress | None:
            threads.add(threading.get_ident())
            return None if self.id.task == 1 else FULL

    found = read_progress([cast(TaskSlot, Noting(number)) for number in range(5)], 10.0, patience_s=10.0)
    assert sorted(task.task for task in found) == [0, 2, 3, 4]
    assert len(threads) == 1


class Process:
    """A process that answers for all tasks, also for those it was not asked for; or not, or only for counts."""

    def __init__(self, key: str, answers: tuple[str, ...] = ("progress", "counts")) -> None:
        self.key = key
        self.answers = answers
        self.calls: list[tuple[str, list[TaskId]]] = []

    def call(self, method: str, **arguments: Any) -> Future[Any]:
        tasks = [id_of_plain(task) for task in arguments["tasks"]]
        self.calls.append((method, tasks))
        future: Future[Any] = Future()
        if method in self.answers:
            told = dict.fromkeys([*tasks, TaskId("foreign", 0)], FULL if method == "progress" else COUNTS)
            future.set_result(progresses_to_plain(told))
        else:
            future.set_exception(ConnectError("8 queries of plugins hang in this executor"))
        return future


def _registry(*processes: Process) -> WorkRegistry:
    """Each process has ten tasks of its own connector; one more task is not placed."""
    registry = WorkRegistry()
    for process in processes:
        for number in range(10):
            spec = task_spec(process.key, number)
            registry.tasks[spec.id] = TaskEntry(1, spec, paused=False, process=cast(ProcessHandle, process))
    waiting = task_spec("waiting")
    registry.tasks[waiting.id] = TaskEntry(1, waiting, paused=False)
    return registry


def test_each_process_is_asked_once_for_all_of_its_tasks() -> None:
    processes = Process("a"), Process("b")
    registry = _registry(*processes)
    found = PoolProgress(registry).collect([*registry.tasks, TaskId("foreign", 0)])
    assert set(found) == {TaskId(key, number) for key in "ab" for number in range(10)}
    assert [[(method, len(tasks)) for method, tasks in one.calls] for one in processes] == [[("progress", 10)]] * 2


def test_process_whose_plugins_hang_is_asked_for_counts_and_a_silent_one_is_left_out() -> None:
    processes = Process("a"), Process("hung", ("counts",)), Process("dead", ())
    found = PoolProgress(_registry(*processes)).collect([TaskId(one.key, 4) for one in processes])
    assert found == {TaskId("a", 4): FULL, TaskId("hung", 4): COUNTS}
    assert [method for method, _ in processes[1].calls] == ["progress", "counts"]
