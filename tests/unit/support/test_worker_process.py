"""Tests that kill a worker notice that it has ended by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.worker_process import Kind, Launch, WorkerProcess
from tests.support.waiting import WAIT_S

RUNS = "import time; time.sleep(1000)"
CRASHES = "import os; os.kill(os.getpid(), 9)"
ENDS = "import sys; sys.exit('the reason')"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], WorkerProcess]]:
    """Starts a program in place of a worker."""
    started: list[WorkerProcess] = []

    def start(program: str) -> WorkerProcess:
        kind = Kind("program", lambda files, log: Launch([sys.executable, "-c", program]))
        started.append(WorkerProcess(kind, tmp_path, "one", {}))
        started[-1].start()
        return started[-1]

    yield start
    for worker in started:
        worker.end()


def test_a_crash_is_awaited(start: Callable[[str], WorkerProcess]) -> None:
    start(CRASHES).wait_for_crash("a.point")


def test_an_exit_is_no_crash(start: Callable[[str], WorkerProcess]) -> None:
    with pytest.raises(AssertionError, match=r"one ended with 1 before a\.point:\n\s*the reason"):
        start(ENDS).wait_for_crash("a.point")


def test_a_worker_that_runs_on_has_not_crashed(start: Callable[[str], WorkerProcess]) -> None:
    with pytest.raises(AssertionError, match=r"one did not reach a\.point in 0\.1 s"):
        start(RUNS).wait_for_crash("a.point", 0.1)


def test_a_worker_may_run(start: Callable[[str], WorkerProcess]) -> None:
    worker = start(RUNS)
    worker.run_for(0.1)
    assert worker.running


@pytest.mark.parametrize(("program", "code"), [(ENDS, 1), (CRASHES, -9)])
def test_a_worker_that_ends_does_not_run_on(start: Callable[[str], WorkerProcess], program: str, code: int) -> None:
    with pytest.raises(AssertionError, match=f"one ended with {code}:"):
        start(program).run_for(WAIT_S)
