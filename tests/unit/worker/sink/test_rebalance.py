"""Rebalances of a sink task: opening, committing, and closing partitions (promises 2, 4, and 6)."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_STORED, KafkaError

from connect import RetriableError
from tests.unit.worker.kafka.fake_clients import messages_of
from tests.unit.worker.sink.sink_rig import P0, P1, Rig


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    rig = Rig(monkeypatch)
    rig.client.group_offsets = {P0: 10, P1: 20}
    return rig


def test_assigned_partitions_are_opened_and_read_from_the_group_offset(rig: Rig) -> None:
    rig.client.group_offsets = {P0: 10}
    rig.assign(P0, P1)
    assert rig.events == [("open", 0, 1)]
    assert rig.client.assigned_at == {P0: 10, P1: 0}  # auto.offset.reset=earliest


def test_offsets_requested_in_open_take_precedence(rig: Rig) -> None:
    rig.task.on_open = lambda: rig.loop.context.offset({P0: 3})
    rig.assign(P0, P1)
    assert rig.client.assigned_at == {P0: 3, P1: 20}
    rig.commit()
    assert rig.client.commits == [{P0: 3}]  # the group is repaired


def test_group_offsets_are_asked_for_until_the_broker_answers(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.client.committed_error = KafkaError(KafkaError._TIMED_OUT)
    rig.assign(P0)
    assert rig.client.assigned_at == {P0: 10}
    assert "It will be retried" in caplog.text


def test_revoked_partitions_are_committed_and_closed_before_they_go(rig: Rig) -> None:
    rig.assign(P0, P1)
    rig.iterate(*messages_of(P0, [10]), *messages_of(P1, [20]))
    rig.events.clear()
    rig.task.returned = {P1: 21, P0: 11}
    rig.client.revoke(P1)
    assert rig.events[:2] == [("pre_commit", {P1: 21}), ("close", 1)]
    assert rig.events[2][0] == "commit and wait"
    assert rig.client.commits[0][P1] == 21
    assert set(rig.loop.context.assignment()) == {P0}


def test_partitions_are_closed_although_pre_commit_fails(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.assign(P0)
    rig.iterate(*messages_of(P0, [10]))
    rig.events.clear()
    rig.task.returned = ValueError("disk full")
    rig.client.revoke(P0)
    assert rig.events == [("pre_commit", {P0: 11}), ("close", 0)]
    assert "pre_commit() of task sink-0 failed before its partitions were closed" in caplog.text


def test_a_failed_commit_of_revoked_partitions_is_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.assign(P0)
    rig.iterate(*messages_of(P0, [10]))
    rig.client.commit_error = KafkaError(KafkaError.REQUEST_TIMED_OUT)
    rig.client.revoke(P0)
    rig.callbacks.raise_error()
    assert "Records since the last commit will be read again" in caplog.text
    assert not rig.loop.context.assignment()


def test_nothing_is_committed_for_lost_partitions(rig: Rig) -> None:
    rig.assign(P0)
    rig.iterate(*messages_of(P0, [10]))
    rig.events.clear()
    rig.client.lose(P0)
    assert rig.events == [("lost", 0)]
    assert not rig.loop.context.assignment()


def test_a_task_that_was_cut_off_hears_of_no_rebalance(rig: Rig) -> None:
    rig.assign(P0)
    rig.iterate(*messages_of(P0, [10]))
    rig.events.clear()
    rig.handle.cancelled = True
    rig.client.revoke(P0)
    rig.client.lose(P0)
    rig.client.assign_partitions(P1)
    assert rig.events == []
    assert P1 in rig.client.paused


def test_an_error_in_open_is_raised_after_the_callback_and_the_partitions_stay_paused(rig: Rig) -> None:
    def fail() -> None:
        raise ValueError("no table")

    rig.task.on_open = fail
    rig.client.assign_partitions(P0)
    assert rig.client.paused == {P0}
    with pytest.raises(ValueError, match="no table"):
        rig.callbacks.raise_error()
    rig.callbacks.raise_error()  # once


def test_closing_commits_and_closes_all_partitions(rig: Rig) -> None:
    rig.assign(P0, P1)
    rig.iterate(*messages_of(P0, [10]), *messages_of(P1, [20]))
    rig.loop.close()
    assert rig.events[-3:] == [
        ("pre_commit", {P0: 11, P1: 21}),
        ("close", 0, 1),
        ("commit and wait", {P0: 11, P1: 21}),
    ]


def test_revoked_records_of_an_unfinished_put_are_dropped(rig: Rig) -> None:
    rig.assign(P0, P1)
    rig.task.put_errors = [RetriableError("busy")]
    rig.iterate(*messages_of(P0, [10]), *messages_of(P1, [20]))
    assert rig.client.paused == {P0, P1}
    rig.client.revoke(P1)
    rig.iterate()
    assert rig.events[-1] == ("put", "0-10")
    rig.loop.close()
    assert rig.client.commits[-1] == {P0: 11}


def test_partitions_assigned_while_paused_are_not_read(rig: Rig) -> None:
    rig.assign(P0)
    rig.handle.control.set_paused(True)
    rig.iterate()
    rig.client.assign_partitions(P1)
    assert rig.client.paused == {P0, P1}
    rig.handle.control.set_paused(False)
    rig.iterate()
    assert rig.client.paused == set()
    assert rig.handle.events == ["paused", "resumed"]


def test_partitions_without_an_answer_are_read_from_the_stored_offset(rig: Rig) -> None:
    rig.client.group_offsets, rig.client.watermarks = {}, (-1, -1)
    rig.assign(P0)
    assert rig.client.assigned_at == {P0: OFFSET_STORED}
