"""Waits until the tables of a sink contain everything that was committed in the source before a position."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Set
from contextlib import ExitStack
from typing import Any

from connect.errors import ConnectError, NotFoundError
from connect.record import TopicPartition
from connect.verification import VerifiableSink, VerifiableSource
from rest.polling import wait_until
from sluice.verify.pipeline_reader import PipelineReader
from worker.kafka.admin import KafkaAdmin
from worker.kafka.console import PartitionReader, consume
from worker.kafka.stored_records import KafkaRecord

_INTERVAL_S = 0.25
_LAST_MARKERS = 1000
"""A partition may end with this many markers of transactions, which no consumer reads."""
_PEEK_MS = 1000
_PEEK_AFTER_S = 2.0
_LOOKED_AT = 10
"""Newest records of a batch whose positions are read."""

Offsets = dict[TopicPartition, int]


_Seen = dict[TopicPartition, tuple[int, float]]


class CatchUpTimeoutError(ConnectError):
    """The tables did not reach a position in time."""


class PipelineProgress:
    """How far a source and a sink are. All records before a position are in Kafka once the source has stored an offset behind it
    (promise 1), or each partition has a later change (promise 3). A table contains them if its own commits say so (promise 6), or
    once the sink has committed offsets up to the ends that the partitions had (promise 2)."""

    def __init__(
        self,
        client: PipelineReader,
        source_name: str,
        sink_name: str,
        source: VerifiableSource,
        sink: VerifiableSink,
        read_value: Callable[[str, bytes | None], Any],
        kafka: Mapping[str, str],
        deadline: float,
        notice: Callable[[str], None],
    ) -> None:
        """``read_value`` returns the value of a message of a topic. ``kafka`` are client properties; ``deadline`` is a time of
        the monotonic clock."""
        self._client = client
        self._source_name = source_name
        self._sink_name = sink_name
        self._source = source
        self._sink = sink
        self._read_value = read_value
        self._kafka = kafka
        self._admin = KafkaAdmin(kafka)
        self._deadline = deadline
        self._notice = notice
        self._topics: Mapping[str, Set[str]] = {}

    def watch(self, topics: Mapping[str, Set[str]]) -> None:
        """Sets the topics of each table."""
        self._topics = topics

    def wait(self, position: int, starts: Offsets, tables: Collection[str] | None = None) -> None:
        """Returns once the tables, by default all, contain everything before the position. ``starts`` are ends that the
        partitions had before the source was at the position. Raises CatchUpTimeoutError after the deadline, and ConnectError if a
        connector fails."""
        ends = self.wait_for_source(position, starts, tables)
        shown = self._source.describe_position(position)
        self._notice(f"waiting until the tables of {self._sink_name} contain all records before {shown}")
        chosen = {table: topics for table, topics in self._topics.items() if tables is None or table in tables}
        seen: _Seen = {}
        missing: list[TopicPartition] = []

        def is_complete() -> bool:
            missing[:] = self._missing(ends, chosen, seen)
            return not missing

        if not self._wait(is_complete):
            where = ", ".join(f"{topic}-{number}" for topic, number in sorted(missing)[:3])
            raise CatchUpTimeoutError(
                f"the tables of {self._sink_name} do not contain all records before {shown}; they lag in {where}. JDBC sinks "
                "commit offsets every offset.flush.interval.ms of their worker, and lake tables are committed as freshness.ms or "
                "commit.interval.ms say. Use a longer --timeout"
            )

    def wait_for_source(self, position: int, starts: Offsets, tables: Collection[str] | None = None) -> Offsets:
        """Returns offsets of the partitions up to which they have everything before the position. Raises the errors of
        :meth:`wait`."""
        shown = self._source.describe_position(position)
        self._notice(f"waiting until {self._source_name} has written everything before {shown}")
        topics = {topic for table, found in self._topics.items() if tables is None or table in tables for topic in found}
        found: Offsets = {}
        with ExitStack() as stack:
            partitions = self._partitions(topics)
            reader = None
            if partitions:
                reader = PartitionReader(self._kafka, {key: starts.get(key, 0) for key in partitions})
                stack.callback(reader.close)

            def is_written() -> bool:
                if reader is not None:
                    self._find_later(reader, position, found)
                return self._stored() >= position or (reader is not None and len(found) == len(partitions))

            if not self._wait(is_written):
                raise CatchUpTimeoutError(
                    f"{self._source_name} has not stored an offset behind {shown}; its last one is "
                    f"{self._source.describe_position(self._stored())}. A source stores offsets every offset.flush.interval.ms "
                    "of its worker, and Debezium in a quiet database only with heartbeat.interval.ms. Use a longer --timeout"
                )
        return found if partitions and len(found) == len(partitions) else self._ends(topics)

    def _partitions(self, topics: Set[str]) -> list[TopicPartition]:
        """All partitions of these topics; none if one of the topics does not exist yet, so that its records are still to come."""
        try:
            return [TopicPartition(topic, number) for topic in topics for number in self._admin.partition_numbers(topic)]
        except NotFoundError:
            return []

    def _find_later(self, reader: PartitionReader, position: int, found: Offsets) -> None:
        """Adds the offsets of records that are behind the position, so that everything before it precedes them."""
        newest: dict[TopicPartition, list[KafkaRecord]] = {}
        for record in reader.read(_INTERVAL_S):
            newest.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        for key, records in newest.items():
            # Tombstones and rows of snapshots do not tell; of the others, the last one is the farthest.
            for record in reversed(records[-_LOOKED_AT:]):
                at = self._source.position_of_value(self._read_value(record.topic, record.value))
                if at is not None:
                    if at >= position:
                        found.setdefault(key, record.offset)
                    break

    def _wait(self, condition: Callable[[], bool]) -> bool:
        def holds() -> bool:
            if condition():
                return True
            for name in (self._source_name, self._sink_name):
                _check(name, self._client.status(name))
            return False

        return wait_until(holds, max(0.0, self._deadline - time.monotonic()), _INTERVAL_S)

    def _stored(self) -> int:
        entries = self._client.offsets(self._source_name)
        return max((self._source.position_of(entry["offset"]) for entry in entries if entry.get("offset")), default=0)

    def ends(self) -> Offsets:
        """The ends of all partitions that have records."""
        return self._ends({topic for topics in self._topics.values() for topic in topics})

    def _ends(self, topics: Set[str]) -> Offsets:
        keys: list[TopicPartition] = []
        for topic in sorted(topics):
            try:
                keys += [TopicPartition(topic, number) for number in self._admin.partition_numbers(topic)]
            except NotFoundError:
                continue  # a table without rows has no topic yet
        return {TopicPartition(*key): after for key, (first, after) in self._admin.offsets(keys).items() if after > first}

    def _missing(self, ends: Offsets, tables: Mapping[str, Set[str]], seen: _Seen) -> list[TopicPartition]:
        """The partitions with records that a table may lack. ``seen`` has the committed offsets and when they were seen first."""
        behind = find_behind(ends, tables, self._sink.written_offsets)
        # A table's offsets may end before records that are not written to it, such as dead letters.
        committed = self._committed() if behind else {}
        return [key for key, at in behind.items() if not self._is_contained(key, max(at, committed.get(key, 0)), ends[key], seen)]

    def _committed(self) -> Offsets:
        found: Offsets = {}
        for entry in self._client.offsets(self._sink_name):
            place = entry["partition"]
            if entry.get("offset"):
                key = TopicPartition(str(place["kafka_topic"]), int(place["kafka_partition"]))
                found[key] = int(entry["offset"]["kafka_offset"])
        return found

    def _is_contained(self, key: TopicPartition, at: int, end: int, seen: _Seen) -> bool:
        if at >= end:
            return True
        known = seen.get(key)
        if known is None or known[0] != at:
            seen[key] = at, time.monotonic()
            return False
        has_stopped = time.monotonic() - known[1] > _PEEK_AFTER_S and end - at <= _LAST_MARKERS
        return has_stopped and not self._has_record(key, at)

    def _has_record(self, key: TopicPartition, offset: int) -> bool:
        """Whether there is a record from an offset on, and not only markers of transactions."""
        topic, number = key
        found = consume(
            self._kafka, topic, from_beginning=False, partition=number, offset=offset, max_messages=1, timeout_ms=_PEEK_MS
        )
        return next(iter(found), None) is not None


def find_behind(
    ends: Offsets, tables: Mapping[str, Set[str]], written_offsets: Callable[[str], Mapping[TopicPartition, int]]
) -> Offsets:
    """Returns the partitions that a table does not contain up to their ends, as far as tables tell, and how far it does.
    ``tables`` have the topics of each."""
    behind: Offsets = {}
    for table, topics in tables.items():
        written = written_offsets(table)
        for key, end in ends.items():
            if key.topic in topics and (at := written.get(key, 0)) < end:
                behind[key] = min(at, behind.get(key, at))
    return behind


def _check(name: str, status: Mapping[str, Any]) -> None:
    """Raises ConnectError if a connector or its tasks do not run."""
    for what, found in ((name, status["connector"]), *((f"task {task['id']} of {name}", task) for task in status["tasks"])):
        if found["state"] in ("FAILED", "STOPPED", "PAUSED"):
            trace = str(found.get("trace") or "").strip().splitlines()
            reason = f": {trace[0]}" if trace else ""
            raise ConnectError(f"{what} is {found['state']}, so its tables stay behind{reason}. Restart or resume it first")
