"""A sink that stores its records in memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.connector import SinkConnector
from connect.record import SinkRecord, TopicPartition
from connect.sink import Offsets, SinkTask

STORE = "store"
CONFIG = ConfigDef().define(STORE, ConfigType.STRING, "default", importance=Importance.HIGH, doc="Where the records go.")


class MemorySink(SinkConnector):
    """Appends every record to the list in :attr:`stores` that the key ``store`` names."""

    stores: ClassVar[dict[str, list[SinkRecord]]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def records(cls, store: str = "default") -> list[SinkRecord]:
        """Returns a copy of a store's records."""
        with cls.lock:
            return list(cls.stores.get(store, ()))

    @classmethod
    def clear(cls, store: str = "default") -> None:
        with cls.lock:
            cls.stores.pop(store, None)

    def config_def(self) -> ConfigDef:
        return CONFIG

    def start(self, config: Mapping[str, str]) -> None:
        CONFIG.parse(config)
        self._config = dict(config)

    def task_class(self) -> type[SinkTask]:
        return MemorySinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config) for _ in range(max_tasks)]

    def stop(self) -> None:
        """Nothing runs beside the tasks."""


class MemorySinkTask(SinkTask):
    """Stores records immediately. ``events`` lists the calls in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._store = "default"

    def start(self, config: Mapping[str, str]) -> None:
        self._store = CONFIG.parse(config)[STORE]
        self.events.append("start")

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(f"open {', '.join(sorted(map(str, partitions)))}")

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records:
            with MemorySink.lock:
                MemorySink.stores.setdefault(self._store, []).extend(records)
            self.events.append(f"put {len(records)}")

    def pre_commit(self, offsets: Offsets) -> Offsets:
        self.events.append("pre_commit")
        return offsets

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        self.events.append(f"{'lose' if lost else 'close'} {', '.join(sorted(map(str, partitions)))}")

    def close(self) -> None:
        self.events.append("close")
