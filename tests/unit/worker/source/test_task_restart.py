"""Which tasks of exactly-once sources begin again by themselves, when a transaction of theirs is lost. No broker is needed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from connect import ConnectError, SourceRecord, SourceTask
from connect.errors import UnreachableError
from tests.support.waiting import WAIT_S
from tests.unit.worker.executors.conftest import MemoryServices
from tests.unit.worker.source.source_rig import no_owned_topics, no_topics
from tests.unit.worker.tasks.task_listener import Listener
from worker.errors.config import error_settings
from worker.errors.handler import ErrorHandler
from worker.errors.resend import RejectedRecords
from worker.kafka.record_producer import RecordProducer
from worker.kafka.transactions import ProducerFencedError, TransactionLostError, Transactions
from worker.model import TaskId
from worker.source import exactly_once
from worker.source import task as source_task
from worker.source.owned_topics import OwnedTopics
from worker.source.runtime import FlushTiming, ProducerOptions, SourceTaskRuntime, TransactionRuntime
from worker.source.task import SourceWorkerTask
from worker.source.transaction_boundary import Boundary, BoundarySettings
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain

ID = TaskId("c", 0)
LOST = TransactionLostError("The transaction is over", "no broker took it")


class Idle(SourceTask):
    """Polls nothing."""

    def start(self, config: Any) -> None: ...

    def poll(self) -> Sequence[SourceRecord] | None:
        return None

    def stop(self) -> None: ...


class Services(MemoryServices):
    """Answers the question whether a task is still to run here as the test says; the last answer stays."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[ConnectError | None] = [None]
        self.coordinator_checks = 0

    def confirm_task(self, start_id: int, task: TaskId, *, with_coordinator: bool = False) -> None:
        if with_coordinator:
            self.coordinator_checks += 1
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if answer is not None:
                raise answer


@dataclass
class Scene(Listener):
    """``outcomes`` are those of commits one after the other, whichever instance of the task makes them: an error, or success."""

    outcomes: list[ConnectError | None]
    broker_unavailable: bool = False
    services: Services = field(default_factory=Services)
    instances: int = 0
    all_done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__()

    def run(self) -> SourceWorkerTask:
        task = SourceWorkerTask(ID, self, self._parts, self.services, FlushTiming(0, 1, 1))
        task.start()
        return task

    def _parts(self, stopping: Callable[[], bool], options: ProducerOptions) -> SourceTaskRuntime:
        self.instances += 1
        task, errors = Idle(), ErrorHandler(ID, error_settings({}, "source"))
        producer = cast(RecordProducer, FakeProducer())
        rejected = RejectedRecords(task, producer, errors)
        transaction = TransactionRuntime(cast(Transactions, FakeTransactions(self)), BoundarySettings(Boundary.POLL, 0))
        converters = cast(Converters, FakeProducer())  # closed, and never asked: there are no records
        return SourceTaskRuntime(
            task,
            {},
            converters,
            TransformationChain([]),
            producer,
            None,
            errors,
            rejected,
            no_topics,
            OwnedTopics(no_owned_topics),
            transaction=transaction,
        )


class FakeProducer:
    def serve(self) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class FakeTransactions:
    open = True  # what an instance of the task has sent waits for its commit

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.broker_unavailable = scene.broker_unavailable

    def init(self) -> bool:
        return True

    def begin(self) -> None: ...

    def commit(self) -> None:
        if not self._scene.outcomes:
            self._scene.all_done.set()
        elif (outcome := self._scene.outcomes.pop(0)) is not None:
            raise outcome

    def explain(self, error: ConnectError) -> ConnectError:
        return error

    def give_up(self) -> None: ...


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_task, "_RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(exactly_once, "_CONFIRM_RETRY_S", 0.001)


@pytest.fixture
def start() -> Iterator[Callable[[Scene], SourceWorkerTask]]:
    started: list[SourceWorkerTask] = []

    def start(scene: Scene) -> SourceWorkerTask:
        started.append(scene.run())
        return started[-1]

    yield start
    for task in started:
        task.stop()
        assert task.join(time.monotonic() + WAIT_S)


Start = Callable[[Scene], SourceWorkerTask]


def test_a_task_restarts_after_a_lost_transaction(start: Start) -> None:
    scene = Scene([None, LOST, LOST, LOST])
    start(scene)
    assert scene.all_done.wait(WAIT_S)
    assert (scene.instances, scene.said, scene.error) == (4, ["running"] * 4, None)
    assert scene.services.coordinator_checks == 3


def test_a_task_without_progress_fails_after_several_restarts(start: Start) -> None:
    scene = Scene([None, LOST, LOST, LOST, LOST, LOST])
    start(scene)
    assert scene.ended.wait(WAIT_S)
    # The first one had committed something.
    assert (scene.instances, str(scene.error)) == (5, "The transaction is over")


def test_restarts_are_unlimited_while_a_broker_is_unavailable(start: Start) -> None:
    scene = Scene([LOST] * 20, broker_unavailable=True)
    start(scene)
    assert scene.all_done.wait(WAIT_S)
    assert (scene.instances, scene.error) == (21, None)


def test_a_task_waits_to_restart_until_its_ownership_is_known(start: Start) -> None:
    scene = Scene([LOST])
    scene.services.answers = [UnreachableError("the coordinator does not answer"), UnreachableError("nor now"), None]
    start(scene)
    assert scene.all_done.wait(WAIT_S)
    assert (scene.instances, scene.services.coordinator_checks, scene.error) == (2, 3, None)


def test_a_task_that_was_reassigned_does_not_restart_and_reports_no_failure(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene([LOST])
    scene.services.answers = [ConnectError("it was revoked")]
    logged = threading.Event()

    def watch(record: logging.LogRecord) -> bool:
        if "does not restart" in record.getMessage():
            logged.set()
        return True

    caplog.handler.addFilter(watch)
    task = start(scene)
    assert logged.wait(WAIT_S)
    assert not scene.ended.is_set()  # a failure would be reported for a task that another worker runs
    task.stop()
    assert scene.ended.wait(WAIT_S)
    assert (scene.instances, scene.error) == (1, None)


def test_a_fenced_producer_fails_its_task_at_once(start: Start) -> None:
    scene = Scene([ProducerFencedError("There is a newer producer")], broker_unavailable=True)
    start(scene)
    assert scene.ended.wait(WAIT_S)
    assert (scene.instances, scene.services.coordinator_checks, str(scene.error)) == (1, 0, "There is a newer producer")


def test_a_stop_during_the_wait_is_no_failure(start: Start) -> None:
    scene = Scene([LOST])
    scene.services.answers = [UnreachableError("the coordinator does not answer")]
    task = start(scene)
    task.stop()
    assert scene.ended.wait(WAIT_S)
    assert scene.error is None
