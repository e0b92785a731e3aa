"""300,000 updates of one transaction streamed into a topic, JSON without schemas; beside a plain receiver of the same stream.

A second part commits single rows at 1,000 a second for ten seconds and reports the time from commit to topic.
"""

from __future__ import annotations

import time

import psycopg
import psycopg2
import psycopg2.extras

from benchmarks.change_stream import LOG_APPEND_TIME, at_rate, change_stream, latencies_ms, spread_ms
from benchmarks.environment import customers_table, database, environment
from benchmarks.measure import measure_here, report
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


def _update_all(server: EmbeddedPostgres) -> int:
    with server.connect() as connection:
        connection.execute("UPDATE customers SET score = score + 1, notes = repeat('y', 40) WHERE id <= %s", (UPDATES,))
    return UPDATES


def _commit_singly(dsn: str) -> int:
    update = "UPDATE customers SET score = 0, created_at = clock_timestamp() WHERE id = %s"
    with psycopg.connect(dsn, autocommit=True) as connection:
        at_rate(1_000, COMMITS, lambda i: connection.execute(update, (400_000 + i % 1000,)))
    return COMMITS


def main() -> None:
    with environment() as here, database(here.home) as server:
        customers_table(server, ROWS)
        with server.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('plain', 'pgoutput')")
        topic = here.create_topic("bench.public.customers", **LOG_APPEND_TIME)
        with change_stream(here, server) as stream:
            ours = stream.measure(lambda: _update_all(server), 180, [topic], is_one_transaction=True)
            stream.measure(lambda: _commit_singly(server.dsn()), 60, [topic])
        limit = measure_here(UPDATES, lambda: _baseline(server))
        report("postgres_stream", ours, limit, latency_ms=spread_ms(latencies_ms(here, {topic: UPDATES})))


if __name__ == "__main__":
    main()
