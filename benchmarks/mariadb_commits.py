"""1,000 single-row commits of MariaDB a second: the cores that the worker needs, and the time from a commit to its record in the
topic.

The log has the time of a commit in seconds, so the time of a row's change counts instead, which is a little earlier.
"""

from __future__ import annotations

from benchmarks.change_stream import LOG_APPEND_TIME, at_rate, running_stream
from benchmarks.commits import PER_S, measure_commits
from benchmarks.environment import environment
from benchmarks.mariadb_customers import changed_us, create_customers, mariadb_source_config
from sluice.embedded.mariadb import EmbeddedMariaDB

ROWS = 100_000


def _commit_rows(server: EmbeddedMariaDB, count: int) -> int:
    update = "UPDATE customers SET score = score + 1, created_at = NOW(6) WHERE id = %s"
    with server.connect() as connection, connection.cursor() as cursor:
        at_rate(PER_S, count, lambda i: cursor.execute(update, (1 + i % 1_000,)))
    return count


def main() -> None:
    with environment() as here, EmbeddedMariaDB(here.home / "mariadb", dies_with_parent=True) as server:
        create_customers(server, ROWS)
        topics = [here.create_topic(f"bench.{server.database}.customers", **LOG_APPEND_TIME)]
        with running_stream(here, mariadb_source_config(server, **{"snapshot.mode": "no_data"})) as stream:
            measure_commits(here, stream, "mariadb_commits", topics, lambda count: _commit_rows(server, count), changed_us)


if __name__ == "__main__":
    main()
