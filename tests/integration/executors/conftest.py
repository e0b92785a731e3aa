"""A pool of real executor processes, with a listener that records its reports."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest

from tests.integration.executors.plugins import PATH
from tests.unit.worker.executors.conftest import MemoryServices, RecordingListener
from worker.config.worker_config import WorkerConfig
from worker.executor import ConnectorSpec, TaskSpec
from worker.executors.pool import ExecutorPool
from worker.model import TargetState, TaskId


class Pool:
    """An executor pool with the helpers that tests need."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        props = {
            "key.converter": "String",
            "value.converter": "String",
            "offset.storage.file.filename": str(folder / "offsets"),
            "bootstrap.servers": "localhost:1",
            "task.executors": "2",
            # A graceful shutdown gets enough time on a busy machine.
            "task.shutdown.graceful.timeout.ms": "120000",
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        self.config = WorkerConfig.standalone(props)
        self.listener = RecordingListener()
        self.services = MemoryServices()
        self.executor = ExecutorPool(self.config, self.services, self.listener, self.config.providers.mask)
        self._runs = itertools.count(1)

    def start(self) -> None:
        self.executor.start()
        self.executor.wait_until_ready()

    def spec(self, name: str, **more: str) -> ConnectorSpec:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        config = {"name": name, "connector.class": PATH, "folder": str(folder)}
        config |= {key.replace("__", "."): value for key, value in more.items()}
        return ConnectorSpec(name, config, config)

    def allow(self, name: str) -> None:
        """Allows the connector to run its scripted action from now on."""
        (self.folder / name / "go").touch()

    def start_connector(self, spec: ConnectorSpec) -> tuple[int, Future[None]]:
        start_id = next(self._runs)
        return start_id, self.executor.start_connector(start_id, spec, TargetState.STARTED)

    def start_task(self, spec: ConnectorSpec, number: int = 0) -> int:
        start_id = next(self._runs)
        self.executor.start_task(start_id, TaskSpec(TaskId(spec.name, number), spec, spec.config, False))
        return start_id

    def running_task(self, spec: ConnectorSpec, number: int = 0) -> int:
        start_id = self.start_task(spec, number)
        self.listener.wait_for(start_id, f"{spec.name}-{number}", "RUNNING")
        return start_id

    def pid(self, name: str, number: int = 0) -> int | None:
        """Returns the process id of a task."""
        progress = self.executor.progress(TaskId(name, number))
        return None if progress is None else progress.details.get("pid")

    def has_moved(self, name: str, before: int | None) -> Callable[[], bool]:
        return lambda: self.pid(name) not in (None, before)

    def states(self, start_id: int, name: str, number: int | None = None) -> list[str]:
        return self.listener.reported(start_id, name if number is None else f"{name}-{number}")


def processes() -> list[psutil.Process]:
    """Returns the executor processes of this process, including zombies."""
    return [child for child in psutil.Process().children() if _is_executor(child)]


def _is_executor(process: psutil.Process) -> bool:
    try:
        return "worker.executors.child" in " ".join(process.cmdline())
    except psutil.ZombieProcess:
        return process.name().startswith("sluice ")  # a zombie has no command line; other tests have zombies too
    except psutil.NoSuchProcess:
        return False


StartPool = Callable[..., Pool]


@pytest.fixture
def start_pool(tmp_path: Path) -> Iterator[StartPool]:
    """Starts pools; settings are worker keys with ``__`` for dots. Checks at the end that no process is left."""
    pools: list[Pool] = []

    def start(**settings: str) -> Pool:
        pools.append(Pool(tmp_path, **settings))
        pools[-1].start()
        return pools[-1]

    yield start
    for pool in pools:
        pool.executor.close(3)
    assert not processes()


@pytest.fixture
def pool(start_pool: StartPool) -> Pool:
    return start_pool()
