"""A database -> topics on one worker, and what the topics must contain whenever the worker or the server dies."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

from connect.errors import ConnectError
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from sluice.embedded.server import EmbeddedDatabase
from tests.chaos.pipeline import SOURCE, Changes, CommittedChanges, Pipeline, assert_versions_in_order

ARRIVES_S = 90.0


class NumberedChanges(Changes):
    """Changes, and the end of the log after the commit of each number."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._lock = threading.Lock()
        self._ends: dict[int, int] = {}

    def _commit_change(self, connection: psycopg.Connection[Any], n: int) -> None:
        super()._commit_change(connection, n)
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        with self._lock:
            self._ends[n] = int(row[0])

    def numbers_between(self, start: int, end: int) -> set[int]:
        """The numbers whose transactions began after the first LSN and are completely before the second."""
        with self._lock:
            return {n for n, at in self._ends.items() if at <= end and self._ends.get(n - 1, -1) >= start}


class SourcePipeline(Pipeline):
    """A worker that runs only the source. ``overrides`` are keys of the connector."""

    def __init__(self, home: Path, broker: EmbeddedBroker, server: EmbeddedDatabase, database: str, **overrides: str) -> None:
        self._overrides = {key.replace("_", "."): value for key, value in overrides.items()}
        self._consumers: dict[str, TopicReader] = {}
        super().__init__(home, broker, server, database)

    def _worker(self) -> dict[str, str]:
        settings = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}
        # Workers start twice as fast without executors, which the pipelines with Spark and with MariaDB have.
        return {**super()._worker(), **settings, "offset.flush.interval.ms": "200", "task.executors": "0"}

    def _connectors(self) -> list[dict[str, str]]:
        settings = {"status.update.interval.ms": "100", "retriable.restart.connector.wait.ms": "200"}
        return [{**self._source(), **settings, "slot.retry.delay.ms": "200", **self._overrides}]

    def _environment(self) -> dict[str, str]:
        return {}

    def configure(self, **overrides: str) -> None:
        """Changes keys of the connector for the next start."""
        self._overrides.update({key.replace("_", "."): value for key, value in overrides.items()})
        (properties,) = self._connectors()
        self._write(SOURCE, properties)

    def values(self, table: str) -> list[dict[str, Any] | None]:
        """All values of a table's topic."""
        reader = self._consumers.get(table)
        if reader is None:
            reader = self._consumers[table] = TopicReader(self._broker.bootstrap, self.topic(table))
        return reader.read()

    def numbers(self) -> list[int]:
        """The numbers of all events in the topic."""
        return [value["after"]["n"] for value in self.values("events") if value is not None and value["after"] is not None]

    def snapshot_lsn(self) -> int | None:
        """Where the first snapshot was taken, at the start of the slot; None if the topics have none of its rows."""
        values = (value for table in ("counters", "events") for value in self.values(table))
        return min((value["source"]["lsn"] for value in values if value is not None and value["op"] == "r"), default=None)

    def status(self) -> tuple[str, str]:
        """State and error of the task."""
        (task,) = self.client.status(SOURCE)["tasks"] or [{"state": "", "trace": ""}]
        return task["state"], task.get("trace") or ""

    def close(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.kill()
        for reader in self._consumers.values():
            reader.close()


class TopicReader:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "chaos-look", "enable.auto.commit": False})
        self._partition = TopicPartition(topic, 0, 0)
        self._consumer.assign([self._partition])
        self._position = 0
        self._values: list[dict[str, Any] | None] = []

    def read(self) -> list[dict[str, Any] | None]:
        try:
            end = self._consumer.get_watermark_offsets(self._partition, timeout=30)[1]
        except KafkaException:
            return []  # nothing has been written
        deadline = time.monotonic() + 60
        while self._position < end:
            assert time.monotonic() < deadline
            for message in self._consumer.consume(5000, 0.2):
                if message.error() is None:
                    value = message.value()
                    self._values.append(None if value is None else orjson.loads(value))
                    self._position = (message.offset() or 0) + 1
        return self._values

    def close(self) -> None:
        self._consumer.close()


