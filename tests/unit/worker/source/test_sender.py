"""The record sender: order, failed records, and the offsets that it tracks (promises 1, 3, and 7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from connect import ConfigDef, ConnectError, ConnectRecord, SourceRecord
from connect.errors import DataError, ErrantRecordError
from connect.record import ErrantSourceRecord
from connect.transforms.api import Transformation
from connect.transforms.chain import Step
from tests.unit.worker.source.source_rig import FakeQueue, Rig, records
from worker.errors.stages import ToleranceExceededError
from worker.kafka.record_producer import ProduceCancelled
from worker.source.sender import RecordSender
from worker.tasks.transformation_chain import TransformationChain

TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE


class Sender(Rig):
    def __init__(self, monkeypatch: pytest.MonkeyPatch, chain: TransformationChain | None = None, **options: Any) -> None:
        super().__init__(monkeypatch, **options)
        if chain is not None:
            object.__setattr__(self.runtime, "chain", chain)
        self.runs = 0
        self.done: list[tuple[Any, int | None]] = []
        self.sender = RecordSender(self.handle, self.runtime, self._on_done, self._count_run)

    def _on_done(self, record: SourceRecord, metadata: Any) -> None:
        self.done.append((record.value, None if metadata is None else metadata.offset))

    def _count_run(self) -> None:
        self.runs += 1

    def pending(self) -> int | None:
        """The pending offset of partition ``p``."""
        return next((offset["n"] for _, offset in self.sender.pending.take() if offset is not None), None)


class DropOdd(Transformation):
    """Drops records with an odd value."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def configure(self, settings: Mapping[str, str]) -> None: ...

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return None if int(record.value) % 2 else record

    def apply_batch(self, records: Any) -> list[ConnectRecord | None]:
        return [self.apply(record) for record in records]


def dropping_chain() -> TransformationChain:
    return TransformationChain([Step("drop", DropOdd(), None, False)])


def test_records_are_produced_in_the_order_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch)
    rig.sender.send([*records(1, 2), *records(3, topic="u"), *records(4, 5)])
    assert rig.client.events == [b"1", b"2", b"3", b"4", b"5"]
    assert (rig.runs, rig.handle.counted) == (3, 5)
    assert rig.sender.take_new_topics() == {"t", "u"}
    assert rig.sender.take_new_topics() == frozenset()
    assert rig.pending() == 5


def test_offsets_of_dropped_records_are_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch, dropping_chain())
    rig.sender.send(records(1, 2, 3))
    assert rig.client.events == [b"2"]
    assert rig.pending() == 3


def test_records_before_a_failed_one_are_sent_and_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch)
    batch = records(1, 2, 3, 4)
    batch[2].value = "bad"
    with pytest.raises(ToleranceExceededError, match="refused"):
        rig.sender.send(batch)
    assert rig.client.events == [b"1", b"2"]
    assert rig.pending() == 2


def test_a_tolerated_failure_skips_only_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FakeQueue()
    rig = Sender(monkeypatch, tolerant=True, queue=queue)
    batch = records(1, 2, 3)
    batch[1].value = "bad"
    rig.sender.send(batch)
    assert rig.client.events == [b"1", b"3"]
    assert len(queue.sent) == 1
    assert rig.errors.counts.skipped == 1
    assert rig.pending() == 3


def test_a_stop_while_the_queue_is_full_tracks_only_sent_records(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch)
    rig.client.refuses = {b"3": BufferError()}
    rig.handle.control.stop()
    with pytest.raises(ProduceCancelled):
        rig.sender.send(records(1, 2, 3, 4))
    assert rig.client.events == [b"1", b"2"]
    assert rig.pending() == 2


def test_a_stop_during_a_batch_with_several_topics_tracks_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch)
    rig.client.refuses = {b"3": BufferError()}
    rig.handle.control.stop()
    with pytest.raises(ProduceCancelled):
        rig.sender.send([*records(1), *records(2, 3, topic="u")])
    assert rig.pending() is None


def test_a_record_that_the_client_refuses_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch)
    rig.client.refuses = {b"2": KafkaException(KafkaError(TOO_LARGE))}
    with pytest.raises(ConnectError, match="Unrecoverable exception from producer send callback"):
        rig.sender.send(records(1, 2, 3))
    assert rig.pending() == 1


def test_a_tolerated_record_that_the_client_refuses_is_reported_and_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FakeQueue()
    rig = Sender(monkeypatch, tolerant=True, queue=queue)
    rig.client.refuses = {b"2": KafkaException(KafkaError(TOO_LARGE))}
    rig.sender.send(records(1, 2, 3))
    assert rig.client.events == [b"1", b"3"]
    assert len(queue.sent) == 1
    assert rig.pending() == 3


