"""Restarts of instances on a worker end when the instance has started, and never hang."""

from __future__ import annotations

import pytest

from connect.errors import ConnectError
from tests.unit.worker.distributed.fakes import T0, T1, FakeWorker, configured
from worker.model import State
from worker.storage.record_codec import RestartRequest


@pytest.fixture
def worker() -> FakeWorker:
    worker = FakeWorker()
    worker.store.configure(*configured())
    worker.assign("a", [T0, T1])
    worker.run()
    worker.executor.hold_stops = True
    return worker


def test_restart_is_done_when_the_instance_has_started_again(worker: FakeWorker) -> None:
    connector, task = worker.restarts.restart("a"), worker.restarts.restart(T0)
    assert worker.run() == ["stop a", "stop a-0"]
    assert not connector.done()
    assert not task.done()
    assert sorted(worker.finish_stops()) == ["start a STARTED", "start a-0 1"]
    assert connector.result(0) is None
    assert task.result(0) is None


def test_restart_fails_when_the_instance_is_revoked_meanwhile(worker: FakeWorker) -> None:
    restarted = worker.restarts.restart(T0)
    worker.assign(revoked_tasks=(T0,))
    worker.run()
    worker.finish_stops()
    worker.run(64)
    assert not restarted.done()
    worker.run(2)
    with pytest.raises(ConnectError, match="it is no longer assigned to this worker"):
        restarted.result(0)


def test_shutdown_fails_pending_restarts(worker: FakeWorker) -> None:
    restarted = worker.restarts.restart(T0)
    worker.instances.refuse_awaiting(ConnectError("shutting down"))
    for refused in (restarted, worker.restarts.restart(T1)):
        with pytest.raises(ConnectError, match="shutting down"):
            refused.result(0)
    worker.run(100)


def test_planned_restart_writes_restarting_between_stop_and_start(worker: FakeWorker) -> None:
    for instance, start_id in (("a", 1), (T0, 2), (T1, 3)):
        worker.statuses.report(instance, State.RUNNING)
        assert worker.instances.is_running(instance, start_id)
    worker.status_store.written.clear()
    worker.restarts.restart_planned(RestartRequest("a", include_tasks=True, only_failed=False))
    assert worker.run() == ["stop a", "stop a-0 a-1"]
    worker.finish_stops()
    assert worker.status_store.written == [("a", "UNASSIGNED"), ("a", "RESTARTING"), (T0, "RESTARTING"), (T1, "RESTARTING")]
