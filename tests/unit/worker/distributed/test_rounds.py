"""A round of the group is joined as soon as it can be: the herder's thread does not wait before it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from worker.config.worker_config import WorkerConfig
from worker.distributed import herder_core as module
from worker.distributed.herder_core import Coordination, Surroundings
from worker.distributed.herder_loop import HerderLoop
from worker.storage.config_state import ConfigState

PROPS = {
    "bootstrap.servers": "localhost:1",
    "group.id": "g",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}
SOON_S = 20.0


class FakeMember:
    """Knows when it was asked to join again, and polled after that."""

    def __init__(self) -> None:
        self.polled = threading.Event()
        self.is_joining = False

    def start(self) -> None: ...
    def interrupt(self) -> None: ...
    def work_stopped(self) -> None: ...
    def leave(self, reason: str) -> None: ...
    def close(self) -> None: ...

    def poll(self, timeout_s: float) -> None:
        if self.is_joining:
            self.polled.set()

    def request_rejoin(self, reason: str) -> None:
        self.is_joining = True


class FakeStore:
    def start(self) -> None: ...

    def snapshot(self) -> ConfigState:
        return ConfigState()


class FakeStatuses:
    graceful_s = 0.1


@pytest.fixture(autouse=True)
def _never_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread goes on when it is woken, or not at all."""
    monkeypatch.setattr(module, "_LOOK_S", 3600.0)


def coordination(member: FakeMember) -> Coordination:
    settings = WorkerConfig.for_cluster(PROPS).distributed
    assert settings is not None
    nothing = cast(Any, None)
    around = Surroundings(
        settings=settings,
        url="http://here/",
        loop=HerderLoop(),
        executor=nothing,
        values=nothing,
        peers=nothing,
        statuses=cast(Any, FakeStatuses()),
        fence_producers=nothing,
        starts=(),
        on_logger_level=nothing,
        on_fatal=lambda error: pytest.fail(error.message),
        observe=nothing,
    )
    return Coordination(around, lambda listener: cast(Any, FakeStore()), lambda made: cast(Any, member))


def test_a_job_that_asks_for_a_round_is_followed_by_it_at_once() -> None:
    _assert_joins(lambda made: made.rejoin("connector a was deleted"))


def test_a_round_that_waited_for_a_stop_is_joined_when_the_stop_is_done() -> None:
    def ask(made: Coordination) -> None:
        made.member.request_rejoin("connector a was deleted")
        made.work_settled()

    _assert_joins(ask)


def _assert_joins(ask: Callable[[Coordination], None]) -> None:
    """The member is polled again after a job of the herder's thread."""
    member = FakeMember()
    made = coordination(member)
    made.start()
    try:
        made.loop.post(lambda: ask(made))
        assert member.polled.wait(SOON_S)
    finally:
        made.stop()
        assert made.loop.join(SOON_S)
