"""Task configurations reach the leader: at once, or as soon as there is one again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from worker.distributed.assignment_reconciler import RunningConnector
from worker.distributed.task_config_publisher import Publishing
from worker.model import TargetState
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import ConnectorRecord


@dataclass
class TurnableLoop:
    """Jobs in the order of their time; time goes on when the test says so."""

    now: float = 0.0
    jobs: list[tuple[float, Callable[[], Any]]] = field(default_factory=list)

    def post(self, job: Callable[[], Any], delay_s: float = 0.0) -> None:
        self.jobs.append((self.now + delay_s, job))

    def run(self, seconds: float = 0.0) -> None:
        self.now += seconds
        while due := sorted((one for one in self.jobs if one[0] <= self.now), key=lambda one: one[0]):
            self.jobs.remove(due[0])
            due[0][1]()


class Leading:
    """A leader with one connector of its own, in a group that may be in the middle of a round."""

    def __init__(self) -> None:
        self.loop = TurnableLoop()
        self.rejoining = False
        self.membership = SimpleNamespace(is_leader=True, leader_url="http://me")
        self.state = apply(ConfigState(), ConnectorRecord("a", {"name": "a"}), 0).state
        self.work = SimpleNamespace(connectors={"a": RunningConnector(1, TargetState.STARTED)})
        self.leader = SimpleNamespace(put_task_configs=self._put)
        self.written: list[tuple[str, Sequence[Any]]] = []
        self.publishing = Publishing(cast(Any, self), cast(Any, None), cast(Any, self), cast(Any, None))

    def task_configs(self, name: str) -> Future[list[dict[str, str]]]:
        found: Future[list[dict[str, str]]] = Future()
        found.set_result([{"n": "1"}])
        return found

    def _put(self, name: str, configs: Sequence[Any]) -> None:
        self.written.append((name, configs))


def test_tasks_are_written_at_once_by_a_leader() -> None:
    leading = Leading()
    leading.publishing.reconfigure("a")
    leading.loop.run()
    assert leading.written == [("a", [{"n": "1"}])]


def test_tasks_wait_for_the_end_of_a_round_and_no_longer() -> None:
    leading = Leading()
    leading.rejoining = True
    leading.publishing.reconfigure("a")
    for _ in range(10):  # by now the next try would be far away
        leading.loop.run(seconds=10)
    assert leading.written == []
    leading.rejoining = False
    leading.publishing.round_over()
    leading.loop.run()
    assert leading.written == [("a", [{"n": "1"}])]
    leading.loop.run(seconds=1000)
    assert len(leading.written) == 1


def test_what_was_tried_in_vain_is_tried_again_later_also_without_a_round() -> None:
    leading = Leading()
    leading.rejoining = True
    leading.publishing.reconfigure("a")
    leading.loop.run()
    leading.rejoining = False
    leading.loop.run(seconds=1)
    assert leading.written == [("a", [{"n": "1"}])]


def test_tasks_of_a_connector_that_went_meanwhile_are_not_written() -> None:
    leading = Leading()
    leading.rejoining = True
    leading.publishing.reconfigure("a")
    leading.loop.run()
    leading.rejoining = False
    del leading.work.connectors["a"]
    leading.publishing.round_over()
    leading.loop.run(seconds=1000)
    assert leading.written == []
