"""When connectors are told that values of config providers have run out, with a clock that is turned."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future

from connect.config.providers.references import Expiry
from connect.testing import ManualClock
from tests.support.waiting import WAIT_S
from worker.config.reload_timer import ReloadTimer


def expiry(ttl_ms: int, *, only_if_changed: bool = False, path: str = "a") -> Expiry:
    return Expiry("vault", path, ttl_ms, only_if_changed)


def test_a_connector_is_told_when_its_time_has_come_and_not_again() -> None:
    told: list[tuple[str, bool]] = []
    clock = ManualClock()
    timer = ReloadTimer(lambda *args: told.append(args), clock.monotonic)
    timer.schedule("c", [expiry(5000)])
    assert timer.run_due() == 5.0
    clock.advance(4.9)
    timer.run_due()
    assert told == []
    clock.advance(0.2)
    assert timer.run_due() is None
    assert told == [("c", False)]
    clock.advance(100)
    timer.run_due()
    assert told == [("c", False)]


def test_the_first_of_several_counts_and_one_lease_wants_the_restart() -> None:
    told: list[tuple[str, bool]] = []
    clock = ManualClock()
    timer = ReloadTimer(lambda *args: told.append(args), clock.monotonic)
    timer.schedule("c", [expiry(1000, only_if_changed=True), expiry(3000, path="b"), expiry(3000, only_if_changed=True)])
    clock.advance(1)
    assert timer.run_due() == 2.0
    clock.advance(2)
    timer.run_due()
    assert told == [("c", True), ("c", False)]


def test_a_new_time_takes_the_place_of_the_old_and_none_ends_it() -> None:
    told: list[tuple[str, bool]] = []
    clock = ManualClock()
    timer = ReloadTimer(lambda *args: told.append(args), clock.monotonic)
    timer.schedule("c", [expiry(1000)])
    timer.schedule("c", [expiry(5000)])
    timer.schedule("d", [expiry(1000)])
    timer.schedule("d", [])
    clock.advance(2)
    assert timer.run_due() == 3.0
    assert told == []


def test_values_that_hold_for_no_time_do_not_keep_a_connector_restarting() -> None:
    timer = ReloadTimer(lambda *args: None, ManualClock().monotonic)
    timer.schedule("c", [expiry(0)])
    assert timer.run_due() == 0.1


def test_the_thread_tells_and_ends() -> None:
    told = threading.Event()
    timer = ReloadTimer(lambda *args: told.set())
    timer.start()
    timer.schedule("c", [expiry(100)])
    assert told.wait(WAIT_S)
    timer.close()
    assert not any(thread.name == "config-reload" for thread in threading.enumerate())
    timer.schedule("c", [expiry(100)])
    assert timer.run_due() is None


def test_connectors_that_share_a_secret_restart_one_after_the_other() -> None:
    clock = ManualClock()
    restarts: dict[str, Future[None]] = {name: Future() for name in ("a", "b", "c")}
    began: queue.SimpleQueue[str] = queue.SimpleQueue()

    def reload(name: str, only_if_changed: bool) -> Future[None]:
        began.put(name)
        return restarts[name]

    timer = ReloadTimer(reload, clock.monotonic)
    for name in restarts:
        timer.schedule(name, [Expiry("p", "", 1000, True)])
    clock.advance(1)
    timer.start()
    try:
        for name in restarts:
            assert began.get(timeout=WAIT_S) == name
            assert began.empty(), "the next one waits"
            restarts[name].set_result(None)
    finally:
        timer.close()


def test_nothing_is_reloaded_after_the_timer_was_closed() -> None:
    clock = ManualClock()
    began: list[str] = []

    def reload(name: str, only_if_changed: bool) -> Future[None]:
        began.append(name)
        timer.close()
        return Future()

    timer = ReloadTimer(reload, clock.monotonic)
    for name in ("a", "b"):
        timer.schedule(name, [expiry(1000)])
    clock.advance(1)
    assert timer.run_due() is None
    assert began == ["a"]


def test_shutdown_does_not_wait_for_a_restart() -> None:
    clock = ManualClock()
    began = threading.Event()

    def reload(name: str, only_if_changed: bool) -> Future[None]:
        began.set()
        return Future()

    timer = ReloadTimer(reload, clock.monotonic)
    timer.schedule("a", [Expiry("p", "", 1000, True)])
    clock.advance(1)
    timer.start()
    assert began.wait(WAIT_S)
    timer.close()
