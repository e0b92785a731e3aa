"""Threads of handlers: lanes, and what becomes of calls that wait for their turn."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError

import pytest
from fastapi.routing import APIRoute

from rest.app import build_api
from rest.server.thread_pools import Kind, Lane, Lanes, kind_of
from tests.unit.rest.fake_herder import FakeHerder


def test_a_lane_that_is_full_keeps_others_going() -> None:
    before = _threads_of_lanes()
    lanes, release = Lanes(), threading.Event()
    hanging = [lanes.submit(Kind.CONFIGURE, lambda: release.wait(10)) for _ in range(Kind.CONFIGURE.threads + 10)]
    assert lanes.submit(Kind.READ, lambda: "read").result(30) == "read"
    assert lanes.submit(Kind.CHANGE, lambda: "changed").result(30) == "changed"
    release.set()
    assert all(future.result(30) for future in hanging)
    assert lanes.close(time.monotonic() + 5) == []
    assert _threads_of_lanes() <= before


def _threads_of_lanes() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("rest-")}


def test_a_call_that_is_cancelled_before_its_turn_is_not_made() -> None:
    lane, release = Lane("few", 1), threading.Event()
    made = []
    first = lane.submit(lambda: release.wait(10))
    second = lane.submit(lambda: made.append("second"))
    assert second.cancel()
    release.set()
    assert first.result(30)
    assert lane.submit(lambda: "third").result(30) == "third"
    assert made == []
    assert lane.close(time.monotonic() + 5) == []


def test_what_hangs_at_the_end_is_told_by_the_name_of_its_thread() -> None:
    lane, release = Lane("slow", 2), threading.Event()
    entered = threading.Event()
    lane.submit(lambda: entered.set() or release.wait(10))
    assert entered.wait(30)
    assert lane.close(time.monotonic() + 0.05) == ["rest-slow-0"]
    with pytest.raises(CancelledError):
        lane.submit(lambda: None).result(1)
    release.set()


def test_an_error_is_the_callers() -> None:
    lane = Lane("one", 1)
    with pytest.raises(ZeroDivisionError):
        lane.submit(lambda: 1 / 0).result(30)
    assert lane.submit(lambda: 1).result(30) == 1
    lane.close(time.monotonic() + 5)


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/", Kind.WORKER),
        ("GET", "/health", Kind.WORKER),
        ("PUT", "/admin/loggers/{logger}", Kind.WORKER),
        ("GET", "/connectors", Kind.READ),
        ("GET", "/connectors/{connector}/status", Kind.READ),
        ("GET", "/connectors/{connector}/tasks", Kind.READ),
        ("GET", "/connector-plugins", Kind.READ),
        ("POST", "/connectors", Kind.CONFIGURE),
        ("PUT", "/connectors/{connector}/config", Kind.CONFIGURE),
        ("PATCH", "/connectors/{connector}/config", Kind.CONFIGURE),
        ("GET", "/connectors/{connector}/offsets", Kind.CONFIGURE),
        ("GET", "/connector-plugins/{plugin}/config", Kind.CONFIGURE),
        ("PUT", "/connector-plugins/{plugin}/config/validate", Kind.CONFIGURE),
        ("DELETE", "/connectors/{connector}", Kind.CHANGE),
        ("PUT", "/connectors/{connector}/stop", Kind.CHANGE),
        ("POST", "/connectors/{connector}/tasks/{task}/restart", Kind.CHANGE),
        ("POST", "/connectors/{connector}/tasks", Kind.CHANGE),
        ("PUT", "/connectors/{connector}/fence", Kind.CHANGE),
        ("POST", "/sluice/connectors/{connector}/rollback", Kind.CONFIGURE),
    ],
)
def test_the_lane_of_a_call(method: str, path: str, kind: Kind) -> None:
    assert kind_of(method, path) is kind
    routes = [route for route in build_api(FakeHerder()).routes if isinstance(route, APIRoute) and route.path == path]
    assert any(method in (route.methods or ()) for route in routes)
