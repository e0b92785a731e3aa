"""Threads of handlers: pools, and what becomes of calls that wait for their turn."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError

import pytest
from fastapi.routing import APIRoute

from rest.app import build_api
from rest.server.thread_pools import RequestKind, ThreadPool, ThreadPools, request_kind
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder


def test_full_pool_does_not_block_other_pools() -> None:
    before = _pool_threads()
    pools, release = ThreadPools(), threading.Event()
    hanging = [
        pools.submit(RequestKind.CONFIGURE, lambda: release.wait(2 * WAIT_S)) for _ in range(RequestKind.CONFIGURE.threads + 10)
    ]
    assert pools.submit(RequestKind.READ, lambda: "read").result(WAIT_S) == "read"
    assert pools.submit(RequestKind.CHANGE, lambda: "changed").result(WAIT_S) == "changed"
    release.set()
    assert all(future.result(WAIT_S) for future in hanging)
    assert pools.close(time.monotonic() + WAIT_S) == []
    assert _pool_threads() <= before


def _pool_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("rest-")}


def test_call_cancelled_in_the_queue_does_not_run() -> None:
    pool, release = ThreadPool("few", 1), threading.Event()
    made = []
    first = pool.submit(lambda: release.wait(WAIT_S))
    second = pool.submit(lambda: made.append("second"))
    assert second.cancel()
    release.set()
    assert first.result(WAIT_S)
    assert pool.submit(lambda: "third").result(WAIT_S) == "third"
    assert made == []
    assert pool.close(time.monotonic() + WAIT_S) == []


def test_close_returns_names_of_threads_that_still_run() -> None:
    pool, release = ThreadPool("slow", 2), threading.Event()
    entered = threading.Event()

    def hang() -> None:
        entered.set()
        release.wait(WAIT_S)

    pool.submit(hang)
    assert entered.wait(WAIT_S)
    assert pool.close(time.monotonic() + 0.05) == ["rest-slow-0"]
    with pytest.raises(CancelledError):
        pool.submit(lambda: None).result(WAIT_S)
    release.set()


def test_error_of_a_call_is_raised_to_its_caller() -> None:
    pool = ThreadPool("one", 1)
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result(WAIT_S)
    assert pool.submit(lambda: 1).result(WAIT_S) == 1
    pool.close(time.monotonic() + WAIT_S)


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/", RequestKind.WORKER),
        ("GET", "/health", RequestKind.WORKER),
        ("PUT", "/admin/loggers/{logger}", RequestKind.WORKER),
        ("GET", "/connectors", RequestKind.READ),
        ("GET", "/connectors/{connector}/status", RequestKind.READ),
        ("GET", "/connectors/{connector}/tasks", RequestKind.READ),
        ("GET", "/connector-plugins", RequestKind.READ),
        ("POST", "/connectors", RequestKind.CONFIGURE),
        ("PUT", "/connectors/{connector}/config", RequestKind.CONFIGURE),
        ("PATCH", "/connectors/{connector}/config", RequestKind.CONFIGURE),
        ("GET", "/connectors/{connector}/offsets", RequestKind.CONFIGURE),
        ("GET", "/connector-plugins/{plugin}/config", RequestKind.CONFIGURE),
        ("PUT", "/connector-plugins/{plugin}/config/validate", RequestKind.CONFIGURE),
        ("DELETE", "/connectors/{connector}", RequestKind.CHANGE),
        ("PUT", "/connectors/{connector}/stop", RequestKind.CHANGE),
        ("POST", "/connectors/{connector}/tasks/{task}/restart", RequestKind.CHANGE),
        ("POST", "/connectors/{connector}/tasks", RequestKind.CHANGE),
        ("PUT", "/connectors/{connector}/fence", RequestKind.CHANGE),
        ("POST", "/sluice/connectors/{connector}/rollback", RequestKind.CONFIGURE),
    ],
)
def test_pool_of_each_route(method: str, path: str, kind: RequestKind) -> None:
    assert request_kind(method, path) is kind
    routes = [route for route in build_api(FakeHerder()).routes if isinstance(route, APIRoute) and route.path == path]
    assert any(method in (route.methods or ()) for route in routes)
