"""An executor whose control process is frozen exits before the cluster starts its tasks elsewhere (promise 4)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.waiting import WAIT_S, eventually
from worker.executors.channel import Channel
from worker.executors.futures import done
from worker.executors.launch import launch
from worker.executors.process_handle import ProcessExit, ProcessHandle, ProcessSpec
from worker.executors.supervisor import Supervisor


class NullHandler:
    def on_call(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        return done()

    def on_notification(self, method: str, arguments: Mapping[str, Any]) -> None: ...

    def on_closed(self, reason: str) -> None: ...


def settings(folder: Path, silence_timeout_s: float) -> dict[str, Any]:
    props = {"key.converter": "String", "value.converter": "String", "offset.storage.file.filename": str(folder / "offsets")}
    return {
        "props": props,
        "distributed": False,
        "secrets": [],
        "levels": [],
        "check_converters": False,
        "silence_timeout_s": silence_timeout_s,
    }


def assert_ends_by_silence(folder: Path, silence_timeout_s: float) -> None:
    """Checks that an executor exits when it receives no message for this long after its start and one ping."""
    launched = launch("test", None, with_crash_points=False)
    channel = Channel(launched.connection, NullHandler(), "test")
    channel.start()
    try:
        channel.call("begin", **settings(folder, silence_timeout_s)).result(WAIT_S)
        channel.call("ping")
        assert launched.popen.wait(WAIT_S) == 75
    finally:
        channel.close()
        channel.join(WAIT_S)
        os.close(launched.stacks)
        launched.popen.kill()
        launched.popen.wait(WAIT_S)


def test_silence_timeout_does_not_count_while_the_executor_starts(tmp_path: Path) -> None:
    assert_ends_by_silence(tmp_path, 0.001)


def test_executor_exits_when_it_hears_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert_ends_by_silence(tmp_path, 0.5)
    assert "it heard nothing from its control process for 0.5 s" in capfd.readouterr().err


class PingCountingHandle(ProcessHandle):
    pings = 0

    def _ping(self, now: float) -> None:
        self.pings += 1
        super()._ping(now)


@pytest.mark.long
def test_pings_keep_an_executor_alive(tmp_path: Path) -> None:
    ended: list[ProcessExit] = []
    supervisor = Supervisor(lambda _, ending: ended.append(ending), hang_timeout_s=120, ping_interval_s=0.2)
    supervisor.start()
    handle = PingCountingHandle(
        ProcessSpec("test"), lambda _: NullHandler(), settings(tmp_path, 8.0), 120, with_crash_points=False
    )
    supervisor.add(handle)
    try:
        eventually(lambda: handle.pings > 45 or bool(ended), "enough pings to exceed the silence timeout")
        assert not ended
    finally:
        handle.dismiss()
        supervisor.close(time.monotonic() + WAIT_S)


def test_delay_of_the_worker_itself_does_not_count_as_hanging(tmp_path: Path) -> None:
    handle = ProcessHandle(ProcessSpec("test"), lambda _: NullHandler(), settings(tmp_path, 600), 1.0, with_crash_points=False)
    handle.spawn()
    assert handle.pid is not None
    process = psutil.Process(handle.pid)
    try:
        handle.ready.result(WAIT_S)
        process.suspend()  # so that it does not answer
        now = 1000.0
        handle.check(now)
        for delay_s in (100.0, 0.3):
            now += delay_s
            handle.check(now)
        assert not handle.is_ending
        now += 0.3
        handle.check(now)  # no delay of the worker any more, and still no answer
        assert handle.is_ending
    finally:
        handle.kill("was killed")
        eventually(lambda: handle.reap(now) is not None, "the end of the process")
