"""Restarts after a config provider's value has changed: only of what uses it, one at a time in the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, cast

import pytest

from connect.errors import IllegalStateError, NotFoundError, UnreachableError
from connect.testing import ManualClock
from tests.unit.worker.distributed.fakes import T0, T1, FakeWorker, done
from worker.distributed.local_instances import Instance, StartedWith
from worker.distributed.provider_reload import ProviderReload, change_turn, is_task_affected
from worker.distributed.reload_turns import ReloadTurns
from worker.executor import ConnectorSpec
from worker.model import State
from worker.storage.record_codec import CommitRecord, ConnectorRecord, TaskRecord

REFERENCE = "${vault:db:password}"


class Rotating:
    """A provider with one value, as the reload sees it."""

    value = "old"
    is_broken = False

    def resolve_again(self, name: str, given: Mapping[str, str]) -> dict[str, str]:
        return {key: value.replace(REFERENCE, self.value) for key, value in given.items()}

    def reschedule(self, name: str) -> None: ...


class NowPool:
    def submit(self, call: Any, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments))
        except Exception as e:
            future.set_exception(e)
        return future


class Scene:
    """A worker of a cluster with connector a, whose tasks use the secret, and one task that does not."""

    def __init__(self, name: str = "here:1", turns: ReloadTurns | None = None) -> None:
        self.worker, self.values, self.clock = FakeWorker(), Rotating(), ManualClock()
        self.turns = turns or ReloadTurns(self.clock.monotonic)
        self.errors: list[Exception] = []
        self.asked: list[bool] = []
        self.name = name
        worker = self.worker
        worker.resolve = self.resolve
        worker.reconciler._resolve_spec = self.resolve
        task = {"n": "0", "password": REFERENCE}
        worker.store.configure(
            ConnectorRecord("a", {"name": "a", "password": REFERENCE}),
            TaskRecord(T0, task), TaskRecord(T1, {"n": "1"}), CommitRecord("a", 2),
        )  # fmt: skip
        worker.assign("a", [T0, T1])
        worker.run()
        self.reload_ = ProviderReload(
            cast(Any, worker.loop), worker.config, cast(Any, self.values), cast(Any, NowPool()), worker.instances,
            worker.reconciler, worker.statuses, self.take_turn, self.clock.monotonic,
        )  # fmt: skip
        for instance in ("a", T0, T1):
            self.report(instance, State.RUNNING)

    def resolve(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        given = {key: str(value) for key, value in config.items()}
        return done(ConnectorSpec(name, given, self.values.resolve_again(name, given)))

    def take_turn(self, connector: str, *, done: bool) -> Future[None]:
        self.asked.append(done)
        future: Future[None] = Future()
        try:
            if self.errors:
                raise self.errors[0]
            change_turn(self.turns, self.name, done=done)
            future.set_result(None)
        except Exception as e:
            future.set_exception(e)
        return future

    def report(self, instance: Instance, state: State) -> None:
        running = self.worker.instances.find(instance)
        assert running is not None
        if isinstance(instance, str):
            self.worker.reports.on_connector_state(running.start_id, instance, state, None, None)
        else:
            self.worker.reports.on_task_state(running.start_id, instance, state, None, None)
        self.worker.run()

    def run(self, seconds: float = 0.2) -> list[str]:
        self.clock.advance(seconds)
        return self.worker.run(seconds)


def test_only_what_uses_the_secret_restarts_and_each_waits_for_the_former() -> None:
    scene = Scene()
    scene.values.value = "new"
    reloaded = scene.reload_.reload("a", True)
    assert scene.run() == ["stop a", "start a STARTED"]
    assert scene.run(5) == [], "the tasks wait until the connector runs"
    scene.report("a", State.RUNNING)
    assert scene.run() == ["stop a-0", "start a-0 0"]
    assert not reloaded.done()
    scene.report(T0, State.RUNNING)
    assert scene.run() == [], "task 1 does not use the secret"
    assert reloaded.done()
    assert scene.turns.take("another"), "the turn has ended"
    assert scene.reload_.reload("a", True)
    assert scene.run() == [], "what has restarted has the new value"


def test_nothing_restarts_and_no_turn_is_taken_while_values_are_the_same() -> None:
    scene = Scene()
    reloaded = scene.reload_.reload("a", True)
    assert scene.run() == []
    assert (reloaded.done(), scene.asked) == (True, [])
    scene.reload_.reload("a", False)
    assert scene.run() == ["stop a", "start a STARTED"], "a lease restarts in any case"


def test_workers_take_turns() -> None:
    turns = ReloadTurns(ManualClock().monotonic)
    first, second = Scene("one:1", turns), Scene("two:1", turns)
    for scene in (first, second):
        scene.values.value = "new"
        scene.reload_.reload("a", True)
    assert first.run() == ["stop a", "start a STARTED"]
    assert second.run() == []
    first.report("a", State.RUNNING)
    assert first.run() == ["stop a-0", "start a-0 0"]
    assert second.run(5) == []
    first.report(T0, State.RUNNING)
    first.run()
    assert second.run(5) == ["stop a", "start a STARTED"]


def test_others_keep_the_old_value_when_the_first_fails_with_the_new_one(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.values.value = "new"
    reloaded = scene.reload_.reload("a", True)
    scene.run()
    scene.report("a", State.FAILED)
    assert scene.run() == []
    assert reloaded.done()
    assert "failed with new config provider values; 1 others of connector a" in caplog.text


def test_an_instance_that_does_not_come_back_holds_up_the_others_only_so_long() -> None:
    scene = Scene()
    scene.values.value = "new"
    scene.reload_.reload("a", True)
    scene.run()
    assert scene.run(46) == ["stop a-0", "start a-0 0"]


@pytest.mark.parametrize("error", [NotFoundError("no such route")])
def test_a_leader_that_gives_no_turns_is_not_waited_for(error: Exception) -> None:
    scene = Scene()
    scene.values.value, scene.errors = "new", [error]
    scene.reload_.reload("a", True)
    assert scene.run() == ["stop a", "start a STARTED"]


def test_a_leader_that_does_not_answer_is_waited_for_and_one_that_is_busy_without_end() -> None:
    scene = Scene()
    scene.values.value, scene.errors = "new", [UnreachableError("no answer")]
    scene.reload_.reload("a", True)
    assert scene.run(50) == []
    scene.errors = [IllegalStateError("busy")]
    assert [request for _ in range(60) for request in scene.run(5)] == []
    scene.errors = [UnreachableError("no answer")]
    assert [request for _ in range(70) for request in scene.run(1)] == ["stop a", "start a STARTED"]


def test_a_turn_ends_by_itself_when_its_worker_dies() -> None:
    clock = ManualClock()
    turns = ReloadTurns(clock.monotonic)
    assert turns.take("one")
    assert turns.take("one")
    assert not turns.take("two")
    turns.end("two")
    assert not turns.take("two")
    clock.advance(91)
    assert turns.take("two")
    assert not turns.take("one")


def test_a_task_is_affected_by_its_own_keys_and_by_those_of_the_runtime() -> None:
    before = StartedWith({"name": "a", "admin.password": "x", "value.converter.token": "t"}, {"table": "t1"})
    same = {"name": "a", "admin.password": "x", "value.converter.token": "t"}
    assert not is_task_affected(before, {"table": "t1"}, same)
    assert not is_task_affected(before, {"table": "t1"}, {**same, "admin.password": "y"})
    assert is_task_affected(before, {"table": "t2"}, same)
    assert is_task_affected(before, {"table": "t1"}, {**same, "value.converter.token": "u"})
    assert "x" not in repr(before)
