"""The example in a worker process with the PostgreSQL source: copies tables and applies their changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connect.config.properties import read_properties
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.jdbc.debezium.conftest import Copy
from tests.integration.worker.test_process import CONFIGS, Process
from tests.support.waiting import WAIT_S, eventually

JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {"key.converter": JSON, "value.converter": JSON, "offset.flush.interval.ms": "200", "task.executors": "0"}


@pytest.fixture
def process(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path, broker.bootstrap, **WORKER)
    yield made
    if made.popen is not None and made.popen.poll() is None:
        made.popen.kill()
        made.popen.wait(WAIT_S)


@pytest.fixture
def second(postgres: EmbeddedPostgres, unique_name: Callable[[str], str]) -> Iterator[Copy]:
    """The database that the copy goes to."""
    name = unique_name("copy")
    postgres.create_database(name)
    made = Copy(postgres, name)
    yield made
    made.connection.close()
    postgres.drop_database(name)


def example(one: Process, file: str, own: dict[str, str]) -> Path:
    path = one.folder / file
    config = dict(read_properties(CONFIGS / file)) | own
    path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    return path


def test_examples_copy_tables_and_apply_changes(
    process: Process, copy: Copy, second: Copy, unique_name: Callable[[str], str]
) -> None:
    prefix, dlq = unique_name("shop"), unique_name("dlq")
    copy.run("CREATE SCHEMA shop")
    copy.run("CREATE TABLE shop.customers(id int PRIMARY KEY, name text NOT NULL, balance numeric(10,2), born timestamptz)")
    copy.run("CREATE TABLE shop.orders(id bigint PRIMARY KEY, customer int)")
    copy.run("INSERT INTO shop.customers SELECT n, 'name ' || n, n / 4.0, now() FROM generate_series(1, 500) n")
    copy.run("INSERT INTO shop.orders SELECT n, n % 7 FROM generate_series(1, 300) n")
    server = copy.server
    login = {"database.hostname": server.host, "database.port": str(server.port), "database.user": server.user}
    source = {
        **login, "database.password": server.password, "database.dbname": copy.database, "topic.prefix": prefix,
        "slot.name": copy.database, "publication.name": copy.database, "name": f"source-{prefix}",
    }  # fmt: skip
    topics = f"{prefix}.shop.customers,{prefix}.shop.orders"
    sink = {**second.keys, "topics": topics, "name": f"sink-{prefix}", "errors.deadletterqueue.topic.name": dlq}
    files = [example(process, "postgres-source.properties", source), example(process, "jdbc-debezium-sink.properties", sink)]
    process.start(*files).wait_ready()

    def equal(table: str) -> bool:
        there = second.rows(f"SELECT to_regclass('{table}')") != [(None,)]
        query = f"SELECT * FROM {{}}{table} ORDER BY id"
        return there and second.rows(query.format("")) == copy.rows(query.format("shop."))

    eventually(lambda: equal("customers") and equal("orders"), "the snapshot is there", explain=process.text)
    copy.run("UPDATE shop.customers SET balance = -1 WHERE id % 5 = 0; DELETE FROM shop.orders WHERE customer = 3")
    copy.run("ALTER TABLE shop.orders ADD COLUMN note text; INSERT INTO shop.orders VALUES (1000, 1, 'new')")
    eventually(lambda: equal("customers") and equal("orders"), "the changes are there", explain=process.text)
    assert second.columns("customers") == {
        "id": "integer NOT NULL", "name": "text NOT NULL", "balance": "numeric(10,2)", "born": "timestamp(6) with time zone",
    }  # fmt: skip
    assert process.end() == 0
    assert server.password not in process.text()
