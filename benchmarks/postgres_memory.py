"""Peak memory of the stream: small transactions, one transaction of 1,000,000 rows, rows of 1 MB.

The limits are 300, 400, and 400 MB."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.change_stream import change_stream
from benchmarks.environment import customers_table, database, environment
from benchmarks.measure import report
from sluice.embedded.postgres import EmbeddedPostgres

ROWS, LARGE_ROWS = 1_000_000, 400
_MAX_BYTES = str(4 << 20)


def _update_in_steps(server: EmbeddedPostgres) -> int:
    with server.connect() as connection:
        for first in range(1, 100_001, 100):
            connection.execute("UPDATE customers SET score = 1 WHERE id BETWEEN %s AND %s", (first, first + 99))
    return 100_000


def _update_all(server: EmbeddedPostgres) -> int:
    with server.connect() as connection:
        connection.execute("UPDATE customers SET score = score + 1, notes = repeat('y', 40)")
    return ROWS


def _insert_large(server: EmbeddedPostgres) -> int:
    numbers = "generate_series(%s::int, %s::int)"
    with server.connect() as connection:
        for first in range(0, LARGE_ROWS, 20):
            connection.execute(
                f"INSERT INTO documents SELECT i, repeat(md5(i::text), 32768) FROM {numbers} i", (first, first + 19)
            )
    return LARGE_ROWS


def main() -> None:
    with environment() as here, database(here.home) as server:
        customers_table(server, ROWS)
        with server.connect() as connection:
            connection.execute("CREATE TABLE documents(id bigint PRIMARY KEY, body text)")
            connection.execute("ALTER PUBLICATION bench_pub ADD TABLE documents")
        customers = here.create_topic("bench.public.customers")
        documents = here.create_topic("bench.public.documents", **{"max.message.bytes": _MAX_BYTES})
        jobs: list[tuple[str, str, Callable[[EmbeddedPostgres], int]]] = [
            ("postgres_memory", customers, _update_in_steps),
            ("postgres_memory_of_large_transaction", customers, _update_all),
            ("postgres_memory_of_large_rows", documents, _insert_large),
        ]
        for name, topic, work in jobs:
            more = {"table.include.list": "public[.].*", "producer.override.max.request.size": _MAX_BYTES}
            with change_stream(here, server, **more) as stream:
                figures = stream.measure(partial(work, server), 300, [topic])
            report(name, figures, None)


if __name__ == "__main__":
    main()
