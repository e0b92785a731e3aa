"""Tasks with exactly-once without a distributed worker: what they ask of it is answered from a real offsets topic."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from connect import ConnectError, SourceRecord
from connect.errors import UnreachableError
from connect.plugins import Plugins
from connect.source import SourceTask, TransactionContext
from tests.integration.worker.conftest import eventually
from tests.integration.worker.fakes import (
    SCRIPTS,
    ConfirmingSource,
    ConfirmingSourceTask,
    Script,
    ScriptedSource,
    ScriptedSourceTask,
    source_record,
)
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


def read_topic(bootstrap: str, topic: str, *, committed: bool = True, timeout_s: float = 20.0) -> Found:
    """All keys and values of a topic of one partition, up to its end; without ``committed`` those of open and aborted
    transactions too. Raises UnreachableError when no broker answers in time."""
    isolation = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}
    )
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
    """Offsets as the committed records of an offsets topic tell them (:class:`worker.storage.offset_store.OffsetStore`)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    def get(self, connector: str, partition: Mapping[str, Any] | None, *, timeout_s: float = 3.0) -> dict[str, Any] | None:
        found = {partition_id(e.partition): e.offset for e in self.entries(connector, timeout_s=timeout_s)}
        offset = found.get(partition_id(partition))
        return None if offset is None else dict(offset)

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        raise AssertionError("a task with exactly-once stores its offsets itself")

    def entries(self, connector: str, *, timeout_s: float = 3.0) -> list[OffsetEntry]:
        found = {}
        for key, value in read_topic(self._bootstrap, self._topic, timeout_s=timeout_s):
            parsed = decode_key(key or b"")
            if parsed is not None and parsed.connector == connector:
                found[partition_id(parsed.partition)] = OffsetEntry(parsed.partition, decode_value(value))
        return list(found.values())


class TopicServices:
    """What a task asks of its worker (:class:`worker.executor.WorkerServices`)."""

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


class Ear:
    """Hears what becomes of a task (:class:`worker.tasks.worker_task.TaskListener`)."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.error: BaseException | None = None
        self.topics: list[set[str]] = []
        self.began = threading.Event()
        self.ended = threading.Event()

    def on_running(self, task: WorkerTask) -> None:
        self.events.append("running")
        self.began.set()

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

    def __init__(self, task: WorkerTask, ear: Ear) -> None:
        self.task = task
        self.ear = ear
        task.start()

    def wait_until_running(self) -> None:
        assert self.ear.began.wait(30), f"the task does not run: {self.ear.error}"

    def failure(self) -> str:
        """How it failed, when it has."""
        assert self.ear.ended.wait(30), "the task does not end"
        assert self.ear.error is not None, "the task ended without an error"
        return str(self.ear.error)

    def stop(self) -> None:
        self.task.stop()
        assert self.ear.ended.wait(15), "the task does not stop"


class Tasks:
    """Starts tasks of scripted sources with exactly-once."""

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
        ear = Ear()
        started = Run(factory.create(request, ear), ear)
        self._runs.append(started)
        return started

    def close(self) -> None:
        for run in self._runs:
            if not run.ear.ended.is_set():
                run.task.stop()
                run.ear.ended.wait(15)


def count_up(name: str, topic: str, count: int, done: Callable[[], None], pause_s: float = 0.0) -> None:
    """Makes a connector's script give the numbers below ``count``, one a poll; each instance of the task goes on from the stored
    offset."""
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


class Setting:
    """A connector with its script, a topic to write to and one for its offsets."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.topic = f"{name}-out"
        offsets = f"{name}-offsets"
        new = [NewTopic(self.topic, 1, 1), NewTopic(offsets, 1, 1, config={"cleanup.policy": "compact"})]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics(new).values():
            future.result(20)
        self.services = TopicServices(bootstrap, offsets)
        self.tasks = Tasks(bootstrap, self.services)
        self.script: Script = SCRIPTS[name]

    def records(self, *values: str, first: int = 0) -> list[SourceRecord]:
        return [source_record(self.topic, value, first + i) for i, value in enumerate(values)]

    def read(self, *, committed: bool = True) -> list[str]:
        return texts(read_topic(self.bootstrap, self.topic, committed=committed))

    def offset(self) -> int | None:
        found = self.services.offsets.get(self.name, {"source": "p"}, timeout_s=20)
        return None if found is None else int(found["offset"])

    def wait_for_markers(self) -> None:
        """Until no transaction is under way. The broker answers a commit before it writes the markers that readers wait for."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # one that was there before would know of old leaders
        places = [TopicPartition(topic, 0) for topic in (self.topic, self.services.topic)]

        def ends(isolation: IsolationLevel) -> list[int]:
            asked = dict.fromkeys(places, OffsetSpec.latest())
            found = admin.list_offsets(asked, isolation_level=isolation, request_timeout=20)
            return [found[place].result(21).offset for place in places]

        def is_over() -> bool:
            try:
                committed, written = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
            except KafkaException:
                return False  # a broker that has just come back may not lead them yet
            return committed == written and min(written) >= 0

        eventually(is_over, "the end of the last transaction")

    @property
    def transactions(self) -> TransactionContext:
        """What the running task's plugin was given."""
        assert self.script.context is not None
        assert self.script.context.transaction_context is not None
        return self.script.context.transaction_context

    def poll_with(self, *calls: Callable[[], list[SourceRecord] | None]) -> None:
        """Scripts ``poll``: one of these a call, and then nothing more."""
        left = list(calls)

        def poll() -> list[SourceRecord] | None:
            if left:
                return left.pop(0)()
            time.sleep(0)
            return None

        self.script.poll = poll


def main() -> None:
    """Runs a task that counts, in a process of its own, and prints how it ended; ``done`` when all is polled."""
    bootstrap, name, topic, offsets, count, pause_s = sys.argv[1:]
    reached = threading.Event()
    count_up(name, topic, int(count), reached.set, float(pause_s))
    run = Tasks(bootstrap, TopicServices(bootstrap, offsets)).start(name)
    while not run.ear.ended.wait(0.02):
        if reached.is_set():
            print("done", flush=True)
            break
    run.ear.ended.wait()
    print(run.ear.error, flush=True)


if __name__ == "__main__":
    main()
