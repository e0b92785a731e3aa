"""Runs exactly-once tasks without a distributed worker; a fake of the worker's services reads a real offsets topic."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from connect import ConnectError, SourceRecord
from connect.errors import UnreachableError
from connect.plugins import Plugins
from connect.source import SourceTask, TransactionContext
from tests.integration.worker.fakes import (
    SCRIPTS,
    ConfirmingSource,
    ConfirmingSourceTask,
    Script,
    ScriptedSource,
    ScriptedSourceTask,
    source_record,
)
from tests.support.waiting import WAIT_S, eventually
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executors.task_factory import TaskFactory, TaskRequest
from worker.model import OffsetEntry, TaskId
from worker.storage.offset_codec import decode_key, decode_value, encode_key, encode_value, partition_id
from worker.storage.offset_store import OffsetPair, OffsetRecord
from worker.tasks.worker_task import WorkerTask

_FAKES = "tests.integration.worker.fakes"
_STRING = "org.apache.kafka.connect.storage.StringConverter"

Found = list[tuple[bytes | None, bytes | None]]


def read_topic(bootstrap: str, topic: str, *, committed: bool = True, timeout_s: float = WAIT_S) -> Found:
    """Returns all keys and values of a topic with one partition; without ``committed`` also those of open and aborted
    transactions. Raises UnreachableError when no broker answers in time."""
    isolation = "read_committed" if committed else "read_uncommitted"
    # The broker delays the answer at the end of a topic by half a second, unless told otherwise.
    settings = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True, "fetch.wait.max.ms": 20}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    found: Found = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + timeout_s
        while (message := consumer.poll(max(0.0, deadline - time.monotonic()))) is not None:
            if (error := message.error()) is None:
                found.append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
        raise UnreachableError(f"{topic} cannot be read to its end")
    finally:
        consumer.close()


def texts(found: Found) -> list[str]:
    return [(value or b"").decode() for _, value in found]


class TopicOffsets:
    """An offset store that reads the committed records of an offsets topic (`worker.storage.offset_store.OffsetStore`)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    def get(self, connector: str, partition: Mapping[str, Any] | None, *, timeout_s: float = 30.0) -> dict[str, Any] | None:
        found = {partition_id(e.partition): e.offset for e in self.entries(connector, timeout_s=timeout_s)}
        offset = found.get(partition_id(partition))
        return None if offset is None else dict(offset)

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        raise AssertionError("a task with exactly-once stores its offsets itself")

    def entries(self, connector: str, *, timeout_s: float = 30.0) -> list[OffsetEntry]:
        found = {}
        for key, value in read_topic(self._bootstrap, self._topic, timeout_s=timeout_s):
            parsed = decode_key(key or b"")
            if parsed is not None and parsed.connector == connector:
                found[partition_id(parsed.partition)] = OffsetEntry(parsed.partition, decode_value(value))
        return list(found.values())


class TopicServices:
    """A fake of the services that a worker offers its tasks (`worker.executor.WorkerServices`)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.offsets = TopicOffsets(bootstrap, topic)
        self.topic = topic
        self.calls: list[str] = []
        self.refusal: ConnectError | None = None

    def offset_records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        return [OffsetRecord(self.topic, 0, encode_key(connector, p), encode_value(o)) for p, o in offsets]

    def offsets_committed(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self.calls.append(f"committed {[offset for _, offset in offsets]}")

    def before_commit(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self.calls.append(f"before {[offset for _, offset in offsets]}")

    def confirm_task(self, start_id: int, task: TaskId, *, with_coordinator: bool = False) -> None:
        self.calls.append(f"confirm {start_id} {task}{' with coordinator' if with_coordinator else ''}")
        if self.refusal is not None:
            raise self.refusal


class RecordingTaskListener:
    """Records the events of a task (`worker.tasks.worker_task.TaskListener`)."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.error: BaseException | None = None
        self.topics: list[set[str]] = []
        self.started = threading.Event()
        self.ended = threading.Event()

    def on_running(self, task: WorkerTask) -> None:
        self.events.append("running")
        self.started.set()

    def on_paused(self, task: WorkerTask) -> None:
        self.events.append("paused")

    def on_failed(self, task: WorkerTask, error: BaseException) -> None:
        self.error = error
        self.ended.set()

    def on_ended(self, task: WorkerTask) -> None:
        self.ended.set()

    def on_topics(self, task: WorkerTask, topics: Collection[str]) -> None:
        self.topics.append(set(topics))


class Run:
    """One task, started."""

    def __init__(self, task: WorkerTask, listener: RecordingTaskListener) -> None:
        self.task = task
        self.listener = listener
        task.start()

    def wait_until_running(self) -> None:
        assert self.listener.started.wait(WAIT_S), f"the task is not running: {self.listener.error}"

    def failure(self) -> str:
        """Waits for the task to fail and returns the error message."""
        assert self.listener.ended.wait(WAIT_S), "the task did not end"
        assert self.listener.error is not None, "the task ended without an error"
        return str(self.listener.error)

    def stop(self) -> None:
        self.task.stop()
        assert self.listener.ended.wait(WAIT_S), "the task did not stop"


