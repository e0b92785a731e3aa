"""Delivery of records to a sink task: order, retries, rewinds, and pauses (promise 3)."""

from __future__ import annotations

import pytest

from connect import RetriableError
from tests.unit.worker.kafka.fake_clients import messages_of
from tests.unit.worker.sink.sink_rig import P0, P1, Rig
from worker.errors.stages import TaskPutError


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    rig = Rig(monkeypatch)
    rig.client.group_offsets = {P0: 10, P1: 20}
    rig.assign(P0, P1)
    rig.events.clear()
    return rig


def test_a_retriable_error_repeats_the_put_and_pauses_reading_meanwhile(rig: Rig) -> None:
    rig.task.put_errors = [RetriableError("busy"), RetriableError("busy"), None]
    rig.iterate(*messages_of(P0, [10]))
    assert rig.client.paused == {P0, P1}
    rig.commit()
    assert rig.client.commits == []  # offset 11 is not delivered
    rig.iterate()
    assert [event for event in rig.events if event[0] == "put"] == [("put", "0-10")] * 3
    assert rig.client.paused == set()
    rig.commit()
    assert rig.client.commits == [{P0: 11}]


def test_records_read_during_a_retry_follow_those_that_are_retried(rig: Rig) -> None:
    rig.task.put_errors = [RetriableError("busy"), None]
    rig.iterate(*messages_of(P0, [10]))
    rig.iterate(*messages_of(P0, [11]))
    assert rig.events[-1] == ("put", "0-10", "0-11")


def test_retry_delays_double(rig: Rig) -> None:
    delivery = rig.loop._delivery
    rig.task.put_errors = [RetriableError("busy")] * 3
    rig.iterate(*messages_of(P0, [10]))
    delays = []
    for _ in range(3):
        delays.append(delivery.next_put_at(0.0))
        rig.iterate()
    assert delays == [0.1, 0.2, 0.4]


def test_any_other_error_fails_the_task(rig: Rig) -> None:
    rig.task.put_errors = [ValueError("no room")]
    with pytest.raises(TaskPutError, match=r"Exiting WorkerSinkTask due to unrecoverable exception\. ValueError: no room"):
        rig.iterate(*messages_of(P0, [10, 11]))
    rig.loop.close()
    assert rig.client.commits == []


def test_a_requested_offset_rewinds_the_partition_and_drops_its_unfinished_records(rig: Rig) -> None:
    rig.task.put_errors = [RetriableError("busy")]
    rig.iterate(*messages_of(P0, [10]), *messages_of(P1, [20]))
    rig.loop.context.offset({P0: 5})
    rig.iterate()
    assert rig.events[-2:] == [("seek", 0, 5), ("put", "1-20")]


def test_a_requested_offset_of_an_unassigned_partition_is_ignored(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.client.revoke(P1)
    rig.loop.context.offset({P1: 5})
    rig.iterate()
    assert all(event[0] != "seek" for event in rig.events)
    assert "ignoring requested offset 5 for t-1: partition is not assigned" in caplog.text


def test_a_task_that_takes_raw_batches_gets_no_records(rig: Rig) -> None:
    rig.loop.use_raw_batches()
    rig.iterate(*messages_of(P0, [10, 11]))
    assert rig.events == [("put_raw", "0-10", "0-11")]
    assert rig.handle.topics == {"t"}


def test_partitions_that_the_task_paused_stay_paused_after_an_operator_resumes(rig: Rig) -> None:
    rig.loop.context.pause(P0)
    rig.handle.control.set_paused(True)
    rig.iterate()
    rig.loop.context.resume(P1)
    assert rig.client.paused == {P0, P1}
    rig.handle.control.set_paused(False)
    rig.iterate()
    assert rig.client.paused == {P0}
    rig.loop.context.resume(P0)
    assert rig.client.paused == set()


def test_a_pause_commits(rig: Rig) -> None:
    rig.iterate(*messages_of(P0, [10]))
    rig.handle.control.set_paused(True)
    rig.iterate()
    assert rig.client.commits == [{P0: 11}]
