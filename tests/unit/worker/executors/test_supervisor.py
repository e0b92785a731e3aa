"""The supervisor's thread: all executor processes end with it."""

from __future__ import annotations

import threading
import time
from typing import cast

import pytest

from tests.support.waiting import WAIT_S
from worker.executors.process_handle import ProcessExit, ProcessHandle, ProcessSpec
from worker.executors.supervisor import Supervisor


class FakeProcess:
    """A process that ends when the test says so."""

    key = "test"
    is_closed = False
    spec = ProcessSpec("test")

    def __init__(self) -> None:
        self.exit: ProcessExit | None = None

    def spawn(self) -> None: ...

    def check(self, now: float) -> None: ...

    def reap(self, now: float) -> ProcessExit | None:
        return self.exit


def test_failed_check_of_a_process_does_not_end_the_supervisor(caplog: pytest.LogCaptureFixture) -> None:
    process, checks, ended = FakeProcess(), threading.Semaphore(0), threading.Event()

    def fail(handle: ProcessHandle, now: float) -> None:
        checks.release()
        raise ValueError("no")

    supervisor = Supervisor(lambda handle, ending: ended.set(), 30, 0.05, fail)
    supervisor.start()
    supervisor.add(cast(ProcessHandle, process))
    try:
        for _ in range(2):
            assert checks.acquire(timeout=WAIT_S)
        process.exit = cast(ProcessExit, object())
        supervisor.wake()
        assert ended.wait(WAIT_S)
    finally:
        supervisor.close(time.monotonic() + WAIT_S)
    assert "Handling the check of executor test failed" in caplog.text
