"""Connectors with scripts: the records of a source, the records delivered to a sink, and where they fail or hang."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from connect import (
    ConfigDef,
    ConfigType,
    ConnectRecord,
    RawBatch,
    RetriableError,
    Schema,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TopicPartition,
    Transformation,
)
from connect.source import SourceTaskContext

Offsets = dict[TopicPartition, int]


class Script:
    """The behavior of a connector's tasks. Tests set the parts that they need."""

    def __init__(self) -> None:
        self.batches: list[list[SourceRecord]] = []
        self.poll: Callable[[], Sequence[SourceRecord] | None] | None = None
        self.commits: list[list[tuple[Any, Any]]] = []
        self.confirmed: list[tuple[SourceRecord, Any]] = []
        self.context: SourceTaskContext | None = None
        self.start_error: Exception | None = None
        self.hang = threading.Event()
        self.hang_in: str | None = None
        self.hanging = threading.Event()
        self.put: Callable[[list[SinkRecord], ScriptedSinkTask], None] | None = None
        self.pre_commit: Callable[[Offsets], Offsets] | None = None
        self.on_open: Callable[[ScriptedSinkTask, list[TopicPartition]], None] | None = None
        self.raw = False
        self.delivered: list[SinkRecord] = []
        self.raw_delivered: list[RawBatch] = []
        self.events: list[str] = []
        self.closed = threading.Event()

    def maybe_hang(self, where: str) -> None:
        if self.hang_in == where:
            self.hanging.set()
            self.hang.wait(600)


SCRIPTS: dict[str, Script] = defaultdict(Script)
"""Scripts by the connector setting ``script``."""

CONFIG = (
    ConfigDef()
    .define("script", ConfigType.STRING, doc="Which script to play.")
    .define("db.password", ConfigType.PASSWORD, "", doc="A secret.")
)


class ScriptedSource(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        script = SCRIPTS[config["script"]]
        script.events.append("connector start")
        script.maybe_hang("connector start")

    def task_class(self) -> type[SourceTask]:
        return ScriptedSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "task": str(number)} for number in range(max_tasks)]

    def stop(self) -> None:
        script = SCRIPTS[self.config["script"]]
        script.events.append("connector stop")
        script.maybe_hang("connector stop")

    def config_def(self) -> ConfigDef:
        return CONFIG


class ScriptedSourceTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.script = SCRIPTS[config["script"]]
        self.script.context = self.context
        self.stopped = threading.Event()
        if self.script.start_error is not None:
            raise self.script.start_error

    def poll(self) -> Sequence[SourceRecord] | None:
        self.script.maybe_hang("poll")
        if self.script.poll is not None:
            return self.script.poll()
        if self.script.batches:
            return self.script.batches.pop(0)
        self.stopped.wait(0.02)
        return None

    def commit(self, offsets: Sequence[tuple[Any, Any]]) -> None:
        self.script.commits.append(list(offsets))

    def stop(self) -> None:
        self.stopped.set()
        self.script.maybe_hang("stop")

    def close(self) -> None:
        self.script.closed.set()


class ConfirmingSource(ScriptedSource):
    def task_class(self) -> type[SourceTask]:
        return ConfirmingSourceTask


class ConfirmingSourceTask(ScriptedSourceTask):
    wants_commit_record = True

    def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        self.script.confirmed.append((record, metadata))


class ScriptedSink(SinkConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    def task_class(self) -> type[SinkTask]:
        return ScriptedSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]

    def stop(self) -> None:
        pass

    def config_def(self) -> ConfigDef:
        return CONFIG


class ScriptedSinkTask(SinkTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.script = SCRIPTS[config["script"]]

    def wants_raw(self) -> bool:
        return self.script.raw

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.script.events.append(f"open {sorted(p.partition for p in partitions)}")
        if self.script.on_open is not None:
            self.script.on_open(self, list(partitions))

    def put(self, records: Sequence[SinkRecord]) -> None:
        self.script.maybe_hang("put")
        if self.script.put is not None:
            self.script.put(list(records), self)
        self.script.delivered += records

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        self.script.raw_delivered += batches

    def pre_commit(self, offsets: Offsets) -> Offsets:
        return offsets if self.script.pre_commit is None else self.script.pre_commit(offsets)

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        self.script.events.append(f"{'lost' if lost else 'close'} {sorted(p.partition for p in partitions)}")

    def close(self) -> None:
        self.script.closed.set()


class Upper(Transformation):
    """A custom transformation: converts text to upper case, drops ``drop``, and fails on ``bad``."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.suffix = configs.get("suffix", "")

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef().define("suffix", ConfigType.STRING, "", doc="What to add.")

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value == "bad":
            raise ValueError("cannot make this larger")
        if record.value == "drop":
            return None
        record.value = str(record.value).upper() + self.suffix
        return record


class Lower2Upper(Upper):
    """Converts text to upper case and never fails."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        record.value = str(record.value).upper()
        return record


class Later(Upper):
    """Raises retriable errors for ``later`` until the test sets ``hang`` of the script named in ``suffix``."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        script = SCRIPTS[self.suffix]
        if record.value == "later" and not script.hang.is_set():
            script.hanging.set()
            raise RetriableError("not yet")
        return record


def source_record(topic: str, value: Any, offset: int, *, key: str | None = None, partition: str = "p") -> SourceRecord:
    return SourceRecord(
        {"source": partition},
        {"offset": offset},
        topic,
        None,
        None if key is None else Schema.STRING,
        key,
        Schema.STRING,
        value,
    )
