"""At-least-once delivery: which offsets are stored, and when (promise 1)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from connect import ConnectError
from tests.unit.worker.source.source_rig import TASK_ID, FakeQueue, Rig, records
from worker.source.at_least_once import AtLeastOnceDelivery
from worker.source.delivery import RunOutcome, confirm_record
from worker.source.runtime import FlushTiming
from worker.source.sender import RecordSender

ALWAYS = FlushTiming(interval_s=0, timeout_s=0.01, last_timeout_s=0.01)


class Delivery(Rig):
    """A delivery that flushes after each batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, lingers_for_backlog: bool = False, **options: Any) -> None:
        super().__init__(monkeypatch, **options)
        sender = RecordSender(self.handle, self.runtime, lambda *done: confirm_record(TASK_ID, self.task, *done))
        self.delivery = AtLeastOnceDelivery(
            self.handle,
            self.task,
            sender,
            self.producer,
            self.errors,
            self.store,
            ALWAYS,
            lingers_for_backlog=lingers_for_backlog,
        )
        self.delivery.start()


def test_offsets_are_stored_only_after_every_record_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.delivery.send(records(1, 2, 3))
    assert rig.store.puts == []
    rig.client.acknowledge(2)
    rig.delivery.flush()
    assert rig.store.puts == []
    assert not rig.delivery.made_progress
    rig.client.acknowledge()
    rig.delivery.flush()
    assert rig.store.stored == {"p": 3}
    assert rig.delivery.made_progress


def test_offsets_of_later_records_wait_for_those_records(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.delivery.send(records(1))
    rig.client.acknowledge()
    rig.delivery.send(records(2))
    assert rig.store.puts == []  # record 2 is in flight
    rig.client.acknowledge()
    rig.delivery.send(None)
    assert rig.store.stored == {"p": 2}


def test_the_latest_offset_of_each_source_partition_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.client.acknowledges = True
    rig.delivery.send([*records(1, 2), *records(7, partition="q"), *records(3)])
    rig.delivery.send(None)
    assert [len(offsets) for offsets in rig.store.puts] == [2]
    assert rig.store.stored == {"p": 3, "q": 7}


def test_a_rejected_record_fails_the_task_and_no_offset_is_stored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Delivery(monkeypatch)
    rig.client.rejects = {b"2": KafkaError.MSG_SIZE_TOO_LARGE}
    rig.delivery.send(records(1, 2, 3))
    rig.client.acknowledge()
    with pytest.raises(ConnectError, match="Unrecoverable exception from producer send callback"):
        rig.delivery.flush()
    rig.delivery.finish(RunOutcome.FAILED)
    assert rig.store.puts == []
    assert "since the last flush are not stored" in caplog.text


def test_offsets_of_acknowledged_records_are_stored_when_a_task_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.delivery.send(records(1, 2))
    rig.client.acknowledge()
    rig.delivery.finish(RunOutcome.FAILED)
    assert rig.store.stored == {"p": 2}


def test_a_task_that_was_cut_off_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.delivery.send(records(1))
    rig.client.acknowledge()
    rig.handle.cancelled = True
    rig.delivery.flush()
    rig.delivery.finish(RunOutcome.STOPPED)
    assert rig.store.puts == []


class Flushes:
    """Counts the flushes of a client."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._flush = rig.client.flush
        monkeypatch.setattr(rig.client, "flush", self)

    def __call__(self, timeout_s: float) -> int:
        self.count += 1
        return self._flush(timeout_s)


@pytest.mark.parametrize(
    ("lingers_for_backlog", "has_more", "topics", "expected"),
    [(True, False, 1, 1), (True, True, 1, 0), (True, False, 30, 0), (False, False, 1, 0)],
)
def test_without_a_backlog_records_are_sent_at_once(
    monkeypatch: pytest.MonkeyPatch, lingers_for_backlog: bool, has_more: bool, topics: int, expected: int
) -> None:
    rig = Delivery(monkeypatch, lingers_for_backlog=lingers_for_backlog)
    rig.client.acknowledges = True
    batch = [record for i in range(topics) for record in records(i, topic=f"t{i}")]
    rig.delivery.send(batch)  # reports the topics and flushes offsets, which the next one does not
    monkeypatch.setattr(rig.delivery, "_next_flush", float("inf"))
    monkeypatch.setattr(rig.task, "has_more", lambda: has_more)
    flushes = Flushes(rig, monkeypatch)
    rig.delivery.send(batch)
    assert flushes.count == expected


def test_offsets_that_could_not_be_stored_are_retried_with_newer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.client.acknowledges = True
    rig.store.error = ConnectError("disk full")
    rig.delivery.send([*records(1), *records(5, partition="q")])
    assert (rig.store.puts, rig.task.commits) == ([], [])
    rig.store.error = None
    rig.delivery.send(records(2))
    assert rig.store.stored == {"p": 2, "q": 5}


def test_the_task_learns_of_offsets_after_they_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.delivery.send(records(1, 2))
    assert rig.task.commits == []
    rig.client.acknowledge()
    rig.delivery.flush()
    assert rig.task.commits == [[({"file": "p"}, {"n": 2})]]


def test_no_offset_is_stored_before_the_dead_letter_queue_has_the_skipped_records(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FakeQueue()
    queue.acknowledges = False
    rig = Delivery(monkeypatch, tolerant=True, queue=queue)
    rig.client.acknowledges = True
    batch = records(1, 2)
    batch[0].value = "bad"
    rig.delivery.send(batch)
    assert len(queue.sent) == 1
    assert rig.store.puts == []
    queue.acknowledges = True
    rig.delivery.flush()
    assert rig.store.stored == {"p": 2}


def test_topics_are_reported_once_their_first_records_are_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.client.acknowledges = True
    rig.delivery.send([*records(1), *records(2, topic="u")])
    assert rig.handle.topics == {"t", "u"}


def test_topics_are_reported_with_the_flush_if_the_broker_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.delivery.send(records(1))
    assert rig.handle.topics == set()
    rig.client.acknowledge()
    rig.delivery.flush()
    assert rig.handle.topics == {"t"}


def test_a_task_that_must_stop_does_not_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    assert rig.delivery.can_restart()
    rig.handle.control.stop()
    assert not rig.delivery.can_restart()


def test_a_position_is_stored_without_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.task.positions = [({"file": "p"}, {"n": 7})]
    rig.delivery.send(None)
    assert rig.store.stored == {"p": 7}
    assert rig.task.commits == [[({"file": "p"}, {"n": 7})]]


def test_a_position_replaces_the_offset_of_an_acknowledged_record_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.task.positions = [({"file": "p"}, {"n": 7})]
    rig.delivery.send(records(1))
    assert rig.store.puts == []  # the record is in flight
    rig.client.acknowledge()
    rig.delivery.send(None)
    assert rig.store.puts == [[({"file": "p"}, {"n": 7})]]
    assert rig.task.offered[0] == [({"file": "p"}, {"n": 1})]


def test_offsets_are_stored_as_they_are_if_update_offsets_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Delivery(monkeypatch)
    rig.client.acknowledges = True
    rig.task.positions = None  # type: ignore[assignment]  # no sequence
    rig.delivery.send(records(1))
    rig.delivery.send(None)
    assert rig.store.stored == {"p": 1}
    assert "update_offsets() of task c-0 failed" in caplog.text
