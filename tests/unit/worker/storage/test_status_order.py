"""Statuses of two workers whose records come to the topic in another order than they were said in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tests.support.waiting import WAIT_S
from worker.kafka.log_writer import Written
from worker.kafka.topic_log import LogRecord, TopicLogSettings
from worker.model import State, Status, TaskId
from worker.storage import status_store
from worker.storage.status_store import StatusStore, hides

TASK = TaskId("c", 0)
Sent = tuple[bytes, bytes | None]


class Log:
    """What a store sends waits until the test lets it into the topic."""

    topic = "statuses"

    def __init__(self, settings: TopicLogSettings, on_record: Callable[[LogRecord], None]) -> None:
        self.on_record = on_record
        self.sent: list[Sent] = []

    def send(self, key: bytes, value: bytes | None) -> Future[Written]:
        self.sent.append((key, value))
        done: Future[Written] = Future()
        done.set_result(Written(0, len(self.sent)))
        return done


class Worker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.store = StatusStore(cast(TopicLogSettings, None), name)
        self.log = cast(Log, cast(Any, self.store)._log)

    def says(self, state: State, generation: int, instance: str | TaskId = TASK) -> None:
        put = self.store.put_safe if state in (State.UNASSIGNED, State.FAILED) else self.store.put
        put(instance, Status(state, self.name, None, generation))

    def taken(self) -> list[Sent]:
        sent, self.log.sent = self.log.sent, []
        return sent


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> tuple[Worker, Worker]:
    monkeypatch.setattr(status_store, "TopicLog", Log)
    return Worker("old"), Worker("new")


def settle(workers: tuple[Worker, Worker], first: list[Sent]) -> int:
    """Lets records into the topic, and what is said because of them, until nobody says more. How many records that were."""
    waiting, count = list(first), 0
    while waiting:
        key, value = waiting.pop(0)
        count += 1
        assert count < 50, "they do not come to an end"
        for worker in workers:
            worker.log.on_record(LogRecord(0, count, 0, key, value, True))
        for worker in workers:
            waiting += worker.taken()
    return count


@pytest.mark.parametrize("instance", [TASK, "c"], ids=["task", "connector"])
def test_a_late_status_does_not_hide_the_current_one(workers: tuple[Worker, Worker], instance: str | TaskId) -> None:
    old, new = workers
    for state, generation in ((State.UNASSIGNED, 5), (State.RUNNING, 6), (State.UNASSIGNED, 7)):
        old.says(state, generation, instance)
    new.says(State.RUNNING, 8, instance)
    settle(workers, new.taken() + old.taken())  # the old one's connection was slower
    for worker in workers:
        assert worker.store.get(instance) == Status(State.RUNNING, "new", None, 8)


def test_statuses_in_order_are_written_once(workers: tuple[Worker, Worker]) -> None:
    old, new = workers
    old.says(State.RUNNING, 6)
    old.says(State.UNASSIGNED, 7)
    new.says(State.RUNNING, 8)
    assert settle(workers, old.taken() + new.taken()) == 3


def test_a_worker_that_released_an_instance_writes_no_more(workers: tuple[Worker, Worker]) -> None:
    old, new = workers
    old.says(State.RUNNING, 9)
    old.says(State.UNASSIGNED, 9)
    new.says(State.RUNNING, 8)  # the group began anew
    assert settle(workers, old.taken() + new.taken()) == 3
    assert new.store.get(TASK) == Status(State.RUNNING, "new", None, 8)


def test_two_workers_that_both_claim_an_instance_stop_writing(workers: tuple[Worker, Worker]) -> None:
    old, new = workers
    old.says(State.RUNNING, 7)
    new.says(State.RUNNING, 7)
    settle(workers, old.taken() + new.taken())
    new.says(State.RUNNING, 8)
    settle(workers, new.taken())
    old.says(State.FAILED, 7)  # not written: it knows better by now
    assert old.taken() == []


def test_a_rewritten_status_does_not_follow_a_newer_one(workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = workers
    old.says(State.UNASSIGNED, 7)
    new.says(State.RUNNING, 8)
    late = old.taken()
    settle(workers, new.taken())
    # The herder's thread says that it has failed while the log's thread, which has read late words, hands over RUNNING once more.
    hand_over = new.log.send
    herder = threading.Thread(target=lambda: new.says(State.FAILED, 8))

    def send_slowly(key: bytes, value: bytes | None) -> Future[Written]:
        if herder.ident is None:
            herder.start()
            herder.join(0.5)  # time to come in between, if it can
        return hand_over(key, value)

    monkeypatch.setattr(new.log, "send", send_slowly)
    for worker in workers:
        for key, value in late:
            worker.log.on_record(LogRecord(0, 1, 0, key, value, True))
    herder.join(WAIT_S)
    settle(workers, new.taken())
    for worker in workers:
        assert worker.store.get(TASK) == Status(State.FAILED, "new", None, 8)


def test_a_deleted_status_is_not_written_again(workers: tuple[Worker, Worker]) -> None:
    old, new = workers
    old.says(State.RUNNING, 6)
    new.says(State.RUNNING, 8)
    late, running = old.taken(), new.taken()
    settle(workers, running)
    old.store.delete(TASK)
    settle(workers, old.taken())
    settle(workers, late)
    assert new.store.get(TASK) == Status(State.RUNNING, "old", None, 6)
    assert new.taken() == []


@pytest.mark.parametrize(
    ("state", "worker", "generation", "late"),
    [
        (State.RUNNING, "old", 7, True),
        (State.FAILED, "old", 7, True),
        (State.UNASSIGNED, "old", 8, True),
        (State.RUNNING, "old", 8, False),
        (State.UNASSIGNED, "old", 9, False),
        (State.UNASSIGNED, "new", 7, False),
    ],
)
def test_which_statuses_are_late(state: State, worker: str, generation: int, late: bool) -> None:
    assert hides(Status(state, worker, None, generation), Status(State.RUNNING, "new", None, 8)) is late


def test_a_status_tells_since_when_its_state_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_store, "TopicLog", Log)
    now = [1000]
    store = StatusStore(cast(TopicLogSettings, None), "w", lambda: now[0])
    log = cast(Log, cast(Any, store)._log)

    def since(instance: str | TaskId) -> int | None:
        found = store.get(instance)
        return None if found is None else found.since_ms

    for instance in ("c", TASK):
        for state, at_ms, expected in (
            (State.RUNNING, 1000, 1000),
            (State.RUNNING, 2000, 1000),
            (State.FAILED, 3000, 3000),
            (State.RUNNING, 4000, 4000),
            (State.RUNNING, 5000, 4000),
        ):
            now[0] = at_ms
            store.put(instance, Status(state, "w", f"at {at_ms}"))
            key, value = log.sent[-1]
            log.on_record(LogRecord(0, at_ms, 0, key, value, True))
            assert since(instance) == expected
        now[0] = 6000
        log.on_record(LogRecord(0, 6000, 0, key, None, True))
        assert since(instance) is None
        log.on_record(LogRecord(0, 6001, 0, key, value, True))
        assert since(instance) == 6000
    assert store.get_all("c")[0].since_ms == 6000


def test_status_with_its_tasks_is_the_same_object_until_a_record_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_store, "TopicLog", Log)
    store = StatusStore(cast(TopicLogSettings, None), "w")
    log = cast(Log, cast(Any, store)._log)

    def take(instance: str | TaskId, state: State | None) -> None:
        store.delete(instance) if state is None else store.put(instance, Status(state, "w"))
        key, value = log.sent[-1]
        log.on_record(LogRecord(0, 1, 0, key, value, True))

    def shown(name: str) -> tuple[State, dict[int, State]] | None:
        found = store.connector_statuses([name])
        assert all(one is other for one, other in zip(found, store.connector_statuses([name]), strict=True))
        return (found[0].connector.state, {number: task.state for number, task in found[0].tasks}) if found else None

    take(TaskId("c", 1), State.RUNNING)
    assert shown("c") is None, "a task alone is no status"
    take("c", State.RUNNING)
    take("d", State.PAUSED)
    assert shown("c") == (State.RUNNING, {1: State.RUNNING})
    other = store.connector_statuses(["d"])[0]
    take(TaskId("c", 0), State.FAILED)
    assert shown("c") == (State.RUNNING, {0: State.FAILED, 1: State.RUNNING})
    take(TaskId("c", 1), None)
    assert shown("c") == (State.RUNNING, {0: State.FAILED})
    take("c", State.STOPPED)
    assert shown("c") == (State.STOPPED, {0: State.FAILED})
    assert store.connector_statuses(["d"])[0] is other
    assert [one.name for one in store.connector_statuses(["d", "absent", "c"])] == ["d", "c"]
    take("c", None)
    assert shown("c") is None
