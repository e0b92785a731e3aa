"""Task configurations reach the leader: at once, or as soon as the group has one again."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.worker.distributed.fakes import ManualLoop
from worker.distributed.group_session import GroupGeneration
from worker.distributed.local_instances import LocalInstances
from worker.distributed.task_config_publisher import TaskConfigPublisher
from worker.model import TargetState
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import ConnectorRecord


class Leading:
    """A leader that runs one connector, in a group that may be rebalancing."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.group = SimpleNamespace(is_rebalancing=False, current=GroupGeneration(1, "me", "me", "http://me"))
        state = apply(ConfigState(), ConnectorRecord("a", {"name": "a"}), 0).state
        self.instances = LocalInstances()
        self.instances.add_connector("a", TargetState.STARTED)
        self.written: list[tuple[str, Sequence[Any]]] = []
        unused: Any = None
        self.publisher = TaskConfigPublisher(
            cast(Any, self.loop),
            cast(Any, SimpleNamespace(state=state)),
            cast(Any, self.group),
            self.instances,
            cast(Any, SimpleNamespace(put_task_configs=self._put)),
            unused,
            unused,
            cast(Any, self),
            unused,
        )

    def task_configs(self, name: str) -> Future[list[dict[str, str]]]:
        found: Future[list[dict[str, str]]] = Future()
        found.set_result([{"n": "1"}])
        return found

    def _put(self, name: str, configs: Sequence[Any]) -> None:
        self.written.append((name, configs))


def test_leader_writes_tasks_at_once() -> None:
    leading = Leading()
    leading.publisher.reconfigure("a")
    leading.loop.run()
    assert leading.written == [("a", [{"n": "1"}])]


def test_tasks_are_written_right_after_the_rebalance() -> None:
    leading = Leading()
    leading.group.is_rebalancing = True
    leading.publisher.reconfigure("a")
    for _ in range(10):  # the backoff is long by now
        leading.loop.run(seconds=10)
    assert leading.written == []
    leading.group.is_rebalancing = False
    leading.publisher.rebalanced()
    leading.loop.run()
    assert leading.written == [("a", [{"n": "1"}])]
    leading.loop.run(seconds=1000)
    assert len(leading.written) == 1


def test_failed_attempt_is_retried_without_a_rebalance() -> None:
    leading = Leading()
    leading.group.is_rebalancing = True
    leading.publisher.reconfigure("a")
    leading.loop.run()
    leading.group.is_rebalancing = False
    leading.loop.run(seconds=1)
    assert leading.written == [("a", [{"n": "1"}])]


def test_tasks_of_a_connector_that_left_meanwhile_are_not_written() -> None:
    leading = Leading()
    leading.group.is_rebalancing = True
    leading.publisher.reconfigure("a")
    leading.loop.run()
    leading.group.is_rebalancing = False
    del leading.instances.connectors["a"]
    leading.publisher.rebalanced()
    leading.loop.run(seconds=1000)
    assert leading.written == []
