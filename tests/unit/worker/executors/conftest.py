"""An executor that runs threads, with stores in memory and a listener that records its reports."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect.errors import ConnectError
from connect.plugins import Plugins
from tests.support.waiting import WAIT_S
from tests.unit.worker.executors.plugins import PATH, SCRIPTS
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import ConnectorSpec, TaskSpec
from worker.executors.local import LocalExecutor
from worker.model import OffsetEntry, Stall, State, TaskId
from worker.storage.offset_store import OffsetPair, OffsetRecord


class RecordingListener:
    """Records the reports of an executor."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.reports: list[tuple[int, str, str, str | None]] = []
        self.versions: set[str | None] = set()
        self._block: tuple[str, threading.Event, threading.Event] | None = None

    @contextmanager
    def blocked_at(self, what: str) -> Iterator[threading.Event]:
        """Blocks threads that report this until the end of the context. The event is set when a thread is blocked."""
        reached, proceed = threading.Event(), threading.Event()
        self._block = (what, reached, proceed)
        try:
            yield reached
        finally:
            self._block = None
            proceed.set()

    def _record(self, start_id: int, who: str, what: str, trace: str | None) -> None:
        if (block := self._block) is not None and block[0] == what:
            block[1].set()
            block[2].wait(WAIT_S)
        with self._changed:
            self.reports.append((start_id, who, what, trace))
            self._changed.notify_all()

    def on_connector_state(self, start_id: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        self.versions.add(version)
        self._record(start_id, name, state.value, trace)

    def on_task_state(self, start_id: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        self._record(start_id, str(task), state.value, trace)

    def on_reconfiguration_requested(self, start_id: int, name: str) -> None:
        self._record(start_id, name, "reconfigure", None)

    def on_topics(self, start_id: int, task: TaskId, topics: Collection[str]) -> None:
        self._record(start_id, str(task), f"topics {sorted(topics)}", None)

    def on_stall(self, start_id: int, instance: str | TaskId, stall: Stall | None) -> None:
        self._record(start_id, str(instance), "moves" if stall is None else f"stalled {stall.kind} {stall.phase}", None)

    def wait_for(self, start_id: int, who: str, what: str) -> str | None:
        """Waits for a report and returns its trace."""

        def find() -> tuple[int, str, str, str | None] | None:
            return next((one for one in self.reports if one[:3] == (start_id, who, what)), None)

        with self._changed:
            assert self._changed.wait_for(lambda: find() is not None, WAIT_S), f"no {(start_id, who, what)}; {self.reports}"
            report = find()
        assert report is not None
        return report[3]

    def reported(self, start_id: int, who: str) -> list[str]:
        with self._changed:
            return [what for reported_run, reporter, what, _ in self.reports if (reported_run, reporter) == (start_id, who)]


class MemoryOffsets:
    def __init__(self) -> None:
        self.stored: dict[str, list[OffsetPair]] = {}

    def get(self, connector: str, partition: Mapping[str, object] | None) -> dict[str, object] | None:
        return next((dict(o or {}) for p, o in reversed(self.stored.get(connector, [])) if p == partition), None)

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self.stored.setdefault(connector, []).extend(offsets)

    def entries(self, connector: str) -> list[OffsetEntry]:
        return [OffsetEntry(p or {}, o) for p, o in self.stored.get(connector, [])]


class MemoryServices:
    def __init__(self) -> None:
        self.offsets = MemoryOffsets()
        self.confirmed: list[tuple[int, TaskId]] = []

    def offset_records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        return [OffsetRecord("offsets", 3, b"\x00\xff", None) for _ in offsets]

    def offsets_committed(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self.offsets.put(connector, offsets)

    def before_commit(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        raise ConnectError("not implemented")

    def confirm_task(self, start_id: int, task: TaskId, *, with_coordinator: bool = False) -> None:
        self.confirmed.append((start_id, task))


@pytest.fixture
def listener() -> RecordingListener:
    return RecordingListener()


@pytest.fixture
def services() -> MemoryServices:
    return MemoryServices()


@contextmanager
def started_local_executor(
    folder: Path, listener: RecordingListener, services: MemoryServices, graceful_ms: int
) -> Iterator[LocalExecutor]:
    props = {
        "key.converter": "String",
        "value.converter": "String",
        "offset.storage.file.filename": str(folder / "offsets"),
        "bootstrap.servers": "localhost:1",
        "task.shutdown.graceful.timeout.ms": str(graceful_ms),
    }
    mask = SecretMask()
    mask.add({"password": "s3cret"})
    executor = LocalExecutor(WorkerConfig.standalone(props), Plugins.discover(), services, listener, mask)
    executor.start()
    yield executor
    for script in SCRIPTS.values():
        script.proceed.set()
    executor.close(5)


@pytest.fixture
def executor(tmp_path: Path, listener: RecordingListener, services: MemoryServices) -> Iterator[LocalExecutor]:
    """An executor with a shutdown timeout that is long enough for a busy machine."""
    with started_local_executor(tmp_path, listener, services, 120_000) as started:
        yield started


@pytest.fixture
def short_timeout_executor(tmp_path: Path, listener: RecordingListener, services: MemoryServices) -> Iterator[LocalExecutor]:
    """An executor for tests of hanging connectors and tasks."""
    with started_local_executor(tmp_path, listener, services, 300) as started:
        yield started


_names = itertools.count()


@pytest.fixture
def name() -> str:
    return f"c{next(_names)}"


def connector_spec(name: str, **more: str) -> ConnectorSpec:
    config = {"name": name, "connector.class": PATH, **{key.replace("__", "."): value for key, value in more.items()}}
    return ConnectorSpec(name, config, config)


def task_spec(name: str, number: int = 0, *, paused: bool = False) -> TaskSpec:
    spec = connector_spec(name)
    config = {**spec.config, "task": str(number), "task.class": PATH.replace("ScriptedConnector", "ScriptedTask")}
    return TaskSpec(TaskId(name, number), spec, config, paused)
