"""Shared by the benchmarks: broker, database, property files, topics."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
START_S = 300.0
"""For a broker or worker, also on a machine on which much else runs."""
_TOPIC_S = 120.0


@dataclass
class BenchmarkEnvironment:
    """A running broker and a temporary directory."""

    home: Path
    broker: EmbeddedBroker

    def create_topic(self, name: str, **config: str) -> str:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.create_topics([NewTopic(name, 1, 1, config=config)]).values():
            future.result(_TOPIC_S)
        return name

    def end_offset(self, topic: str) -> int:
        """Returns the number of records in partition 0; 0 while the topic does not exist."""
        if not hasattr(self, "_watch"):
            self._watch = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "benchmark-watch"})
        try:
            return int(self._watch.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
        except KafkaException:
            return 0

    def producer(self, **more: str) -> Producer:
        """Creates a producer with a careful user's settings: all acknowledgments, in order."""
        return Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.kbytes": 65536,
                **more,
            }
        )

    def worker_command(self, worker: Mapping[str, str], connectors: list[Mapping[str, str]]) -> tuple[list[str], int]:
        """A ``connect-standalone`` command line over fresh property files, and the port of its REST API."""
        folder = Path(tempfile.mkdtemp(dir=self.home, prefix="worker-"))
        port = free_port()
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "1000",
            "listeners": f"http://127.0.0.1:{port}",
            **worker,
        }
        files = [write_properties(folder / "worker.properties", settings)]
        files += [write_properties(folder / f"connector-{i}.properties", c) for i, c in enumerate(connectors)]
        return [sys.executable, "-m", "sluice.run.standalone", *files], port


def write_properties(path: Path, properties: Mapping[str, str]) -> str:
    """Writes a property file; returns its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
    return str(path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rest(port: int, path: str) -> Any:
    """Returns the JSON of a GET, or None while the worker is unreachable."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
        return json.load(answer)
    return None


@contextlib.contextmanager
def environment() -> Iterator[BenchmarkEnvironment]:
    """Runs a broker during a benchmark."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as home:
        broker = EmbeddedBroker(Path(home) / "broker", dies_with_parent=True)
        broker.start(START_S)
        with broker:
            yield BenchmarkEnvironment(Path(home), broker)


@contextlib.contextmanager
def database(home: Path) -> Iterator[EmbeddedPostgres]:
    """Runs a PostgreSQL server during a benchmark."""
    server = EmbeddedPostgres(home / "postgres", dies_with_parent=True)
    with server:
        yield server


def write_lines(path: Path, count: int) -> Path:
    """``count`` lines of 100 bytes, newline included."""
    with path.open("w", encoding="ascii", newline="\n") as out:
        for i in range(count):
            out.write(f"line {i:09d} ".ljust(99, "x") + "\n")
    return path


def produce_lines(producer: Producer, topic: str, path: Path) -> None:
    """Produces every line of the file as a record, without its newline; acknowledged on return."""
    with path.open("rb") as lines:
        produce_values(producer, topic, (line[:-1] for line in lines))


def produce_values(
    producer: Producer, topic: str, values: Iterable[bytes], headers: list[tuple[str, bytes]] | None = None
) -> None:
    """Produces every value as a record, each with these headers; acknowledged on return."""
    for value in values:
        while True:
            try:
                producer.produce(topic, value, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def wait_for_end(scene_: BenchmarkEnvironment, topic: str, count: int, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while scene_.end_offset(topic) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} holds {scene_.end_offset(topic)} of {count} records after {timeout_s} s")
        time.sleep(0.05)


def customers_table(server: EmbeddedPostgres, rows: int) -> None:
    """Creates the nine-column table that the peers were measured with, and a publication for it."""
    with server.connect() as connection:
        connection.execute(
            "CREATE TABLE customers(id bigserial PRIMARY KEY, first_name text NOT NULL, last_name text, email text,"
            " balance numeric(12,2), score double precision, active boolean, created_at timestamptz DEFAULT now(), notes text)"
            " WITH (autovacuum_enabled=off)"
        )
        connection.execute(
            "INSERT INTO customers SELECT i, 'first'||i, 'last'||i, 'user'||i||'@example.com', (i%%10000)/100.0, random()*5,"
            " i%%2=0, now(), repeat('x',40) FROM generate_series(1,%s) i",
            (rows,),
        )
        connection.execute("CREATE PUBLICATION bench_pub FOR TABLE customers")
        connection.execute("ANALYZE customers")


def source_config(server: EmbeddedPostgres, prefix: str, **more: str) -> dict[str, str]:
    """A Debezium-style configuration of the PostgreSQL source on that table."""
    return {
        "name": prefix,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": server.database,
        "topic.prefix": prefix,
        "plugin.name": "pgoutput",
        "slot.name": prefix,
        "publication.name": "bench_pub",
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.customers",
        **more,
    }
