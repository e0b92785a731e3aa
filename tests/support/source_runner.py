"""Runs the task of a source with a real database, as a worker does."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from connect.record import SourceRecord
from connect.source import OwnedTopic, OwnedTopicSettings, SourceTask, TopicReader
from worker.kafka.first_partition import FirstPartitionReader


class StoredOffsets:
    """An offset store with one partition."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] | None = None

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.stored

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        return [self.stored for _ in partitions]


class Context:
    """The context that a worker gives a task."""

    transaction_context = None

    def __init__(self, offsets: StoredOffsets) -> None:
        self.offset_reader = offsets

    def configs(self) -> Mapping[str, str]:
        return {}

    def open_topic(self, topic: str, settings: Mapping[str, str], position: int | None) -> TopicReader:
        return FirstPartitionReader(settings, topic, position)

    def open_owned_topic(self, topic: str, settings: OwnedTopicSettings) -> OwnedTopic:
        raise AssertionError(f"the source keeps no topic here, not even {topic}")


class RunningSource:
    """One connector's life: its configuration, its stored offset, and the task that runs now."""

    task_class: type[SourceTask]

    def __init__(self, config: Mapping[str, str]) -> None:
        self.offsets = StoredOffsets()
        self.task: SourceTask | None = None
        self.config = dict(config)

    def start(self, **changes: str) -> SourceTask:
        """Starts a task; keyword names have ``_`` for ``.``."""
        self.config.update({key.replace("_", "."): value for key, value in changes.items()})
        self.task = self.task_class()
        self.task.initialize(Context(self.offsets))
        self.task.start(self.config)
        return self.task

    def poll(self) -> list[SourceRecord]:
        assert self.task is not None
        return list(self.task.poll() or ())

    def read(self, count: int, timeout_s: float = 20) -> list[SourceRecord]:
        """At least ``count`` records; all of them, when they come, and a moment's silence after them."""
        found: list[SourceRecord] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records: {[shown(r) for r in found]}"
            found += self.poll()
        found += self.quiet()
        return found

    def read_before_failure(self, count: int, timeout_s: float = 20) -> list[SourceRecord]:
        """Polls until there are ``count`` records, and no further: the next poll may fail."""
        found: list[SourceRecord] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count:
            assert time.monotonic() < deadline, [shown(r) for r in found]
            found += self.poll()
        return found

    def log_end(self) -> Any:
        """The end of the database's log, for ``has_read``; None if nobody can say where the task is in it."""
        return None

    def has_read(self, end: Any) -> bool:
        """Whether the task has read the log up to ``end``, or will never read it."""
        return True

    def quiet(self, timeout_s: float = 20) -> list[SourceRecord]:
        """What comes until the task has read all that the server has now, and has then been silent for three polls. Silence
        alone does not say so: a busy server may make a longer pause. Fails if nothing comes for ``timeout_s``."""
        found: list[SourceRecord] = []
        silent = 0
        end = self.log_end()
        deadline = time.monotonic() + timeout_s
        while silent < 3:
            assert time.monotonic() < deadline, f"not read up to {end}"
            records = self.poll()
            silent = silent + 1 if not records and self.has_read(end) else 0
            if records:
                deadline = time.monotonic() + timeout_s
            found += records
        return found

    def until(self, phase: str, timeout_s: float = 20) -> list[SourceRecord]:
        """Polls until the task is in a phase."""
        found: list[SourceRecord] = []
        deadline = time.monotonic() + timeout_s
        assert self.task is not None
        while self.task.progress()["phase"] != phase:
            assert time.monotonic() < deadline, self.task.progress()
            found += self.poll()
        return found

    def store(self, record: SourceRecord) -> None:
        """The worker stores the offset of this record, the last one that it has sent, and tells the task."""
        assert record.source_partition is not None
        assert record.source_offset is not None
        self.flush((record.source_partition, record.source_offset))

    def flush(self, *sent: tuple[Mapping[str, Any], Mapping[str, Any]]) -> None:
        """The worker flushes offsets: those of records that it has sent, and what the task adds."""
        assert self.task is not None
        offsets = self.task.update_offsets(sent) or sent
        if offsets:
            self.offsets.stored = dict(offsets[0][1])
        self.task.commit(offsets)

    def kill(self) -> None:
        """The worker dies: connections go, nothing is told to anyone."""
        if self.task is not None:
            self.task.stop()
            self.task.close()
            self.task = None


def shown(record: SourceRecord) -> tuple[Any, ...]:
    """A record as a short tuple: topic's table, operation, before, after (or key, for a tombstone)."""
    table = record.topic.rpartition(".")[2]
    if record.value is None:
        return (table, "tombstone", record.key.as_dict())
    value = record.value.as_dict()
    return (table, value["op"], value["before"], value["after"])
