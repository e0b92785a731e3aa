"""Executor processes exit with their worker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sluice.embedded.process import spawn
from tests.integration.executors.plugins import PATH
from tests.support.cases import first_fast
from tests.support.waiting import WAIT_S, eventually

ROOT = Path(__file__).parents[3]

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


@pytest.fixture
def start(tmp_path: Path, log: Path) -> Iterator[Start]:
    """Starts a worker with a connector of two tasks, without a broker; returns when its tasks run."""
    started: list[subprocess.Popen[bytes]] = []

    def launch(graceful_s: int = 120, **config: str) -> subprocess.Popen[bytes]:
        worker = {
            "key.converter": "String", "value.converter": "String", "bootstrap.servers": "localhost:1", "task.executors": "2",
            "offset.storage.file.filename": str(tmp_path / "offsets"), "listeners": "http://127.0.0.1:0",
            "task.shutdown.graceful.timeout.ms": str(graceful_s * 1000),
        }  # fmt: skip
        connector = {"name": "c", "connector.class": PATH, "tasks.max": "2", "folder": str(tmp_path), **config}
        files = []
        for name, settings in (("worker", worker), ("c", connector)):
            files.append(str(tmp_path / f"{name}.properties"))
            Path(files[-1]).write_text("".join(f"{key.replace('__', '.')}={value}\n" for key, value in settings.items()))
        command = [sys.executable, "-m", "sluice.run.standalone", *files]
        process = spawn(command, log=log, cwd=ROOT, environment=os.environ, death_signal=signal.SIGKILL)
        started.append(process)
        waiting = [f"[c|task-{number}] No Kafka broker answers at localhost:1 (" for number in range(2)]
        eventually(lambda: all(line in log.read_text() for line in waiting), "two tasks", log.read_text)
        return process

    yield launch
    for process in started:
        process.kill()
        process.wait(WAIT_S)


def executors_of(worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
    found = psutil.Process(worker.pid).children(recursive=True)
    assert len(found) == 2
    return found


def all_ended(processes: list[psutil.Process]) -> bool:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                return False
    return True


def test_executors_exit_when_their_worker_is_killed(start: Start, tmp_path: Path, log: Path) -> None:
    worker = start(does="hold@poll", once="1")
    executors = executors_of(worker)
    (tmp_path / "go").touch()  # one of them cannot notice that its socket closes
    eventually(lambda: not (tmp_path / "go").exists(), "a task that holds the GIL")
    worker.kill()
    worker.wait(WAIT_S)
    eventually(lambda: all_ended(executors), "the end of the executors")


@pytest.mark.parametrize("to_group", first_fast([False, True]))
@pytest.mark.long
def test_signal_to_a_worker_or_its_process_group_shuts_down_gracefully_and_leaves_no_process(
    start: Start, log: Path, to_group: bool
) -> None:
    worker = start()
    executors = executors_of(worker)
    if to_group:
        os.killpg(worker.pid, signal.SIGINT)
    else:
        worker.terminate()
    assert worker.wait(WAIT_S) == 0
    assert all_ended(executors)
    assert "abandoned" not in log.read_text()
    assert "Kafka Connect stopped" in log.read_text()
    assert "ERROR" not in log.read_text()


@pytest.mark.long
def test_task_that_does_not_stop_does_not_keep_its_worker_running(start: Start, tmp_path: Path, log: Path) -> None:
    worker = start(graceful_s=1, does="hold@poll")
    executors = executors_of(worker)
    (tmp_path / "go").touch()
    worker.terminate()
    assert worker.wait(WAIT_S) == 0
    assert all_ended(executors)
