"""Probes of a distributed worker, and the times of its rebalances."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from connect.testing import ManualClock
from tests.support.waiting import WAIT_S
from tests.unit.worker.distributed.fakes import FakeWorker
from worker.distributed import condition
from worker.distributed.condition import find_liveness, find_readiness
from worker.distributed.group_session import GroupGeneration, RebalanceTimes
from worker.distributed.herder_loop import HerderLoop
from worker.group.protocol import Protocol
from worker.model import Readiness


def failing(found: Readiness) -> set[str]:
    return {check.name for check in found.checks if not check.passes}


def test_worker_is_ready_only_while_it_is_in_its_group_and_no_rebalance_runs() -> None:
    worker, loop = FakeWorker(), HerderLoop()
    assert failing(find_readiness(loop, worker.group)) == {"startup", "group", "rebalance"}
    worker.assign()
    worker.run()
    assert failing(find_readiness(loop, worker.group)) == set()
    worker.group.rejoin("a test")
    assert failing(find_readiness(loop, worker.group)) == {"rebalance"}
    # The member reports this when no broker has answered for a heartbeat interval.
    worker.group.revoked()
    assert failing(find_readiness(loop, worker.group)) == {"group", "rebalance"}


def test_worker_that_waits_for_a_broker_at_startup_is_live() -> None:
    loop, proceed = HerderLoop(), threading.Event()

    def wait() -> None:
        proceed.wait(WAIT_S)

    loop.start(wait)
    assert find_liveness(loop).is_ready
    proceed.set()
    loop.join(WAIT_S)
    (check,) = find_liveness(loop).checks
    assert not check.passes
    assert "has ended" in check.message


def test_worker_is_not_live_when_its_thread_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = HerderLoop()
    with loop.doing("waiting for nothing"):
        loop.run_due()
        assert find_liveness(loop).is_ready
        monkeypatch.setattr(condition, "_SILENT_S", -1.0)
        (check,) = find_liveness(loop).checks
    assert not check.passes
    assert "The worker is currently waiting for nothing" in check.message


def test_rebalance_lasts_from_the_first_request_to_the_assignment() -> None:
    clock = ManualClock()
    times = RebalanceTimes(clock.monotonic)
    times.started()
    clock.advance(1.0)
    times.started()
    clock.advance(1.0)
    times.completed(clock.monotonic() - 0.5)
    clock.advance(3.0)
    times.completed(clock.monotonic() - 1.0)  # another worker's rebalance
    clock.advance(4.0)
    generation = GroupGeneration(5, "me", "me", "http://me/", Protocol.SESSIONED)
    view = times.view(generation, is_rebalancing=False)
    assert (view.completed, view.epoch, view.protocol) == (2, 5, "SESSIONED")
    assert (view.max_ms, view.avg_ms) == pytest.approx((2000, 1500))
    assert view.since_last_ms == pytest.approx(4000)


def test_generation_outside_of_a_group_has_no_protocol() -> None:
    view = RebalanceTimes().view(cast(Any, GroupGeneration()), is_rebalancing=True)
    assert (view.protocol, view.epoch, view.since_last_ms) == ("", -1, 0.0)