class ConfirmedChanges:
    """Promise 1: whatever the server need not send again is in the topic."""

    def __init__(self, pipeline: SourcePipeline, changes: NumberedChanges) -> None:
        self._pipeline = pipeline
        self._changes = changes

    def check(self, server: EmbeddedPostgres) -> int:
        """Compares the slot with the topics. What was committed before the first snapshot is one of its rows.

        Returns the number of confirmed changes.
        """
        with server.connect() as connection:
            sql = "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
            row = connection.execute(sql, (self._pipeline.prefix,)).fetchone()
        start = self._pipeline.snapshot_lsn()
        if row is None or row[0] is None or start is None:
            return 0
        needed = self._changes.numbers_between(start, int(row[0]))
        missing = needed.difference(self._pipeline.numbers())
        assert not missing, f"the slot has confirmed {sorted(missing)[:10]}, which are not in the topic"
        return len(needed)


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.05)


class SourceStream(ABC):
    """A source under test, and the changes that it captures."""

    def __init__(self, pipeline: SourcePipeline, changes: CommittedChanges) -> None:
        self.pipeline = pipeline
        self.changes = changes

    @abstractmethod
    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement in the database."""

    def wait_for_events(self, count: int) -> None:
        """Waits for more events than there are."""
        before = len(set(self.pipeline.numbers()))

        def arrived() -> bool:
            assert self.pipeline.child is not None
            assert self.pipeline.child.poll() is None, self.pipeline.log_tail()
            return len(set(self.pipeline.numbers())) >= before + count

        wait_until(arrived, ARRIVES_S, f"{count} events; the log ends with\n{self.pipeline.log_tail()}")

    def wait_for_failure(self, message: str) -> None:
        def failed() -> bool:
            try:
                state, trace = self.pipeline.status()
            except ConnectError:
                return False  # it is starting
            assert state != "FAILED" or message in trace, trace
            return state == "FAILED"

        wait_until(failed, ARRIVES_S, f"a failure: {message}")

    def assert_nothing_is_lost(self) -> None:
        """Waits until everything has arrived, then replays the topics."""
        self.changes.stop()
        events = self.wait_for_everything()
        assert sorted(set(self.pipeline.numbers())) == events
        streamed = [v["after"]["n"] for v in self.pipeline.values("events") if v is not None and v["op"] == "c"]
        first = list(dict.fromkeys(streamed))
        assert first == sorted(first), "the topic has an event out of order"
        assert_versions_in_order(self.pipeline.values("counters"))

    def wait_for_everything(self) -> list[int]:
        """Waits until the topics replay to the tables, while nothing is committed; returns all events."""
        events = [row[0] for row in self.query("SELECT n FROM events ORDER BY n")]
        rows = {row[0]: row[1:] for row in self.query("SELECT id, n, note FROM counters")}
        try:
            wait_until(lambda: events[-1] in self.pipeline.numbers() and self.counters() == rows, ARRIVES_S, "everything")
        except AssertionError as e:
            found = self.counters()
            differences = {key for key in {*rows, *found} if rows.get(key) != found.get(key)}
            raise AssertionError(f"counters differ at {sorted(differences)[:10]} of {len(differences)}") from e
        return events

    def assert_no_event_is_missing(self) -> None:
        """Waits until all events of the database are in the topic, which may have others that the database lost."""
        self.changes.stop()
        events = {row[0] for row in self.query("SELECT n FROM events")}
        wait_until(lambda: events <= set(self.pipeline.numbers()), ARRIVES_S, "all events")

    def counters(self) -> dict[int, tuple[int, str | None]]:
        """The rows to which the topic replays."""
        rows: dict[int, tuple[int, str | None]] = {}
        for value in self.pipeline.values("counters"):
            if value is None:
                continue
            if value["op"] == "d":
                rows.pop(value["before"]["id"], None)
                continue
            after = value["after"]
            note = after["note"]
            if note == "__debezium_unavailable_value" and after["id"] in rows:  # before its snapshot, a row may be unknown
                note = rows[after["id"]][1]
            rows[after["id"]] = (after["n"], note)
        return rows
