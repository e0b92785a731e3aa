"""The pipeline that crash tests kill: PostgreSQL -> topics -> Delta tables on one worker, with continuous changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

from rest.client import ConnectClient
from sluice.embedded import jars, process
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from sluice.embedded.postgres import EmbeddedPostgres
from sluice.embedded.server import EmbeddedDatabase
from tests.chaos.background import Background

SOURCE, UPSERT, APPEND = "chaos-source", "chaos-upsert", "chaos-append"


class CommittedChanges(Background):
    """Commits numbered changes until it is stopped; survives database restarts.

    ``counters(id, n, note)``: every update increments ``n``, which shows the order. ``events(n)`` has no key: each insert is
    an event with the next number.
    """

    lost_connection: type[Exception]

    def __init__(self) -> None:
        super().__init__("chaos-changes")
        self._gate = threading.Lock()
        self.committed = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Commits nothing meanwhile."""
        with self._gate:
            yield

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with closing(self._connect()) as connection:
                    n = self._last_number(connection)  # a commit counts even if a restart lost its response
                    while not self._stop.is_set():
                        with self._gate:
                            n += 1
                            self._commit_change(connection, n)
                            self.committed += 1
                        self._stop.wait(0.02)
            except self.lost_connection as e:
                if not self._is_lost(e):
                    raise
                self._stop.wait(0.2)

    @abstractmethod
    def _connect(self) -> Any:
        """Connects to the database, with autocommit."""

    def _is_lost(self, error: Exception) -> bool:
        """Whether a ``lost_connection`` is one: others end the work."""
        return True

    @abstractmethod
    def _last_number(self, connection: Any) -> int:
        """The number of the last event; 0 if there is none."""

    @abstractmethod
    def _commit_change(self, connection: Any, n: int) -> None:
        """Commits the event of the number, with changes of counters."""


class Changes(CommittedChanges):
    """Changes of PostgreSQL."""

    lost_connection = psycopg.OperationalError

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, autocommit=True, connect_timeout=5)

    def _last_number(self, connection: psycopg.Connection[Any]) -> int:
        row = connection.execute("SELECT coalesce(max(n), 0) FROM events").fetchone()
        assert row is not None
        return int(row[0])

    def _commit_change(self, connection: psycopg.Connection[Any], n: int) -> None:
        with connection.transaction():
            connection.execute("INSERT INTO events VALUES (%s)", (n,))
            connection.execute("UPDATE counters SET n = n + 1 WHERE id BETWEEN %s AND %s", (n % 50, n % 50 + 3))
            if n % 5 == 0:
                connection.execute("INSERT INTO counters VALUES (%s, 1, repeat(md5(%s::text), 100))", (1000 + n, n))
            if n % 7 == 0:
                connection.execute("DELETE FROM counters WHERE id = %s", (1000 + n - n % 5 - 10,))
            if n % 11 == 0:
                connection.execute("UPDATE counters SET id = id + 1000000 WHERE id = %s", (1000 + n - n % 5 - 5,))


def create_tables(database: EmbeddedPostgres, name: str, rows: int) -> None:
    with database.connect(name) as connection:
        connection.execute("CREATE TABLE counters(id bigint PRIMARY KEY, n bigint NOT NULL, note text)")
        connection.execute("ALTER TABLE counters ALTER COLUMN note SET STORAGE EXTERNAL")
        connection.execute("CREATE TABLE events(n bigint NOT NULL)")
        connection.execute("INSERT INTO counters SELECT i, 1, repeat(md5(i::text), 100) FROM generate_series(0, 999) i")
        connection.execute("INSERT INTO counters SELECT i, 1, 'old' FROM generate_series(-%s::bigint, -1) i", (rows,))