def test_a_rejected_record_is_resent_alone_before_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FakeQueue()
    rig = Sender(monkeypatch, tolerant=True, queue=queue)
    rig.sender.send(records(1, 2, 3))
    rig.client.rejects = {b"2": TOO_LARGE}
    rig.client.acknowledge()
    rig.client.acknowledges = True
    rig.sender.send(records(4))
    assert rig.client.events == [b"1", b"2", b"3", b"4", b"2"]
    assert len(queue.sent) == 1
    assert rig.sender.resend_rejected(0.01)


def test_a_record_rejected_because_of_another_one_is_written_when_resent(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FakeQueue()
    rig = Sender(monkeypatch, tolerant=True, queue=queue)
    rig.sender.send(records(1, 2))
    rig.client.rejects = {b"1": TOO_LARGE}
    rig.client.acknowledge()
    rig.client.poll(0)
    rig.client.rejects, rig.client.acknowledges = {}, True
    assert rig.sender.resend_rejected(0.01)
    assert rig.client.events == [b"1", b"2", b"1"]
    assert queue.sent == []


def test_rejected_records_wait_while_the_broker_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch, tolerant=True)
    rig.sender.send(records(1, 2))
    rig.client.rejects = {b"1": TOO_LARGE}
    rig.client.acknowledge(1)
    rig.client.poll(0)
    assert not rig.sender.resend_rejected(0.01)  # record 2 is in flight


def test_each_record_is_confirmed_after_it_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch, dropping_chain(), confirms_each=True)
    rig.sender.send(records(1, 2, 4))
    assert rig.done == [("1", None)]  # it was dropped
    rig.client.acknowledge(1)
    rig.producer.serve()
    assert rig.done == [("1", None), ("2", 0)]
    rig.client.acknowledge()
    rig.producer.serve()
    assert rig.done[2:] == [("4", 1)]


def test_a_failed_record_is_not_confirmed_before_the_dead_letter_queue_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FakeQueue()
    rig = Sender(monkeypatch, tolerant=True, confirms_each=True, queue=queue)
    confirmed_at: list[bool] = []
    flush = queue.flush

    def flush_and_note(timeout_s: float) -> bool:
        confirmed_at.append(bool(rig.done))
        return flush(timeout_s)

    monkeypatch.setattr(queue, "flush", flush_and_note)
    batch = records(1)
    batch[0].value = "bad"
    rig.sender.send(batch)
    assert confirmed_at == [False]
    assert rig.done == [("bad", None)]


def test_the_reason_of_a_failure_is_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Sender(monkeypatch)
    batch = records(1)
    batch[0].value = "bad"
    with pytest.raises(ToleranceExceededError) as caught:
        rig.sender.send(batch)
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value.__cause__.__cause__, DataError)


def errant(offset: int, *, skip: bool = False) -> ErrantSourceRecord:
    return ErrantSourceRecord({"file": "p"}, {"n": offset}, "t", {"row": {"a": "x"}}, ErrantRecordError("odd row", skip=skip))


class KeepValue(DropOdd):
    """Looks at the value of each record."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return record if record.value else None


@pytest.mark.parametrize("has_chain", [False, True])
@pytest.mark.parametrize("confirms_each", [False, True])
@pytest.mark.parametrize(("tolerant", "skip"), [(True, False), (False, True), (True, True)])
def test_record_that_a_source_could_not_convert_is_reported_and_the_others_are_sent(
    monkeypatch: pytest.MonkeyPatch, has_chain: bool, confirms_each: bool, tolerant: bool, skip: bool
) -> None:
    queue = FakeQueue()
    chain = TransformationChain([Step("keep", KeepValue(), None, False)]) if has_chain else None
    rig = Sender(monkeypatch, chain, tolerant=tolerant, confirms_each=confirms_each, queue=queue)
    rig.sender._on_record_done = lambda record, metadata: None
    rig.sender.send([*records(1), errant(2, skip=skip), *records(3)])
    assert rig.client.events == [b"1", b"3"]
    assert rig.pending() == 3
    (letter,) = queue.sent
    found = json.loads(letter)
    assert (found["topic"], found["sourceOffset"]) == ("t", {"n": 2})
    assert json.loads(found["value"]["text"]) == {"row": {"a": "x"}}
    (headers,) = queue.headers
    assert headers["__connect.errors.stage"] == b"TASK_POLL"
    assert headers["__connect.errors.exception.message"] == b"odd row"
    assert rig.errors.counts.skipped == 1
    rig.errors.check()


@pytest.mark.parametrize("confirms_each", [False, True])
def test_record_that_a_source_could_not_convert_fails_the_task_without_tolerance(
    monkeypatch: pytest.MonkeyPatch, confirms_each: bool
) -> None:
    rig = Sender(monkeypatch, confirms_each=confirms_each)
    rig.sender._on_record_done = lambda record, metadata: None
    with pytest.raises(ToleranceExceededError, match=r"odd row \(in task poll \w+, record for topic t, .*'n': 3"):
        rig.sender.send([errant(1, skip=True), *records(2), errant(3), *records(4)])
    assert rig.client.events == [b"2"]
    assert rig.pending() == 2
