"""Waits until the tables of a sink have everything that was committed in the source before a position."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from connect.errors import ConnectError, NotFoundError
from connect.verification import VerifiableSource
from rest.client import ConnectClient
from rest.polling import wait_until
from worker.kafka.admin import KafkaAdmin
from worker.kafka.console import consume

_INTERVAL_S = 0.25
_LAST_MARKERS = 1000
"""A partition may end with this many markers of transactions, which no consumer reads."""
_PEEK_MS = 1000
_PEEK_AFTER_S = 2.0

Offsets = dict[tuple[str, int], int]


class CatchUpTimeoutError(ConnectError):
    """The tables did not reach a position in time."""


class PipelineProgress:
    """How far a source and a sink are. The source has stored an offset behind the position, so all records before it are in
    Kafka (promise 1). The sink has then committed offsets up to the ends that the partitions had, so they are in its tables
    (promise 2)."""

    def __init__(
        self,
        client: ConnectClient,
        source_name: str,
        sink_name: str,
        source: VerifiableSource,
        kafka: Mapping[str, str],
        deadline: float,
        notice: Callable[[str], None],
    ) -> None:
        """``kafka`` are client properties; ``deadline`` is a time of the monotonic clock."""
        self._client = client
        self._source_name = source_name
        self._sink_name = sink_name
        self._source = source
        self._kafka = kafka
        self._admin = KafkaAdmin(kafka)
        self._deadline = deadline
        self._notice = notice
        self._topics: set[str] = set()

    def watch(self, topics: set[str]) -> None:
        """Sets the topics whose records count."""
        self._topics = topics

    def wait(self, position: int) -> None:
        """Returns once the tables have everything before the position. Raises CatchUpTimeoutError after the deadline, and
        ConnectError if a connector fails."""
        ends = self.wait_for_source(position)
        shown = self._source.describe_position(position)
        self._notice(f"waiting until {self._sink_name} has committed all records before")
        seen: dict[tuple[str, int], tuple[int, float]] = {}
        if not self._wait(lambda: not self._missing(ends, seen)):
            where = ", ".join(f"{topic}-{number}" for topic, number in sorted(self._missing(ends, seen))[:3])
            raise CatchUpTimeoutError(
                f"{self._sink_name} has not committed all records before {shown}; it lags in {where}. A sink commits offsets "
                "every offset.flush.interval.ms of its worker. Use a longer --timeout"
            )

    def wait_for_source(self, position: int) -> Offsets:
        """Returns the ends of the partitions once everything before the position is in Kafka. Raises the errors of
        :meth:`wait`."""
        shown = self._source.describe_position(position)
        self._notice(f"waiting until {self._source_name} has stored an offset behind {shown}")
        if not self._wait(lambda: self._stored() >= position):
            raise CatchUpTimeoutError(
                f"{self._source_name} has not stored an offset behind {shown}; its last one is "
                f"{self._source.describe_position(self._stored())}. A source stores offsets every offset.flush.interval.ms of "
                "its worker, and Debezium in a quiet database only with heartbeat.interval.ms. Use a longer --timeout"
            )
        return self.ends()

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
        keys = []
        for topic in sorted(self._topics):
            try:
                keys += [(topic, number) for number in self._admin.partition_numbers(topic)]
            except NotFoundError:
                continue  # a table without rows has no topic yet
        return {key: after for key, (first, after) in self._admin.offsets(keys).items() if after > first}

    def _missing(self, ends: Offsets, seen: dict[tuple[str, int], tuple[int, float]]) -> list[tuple[str, int]]:
        """The partitions whose records are not committed. ``seen`` has the committed offsets and when they were seen first."""
        committed: Offsets = {}
        for entry in self._client.offsets(self._sink_name):
            place = entry["partition"]
            if entry.get("offset"):
                committed[str(place["kafka_topic"]), int(place["kafka_partition"])] = int(entry["offset"]["kafka_offset"])
        missing = []
        for key, end in ends.items():
            at = committed.get(key, 0)
            if at >= end:
                continue
            known = seen.get(key)
            if known is None or known[0] != at:
                seen[key] = at, time.monotonic()
            elif time.monotonic() - known[1] > _PEEK_AFTER_S and end - at <= _LAST_MARKERS and not self._has_record(key, at):
                ends = {**ends, key: at}
                continue
            missing.append(key)
        return missing

    def _has_record(self, key: tuple[str, int], offset: int) -> bool:
        """Whether there is a record from an offset on, and not only markers of transactions."""
        topic, number = key
        found = consume(
            self._kafka, topic, from_beginning=False, partition=number, offset=offset, max_messages=1, timeout_ms=_PEEK_MS
        )
        return next(iter(found), None) is not None


def _check(name: str, status: Mapping[str, Any]) -> None:
    """Raises ConnectError if a connector or its tasks do not run."""
    for what, found in ((name, status["connector"]), *((f"task {task['id']} of {name}", task) for task in status["tasks"])):
        if found["state"] in ("FAILED", "STOPPED", "PAUSED"):
            trace = str(found.get("trace") or "").strip().splitlines()
            reason = f": {trace[0]}" if trace else ""
            raise ConnectError(f"{what} is {found['state']}, so its tables stay behind{reason}. Restart or resume it first")
