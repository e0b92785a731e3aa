"""The load of people without a backlog: 1,000 single-row commits a second, and 1,000 transactions a second of one to five rows
over 20 tables.

Each result line has the cores that the worker needs at that rate, and the time from a commit to its record in the topic. Debezium
Server on two cores, measured separately: 0.13 cores at p50 301 ms by default, 0.23 at 11 ms with ``poll.interval.ms=10``.
"""

from __future__ import annotations

import psycopg

from benchmarks.change_stream import LOG_APPEND_TIME, at_rate, change_stream
from benchmarks.commits import PER_S, measure_commits
from benchmarks.environment import customers_table, database, environment
from sluice.embedded.postgres import EmbeddedPostgres

ROWS, TABLES = 100_000, 20


def _commit_rows(dsn: str, count: int) -> int:
    with psycopg.connect(dsn, autocommit=True) as connection:
        update = "UPDATE customers SET score = 0, created_at = clock_timestamp() WHERE id = %s"
        at_rate(PER_S, count, lambda i: connection.execute(update, (1 + i % 1_000,)))
    return count


def _commit_transactions(dsn: str, count: int) -> int:
    """Each changes the next rows of as many tables, so that neighboring records are of different tables."""
    with psycopg.connect(dsn, autocommit=True) as connection:

        def commit(i: int) -> None:
            statements = [
                f"UPDATE orders_{(i + k * 7) % TABLES} SET amount = amount + 1, changed = now() WHERE id = {1 + i % 1_000}"
                for k in range(1 + i % 5)
            ]
            connection.execute(f"BEGIN; {'; '.join(statements)}; COMMIT")

        at_rate(PER_S, count, commit)
    return sum(1 + i % 5 for i in range(count))


def _orders(server: EmbeddedPostgres) -> None:
    with server.connect() as connection:
        for i in range(TABLES):
            connection.execute(
                f"CREATE TABLE orders_{i}(id int PRIMARY KEY, customer text NOT NULL, amount numeric(12,2), changed timestamptz)"
            )
            connection.execute(f"INSERT INTO orders_{i} SELECT n, 'customer' || n, n, now() FROM generate_series(1, 1000) n")
            connection.execute(f"ALTER PUBLICATION bench_pub ADD TABLE orders_{i}")


def main() -> None:
    with environment() as here, database(here.home) as server:
        customers_table(server, ROWS)
        _orders(server)
        dsn = server.dsn()
        customers = [here.create_topic("bench.public.customers", **LOG_APPEND_TIME)]
        orders = [here.create_topic(f"bench.public.orders_{i}", **LOG_APPEND_TIME) for i in range(TABLES)]
        with change_stream(here, server, **{"table.include.list": "public[.].*"}) as stream:
            measure_commits(here, stream, "postgres_commits", customers, lambda count: _commit_rows(dsn, count))
        with change_stream(here, server, **{"table.include.list": "public[.].*"}) as stream:
            measure_commits(here, stream, "postgres_commits_of_20_tables", orders, lambda count: _commit_transactions(dsn, count))


if __name__ == "__main__":
    main()
