"""What the answers to requests say while the herder's thread goes on with what they began."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from worker.distributed.bootstrap import Parts
from worker.distributed.herder import DistributedHerder
from worker.distributed.herder_core import Membership
from worker.distributed.herder_loop import HerderLoop
from worker.model import TargetState, TaskId
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import CommitRecord, ConfigRecord, ConnectorRecord, TaskRecord

CONFIG = {"name": "a", "connector.class": "x"}


class Leading:
    """A worker that leads, with a config topic in memory. Whatever follows a write is done before its answer is made."""

    def __init__(self) -> None:
        self.state = ConfigState()
        self.follows: Callable[[], None] = lambda: None
        self.loop = HerderLoop()
        self._stopping = False
        self._followed = threading.Event()
        coordination = SimpleNamespace(
            loop=self.loop,
            store=self,
            rejoining=False,
            membership=Membership(generation=1, member_id="me", leader_id="me"),
            leader=SimpleNamespace(write=lambda job: job()),
        )
        parts = SimpleNamespace(
            coordination=coordination,
            config=SimpleNamespace(connectors_dir=None),
            check=SimpleNamespace(require_valid=dict),
            history=SimpleNamespace(record=lambda name, config, origin: self._wait_until_followed()),
            facts=lambda config: SimpleNamespace(type="source"),
        )
        self.herder = DistributedHerder(cast(Parts, parts))

    def start(self) -> None:
        self.loop.start(self._run)

    def stop(self) -> None:
        self._stopping = True
        self.loop.wake()
        assert self.loop.join(30)

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
        assert self._followed.wait(30)


@pytest.fixture
def leading() -> Iterator[Leading]:
    made = Leading()
    made.start()
    yield made
    made.stop()


def test_the_answer_to_a_new_connector_has_no_tasks_however_soon_they_are_there(leading: Leading) -> None:
    leading.follows = lambda: leading.configure(TaskRecord(TaskId("a", 0), {}), CommitRecord("a", 1))
    info, created = leading.herder.put_connector("a", CONFIG, replace=False)
    assert (info.config, info.tasks, created) == (CONFIG, [], True)
    assert leading.herder.connector_info("a").tasks == [TaskId("a", 0)]


def test_a_connector_that_somebody_deletes_at_once_was_made(leading: Leading) -> None:
    leading.follows = lambda: leading.configure(ConnectorRecord("a", cast(Any, None)))
    info, created = leading.herder.put_connector("a", CONFIG, replace=False)
    assert (info.name, created) == ("a", True)
    assert leading.herder.connectors() == []
