"""Figures of tasks in several processes, one of which hangs."""

from __future__ import annotations

import pytest

from tests.integration.executors.conftest import Pool
from tests.support.waiting import eventually
from worker.model import TaskId


@pytest.mark.long
def test_process_that_hangs_is_reported_with_its_last_figures_beside_the_others(pool: Pool) -> None:
    hangs, works = pool.spec("hangs", does="hold@poll", task__isolation="dedicated"), pool.spec("works")
    pool.running_task(hangs)
    pool.running_task(works)
    found = {one.process: one for one in pool.executor.figures(10)}
    assert {one.id for one in found["dedicated-hangs"].tasks} == {TaskId("hangs", 0)}
    assert all(one.answered and one.pid for one in found.values())

    pool.allow("hangs")

    def is_held() -> bool:
        found.update({one.process: one for one in pool.executor.figures(5)})
        return not found["dedicated-hangs"].answered

    eventually(is_held, "a process that holds the GIL")
    assert [one.id for one in found["dedicated-hangs"].tasks] == [TaskId("hangs", 0)]
    (shared,) = (one for one in found.values() if one.tasks and one.process != "dedicated-hangs")
    assert shared.answered
    assert shared.tasks[0].id == TaskId("works", 0)
    assert shared.tasks[0].numbers.running_ratio > 0
