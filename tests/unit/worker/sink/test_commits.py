"""Commits of a sink task: which offsets, and when (promises 2 and 7)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from connect import ConnectError, TopicPartition
from connect.sink import RawRecord
from tests.unit.worker.kafka.fake_clients import messages_of
from tests.unit.worker.sink.sink_rig import P0, P1, FakeQueue, Rig


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    rig = Rig(monkeypatch)
    rig.client.group_offsets = {P0: 10, P1: 20}
    rig.assign(P0, P1)
    rig.events.clear()
    return rig


def with_dead_letters(monkeypatch: pytest.MonkeyPatch) -> tuple[Rig, FakeQueue]:
    """A task with a failed record that its dead letter queue has not acknowledged."""
    queue = FakeQueue()
    rig = Rig(monkeypatch, tolerant=True, queue=queue)
    rig.client.group_offsets = {P0: 10}
    rig.assign(P0)
    rig.iterate(*messages_of(P0, [10]))
    queue.acknowledges = False
    reporter = rig.loop.context.errant_record_reporter
    assert reporter is not None
    reporter.report_raw(RawRecord("t", 0, 10, b"k", b"v"), ValueError("no room"))
    return rig, queue


def test_delivered_offsets_are_passed_to_pre_commit_and_what_it_returns_is_committed(rig: Rig) -> None:
    rig.task.returned = {P0: 11}
    rig.iterate(*messages_of(P0, [10, 11]), *messages_of(P1, [20]))
    assert rig.events == [("put", "0-10", "0-11", "1-20")]
    rig.commit()
    assert rig.events[1:3] == [("pre_commit", {P0: 12, P1: 21}), ("commit", {P0: 11})]


def test_nothing_is_committed_if_pre_commit_returns_nothing(rig: Rig) -> None:
    rig.task.returned = {}
    rig.iterate(*messages_of(P0, [10]))
    rig.commit()
    assert rig.client.commits == []


def test_offsets_that_were_not_delivered_or_are_not_assigned_are_not_committed(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.task.returned = {P0: 12, P1: 21, TopicPartition("other", 0): 1}
    rig.iterate(*messages_of(P0, [10]), *messages_of(P1, [20]))
    rig.commit()
    assert rig.client.commits == [{P1: 21}]
    assert "ignoring offset 12 for t-0: it is beyond the last delivered offset 11" in caplog.text
    assert "ignoring offset 1 for other-0: partition is not assigned" in caplog.text


def test_a_failed_pre_commit_rewinds_to_the_last_commit(rig: Rig) -> None:
    rig.iterate(*messages_of(P0, [10, 11]))
    rig.task.returned = ValueError("disk full")
    rig.commit()
    assert rig.client.commits == []
    assert [event for event in rig.events if event[0] == "seek"] == [("seek", 0, 10), ("seek", 1, 20)]
    rig.task.returned = None
    rig.commit()
    assert ("pre_commit", {P0: 10, P1: 20}) in rig.events
    assert rig.client.commits == []


def test_there_is_one_commit_at_a_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.loop._commits, "_timeout_s", 60)
    rig.iterate(*messages_of(P0, [10]))
    rig.commit()
    rig.iterate(*messages_of(P0, [11]))
    rig.commit()
    assert rig.client.commits == [{P0: 11}]
    rig.client.answer_commit()
    rig.iterate()
    assert rig.client.commits == [{P0: 11}, {P0: 12}]  # the request was not forgotten


def test_an_answer_that_is_overdue_does_not_stop_further_commits(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.iterate(*messages_of(P0, [10]))
    now = rig.loop._commits.next_commit
    rig.loop._commits.commit(now)
    assert not rig.loop._commits.is_due(now, requested=True)
    assert rig.loop._commits.is_due(now + 1, requested=True)
    assert "no answer to an offset commit" in caplog.text


def test_the_answer_to_a_commit_is_awaited_after_a_long_put(rig: Rig) -> None:
    rig.iterate(*messages_of(P0, [10]))
    rig.loop._commits.commit(0.0)
    rig.loop._commits.extend_deadline()
    assert not rig.loop._commits.is_due(1.0, requested=True)


def test_a_commit_that_the_broker_refuses_is_retried(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.client.commit_error = KafkaError(KafkaError.REQUEST_TIMED_OUT)
    rig.iterate(*messages_of(P0, [10]))
    rig.commit()
    rig.client.answer_commit()
    assert "The commit will be retried" in caplog.text
    rig.client.commit_error = None
    rig.commit()
    assert rig.client.commits == [{P0: 11}, {P0: 11}]


def test_commits_are_periodic(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, interval_s=0)
    rig.client.group_offsets = {P0: 10}
    rig.assign(P0)
    rig.iterate(*messages_of(P0, [10]))
    rig.iterate()
    assert rig.client.commits == [{P0: 11}]


def test_offsets_are_committed_only_after_the_dead_letter_queue_has_failed_records(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig, queue = with_dead_letters(monkeypatch)
    rig.commit()
    assert rig.client.commits == []
    assert "its dead letter queue did not acknowledge all failed records" in caplog.text
    queue.acknowledges = True
    rig.commit()
    assert rig.client.commits == [{P0: 11}]


def test_revoked_partitions_are_not_committed_without_their_dead_letters(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig, _ = with_dead_letters(monkeypatch)
    rig.client.revoke(P0)
    assert rig.client.commits == []
    assert "failed records are missing from its dead letter queue" in caplog.text


def test_a_dead_letter_that_was_not_written_keeps_offsets_from_being_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, queue = with_dead_letters(monkeypatch)

    def fail(timeout_s: float) -> Any:
        raise ConnectError("too large")

    monkeypatch.setattr(queue, "flush", fail)
    rig.client.revoke(P0)
    assert rig.client.commits == []
