"""Exactly-once delivery: records and their offsets in one transaction (promises 1, 4, 5, and 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from connect import ConnectError, SourceRecord
from connect.errors import UnreachableError
from tests.unit.worker.source.source_rig import FakeQueue, Rig, records
from worker.executor import WorkerServices
from worker.kafka.record_producer import ProduceCancelled, RecordMetadata
from worker.kafka.transactions import ProducerFencedError, TransactionLostError, Transactions
from worker.model import TaskId, TaskStopped
from worker.source import exactly_once
from worker.source.delivery import RunOutcome
from worker.source.exactly_once import ExactlyOnceDelivery
from worker.source.runtime import TransactionRuntime
from worker.source.transaction_boundary import Boundary, BoundarySettings, TransactionBoundaries
from worker.storage.offset_store import OffsetPair, OffsetRecord

OFFSETS = b"offsets"


class FakeServices:
    """Records what the worker is told and asked, among the events of the client."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.answers: list[ConnectError | None] = []
        """What ``confirm_task`` raises, call by call."""

    def confirm_task(self, start_id: int, task: TaskId, *, with_coordinator: bool = False) -> None:
        self.events.append("confirm with coordinator" if with_coordinator else "confirm")
        if self.answers and (answer := self.answers.pop(0)) is not None:
            raise answer

    def offset_records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        return [OffsetRecord("connect-offsets", 0, b"key", OFFSETS if offset is not None else None) for _, offset in offsets]

    def before_commit(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self.events.append("before commit")

    def offsets_committed(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self.events.append(("stored", [offset and offset["n"] for _, offset in offsets]))


class Delivery(Rig):
    def __init__(self, monkeypatch: pytest.MonkeyPatch, boundary: Boundary = Boundary.POLL, **options: Any) -> None:
        super().__init__(monkeypatch, **{"transactional.id": "id", **options})
        monkeypatch.setattr(exactly_once, "_CONFIRM_RETRY_S", 0.001)
        self.client.acknowledges = True
        self.services = FakeServices()
        self.services.events = self.client.events
        settings = BoundarySettings(boundary, 10)
        stopping = self.handle.control.is_stopping
        self.transactions = Transactions(self.producer, {"transactional.id": "id"}, "c-0", stopping=stopping, last_s=0.01)
        object.__setattr__(self.runtime, "transaction", TransactionRuntime(self.transactions, settings))
        self.now = 1000.0
        self.boundaries = TransactionBoundaries(settings, 60, lambda: self.now)
        services = cast(WorkerServices, self.services)
        self.delivery = ExactlyOnceDelivery(self.handle, self.runtime, self.transactions, self.boundaries, services, 1)
        self.delivery.start()


def test_records_and_offsets_are_in_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.delivery.send(records(1, 2))
    assert rig.client.events == ["begin", b"1", b"2", OFFSETS, "commit", ("stored", [2])]
    assert rig.task.commits == [[({"file": "p"}, {"n": 2})]]
    assert rig.handle.topics == {"t"}
    assert rig.delivery.made_progress


def test_a_transaction_that_fails_to_commit_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.client.transaction_errors = {"commit": KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, "few", False, False, True)}
    with pytest.raises(TransactionLostError):
        rig.delivery.send(records(1))
    rig.delivery.finish(RunOutcome.FAILED)
    assert rig.client.events == ["begin", b"1", OFFSETS, "commit", "abort"]
    assert rig.task.commits == []
    assert not rig.delivery.made_progress


def test_a_fenced_producer_fails_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.client.transaction_errors = {"commit": KafkaError(KafkaError._FENCED, "fenced", True)}
    with pytest.raises(ProducerFencedError):
        rig.delivery.send(records(1))
    assert rig.task.commits == []


def test_a_stopped_task_commits_and_an_interrupted_one_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch, Boundary.INTERVAL)
    rig.delivery.send(records(1))
    assert rig.client.events == ["begin", b"1"]
    rig.delivery.finish(RunOutcome.STOPPED)
    assert rig.client.events[2:] == [OFFSETS, "commit", ("stored", [1])]

    rig = Delivery(monkeypatch, Boundary.INTERVAL)
    rig.delivery.send(records(1))
    rig.delivery.finish(RunOutcome.INTERRUPTED)
    assert rig.client.events == ["begin", b"1", "abort"]


