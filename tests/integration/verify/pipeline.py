"""A database, a worker with a source and a sink, and a writer that changes the database all the time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.worker_process import WorkerProcess
from tests.support.background import BackgroundWriter
from tests.support.postgres_options import postgres_source
from tests.support.randomness import chance
from tests.support.standalone_worker import create_worker
from tests.support.waiting import WAIT_S

TABLE = """
CREATE TABLE items (
    id bigint PRIMARY KEY, name text, note text DEFAULT 'none', price numeric(12,3), any_number numeric, ratio double precision,
    part real, made timestamp, seen timestamptz, day date, at time, data bytea, doc jsonb, code uuid, list int[], ok boolean
);
INSERT INTO items SELECT i, 'item ' || i, CASE mod(i, 3) WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'note' END,
    i / 7.0, i / 3.0, i / 11.0, i / 13.0,
    timestamp '2024-01-01' + i * interval '1.000001 s', timestamptz '2024-01-01 00:00Z' + i * interval '1.5 s',
    date '2024-01-01' + mod(i, 1000), time '10:00' + i * interval '0.001 s', int8send(i),
    jsonb_build_object('n', i, 'x', i / 3.0), gen_random_uuid(), ARRAY[i, NULL, -i], mod(i, 2) = 0
FROM generate_series(1, {rows}) i;
"""


class Pipeline:
    """Use within :func:`run_pipeline`."""

    def __init__(self, worker: WorkerProcess, broker: EmbeddedBroker, database: str, rows: int) -> None:
        self.worker = worker
        self.broker = broker
        self.database = database
        self.rows = rows

    @property
    def words(self) -> list[str]:
        """The options of ``sluice verify``."""
        properties = str(self.worker.home / f"{self.worker.name}.properties")
        return ["--url", self.worker.url, "--bootstrap-server", self.broker.bootstrap, "--worker-config", properties]

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Creates a connector, without waiting for it."""
        self.worker.client.put_config(name, config)

    def start(self, source: Mapping[str, str]) -> None:
        """Creates the source, and waits for all connectors."""
        self.put("source", source)
        for name in self.worker.client.connectors():
            self.worker.client.wait_for(name, timeout_s=WAIT_S)

    def writes(self, first: int) -> BackgroundWriter:
        """Changes rows from the key ``first`` on, and one row again and again."""

        def write(stop: threading.Event) -> None:
            rng = chance("writes")
            with psycopg.connect(self.database, autocommit=True) as connection:
                number = 0
                while not stop.wait(0.05):
                    number += 1
                    key = rng.randint(first + 1, self.rows)
                    connection.execute("UPDATE items SET name = name || '.', price = price + 1 WHERE id = %s", (key,))
                    connection.execute("UPDATE items SET ratio = ratio + 1 WHERE id = %s", (first,))
                    if number % 3 == 0:
                        connection.execute("DELETE FROM items WHERE id = %s", (rng.randint(first + 1, self.rows),))
                    if number % 5 == 0:
                        connection.execute("INSERT INTO items (id, name) VALUES (%s, 'new')", (self.rows + number,))

        return BackgroundWriter("writes", write)


@contextlib.contextmanager
def run_pipeline(
    broker: EmbeddedBroker, database: str, home: Path, rows: int, more: Mapping[str, str] | None = None
) -> Iterator[Pipeline]:
    """``more`` are keys of the worker."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(TABLE.format(rows=rows))
    # Each executor takes a second of CPU to start, and there are three by default.
    worker = create_worker(home, broker, properties={"task.executors": "1", **(more or {})})
    worker.start()
    try:
        worker.wait_until_up()
        yield Pipeline(worker, broker, database, rows)
    finally:
        for name in worker.client.connectors():
            worker.client.delete(name)
        worker.stop()


def source_config(server: EmbeddedPostgres, database: str, prefix: str) -> dict[str, str]:
    config = postgres_source(
        server, database, topic_prefix=prefix, slot_name=prefix, slot_drop_on_stop="true", table_include_list="public\\.items",
        publication_autocreate_mode="filtered", heartbeat_interval_ms="200",
    )  # fmt: skip
    return {key: value for key, value in config.items() if value}


def jdbc_sink_config(postgres: EmbeddedPostgres, database: str, prefix: str) -> dict[str, str]:
    """A sink of the source's table ``items`` into another database."""
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": f"{prefix}.public.items",
        "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{database}",
        "connection.username": postgres.user,
        **({"connection.password": postgres.password} if postgres.password else {}),
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "delete.enabled": "true",
        "schema.evolution": "basic",
        "collection.name.format": "items",
    }
