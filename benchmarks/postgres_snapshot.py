"""Snapshot of 500,000 nine-column rows into a topic, JSON without schemas; beside COPY into a plain producer."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from benchmarks.environment import (
    JSON,
    BenchmarkEnvironment,
    customers_table,
    database,
    environment,
    produce_values,
    source_config,
)
from benchmarks.measure import Measured, measure_here, report
from sluice.embedded.postgres import EmbeddedPostgres

ROWS = 500_000


def _baseline(scene_: BenchmarkEnvironment, server: EmbeddedPostgres, topic: str) -> None:
    """The rows as the database writes them, split into lines, one record each: no types, no envelope, no JSON."""
    produce_values(scene_.producer(), topic, _bare_values(server))


def _bare_values(server: EmbeddedPostgres) -> Iterator[bytes]:
    rest = b""
    with psycopg.connect(server.dsn()) as connection, connection.cursor().copy("COPY customers TO STDOUT") as copy:
        for block in copy:
            *lines, rest = (rest + bytes(block)).split(b"\n")
            yield from lines


def main() -> None:
    with environment() as here, database(here.home) as server:
        customers_table(server, ROWS)
        limit_topic = here.create_topic("limit")
        limit = measure_here(ROWS, lambda: _baseline(here, server, limit_topic))
        topic = here.create_topic("bench.public.customers")
        plain = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
        worker_settings = {"key.converter": JSON, "value.converter": JSON, **plain}
        command, _ = here.worker_command(worker_settings, [source_config(server, "bench", **{"slot.drop.on.stop": "true"})])
        with Measured(command, here.home / "log") as worker:
            worker.wait_until(lambda: here.end_offset(topic) > 0, 60)
            worker.mark_first()
            worker.wait_until(lambda: here.end_offset(topic) >= ROWS, 180)
            ours = worker.figures(ROWS)
        report("postgres_snapshot", ours, limit)


if __name__ == "__main__":
    main()