def test_a_transaction_with_part_of_a_batch_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch, Boundary.INTERVAL)
    rig.client.refuses = {b"2": BufferError()}
    rig.handle.control.stop()
    with pytest.raises(ProduceCancelled):
        rig.delivery.send(records(1, 2))
    rig.delivery.finish(RunOutcome.STOPPED)
    assert rig.client.events == ["begin", b"1", "abort"]


def test_a_task_that_was_cut_off_ends_no_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch, Boundary.INTERVAL)
    rig.delivery.send(records(1))
    rig.handle.cancelled = True
    rig.delivery.finish(RunOutcome.STOPPED)
    assert rig.client.events == ["begin", b"1"]


def test_the_interval_decides_when_to_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch, Boundary.INTERVAL)
    rig.delivery.send(records(1))
    rig.now += 9
    rig.delivery.send(records(2))
    assert "commit" not in rig.client.events
    rig.now += 1
    rig.delivery.send(records(3))
    assert rig.client.events == ["begin", b"1", b"2", b"3", OFFSETS, "commit", ("stored", [3])]


def test_an_aborted_transaction_stores_offsets_without_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch, Boundary.CONNECTOR, confirms_each=True)
    context = rig.delivery.context
    assert context is not None
    rig.client.acknowledges_on_poll = True
    batch = records(1, 2, 3)
    context.abort_transaction(batch[1])
    rig.delivery.send(batch)
    assert rig.client.events == ["begin", b"1", b"2", "abort", "begin", OFFSETS, "commit", ("stored", [2]), "begin", b"3"]
    assert rig.task.confirmed == [("1", None), ("2", None)]


def test_records_are_confirmed_after_the_commit_with_their_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch, confirms_each=True)
    confirm = rig.task.commit_record
    at_commit: list[bool] = []

    def commit_record(record: SourceRecord, metadata: RecordMetadata | None) -> None:
        at_commit.append("commit" in rig.client.events)
        confirm(record, metadata)

    monkeypatch.setattr(rig.task, "commit_record", commit_record)
    rig.delivery.send(records(1, 2))
    assert at_commit == [True, True]
    assert rig.task.confirmed == [("1", 0), ("2", 1)]


def test_nothing_is_committed_before_the_dead_letter_queue_has_skipped_records(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FakeQueue()
    queue.acknowledges = False
    rig = Delivery(monkeypatch, tolerant=True, queue=queue)
    rig.handle.control.stop()
    batch = records(1, 2)
    batch[0].value = "bad"
    with pytest.raises(TaskStopped):
        rig.delivery.send(batch)
    assert rig.client.events == ["begin", b"2"]


def test_predecessors_are_fenced_before_ownership_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.services.answers = [UnreachableError("no coordinator"), None]
    assert rig.delivery.prepare()
    assert rig.client.events == ["init", "confirm", "confirm"]


def test_a_task_that_must_stop_fences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.handle.control.stop()
    assert not rig.delivery.prepare()
    assert rig.client.events == []


def test_a_task_of_another_worker_does_not_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.services.answers = [ConnectError("revoked")]
    with pytest.raises(ConnectError, match="revoked"):
        rig.delivery.can_restart()
    assert rig.client.events == ["confirm with coordinator"]


def test_a_task_may_not_write_to_its_own_offsets_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    with pytest.raises(ConnectError, match="may not produce to their own offsets topics"):
        rig.delivery.send(records(1, topic="connect-offsets"))
    assert "commit" not in rig.client.events


def test_tombstones_are_announced_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.delivery.send([SourceRecord({"file": "p"}, None, "t", value="1")])
    assert rig.client.events == ["begin", b"1", "before commit", None, "commit", ("stored", [None])]


def test_a_pause_commits_the_sent_records(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch, Boundary.INTERVAL)
    rig.delivery.send(records(1))
    rig.delivery.flush()
    rig.delivery.flush()
    assert rig.client.events == ["begin", b"1", OFFSETS, "commit", ("stored", [1])]


def test_a_position_is_committed_without_a_record_once_per_flush_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Delivery(monkeypatch)
    rig.task.positions = [({"file": "p"}, {"n": 7})]
    rig.delivery.send(None)
    assert rig.client.events == []
    rig.now += 61
    rig.delivery.send(None)
    assert rig.client.events == ["begin", OFFSETS, "commit", ("stored", [7])]
    assert rig.task.commits == [[({"file": "p"}, {"n": 7})]]
