"""A ten-column table into a topic by the JDBC source, JSON without schemas; beside a loop over the plain driver.

PostgreSQL with 1,000,000 rows, MariaDB and SQLite with 300,000; one line each. The database's own time is not in the figures.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import sys
from collections.abc import Iterator
from typing import Any

import orjson

from benchmarks.environment import JSON, BenchmarkEnvironment, environment, produce_values
from benchmarks.jdbc_tables import COLUMNS, TARGETS, Target
from benchmarks.measure import Measured, measure_here, report

ROWS = {"postgresql": 1_000_000, "mariadb": 300_000, "sqlite": 300_000}


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dt.datetime):
        return int(value.timestamp() * 1000)
    raise TypeError(type(value).__name__)


def _baseline(here: BenchmarkEnvironment, target: Target, topic: str) -> None:
    """Rows by fetchmany of the driver's ordinary cursor, JSON by orjson, one record each."""
    produce_values(here.producer(), topic, _bare_values(target))


def _bare_values(target: Target) -> Iterator[bytes]:
    with contextlib.closing(target.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT {', '.join(COLUMNS)} FROM people")
        while rows := cursor.fetchmany(5000):
            for row in rows:
                yield orjson.dumps(dict(zip(COLUMNS, row, strict=True)), default=_plain, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _run(here: BenchmarkEnvironment, target: Target, rows: int) -> None:
    target.fill_table(rows)
    limit_topic = here.create_topic(f"limit-{target.name}")
    limit = measure_here(rows, lambda: _baseline(here, target, limit_topic))
    prefix = f"bench-{target.name}-"
    topic = here.create_topic(f"{prefix}people")
    plain = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
    connector = {
        "name": f"jdbc-source-{target.name}",
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "tasks.max": "1",
        "connection.url": target.url,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "people",
        "topic.prefix": prefix,
    }
    command, _ = here.worker_command({"key.converter": JSON, "value.converter": JSON, **plain}, [connector])
    with Measured(command, here.home / f"log-{target.name}") as worker:
        worker.wait_until(lambda: here.end_offset(topic) > 0, 120)
        worker.mark_first()
        worker.wait_until(lambda: here.end_offset(topic) >= rows, 300)
        report("jdbc_source", worker.figures(rows), limit, database=target.name)


def main() -> None:
    chosen = sys.argv[1:] or list(TARGETS)
    with environment() as here:
        for name in chosen:
            with TARGETS[name](here) as target:
                _run(here, target, ROWS[name])


if __name__ == "__main__":
    main()
