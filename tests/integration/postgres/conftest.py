"""Runs the source task with a real database, as a worker does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg import sql

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


_END_SESSIONS = (
    "select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = current_database() "
    "and pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender')"
)
_DROP_SLOTS = (
    "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
    "where database = current_database() or slot_name = 'slot_' || current_database()"  # a physical one has no database
)
_DROP_OBJECTS = """
do $$
declare
    found text;
begin
    for found in select pubname from pg_publication loop
        execute format('drop publication %I', found);
    end loop;
    for found in select fdwname from pg_foreign_data_wrapper loop
        execute format('drop foreign data wrapper %I cascade', found);
    end loop;
    for found in select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema' loop
        execute format('drop schema %I cascade', found);
    end loop;
    create schema public authorization pg_database_owner;
    grant usage on schema public to public;
end $$
"""
_LEFT = """
select exists (
    select from (
        select oid from pg_class union all select oid from pg_type union all select oid from pg_proc union all
        select oid from pg_publication union all select oid from pg_extension union all select oid from pg_cast
    ) objects where oid >= 16384
)
"""


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
                "poll.interval.ms": "20",
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


@pytest.fixture(scope="session")
def empty_databases() -> list[str]:
    """What tests have left, without tables, settings, sessions, and slots."""
    return []


@pytest.fixture
def database(postgres: EmbeddedPostgres, unique_name: Callable[[str], str], empty_databases: list[str]) -> Iterator[str]:
    """The name of an empty database. To empty one takes a fraction of the time that a new one takes."""
    if empty_databases:
        name = empty_databases.pop()
    else:
        name = unique_name("db")
        postgres.create_database(name)
    yield name
    postgres.start()  # the test may have stopped it
    if empty(postgres, name):
        empty_databases.append(name)
    else:
        postgres.drop_database(name)


def empty(server: EmbeddedPostgres, database: str) -> bool:
    """Removes everything from a database. Returns whether that succeeded."""
    try:
        with server.connect(database) as db:
            db.execute(_END_SESSIONS)
            db.execute(_DROP_SLOTS)
            db.execute(sql.SQL("alter database {} reset all").format(sql.Identifier(database)))
            db.execute(_DROP_OBJECTS)
            return db.execute(_LEFT).fetchone() == (False,)
    except psycopg.Error:
        return False


@pytest.fixture
def show() -> Callable[[SourceRecord], tuple[Any, ...]]:
    return shown


@pytest.fixture
def source(postgres: EmbeddedPostgres, database: str) -> Iterator[Source]:
    made = Source(postgres, database)
    yield made
    made.kill()
