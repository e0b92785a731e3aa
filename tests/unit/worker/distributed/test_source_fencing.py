"""Tasks of exactly-once sources start only after earlier producers were fenced (promises 4 and 5)."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect.errors import ConnectError, UnreachableError
from tests.unit.worker.distributed.fakes import PROPS, T0, ManualLoop, configured, done
from worker.config.worker_config import WorkerConfig
from worker.distributed.group_session import GroupGeneration
from worker.distributed.local_instances import LocalInstances
from worker.distributed.source_fencing import SourceFencing
from worker.executors.futures import failed, outcome
from worker.storage.config_state import ConfigState, apply


class Scene:
    """A worker whose leader answers fencing requests."""

    def __init__(self, *, connector_type: str = "source", exactly_once: str = "enabled", leads: bool = False) -> None:
        settings = WorkerConfig.for_cluster({**PROPS, "exactly.once.source.support": exactly_once}).distributed
        assert settings is not None
        self.loop = ManualLoop()
        self.errors: list[Exception] = []
        self.fenced: list[str] = []
        self.group = SimpleNamespace(
            is_rebalancing=False, current=GroupGeneration(1, "me", "me" if leads else "other", "http://leader/")
        )
        self.instances = LocalInstances()
        self.instances.add_tasks([T0], 1)
        state = ConfigState()
        for record in configured():
            state = apply(state, record, state.offset + 1).state
        facts = SimpleNamespace(type=connector_type)
        self.fencing = SourceFencing(
            settings,
            cast(Any, self.loop),
            cast(Any, SimpleNamespace(state=state)),
            cast(Any, self.group),
            self.instances,
            cast(Any, SimpleNamespace(fence=lambda name, loop: self._fence("leader", name))),
            cast(Any, SimpleNamespace(fence_zombies=lambda url, name, headers: self._fence(url, name).result(0))),
            cast(Any, SimpleNamespace(sign=lambda body: None)),
            cast(Any, SimpleNamespace(facts=lambda name, environment: facts)),
            cast(Any, SimpleNamespace(submit=outcome)),
        )

    def _fence(self, by: str, name: str) -> Future[None]:
        if self.errors:
            return failed(self.errors.pop(0))
        self.fenced.append(f"{by} {name}")
        return done()

    def start(self) -> Future[str | None]:
        prefix = self.fencing.before_tasks("a")
        self.loop.run()
        return prefix


def test_producers_are_fenced_by_the_leader_before_the_tasks_start() -> None:
    scene = Scene()
    assert scene.start().result(0) == "g-a-"
    assert scene.fenced == ["http://leader/ a"]


def test_leader_fences_by_itself() -> None:
    scene = Scene(leads=True)
    assert scene.start().result(0) == "g-a-"
    assert scene.fenced == ["leader a"]


@pytest.mark.parametrize("more", [{"connector_type": "sink"}, {"exactly_once": "disabled"}])
def test_other_tasks_start_without_fencing(more: dict[str, str]) -> None:
    scene = Scene(**cast(Any, more))
    assert scene.start().result(0) is None
    assert scene.fenced == []


def test_tasks_wait_while_the_leader_is_unavailable() -> None:
    scene = Scene()
    scene.errors = [UnreachableError("no answer"), UnreachableError("no answer")]
    prefix = scene.start()
    assert not prefix.done()
    scene.loop.run(0.3)
    assert not prefix.done()
    scene.loop.run(0.5)
    assert prefix.result(0) == "g-a-"


def test_tasks_wait_for_the_end_of_a_rebalance() -> None:
    scene = Scene()
    scene.group.is_rebalancing = True
    prefix = scene.start()
    assert (prefix.done(), scene.fenced) == (False, [])
    scene.group.is_rebalancing = False
    scene.loop.run(0.3)
    assert prefix.result(0) == "g-a-"


def test_tasks_do_not_start_if_fencing_fails() -> None:
    scene = Scene()
    scene.errors = [ConnectError("not authorized")]
    with pytest.raises(ConnectError, match="not authorized"):
        scene.start().result(0)


def test_retries_end_when_no_task_of_the_connector_is_left() -> None:
    scene = Scene()
    scene.errors = [UnreachableError("no answer")]
    scene.instances.tasks.clear()
    with pytest.raises(ConnectError, match="are no longer to start on this worker"):
        scene.start().result(0)
