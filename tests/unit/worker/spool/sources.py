"""A source connector for tests: each task counts, and its offset is the last number."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from connect.config.definition import ConfigDef
from connect.config.types import ConfigType
from connect.connector import ConnectorContext, SourceConnector
from connect.data.schema import Schema, Type
from connect.errors import ConnectError
from connect.record import SourceRecord
from connect.source import SourceTask

BATCH = 10
_VALUES = Schema(Type.INT64, name="number")
_INT, _BOOLEAN = ConfigType.LONG, ConfigType.BOOLEAN


class CountingSource(SourceConnector):
    """Every task writes ``count`` numbers to topic ``numbers``, in batches of 10."""

    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("count", _INT, 0, doc="How many numbers each task writes.")
            .define("loadSize", _INT, -1, doc="How many of them existed at first; -1: the task cannot tell.")
            .define("failAt", _INT, -1, doc="Before which number a task fails, once per file or process.")
            .define("bad", _INT, -1, doc="Which number has a value that cannot be converted.")
        )

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return CountingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._config, "task": str(number)} for number in range(max_tasks)]

    def stop(self) -> None: ...


class LateSource(CountingSource):
    """Its first start fails, like that of a source whose database is down."""

    starts: ClassVar[int] = 0

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        LateSource.starts += 1
        if LateSource.starts == 1:
            raise ConnectError("the database is down")


class GrowingSource(CountingSource):
    """Learns of source partitions one by one. A new one goes to the first task, which had another one before."""

    partitions: ClassVar[int] = 0
    contexts: ClassVar[list[ConnectorContext]] = []

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        GrowingSource.contexts.append(self.context)

    def task_class(self) -> type[SourceTask]:
        return GrowingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return super().task_configs(GrowingSource.partitions)[::-1]


class CountingTask(SourceTask):
    """What its tasks were told is in class variables, for tests in the same process."""

    commits: ClassVar[list[tuple[dict[str, Any], dict[str, Any]]]] = []
    confirmed: ClassVar[list[tuple[int, int]]] = []
    """Numbers and where they were written."""
    failures: ClassVar[int] = 0
    polled: ClassVar[int] = 0

    def start(self, config: Mapping[str, str]) -> None:
        self._partition = {"task": int(config["task"])}
        stored = self.context.offset_reader.offset(self._partition)
        self._next = 0 if stored is None else stored["n"] + 1
        self._count, self._load_size = int(config["count"]), int(config.get("loadSize", "-1"))
        self._fail_at, self._bad = int(config.get("failAt", "-1")), int(config.get("bad", "-1"))
        self._stop = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._next >= self._count:
            self._stop.wait(0.05)
            return None
        if 0 <= self._fail_at <= self._next + BATCH - 1 and not CountingTask.failures:
            CountingTask.failures += 1
            raise ConnectError(f"cannot count beyond {self._next}")
        numbers = range(self._next, min(self._next + BATCH, self._count))
        self._next = numbers.stop
        CountingTask.polled += len(numbers)
        return [self._record(number) for number in numbers]

    def _record(self, number: int) -> SourceRecord:
        value: Any = "bad" if number == self._bad else number
        return SourceRecord(self._partition, {"n": number}, "numbers", value_schema=_VALUES, value=value)

    def is_loaded(self) -> bool | None:
        return None if self._load_size < 0 else self._next >= self._load_size

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        CountingTask.commits += [(dict(partition), dict(offset)) for partition, offset in offsets]

    def stop(self) -> None:
        self._stop.set()


class GrowingTask(CountingTask):
    may_read: ClassVar[threading.Event] = threading.Event()
    """Whether partitions after the first are read."""

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._partition["task"] and not GrowingTask.may_read.wait(0.01):
            return None
        return super().poll()


class ConfirmingSource(CountingSource):
    """Its tasks want to know where each record was written."""

    def task_class(self) -> type[SourceTask]:
        return ConfirmingTask


class ConfirmingTask(CountingTask):
    wants_commit_record = True

    def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        CountingTask.confirmed.append((record.value, -1 if metadata is None else metadata.offset))
