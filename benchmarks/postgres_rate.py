"""The highest rate of changes at which 99 of 100 records are in the topic within 250 ms of their commit, 40,000 a second at most.

Each transaction changes the rows of 10 ms. The rate goes down until the limit holds; the line has all rates that were tried, each
with the rate at which the database was really written, and in ``alone_per_s`` what the machine writes without a connector.
"""

from __future__ import annotations

import os
import time
from functools import partial

import psycopg

from benchmarks.change_stream import LOG_APPEND_TIME, at_rate, change_stream, latencies_ms, spread_ms
from benchmarks.environment import customers_table, database, environment
from benchmarks.measure import report

ROWS, LIMIT_MS = 200_000, 250
RATES = (40_000, 30_000, 20_000, 15_000, 10_000, 5_000)
SECONDS = int(os.environ.get("SLUICE_BENCH_SECONDS", "10"))
_TRANSACTIONS_PER_S = 100


class Writer:
    """Changes rows at a rate, or as fast as the machine can."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.written_per_s = 0

    def write(self, rate: int, seconds: int) -> int:
        """Returns the number of changes."""
        started = time.monotonic()
        count = _update(self._dsn, rate, seconds)
        self.written_per_s = round(count / (time.monotonic() - started))
        return count


def _update(dsn: str, rate: int, seconds: int) -> int:
    size, count = rate // _TRANSACTIONS_PER_S, seconds * _TRANSACTIONS_PER_S
    statement = "UPDATE customers SET score = score + 1, created_at = now() WHERE id BETWEEN %s AND %s"
    with psycopg.connect(dsn, autocommit=True) as connection:

        def commit(i: int) -> None:
            first = 1 + i * size % (ROWS - size)
            connection.execute(statement, (first, first + size - 1))

        at_rate(_TRANSACTIONS_PER_S, count, commit)
    return size * count


def main() -> None:
    with environment() as here, database(here.home) as server:
        customers_table(server, ROWS)
        with server.connect() as connection:
            connection.execute("ALTER TABLE customers SET (fillfactor=50, autovacuum_enabled=on)")
        topic = here.create_topic("bench.public.customers", **LOG_APPEND_TIME)
        writer = Writer(server.dsn())
        writer.write(RATES[0], 5)
        alone = writer.written_per_s
        with change_stream(here, server) as stream:
            stream.measure(partial(writer.write, 5_000, 2), 60, [topic])
            tried = {}
            for rate in RATES:
                start = here.end_offset(topic)
                figures = stream.measure(partial(writer.write, rate, SECONDS), 120, [topic])
                tried[rate] = {"written_per_s": writer.written_per_s, **spread_ms(latencies_ms(here, {topic: start}))}
                if tried[rate]["p99"] < LIMIT_MS:
                    break
        sustained = writer.written_per_s if tried[rate]["p99"] < LIMIT_MS else None
        cores = round(figures.cpu_s / figures.wall_s, 2)
        report("postgres_rate", figures, None, rate_per_s=sustained, alone_per_s=alone, cores=cores, tried=tried)


if __name__ == "__main__":
    main()
