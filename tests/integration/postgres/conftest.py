"""Runs the source task with a real database, as a worker does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pytest

from connect.record import SourceRecord
from connectors.postgres import PostgresSource, PostgresSourceTask
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.postgres_options import postgres_options
from tests.support.source_runner import RunningSource, shown


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
        deadline = time.monotonic() + 20
        while db.execute(inactive, [self.config["slot.name"]]).fetchone() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)

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