class Pipeline:
    """The worker with its connectors, which tests start and kill. All state is in ``home``, the broker, and the database."""

    def __init__(self, home: Path, broker: EmbeddedBroker, server: EmbeddedDatabase, database: str) -> None:
        self.home = home
        self.prefix = database
        self.lake = home / "lake"
        self.log = home / "worker.log"
        self._broker = broker
        self.server = server
        self._port = free_ports(1)[0]
        self.client = ConnectClient(f"http://127.0.0.1:{self._port}")
        self.child: subprocess.Popen[bytes] | None = None
        connectors = {properties["name"]: properties for properties in self._connectors()}
        self._files = [self._write(name, properties) for name, properties in {"worker": self._worker(), **connectors}.items()]

    def _connectors(self) -> list[dict[str, str]]:
        return [self._source(), self._sink(UPSERT, "counters", "upsert"), self._sink(APPEND, "events", "append")]

    def _environment(self) -> dict[str, str]:
        jars.ensure_jars("spark")
        return {"SLUICE_SPARK_JARS": str(jars.folder_of(jars.jar_set("spark")))}

    def _worker(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._broker.bootstrap,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": str(self.home / "offsets"),
            "offset.flush.interval.ms": "500",
            # A killed worker does not leave its groups: the next one waits for the session timeout.
            "consumer.session.timeout.ms": "2000",
            "consumer.heartbeat.interval.ms": "500",
            "listeners": f"http://127.0.0.1:{self._port}",
        }

    def _source(self) -> dict[str, str]:
        return {
            "name": SOURCE,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": self.server.host,
            "database.port": str(self.server.port),
            "database.user": self.server.user,
            "database.password": self.server.password,
            "database.dbname": self.prefix,
            "topic.prefix": self.prefix,
            "slot.name": self.prefix,
            "publication.name": self.prefix,
            "plugin.name": "pgoutput",
            "table.include.list": "public.counters,public.events",
            "retriable.restart.connector.wait.ms": "500",
        }

    def _sink(self, name: str, table: str, mode: str) -> dict[str, str]:
        return {
            "name": name,
            "connector.class": "SparkSink",
            "topics": f"{self.prefix}.public.{table}",
            "spark.master": "local[2]",
            "spark.conf.spark.driver.memory": "1g",
            "table.location": str(self.lake),
            "table.name.format": "${table}",
            "write.mode": mode,
            "commit.interval.ms": "1000",
        }

    def _write(self, name: str, properties: dict[str, str]) -> str:
        path = self.home / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        return str(path)

    def start(self, crash_at: str | None = None) -> None:
        """Starts the worker without waiting. With ``crash_at`` it kills itself at that crash point."""
        environment = {**os.environ, **self._environment()}
        if crash_at:
            environment["SLUICE_CRASH_AT"] = f"worker/{crash_at}"  # includes the executors
        command = [sys.executable, "-m", "sluice.run.standalone", *self._files]
        self.child = process.spawn(command, log=self.log, cwd=Path.cwd(), environment=environment, death_signal=signal.SIGKILL)

    def wait_for_crash(self, timeout_s: float) -> bool:
        """Waits for the worker to kill itself. Returns whether it did in time."""
        assert self.child is not None
        try:
            return self.child.wait(timeout_s) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        """Kills the worker with SIGKILL."""
        assert self.child is not None
        self.client.close()
        self.child.kill()
        self.child.wait(30)

    def stop(self) -> int:
        """Stops the worker with SIGTERM and returns the exit code."""
        assert self.child is not None
        self.client.close()
        self.child.terminate()
        return self.child.wait(60)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            assert self.child is not None
            assert self.child.poll() is None, f"the worker ended with {self.child.returncode}:\n{self.log_tail()}"
            if condition():
                return
            assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}\n{self.log_tail()}"
            time.sleep(0.2)

    def log_tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-6000:]

    def topic(self, table: str) -> str:
        """The topic of a table."""
        return f"{self.prefix}.public.{table}"

    def topic_values(self, table: str) -> list[bytes | None]:
        """Returns all values of a table's topic in order."""
        return self._values(table, 0)

    def newest_value(self, table: str) -> bytes | None:
        """Returns the last value of a table's topic; None if it is empty."""
        values = self._values(table, max(0, self.end_offset(table) - 1))
        return values[-1] if values else None

    def _values(self, table: str, position: int) -> list[bytes | None]:
        """Returns the values of a table's topic from an offset."""
        topic = TopicPartition(self.topic(table), 0, position)
        consumer = Consumer({"bootstrap.servers": self._broker.bootstrap, "group.id": "chaos-look", "enable.auto.commit": False})
        end = consumer.get_watermark_offsets(topic, timeout=30)[1]
        consumer.assign([topic])
        values: list[bytes | None] = []
        deadline = time.monotonic() + 60
        while position < end:
            assert time.monotonic() < deadline
            for message in consumer.consume(min(5000, end - position), 1.0):
                assert message.error() is None, message.error()
                values.append(message.value())
                position = message.offset() + 1
        consumer.close()
        return values

    def end_offset(self, table: str) -> int:
        """Returns the end offset of a table's topic. Retries while the partition has no leader after a broker restart."""
        topic = TopicPartition(self.topic(table), 0)
        consumer = Consumer({"bootstrap.servers": self._broker.bootstrap, "group.id": "chaos-look"})
        deadline = time.monotonic() + 60
        try:
            while True:
                try:
                    return int(consumer.get_watermark_offsets(topic, timeout=10)[1])
                except KafkaException:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)
        finally:
            consumer.close()


def assert_versions_in_order(changes: Iterable[Mapping[str, Any] | None]) -> None:
    """Per row, versions first appear in the order they were committed in, none left out after the first that was seen."""
    seen: dict[int, int] = {}
    for change in changes:
        if change is None or change["after"] is None:
            continue
        key, version = change["after"]["id"], change["after"]["n"]
        latest = seen.get(key)
        if latest is None or version > latest:
            # Only a snapshot shows a row without the versions between.
            known = latest is None or version == latest + 1 or change["op"] == "r"
            assert known, f"row {key}: version {version} came after {latest}"
            seen[key] = version
