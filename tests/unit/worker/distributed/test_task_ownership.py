"""A task of an exactly-once source is confirmed only while it is this worker's, with its newest configuration (promise 4)."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from connect.errors import ConnectError, UnreachableError
from tests.unit.worker.distributed.fakes import T0, FakeWorker, configured
from worker.distributed.task_ownership import TaskOwnership
from worker.group.events import Revoked


class Scene:
    """A worker that runs task a-0."""

    def __init__(self) -> None:
        self.worker = worker = FakeWorker()
        worker.store.configure(*configured())
        worker.assign("a", [T0])
        worker.run()
        self.start_id = worker.instances.tasks[T0].start_id
        self._ownership = TaskOwnership(
            "g",
            cast(Any, worker.loop),
            worker.config,
            worker.instances,
            worker.reconciler,
            worker.member.confirm,
        )

    def confirm(self, start_id: int | None = None, *, with_coordinator: bool = False) -> None:
        errors: list[BaseException] = []

        def confirm() -> None:
            try:
                self._ownership.confirm(self.start_id if start_id is None else start_id, T0, with_coordinator=with_coordinator)
            except ConnectError as e:
                errors.append(e)

        thread = threading.Thread(target=confirm)
        thread.start()
        while thread.is_alive():
            self.worker.run()
            thread.join(0.01)
        if errors:
            raise errors[0]


def test_running_task_is_confirmed() -> None:
    Scene().confirm(with_coordinator=True)


def test_outdated_run_is_not_confirmed() -> None:
    scene = Scene()
    with pytest.raises(ConnectError, match="it has already been revoked from this worker"):
        scene.confirm(scene.start_id + 1)


def test_task_of_a_removed_member_is_not_confirmed() -> None:
    scene = Scene()
    scene.worker.executor.hold_stops = True
    scene.worker.rebalances.on_group_event(Revoked(lost=True, reason="its session expired"))
    with pytest.raises(ConnectError, match="it has already been revoked from this worker"):
        scene.confirm()


def test_task_with_newer_configurations_in_the_topic_is_not_confirmed() -> None:
    scene = Scene()
    scene.worker.store.unread = configured(number=2)[1:]
    with pytest.raises(ConnectError, match="the connector has already generated a new set of task configs"):
        scene.confirm()


def test_restarted_task_is_not_confirmed_while_the_coordinator_does_not_confirm_the_worker() -> None:
    scene = Scene()
    scene.worker.member.is_confirmed = False
    with pytest.raises(UnreachableError, match="does not confirm that this worker is a member"):
        scene.confirm(with_coordinator=True)
    scene.confirm()


def test_nothing_is_confirmed_while_the_config_topic_cannot_be_read() -> None:
    scene = Scene()
    scene.worker.store.is_reachable = False
    with pytest.raises(UnreachableError):
        scene.confirm()
