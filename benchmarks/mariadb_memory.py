"""Peak memory of the stream of MariaDB: one transaction of 1,000,000 rows, and rows of 1 MB. The limit is 300 MB."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.change_stream import running_stream
from benchmarks.environment import environment
from benchmarks.mariadb_customers import create_customers, mariadb_source_config
from benchmarks.measure import report
from sluice.embedded.mariadb import EmbeddedMariaDB

ROWS, LARGE_ROWS = 1_000_000, 400
_MAX_BYTES = str(4 << 20)


def _update_all(server: EmbeddedMariaDB) -> int:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE customers SET score = score + 1, notes = REPEAT('y', 40)")
    return ROWS


def _insert_large(server: EmbeddedMariaDB) -> int:
    with server.connect() as connection, connection.cursor() as cursor:
        for first in range(0, LARGE_ROWS, 20):
            cursor.execute(
                f"INSERT INTO documents SELECT seq, REPEAT(MD5(seq), 32768) FROM seq_{first}_to_{first + 19}",
            )
    return LARGE_ROWS


def main() -> None:
    with environment() as here, EmbeddedMariaDB(here.home / "mariadb", dies_with_parent=True) as server:
        create_customers(server, ROWS)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE documents(id bigint PRIMARY KEY, body longtext)")
        customers = here.create_topic(f"bench.{server.database}.customers")
        documents = here.create_topic(f"bench.{server.database}.documents", **{"max.message.bytes": _MAX_BYTES})
        jobs: list[tuple[str, str, Callable[[EmbeddedMariaDB], int]]] = [
            ("mariadb_memory_of_large_transaction", customers, _update_all),
            ("mariadb_memory_of_large_rows", documents, _insert_large),
        ]
        keys = {
            "snapshot.mode": "no_data",
            "table.include.list": f"{server.database}[.].*",
            "producer.override.max.request.size": _MAX_BYTES,
        }
        for name, topic, work in jobs:
            with running_stream(here, mariadb_source_config(server, **keys)) as stream:
                figures = stream.measure(partial(work, server), 300, [topic])
            report(name, figures, None)


if __name__ == "__main__":
    main()
