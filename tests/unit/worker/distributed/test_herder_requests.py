"""Requests run on the herder's thread of the right worker, and wait for the end of a rebalance."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect.errors import ConnectError, IllegalStateError, NotFoundError, NotLeaderError
from tests.support.waiting import WAIT_S
from tests.unit.worker.distributed.fakes import T0, T1, FakeStore, configured, done
from worker.config.secrets import SecretMask
from worker.distributed import herder_requests as module
from worker.distributed.group_session import GroupGeneration
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.herder_requests import HerderRequests
from worker.distributed.local_instances import LocalInstances
from worker.model import TaskId

LEADER = GroupGeneration(1, "me", "me", "http://me/")
FOLLOWER = GroupGeneration(1, "me", "other", "http://leader/")


class Scene:
    """A worker with the herder's thread."""

    def __init__(self) -> None:
        self.loop = HerderLoop()
        self.store = FakeStore()
        self.store.configure(*configured())
        self.group = SimpleNamespace(is_rebalancing=False, current=LEADER)
        self.instances = LocalInstances()
        self.is_stopping = False
        self.owners: dict[str | TaskId, str] = {}
        self.restarted: list[str | TaskId] = []
        self.mask = SecretMask()
        self.requests = HerderRequests(
            self.loop,
            cast(Any, SimpleNamespace(store=self.store)),
            cast(Any, self.group),
            cast(Any, SimpleNamespace(owner_url=self.owners.get)),
            self.instances,
            cast(Any, SimpleNamespace(restart=self._restart)),
            lambda: self.is_stopping,
            "http://me/",
            self.mask,
        )
        self._ends = threading.Event()
        self.loop.start(self._run)

    def _restart(self, instance: str | TaskId) -> Any:
        self.restarted.append(instance)
        return done()

    def _run(self) -> None:
        while not self._ends.is_set():
            self.loop.run_due()
            self.loop.wait(0.05)

    def close(self) -> None:
        self._ends.set()
        self.loop.wake()
        assert self.loop.join(WAIT_S)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.close()


def test_leader_runs_the_job_on_the_herder_thread(scene: Scene) -> None:
    assert scene.requests.as_leader(lambda: threading.current_thread().name) == "herder"


def test_follower_names_the_leader(scene: Scene) -> None:
    scene.group.current = FOLLOWER
    for request in (scene.requests.require_leader, lambda: scene.requests.as_leader(lambda: None)):
        with pytest.raises(NotLeaderError) as raised:
            request()
        assert raised.value.forward_url == "http://leader/"


def test_request_waits_for_the_end_of_a_rebalance(scene: Scene) -> None:
    scene.group.is_rebalancing = True

    def end_rebalance() -> None:
        scene.group.is_rebalancing = False

    scene.loop.post(end_rebalance, 0.2)
    assert scene.requests.as_leader(lambda: "done") == "done"


def test_request_fails_if_the_rebalance_takes_too_long(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REBALANCE_WAIT_S", 0.1)
    scene.group.is_rebalancing = True
    with pytest.raises(IllegalStateError, match="likely because a rebalance was underway"):
        scene.requests.as_leader(lambda: None)


def test_errors_contain_no_secrets(scene: Scene) -> None:
    scene.mask.add({"password": "hunter22"}, ["password"])

    def fail() -> None:
        raise ConnectError("wrong password hunter22")

    with pytest.raises(ConnectError) as raised:
        scene.requests.as_leader(fail)
    assert "hunter22" not in raised.value.message


def test_owner_restarts_its_instances(scene: Scene) -> None:
    scene.group.current = FOLLOWER
    scene.instances.add_tasks([T0], 1)
    scene.requests.restart(T0, "unknown")
    assert scene.restarted == [T0]


def test_leader_names_the_owner_of_an_instance_elsewhere(scene: Scene) -> None:
    scene.owners[T1] = "http://owner/"
    with pytest.raises(NotLeaderError) as raised:
        scene.requests.restart(T1, "unknown")
    assert raised.value.forward_url == "http://owner/"


def test_instance_that_runs_nowhere_raises(scene: Scene) -> None:
    scene.owners[T1] = "http://me/"
    with pytest.raises(IllegalStateError, match="a-1 is not running on any worker"):
        scene.requests.restart(T1, "unknown")


def test_restart_of_an_unknown_instance_raises(scene: Scene) -> None:
    with pytest.raises(NotFoundError, match="Unknown connector: b"):
        scene.requests.restart("b", "Unknown connector: b")
    with pytest.raises(NotFoundError, match="Unknown task: a-7"):
        scene.requests.restart(TaskId("a", 7), "unknown")
