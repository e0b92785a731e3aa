"""The herder's thread joins the group as soon as it can, and ends in good order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from connect.errors import ConfigError, ConnectError
from tests.support.waiting import WAIT_S
from tests.unit.worker.distributed.fakes import FakeWorker
from worker.distributed import herder_thread as module
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.herder_thread import HerderThread


class Member:
    """Records when it is polled after a request to join again."""

    def __init__(self) -> None:
        self.polled = threading.Event()
        self.is_joining = False
        self.left = False

    def start(self) -> None: ...
    def work_stopped(self) -> None: ...

    def leave(self, reason: str) -> None:
        self.left = True

    def close(self) -> None: ...

    def poll(self, timeout_s: float) -> None:
        if self.is_joining:
            self.polled.set()

    def request_rejoin(self, reason: str) -> None:
        self.is_joining = True


class Running(FakeWorker):
    """A worker with the real loop and thread."""

    def __init__(self, services: tuple[tuple[str, Callable[[], None]], ...] = ()) -> None:
        super().__init__()
        self.fatal: list[ConnectError] = []
        self.ended = threading.Event()
        self.real_loop = HerderLoop()
        self.real_member = Member()
        for part in (self.group, self.rebalances, self.reconciler, self.config):
            if hasattr(part, "_loop"):
                part._loop = self.real_loop
        self.reconciler._post = self.real_loop.post
        self.group.member = cast(Any, self.real_member)
        self.thread = HerderThread(
            self.real_loop,
            self.config,
            self.group,
            self.instances,
            self.reconciler,
            self.rebalances,
            ThreadPoolExecutor(2),
            services,
            0.1,
            self._on_fatal,
        )

    def _on_fatal(self, error: ConnectError) -> None:
        self.fatal.append(error)

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.stop()
        assert self.real_loop.join(WAIT_S)


@pytest.fixture(autouse=True)
def _never_polls_unless_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 3600.0)


def test_job_that_requests_a_rebalance_is_followed_by_a_join() -> None:
    with Running() as running:
        running.real_loop.post(lambda: running.group.rejoin("connector a was deleted"))
        assert running.real_member.polled.wait(WAIT_S)
    assert running.fatal == []


def test_rebalance_that_waited_for_a_stop_is_joined_when_the_stop_has_finished() -> None:
    def finish_stop(running: Running) -> None:
        running.real_member.request_rejoin("connector a was deleted")
        running.rebalances.stop_finished()

    with Running() as running:
        running.real_loop.post(lambda: finish_stop(running))
        assert running.real_member.polled.wait(WAIT_S)


def test_service_that_cannot_start_ends_the_thread_with_its_error() -> None:
    def fail() -> None:
        raise ConfigError("no such converter")

    with Running((("starting it", fail),)) as running:
        assert running.real_loop.join(WAIT_S)
    assert [error.message for error in running.fatal] == ["no such converter"]
    assert running.real_member.left


def test_shutdown_refuses_later_requests() -> None:
    with Running() as running:
        pass
    refused = running.real_loop.submit(lambda: cast(Any, None))
    with pytest.raises(ConnectError, match="The worker is shutting down"):
        refused.result(WAIT_S)
