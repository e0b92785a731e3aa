"""300,000 updates of one transaction of MariaDB streamed into a topic, JSON without schemas; beside a plain receiver of the same
binary log.

A second part commits single rows at 1,000 a second for ten seconds and reports the time from commit to topic.
"""

from __future__ import annotations

import struct
from typing import Any

from benchmarks.change_stream import LOG_APPEND_TIME, at_rate, latencies_ms, running_stream, spread_ms
from benchmarks.environment import environment
from benchmarks.mariadb_customers import changed_us, create_customers, mariadb_source_config, read_packets
from benchmarks.measure import measure_here, report
from sluice.embedded.mariadb import EmbeddedMariaDB

ROWS, UPDATES, COMMITS = 500_000, 300_000, 10_000
_DUMP, _NON_BLOCKING = 0x12, 0x01


def _baseline(server: EmbeddedMariaDB, file: str, position: int) -> None:
    """Receives the events as packets of PyMySQL."""
    connection: Any
    with server.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum = 'CRC32', @mariadb_slave_capability = 4")
        request = struct.pack("<IHI", position, _NON_BLOCKING, 7002) + file.encode()
        connection._execute_command(_DUMP, request)
        for _ in read_packets(connection):
            pass


def _update_all(server: EmbeddedMariaDB) -> int:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE customers SET score = score + 1, notes = REPEAT('y', 40) WHERE id <= %s", (UPDATES,))
    return UPDATES


def _commit_singly(server: EmbeddedMariaDB) -> int:
    update = "UPDATE customers SET score = score + 1, created_at = NOW(6) WHERE id = %s"
    with server.connect() as connection, connection.cursor() as cursor:
        at_rate(1_000, COMMITS, lambda i: cursor.execute(update, (400_000 + i % 1000,)))
    return COMMITS


def main() -> None:
    with environment() as here, EmbeddedMariaDB(here.home / "mariadb", dies_with_parent=True) as server:
        create_customers(server, ROWS)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, position, *_ = cursor.fetchone()
        topic = here.create_topic(f"bench.{server.database}.customers", **LOG_APPEND_TIME)
        with running_stream(here, mariadb_source_config(server, **{"snapshot.mode": "no_data"})) as stream:
            ours = stream.measure(lambda: _update_all(server), 180, [topic], is_one_transaction=True)
            stream.measure(lambda: _commit_singly(server), 60, [topic])
        limit = measure_here(UPDATES, lambda: _baseline(server, str(file), int(position)))
        found = latencies_ms(here, {topic: UPDATES}, changed_us)
        report("mariadb_stream", ours, limit, latency_ms=spread_ms(found))


if __name__ == "__main__":
    main()