class Tasks:
    """Starts exactly-once tasks of scripted sources."""

    def __init__(self, bootstrap: str, services: TopicServices) -> None:
        self.services = services
        self.worker_properties = {
            "bootstrap.servers": bootstrap,
            "key.converter": _STRING,
            "value.converter": _STRING,
            "offset.storage.file.filename": "unused",
        }
        self._runs: list[Run] = []

    def start(
        self,
        name: str,
        config: Mapping[str, str] = {},
        /,
        *,
        confirming: bool = False,
        run: int = 1,
        **more_config: str,
    ) -> Run:
        """Starts a task. ``name`` names the connector, the script, and the transactional id; keys have ``_`` for ``.``."""
        worker = WorkerConfig.standalone(self.worker_properties)
        factory = TaskFactory(worker, Plugins.discover(), self.services, SecretMask())
        connector: type[ScriptedSource] = ConfirmingSource if confirming else ScriptedSource
        task: type[SourceTask] = ConfirmingSourceTask if confirming else ScriptedSourceTask
        settings = {key.replace("_", "."): value for key, value in {**config, **more_config}.items()}
        of_connector = {"connector.class": f"{_FAKES}:{connector.__name__}", "script": name, **settings}
        request = TaskRequest(
            TaskId(name, 0), connector, task, of_connector, {"script": name}, None, False, f"group-{name}-0", run
        )
        listener = RecordingTaskListener()
        started = Run(factory.create(request, listener), listener)
        self._runs.append(started)
        return started

    def close(self) -> None:
        for run in self._runs:
            if not run.listener.ended.is_set():
                run.task.stop()
                run.listener.ended.wait(WAIT_S)


def count_up(name: str, topic: str, count: int, done: Callable[[], None], pause_s: float = 0.0) -> None:
    """Scripts a connector to return the numbers below ``count``, one per poll. Each instance of the task resumes from the
    stored offset."""
    script = SCRIPTS[name]
    at, context = -1, None

    def poll() -> list[SourceRecord] | None:
        nonlocal at, context
        if context is not script.context:
            context = script.context
            assert context is not None
            at = int((context.offset_reader.offset({"source": "p"}) or {"offset": -1})["offset"]) + 1
        if at >= count:
            done()
            threading.Event().wait(pause_s or 0.02)
            return None
        threading.Event().wait(pause_s)
        at += 1
        return [source_record(topic, str(at - 1), at - 1)]

    script.poll = poll


def script_large_batch(name: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Scripts a connector whose own ``batch.size`` is 1 MB to return 800 KB in one poll, from the stored offset on. Returns the
    values."""
    monkeypatch.setattr(ScriptedSource, "producer_defaults", {"batch.size": "1000000", "linger.ms": "100"})
    values = [f"{i:0400}" for i in range(2_000)]
    script, context = SCRIPTS[name], None

    def poll() -> list[SourceRecord] | None:
        nonlocal context
        if context is script.context:
            threading.Event().wait(0.02)
            return None
        context = script.context
        assert context is not None
        first = int((context.offset_reader.offset({"source": "p"}) or {"offset": -1})["offset"]) + 1
        return [source_record(topic, values[i], i) for i in range(first, len(values))]

    script.poll = poll
    return values


class Setting:
    """A connector with its script, its output topic, and its offsets topic."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.topic = f"{name}-out"
        offsets = f"{name}-offsets"
        new = [NewTopic(self.topic, 1, 1), NewTopic(offsets, 1, 1, config={"cleanup.policy": "compact"})]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics(new).values():
            future.result(WAIT_S)
        self.services = TopicServices(bootstrap, offsets)
        self.tasks = Tasks(bootstrap, self.services)
        self.script: Script = SCRIPTS[name]

    def records(self, *values: str, first: int = 0) -> list[SourceRecord]:
        return [source_record(self.topic, value, first + i) for i, value in enumerate(values)]

    def read(self, *, committed: bool = True) -> list[str]:
        return texts(read_topic(self.bootstrap, self.topic, committed=committed))

    def offset(self) -> int | None:
        found = self.services.offsets.get(self.name, {"source": "p"}, timeout_s=WAIT_S)
        return None if found is None else int(found["offset"])

    def wait_for_markers(self) -> None:
        """Waits until no transaction is open. The broker acknowledges a commit before it writes the markers that readers need."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # a new client, because an old one may have cached old leaders
        partitions = [TopicPartition(topic, 0) for topic in (self.topic, self.services.topic)]

        def ends(isolation: IsolationLevel) -> list[int]:
            asked = dict.fromkeys(partitions, OffsetSpec.latest())
            found = admin.list_offsets(asked, isolation_level=isolation, request_timeout=20)
            return [found[partition].result(WAIT_S).offset for partition in partitions]

        def is_over() -> bool:
            try:
                committed, written = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
            except KafkaException:
                return False  # right after a restart the broker may not lead them yet
            return committed == written and min(written) >= 0

        eventually(is_over, "the end of the last transaction")

    @property
    def transactions(self) -> TransactionContext:
        """The transaction context of the running task."""
        assert self.script.context is not None
        assert self.script.context.transaction_context is not None
        return self.script.context.transaction_context

    def poll_with(self, *calls: Callable[[], list[SourceRecord] | None]) -> None:
        """Scripts ``poll``: each call runs the next of these functions, and later calls return None."""
        left = list(calls)

        def poll() -> list[SourceRecord] | None:
            if left:
                return left.pop(0)()
            time.sleep(0)
            return None

        self.script.poll = poll


def main() -> None:
    """Runs a counting task in its own process. Prints ``done`` when all numbers are polled, and then how the task ended."""
    bootstrap, name, topic, offsets, count, pause_s = sys.argv[1:]
    reached = threading.Event()
    count_up(name, topic, int(count), reached.set, float(pause_s))
    run = Tasks(bootstrap, TopicServices(bootstrap, offsets)).start(name)
    while not run.listener.ended.wait(0.02):
        if reached.is_set():
            print("done", flush=True)
            break
    run.listener.ended.wait()
    print(run.listener.error, flush=True)


if __name__ == "__main__":
    main()
