"""A database for the data source: the options that read it, and the table that its changes make."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from connect.spool.locks import WRITER, SpoolLock
from connect.spool.status import WriterState, read_status
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.datasource import register
from sluice.demo.delta_table import read_delta_table
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.postgres_options import postgres_options
from tests.support.waiting import Deadline

DEADLINE_S = 240.0


class Shop:
    """A database, and the options that read it."""

    def __init__(self, server: EmbeddedPostgres, database: str, folder: Path) -> None:
        self._server = server
        self._database = database
        self.spool = folder / "spool"
        self.table = str(folder / "table")
        self.checkpoint = str(folder / "checkpoint")
        self.slot = f"slot_{database}"
        self.options = {
            "name": "shop",
            "connector.class": "PostgresConnector",
            **postgres_options(server, database),
            "topic.prefix": "shop",
            "slot.name": self.slot,
            "poll.interval.ms": "50",
            "offset.flush.interval.ms": "200",
            "spool.location": str(self.spool),
        }

    def execute(self, statements: str) -> list[Any]:
        with self._server.connect(self._database) as connection:
            cursor = connection.execute(statements)
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> dict[int, tuple[Any, ...]]:
        return {row[0]: tuple(row) for row in self.execute("select id, name, big, amount from orders")}

    def process(self) -> int | None:
        """The process that runs the connector, if it runs."""
        status = read_status(self.spool)
        return status.process if status is not None and status.state is WriterState.RUNNING else None

    def confirmed_lsn(self) -> int:
        found = self.execute(
            f"select confirmed_flush_lsn - '0/0'::pg_lsn from pg_replication_slots where slot_name = '{self.slot}'"
        )
        return int(found[0][0])


@contextlib.contextmanager
def open_shop(server: EmbeddedPostgres, database: str, folder: Path) -> Iterator[Shop]:
    """Creates the tables of a shop. Stops the process of the spool at the end."""
    found = Shop(server, database, folder)
    found.execute(
        "create table orders (id int primary key, name text, big text, amount numeric(10, 2));"
        "alter table orders alter column big set storage external;"
        "create table other (id int primary key);"
        "insert into other values (1);"
        "insert into orders select g, 'name ' || g, repeat(g::text, 3000), g / 4.0 from generate_series(1, 300) g"
    )
    yield found
    stop_connector(found.spool)


def stop_connector(spool: Path) -> None:
    """Stops the process of a spool, if it runs."""
    status = read_status(spool)
    if status is not None and not SpoolLock(spool, WRITER).is_free():
        os.kill(status.process, signal.SIGTERM)
        wait_until(lambda: SpoolLock(spool, WRITER).is_free())


def rows_of(table: str) -> list[dict[str, Any]]:
    """The rows of a Delta table."""
    found: list[dict[str, Any]] = read_delta_table(table).to_pylist()
    return found


def is_table(folder: Path) -> bool:
    """Whether a Delta table was created there; its log exists before its first commit."""
    return any((folder / "_delta_log").glob("*.json"))


def lake_rows(table: Path) -> dict[int, tuple[Any, ...]]:
    """The rows of orders in a Delta table by ID; none before it exists."""
    rows = rows_of(str(table)) if is_table(table) else []
    found = {row["id"]: tuple(row[name] for name in ("id", "name", "big", "amount")) for row in rows}
    assert len(found) == len(rows)
    return found


def wait_until(condition: Callable[[], bool], table: Path | str | None = None) -> None:
    """Waits for a condition, of the rows of ``table`` if it is given: those are read when the table has a new commit, and twice a
    second."""
    deadline = Deadline("the condition", timeout_s=DEADLINE_S)
    read_at, seen = float("-inf"), None
    while True:
        now, commits = time.monotonic(), None if table is None else set(Path(table).glob("*/*.json"))
        if table is None or commits != seen or now > read_at + 0.5:
            if condition():
                return
            read_at, seen = time.monotonic(), commits
        deadline.check()
        threading.Event().wait(0.05)


def replayed(rows: list[Any]) -> dict[int, tuple[Any, ...]]:
    """The table after all changes, by the position of each. Each change occurs once."""
    found: dict[int, tuple[Any, ...]] = {}
    assert len({row["_position"] for row in rows}) == len(rows)
    for row in sorted(rows, key=lambda row: row["_position"]):
        if row["_op"] == "d":
            del found[row["id"]]
            continue
        before = found.get(row["id"])
        values = [row[name] for name in ("id", "name", "big", "amount")]
        if row["_unchanged"]:
            assert row["_unchanged"] == ["big"]
            assert before is not None
            values[2] = before[2]
        found[row["id"]] = tuple(values)
    return found


@contextlib.contextmanager
def open_session(props: Mapping[str, str]) -> Iterator[Any]:
    """A Spark session that has the data source. Stops its queries at the end."""
    lease = session.lease(parse_config(props).spark)
    made = lease.session()
    register(made)
    yield made
    for query in made.streams.active:
        query.stop()
    lease.release()
