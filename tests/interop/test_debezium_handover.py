"""Debezium's connector continues from our offsets, and we from Debezium's, in the middle of a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.topics import read_topic
from tests.integration.postgres.conftest import Source
from tests.interop.debezium_worker import DebeziumWorker
from tests.support.waiting import Deadline

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
_CLASS = "io.debezium.connector.postgresql.PostgresConnector"


@pytest.fixture
def source(postgres: EmbeddedPostgres, database: str) -> Iterator[Source]:
    made = Source(postgres, database)
    yield made
    made.kill()


@pytest.fixture
def debezium(tmp_path: Path, broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> Iterator[DebeziumWorker]:
    worker = DebeziumWorker(tmp_path / "debezium", broker, "handover")
    worker.start()
    yield worker
    worker.kill()


def start_streaming(source: Source, db: Any) -> None:
    """Creates table, publication, and slot."""
    db.execute("CREATE TABLE t(id int PRIMARY KEY)")
    source.start(snapshot_mode="no_data")
    source.until("streaming")


def copy_slot(source: Source, db: Any, name: str) -> str:
    """Another slot at the position of the source's."""
    db.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [source.config["slot.name"], name])
    return name


def config_for_debezium(source: Source, prefix: str, slot: str) -> dict[str, str]:
    settings = {"topic.prefix": prefix, "slot.name": slot, "publication.autocreate.mode": "disabled", "snapshot.mode": "no_data"}
    return {**source.config, "connector.class": _CLASS, "tasks.max": "1", **settings}


def write_transaction(db: Any, rows: int) -> None:
    """Half of the rows by one COPY, where rows share an LSN, and half by single inserts; another transaction follows."""
    with db.transaction():
        with db.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
            for i in range(1, rows // 2 + 1):
                copy.write_row([i])
        for i in range(rows // 2 + 1, rows + 1):
            db.execute("INSERT INTO t VALUES (%s)", [i])
    db.execute("INSERT INTO t VALUES (%s)", [rows + 1])


def ids(broker: EmbeddedBroker, topic: str) -> list[int]:
    return [stored.json["after"]["id"] for stored in read_topic(broker.bootstrap, topic)]


@pytest.mark.parametrize("emitted", [3, 8])
def test_debezium_continues_from_our_offset_inside_a_transaction(
    source: Source, debezium: DebeziumWorker, broker: EmbeddedBroker, unique_name: Callable[[str], str], emitted: int
) -> None:
    rows, prefix = 10, unique_name("shop")
    with source.sql() as db:
        start_streaming(source, db)
        slot = copy_slot(source, db, unique_name("copy"))
        write_transaction(db, rows)
        source.store(source.read(rows + 1)[emitted - 1])
        source.kill()
        debezium.create(config_for_debezium(source, prefix, slot), source.offsets.stored)
        deadline = Deadline("the last row", lambda: (found, debezium.log_tail()))
        while not (found := ids(broker, f"{prefix}.public.t")) or found[-1] != rows + 1:
            deadline.check()
            time.sleep(0.1)
    # Debezium may repeat the last of several rows with one LSN.
    assert found == list(range(found[0], rows + 2))
    assert emitted <= found[0] <= emitted + 1


def test_we_continue_from_debeziums_offset_inside_a_transaction(
    source: Source, debezium: DebeziumWorker, broker: EmbeddedBroker, unique_name: Callable[[str], str]
) -> None:
    rows, prefix = 20_000, unique_name("shop")
    with source.sql() as db:
        start_streaming(source, db)
        slot = copy_slot(source, db, unique_name("copy"))
        batches = {"max.batch.size": "10", "max.queue.size": "20", "poll.interval.ms": "1"}
        debezium.create({**config_for_debezium(source, prefix, slot), **batches})
        db.execute("INSERT INTO t VALUES (0)")
        write_transaction(db, rows)
        deadline = Deadline("an offset inside the transaction", lambda: (offset, debezium.log_tail()))
        # An offset inside the first transaction of all lacks the commit before it.
        while (offset := debezium.offset()) is None or "lsn_commit" not in offset:
            deadline.check()
        debezium.kill()
        lsns = {record.key["id"]: record.source_offset["lsn"] for record in source.read(rows + 2) if record.source_offset}
        source.kill()
        source.wait_for_slot(db)
        source.offsets.stored = offset
        source.start()
        found = [record.key["id"] for record in source.read(1)]
    processed = [id_ for id_, lsn in lsns.items() if lsn < offset["lsn"]]
    processed += [id_ for id_, lsn in lsns.items() if lsn == offset["lsn"]][: offset["lsn_events_processed"]]
    assert 1 < len(processed) <= rows
    assert set(processed) <= set(ids(broker, f"{prefix}.public.t"))
    assert found == list(range(len(processed), rows + 2))
