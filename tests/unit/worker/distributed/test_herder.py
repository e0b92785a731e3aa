"""Responses to requests while the herder's thread continues with their effects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect.errors import NotFoundError
from tests.support.waiting import WAIT_S
from tests.unit.worker.distributed.fakes import PROPS
from worker.config.worker_config import WorkerConfig
from worker.distributed.bootstrap import WorkerComponents
from worker.distributed.group_session import GroupGeneration
from worker.distributed.herder import DistributedHerder
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.local_instances import LocalInstances
from worker.model import ConnectorStatus, State, Status, TargetState, TaskId
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import CommitRecord, ConfigRecord, ConnectorRecord, TaskRecord

CONFIG = {"name": "a", "connector.class": "x"}


class Leading:
    """A leader with a config topic in memory. The effects of a write happen before its response is built."""

    def __init__(self) -> None:
        self.state = ConfigState()
        self.follows: Callable[[], None] = lambda: None
        self.loop = HerderLoop()
        self._stopping = False
        self._followed = threading.Event()
        config = WorkerConfig.for_cluster(PROPS)
        group = SimpleNamespace(is_rebalancing=False, is_ready=True, current=GroupGeneration(1, "me", "me"))
        history = SimpleNamespace(record=lambda name, config, origin: self._wait_until_followed())
        parts = SimpleNamespace(
            config=config,
            worker_id="me:1",
            url="http://me:1/",
            loop=self.loop,
            config_sync=SimpleNamespace(store=self),
            group=group,
            leader=SimpleNamespace(write=lambda job: job()),
            instances=LocalInstances(),
            reconciler=None,
            restarts=None,
            executor=SimpleNamespace(facts=lambda name, environment: SimpleNamespace(type="source")),
            values=None,
            loggers=None,
            history=history,
            cluster=None,
            starts=None,
            status_store=None,
        )
        self.herder = DistributedHerder(cast(WorkerComponents, parts))
        self.herder._check = cast(Any, SimpleNamespace(require_valid=dict))

    def start(self) -> None:
        self.loop.start(self._run)

    def stop(self) -> None:
        self._stopping = True
        self.loop.wake()
        assert self.loop.join(WAIT_S)

    def _run(self) -> None:
        while not self._stopping:
            self.loop.run_due()
            self.loop.wait(0.1)

    def configure(self, *records: ConfigRecord) -> None:
        for record in records:
            self.state = apply(self.state, record, self.state.offset + 1).state

    def snapshot(self) -> ConfigState:
        return self.state

    def put_connector(self, name: str, config: Mapping[str, str | None], target: TargetState | None) -> None:
        self.configure(ConnectorRecord(name, dict(config)))

        def follow() -> None:
            self.follows()
            self._followed.set()

        self.loop.post(follow)

    def _wait_until_followed(self) -> None:
        assert self._followed.wait(WAIT_S)


@pytest.fixture
def leading() -> Iterator[Leading]:
    made = Leading()
    made.start()
    yield made
    made.stop()


def test_response_to_a_new_connector_has_no_tasks_even_if_they_exist_already(leading: Leading) -> None:
    leading.follows = lambda: leading.configure(TaskRecord(TaskId("a", 0), {}), CommitRecord("a", 1))
    info, created = leading.herder.put_connector("a", CONFIG, replace=False)
    assert (info.config, info.tasks, created) == (CONFIG, [], True)
    assert leading.herder.connector_info("a").tasks == [TaskId("a", 0)]


def test_connector_that_is_deleted_at_once_is_reported_as_created(leading: Leading) -> None:
    leading.follows = lambda: leading.configure(ConnectorRecord("a", cast(Any, None)))
    info, created = leading.herder.put_connector("a", CONFIG, replace=False)
    assert (info.name, created) == ("a", True)
    assert leading.herder.connectors() == []


def test_other_workers_are_those_of_statuses_the_leader_and_for_the_leader_all_members(leading: Leading) -> None:
    parts = cast(Any, leading.herder._parts)
    own = leading.herder.worker_id
    parts.status_store = SimpleNamespace(workers=lambda: frozenset({own, "busy:1"}))
    parts.leader = SimpleNamespace(member_urls=frozenset({f"http://{own}/", "http://idle:1/", "http://busy:1/"}))
    parts.group = SimpleNamespace(current=GroupGeneration(1, "me", "me", f"http://{own}/"))
    assert leading.herder.other_workers() == ["busy:1", "idle:1"]
    parts.group.current = GroupGeneration(1, "me", "leader", "http://leader:1/")
    assert leading.herder.other_workers() == ["busy:1", "leader:1"]
    parts.group.current = GroupGeneration()
    assert leading.herder.other_workers() == ["busy:1"]


def test_the_late_status_of_a_removed_task_is_not_shown(leading: Leading) -> None:
    leading.configure(ConnectorRecord("a", CONFIG), TaskRecord(TaskId("a", 0), {"task.class": "y"}), CommitRecord("a", 1))
    late = Status(State.UNASSIGNED, "other:1")
    shown = ConnectorStatus("a", Status(State.RUNNING, "me:1"), [(0, late), (1, late)], "unknown")
    stored = {"a": shown, "b": replace(shown, name="b")}
    parts = cast(Any, leading.herder._parts)
    parts.status_store = SimpleNamespace(get=lambda task: late, connector_statuses=lambda names: [stored[name] for name in names])
    assert leading.herder.connector_status("a").tasks == [(0, late)]
    assert leading.herder.task_status(TaskId("a", 0)) == late
    with pytest.raises(NotFoundError, match="No status found for task a-1"):
        leading.herder.task_status(TaskId("a", 1))
    # Nobody knows the tasks of a connector whose configuration was not read yet.
    assert leading.herder.connector_status("b").tasks == [(0, late), (1, late)]
