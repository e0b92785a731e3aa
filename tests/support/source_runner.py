"""Runs the task of a source with a real database, as a worker does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from connect.record import SourceRecord
from connect.source import OwnedTopic, OwnedTopicSettings, SourceTask, TopicReader
from tests.support.waiting import Deadline
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

    def poll_until(self, is_done: Callable[[list[SourceRecord]], Any], what: str) -> list[SourceRecord]:
        """Polls until it is done, which it learns from the records so far. ``what`` is awaited."""
        found: list[SourceRecord] = []
        deadline = Deadline(what, lambda: f"{self._progress()}, {len(found)} records: {found[-10:]}")
        while not is_done(found):
            deadline.check()
            found += self.poll()
        return found

    def poll_until_error(self) -> NoReturn:
        """Polls until a poll raises."""
        deadline = Deadline("an error", self._progress)
        while True:
            deadline.check()
            self.poll()

    def idle_until(self, claim: Callable[[], Any], what: str, *, flushes: bool = False) -> None:
        """Polls until the claim is true. There must be no records. ``flushes`` offsets after each poll."""
        deadline = Deadline(what, lambda: f"{self._progress()}, stored: {self.offsets.stored}")
        while not claim():
            deadline.check()
            assert self.poll() == []
            if flushes:
                self.flush()

    def read(self, count: int) -> list[SourceRecord]:
        """At least ``count`` records, and all that come with them: see :meth:`quiet`."""
        return self.read_before_failure(count) + self.quiet()

    def read_before_failure(self, count: int) -> list[SourceRecord]:
        """Polls until there are ``count`` records, and no further: the next poll may fail."""
        return self.poll_until(lambda found: len(found) >= count, f"{count} records")

    def log_end(self) -> Any:
        """The end of the database's log, for ``has_read``; None if nobody can say where the task is in it."""
        return None

    def has_read(self, end: Any) -> bool:
        """Whether the task has read the log up to ``end``, or will never read it."""
        return True

    def quiet(self) -> list[SourceRecord]:
        """What comes until the task has read all that the server has now, and has then been silent for three polls. Silence
        alone does not say so: a busy server may make a longer pause."""
        found: list[SourceRecord] = []
        silent = 0
        end = self.log_end()
        while silent < 3:
            records = self.poll_until(lambda records: records or self.has_read(end), f"the log up to {end}") or self.poll()
            silent = 0 if records else silent + 1
            found += records
        return found

    def until(self, phase: str) -> list[SourceRecord]:
        """Polls until the task is in a phase."""
        return self.poll_until(lambda _: self._progress()["phase"] == phase, phase)

    def _progress(self) -> Mapping[str, Any]:
        assert self.task is not None
        return self.task.progress()

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
