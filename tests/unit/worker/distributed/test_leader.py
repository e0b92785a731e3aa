"""The leader fences producers of earlier tasks before new ones start, and reclaims write access when it was fenced itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from connect.errors import ConnectError, FencedError, IllegalStateError, NotFoundError
from tests.support.waiting import Deadline
from tests.unit.worker.distributed.fakes import PROPS
from worker.config.worker_config import WorkerConfig
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader import Leader
from worker.group.protocol import Protocol, WorkerMetadata
from worker.model import TaskId
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import CommitRecord, ConfigRecord, ConnectorRecord, TaskCountRecord, TaskRecord


class FakeStore:
    """A config topic in memory, which another leader can take over."""

    def __init__(self) -> None:
        self.state = ConfigState()
        self.claims = 0
        self.fenced = False
        self.written: list[str] = []
        self.on_refresh: Callable[[], None] = lambda: None

    def configure(self, *records: ConfigRecord) -> None:
        for record in records:
            self.state = apply(self.state, record, self.state.offset + 1).state

    def tasks(self, count: int) -> None:
        self.configure(*(TaskRecord(TaskId("a", n), {}) for n in range(count)), CommitRecord("a", count))

    def snapshot(self) -> ConfigState:
        return self.state

    def refresh(self, timeout_s: float) -> None:
        self.on_refresh()

    def claim_write_privileges(self) -> None:
        self.claims += 1
        self.fenced = False

    def relinquish_write_privileges(self) -> None:
        pass

    def put_task_count_record(self, name: str, task_count: int) -> None:
        self._require_writable()
        self.written.append(f"{name} {task_count}")
        self.configure(TaskCountRecord(name, task_count))

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        self._require_writable()
        self.tasks(len(configs))

    def _require_writable(self) -> None:
        if self.fenced:
            raise FencedError("another leader writes")


class Fencing:
    """A leader over a fake store; :meth:`run` completes one fencing."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        settings = WorkerConfig.for_cluster({**PROPS, "exactly.once.source.support": "enabled"}).distributed
        assert settings is not None
        self.store: Any = FakeStore()
        self.store.configure(ConnectorRecord("a", {"name": "a"}))
        self.fenced: list[str] = []
        self.failure: ConnectError | None = None
        self.leader = Leader(settings, cast(Any, self.store), self._fence, pool)
        self.leader.take_over()
        self.loop = HerderLoop()

    def _fence(self, name: str, ids: Sequence[str]) -> None:
        if self.failure is not None:
            raise self.failure
        self.fenced.extend(ids)

    def run(self) -> None:
        future = self.leader.fence("a", self.loop)
        self._finish(future)
        future.result(0)

    def _finish(self, future: Future[None]) -> None:
        deadline = Deadline("the end of the fencing")
        while not future.done():
            deadline.check()
            self.loop.wait(0.01)
            self.loop.run_due()


@pytest.fixture
def fencing() -> Any:
    with ThreadPoolExecutor(1) as pool:
        yield Fencing(pool)


def test_first_tasks_are_counted_without_fencing(fencing: Fencing) -> None:
    fencing.store.tasks(2)
    fencing.run()
    assert (fencing.fenced, fencing.store.written) == ([], ["a 2"])


def test_producers_of_all_earlier_tasks_are_fenced_before_the_new_count_is_written(fencing: Fencing) -> None:
    fencing.store.tasks(2)
    fencing.run()
    fencing.store.tasks(3)
    fencing.run()
    assert (fencing.fenced, fencing.store.written) == (["g-a-0", "g-a-1"], ["a 2", "a 3"])


def test_single_task_fences_its_single_predecessor_itself(fencing: Fencing) -> None:
    fencing.store.tasks(1)
    fencing.run()
    fencing.store.tasks(1)
    fencing.run()
    assert (fencing.fenced, fencing.store.written) == ([], ["a 1", "a 1"])


def test_same_tasks_are_not_fenced_twice(fencing: Fencing) -> None:
    fencing.store.tasks(2)
    fencing.run()
    fencing.run()
    assert fencing.store.written == ["a 2"]


def test_newer_tasks_end_the_fencing_without_a_count(fencing: Fencing) -> None:
    fencing.store.tasks(2)
    fencing.run()
    fencing.store.tasks(3)
    fencing.store.on_refresh = lambda: fencing.store.tasks(4)
    with pytest.raises(IllegalStateError, match="a new set of task configs was generated"):
        fencing.run()
    assert fencing.store.written == ["a 2"]


def test_tasks_that_another_leader_wrote_end_the_fencing_too(fencing: Fencing) -> None:
    fencing.store.tasks(2)
    fencing.store.fenced = True
    fencing.store.on_refresh = lambda: fencing.store.claims == 2 and fencing.store.tasks(3)
    with pytest.raises(IllegalStateError, match="a new set of task configs was generated"):
        fencing.run()
    assert (fencing.store.claims, fencing.store.written) == (2, [])


def test_herder_thread_does_not_wait_for_brokers(fencing: Fencing) -> None:
    fencing.store.tasks(2)
    asking: list[int] = []
    fencing.store.on_refresh = lambda: asking.append(threading.get_ident())
    fencing.run()
    assert len(asking) == 1
    assert asking[0] != threading.get_ident()


def test_failed_fencing_raises_and_can_be_repeated(fencing: Fencing) -> None:
    fencing.store.tasks(2)
    fencing.run()
    fencing.store.tasks(3)
    fencing.failure = ConnectError("not authorized")
    with pytest.raises(ConnectError, match="not authorized"):
        fencing.run()
    fencing.failure = None
    fencing.run()
    assert fencing.store.written == ["a 2", "a 3"]


def test_unknown_connector_raises_not_found(fencing: Fencing) -> None:
    fencing.store.configure(ConnectorRecord("a", None))
    with pytest.raises(NotFoundError):
        fencing.run()


def test_fenced_leader_reclaims_write_access_and_retries_the_write(fencing: Fencing) -> None:
    fencing.store.fenced = True
    fencing.leader.put_task_configs("a", [{}, {}])
    assert (fencing.store.claims, fencing.store.state.task_count("a")) == (2, 2)


def test_leader_remembers_the_addresses_of_all_members(fencing: Fencing) -> None:
    fencing.store.tasks(1)
    members = {name: WorkerMetadata(f"http://{name}:1/", fencing.store.state.offset) for name in ("a", "b", "idle")}
    fencing.leader.assign(members, Protocol.SESSIONED, "a", generation=1, last_completed_generation=0)
    assert fencing.leader.member_urls == {"http://a:1/", "http://b:1/", "http://idle:1/"}
