"""Runs the source task with a real database, as a worker does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pytest

from connect.record import SourceRecord
from connectors.postgres import PostgresSource, PostgresSourceTask
from connectors.postgres.offsets import parse_lsn
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.postgres_options import postgres_options
from tests.support.source_runner import RunningSource, shown
from tests.support.waiting import eventually

STATUS_TIME = (  # of the last status update that the server has received
    "select reply_time from pg_stat_replication r join pg_replication_slots s on s.active_pid = r.pid where slot_name = %s"
)


class Source(RunningSource):
    """A source of PostgreSQL."""

    task_class = PostgresSourceTask

    def __init__(self, server: EmbeddedPostgres, database: str) -> None:
        self.server = server
        self.database = database
        super().__init__(
            {
                **postgres_options(server, database),
                "topic.prefix": "shop",
                "slot.name": f"slot_{database}",
                "publication.name": "sluice",
                "schema.include.list": "public",
                "poll.interval.ms": "50",
                "slot.retry.delay.ms": "5000",
            }
        )

    def wait_for_slot(self, db: psycopg.Connection[Any]) -> None:
        """Waits until the server has noticed that the slot's reader is gone."""
        inactive = "select 1 from pg_replication_slots where slot_name = %s and not active"
        eventually(lambda: db.execute(inactive, [self.config["slot.name"]]).fetchone(), "the end of the slot's reader")

    def poll_through_status_updates(self, db: psycopg.Connection[Any]) -> None:
        """Polls until the server has received several more status updates of the slot's reader."""
        received: set[Any] = set()

        def are_enough(_: object) -> bool:
            received.update(db.execute(STATUS_TIME, [self.config["slot.name"]]).fetchall())
            return len(received) > 3

        self.poll_until(are_enough, "status updates")

    def log_end(self) -> int:
        end = "case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end"
        # The task may read from another server.
        with psycopg.connect(self.server.dsn(self.database), port=self.config["database.port"]) as db:
            ((lsn,),) = db.execute(f"select {end}").fetchall()
        return parse_lsn(str(lsn))

    def has_read(self, end: int) -> bool:
        progress = self._progress()
        return progress["phase"] == "done" or parse_lsn(progress.get("lsn", "0/0")) >= end

    def drop_slot(self) -> None:
        """Somebody drops the slot."""
        with self.sql() as db:
            self.wait_for_slot(db)
            db.execute("select pg_drop_replication_slot(%s)", [self.config["slot.name"]])

    def sql(self) -> psycopg.Connection[Any]:
        return self.server.connect(self.database, autocommit=True)


def errors_of(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What validation finds, by key."""
    return {value.name: value.errors for value in PostgresSource().validate(config) if value.errors}


@pytest.fixture
def role(source: Source, unique_name: Callable[[str], str]) -> Iterator[str]:
    """A role that may replicate, and nothing else. The source connects as it."""
    name = unique_name("role")
    with source.sql() as db:
        db.execute(f"create role {name} login replication password 'secret'")
    source.config |= {"database.user": name, "database.password": "secret"}
    yield name
    source.kill()
    with source.sql() as db:
        db.execute(f"drop owned by {name}; drop role {name}")


@pytest.fixture
def show() -> Callable[[SourceRecord], tuple[Any, ...]]:
    return shown


@pytest.fixture
def source(postgres: EmbeddedPostgres, database: str) -> Iterator[Source]:
    made = Source(postgres, database)
    yield made
    made.kill()
