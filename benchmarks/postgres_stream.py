"""300,000 updates of one transaction streamed into a topic, JSON without schemas; beside a plain receiver of the same stream.

A second part commits single rows at 1,000 a second for ten seconds and reports the time from commit to topic.
"""

from __future__ import annotations

import statistics
import time

import orjson
import psycopg
import psycopg2
import psycopg2.extras
from confluent_kafka import Consumer, TopicPartition

from benchmarks.environment import JSON, BenchmarkEnvironment, customers_table, database, environment, rest, source_config
from benchmarks.measure import Figures, Measured, measure_here, report
from sluice.embedded.postgres import EmbeddedPostgres

ROWS, UPDATES, COMMITS = 500_000, 300_000, 10_000


def _baseline(server: EmbeddedPostgres) -> None:
    connection = psycopg2.connect(server.dsn(), connection_factory=psycopg2.extras.LogicalReplicationConnection)
    cursor = connection.cursor()
    cursor.start_replication("plain", decode=False, options={"proto_version": "1", "publication_names": "bench_pub"})
    seen = 0
    deadline = time.monotonic() + 120
    while seen < UPDATES and time.monotonic() < deadline:
        message = cursor.read_message()
        if message is None:
            time.sleep(0.001)
        elif message.payload[:1] == b"U":
            seen += 1
    connection.close()


def _update_all(server: EmbeddedPostgres) -> None:
    with server.connect() as connection:
        connection.execute("UPDATE customers SET score = score + 1, notes = repeat('y', 40) WHERE id <= %s", (UPDATES,))


def _commit_singly(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        due = time.monotonic()
        for i in range(COMMITS):
            connection.execute(
                "UPDATE customers SET score = 0, created_at = clock_timestamp() WHERE id = %s", (400_000 + i % 1000,)
            )
            due += 0.001
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)


def _latencies_ms(here: BenchmarkEnvironment, topic: str, start: int, end: int) -> list[float]:
    """Per record: from the commit in the database to the timestamp the producer gave it, in ms."""
    consumer = Consumer({"bootstrap.servers": here.broker.bootstrap, "group.id": "latency", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[float] = []
    while len(found) < end - start:
        for message in consumer.consume(5000, 5.0):
            committed_us = orjson.loads(message.value())["source"]["ts_us"]
            found.append(message.timestamp()[1] - committed_us / 1000)
    consumer.close()
    return found


def main() -> None:
    with environment() as here, database(here.home) as server:
        customers_table(server, ROWS)
        with server.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('plain', 'pgoutput')")
        topic = here.create_topic("bench.public.customers", **{"message.timestamp.type": "LogAppendTime"})
        plain = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
        worker_settings = {"key.converter": JSON, "value.converter": JSON, **plain}
        source = source_config(server, "bench", **{"snapshot.mode": "no_data", "slot.drop.on.stop": "true"})
        command, port = here.worker_command(worker_settings, [source])
        with Measured(command, here.home / "log") as worker:
            worker.wait_until(lambda: _is_streaming(port), 60)
            cpu_before = worker.cpu_s()
            _update_all(server)
            started_at = time.monotonic()
            worker.wait_until(lambda: here.end_offset(topic) >= UPDATES, 180)
            wall = time.monotonic() - started_at
            figures = worker.figures(UPDATES)
            ours = Figures(UPDATES, wall, figures.cpu_s - cpu_before, figures.peak_rss_mb)
            _commit_singly(server.dsn())
            worker.wait_until(lambda: here.end_offset(topic) >= UPDATES + COMMITS, 60)
        limit = measure_here(UPDATES, lambda: _baseline(server))
        spread = statistics.quantiles(_latencies_ms(here, topic, UPDATES, UPDATES + COMMITS), n=100)
        report("postgres_stream", ours, limit, latency_ms={"p50": round(spread[49], 1), "p99": round(spread[98], 1)})


def _is_streaming(port: int) -> bool:
    answer = rest(port, "/sluice/connectors/bench/progress")
    return bool(answer) and any(task.get("details", {}).get("phase") == "streaming" for task in answer.get("tasks", []))


if __name__ == "__main__":
    main()
