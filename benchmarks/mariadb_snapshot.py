"""Snapshot of 500,000 nine-column rows of MariaDB into a topic, JSON without schemas; beside a plain reader and producer of the
same rows."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.environment import JSON, BenchmarkEnvironment, environment, produce_values
from benchmarks.mariadb_customers import create_customers, mariadb_source_config, read_packets
from benchmarks.measure import Measured, measure_here, report
from sluice.embedded.mariadb import EmbeddedMariaDB

ROWS = 500_000


def _baseline(here: BenchmarkEnvironment, server: EmbeddedMariaDB, topic: str) -> None:
    """The rows as the database writes them, as packets of PyMySQL, one record each: no types, no envelope, no JSON."""
    produce_values(here.producer(), topic, _bare_rows(server))


def _bare_rows(server: EmbeddedMariaDB) -> Iterator[bytes]:
    with server.connect() as connection:
        connection.query("SELECT * FROM customers", unbuffered=True)
        yield from read_packets(connection)


def main() -> None:
    with environment() as here, EmbeddedMariaDB(here.home / "mariadb", dies_with_parent=True) as server:
        create_customers(server, ROWS)
        limit_topic = here.create_topic("limit")
        limit = measure_here(ROWS, lambda: _baseline(here, server, limit_topic))
        topic = here.create_topic(f"bench.{server.database}.customers")
        plain = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
        worker_settings = {"key.converter": JSON, "value.converter": JSON, **plain}
        command, _ = here.worker_command(worker_settings, [mariadb_source_config(server)])
        with Measured(command, here.home / "log") as worker:
            worker.wait_until(lambda: here.end_offset(topic) > 0, 60)
            worker.mark_first()
            worker.wait_until(lambda: here.end_offset(topic) >= ROWS, 180)
            ours = worker.figures(ROWS)
        report("mariadb_snapshot", ours, limit)


if __name__ == "__main__":
    main()
