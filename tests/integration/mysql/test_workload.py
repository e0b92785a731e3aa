"""A random workload against a second reader of the log: the same events in order, and the database's rows.

``SLUICE_HISTORIES`` is the number of workloads, ``SLUICE_ROWS`` the size of a transaction in each, such as 1,000,000.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connect.record import SourceRecord
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.integration.mysql.second_reader import SecondReader
from tests.integration.mysql.workload import Workload
from tests.support import randomness
from tests.support.log_replay import Replay
from tests.support.mariadb_log import BinaryLog
from tests.support.waiting import Deadline

_WORKLOADS = randomness.size("SLUICE_HISTORIES", 2)
_ROWS = randomness.size("SLUICE_ROWS", 3000)
_PHASES, _STEPS = 8, 60
_READ_S = 600.0


class Topic:
    """What the source has written. A restart from the offset of any record continues exactly behind it."""

    def __init__(self, source: MariaDbRunningSource, databases: tuple[str, ...], choice: random.Random) -> None:
        self._source = source
        self._prefixes = tuple(f"shop.{database}." for database in databases)
        self._marks = f"shop.{source.database}.marks"
        self._random = choice
        self._marked = 0
        self._reached = 0
        self._stored = 0
        self.records: list[SourceRecord] = []

    def take(self, records: list[SourceRecord]) -> None:
        for record in records:
            if record.topic == self._marks:
                self._reached = record.value["after"]["n"]
            elif record.topic.startswith(self._prefixes):
                self.records.append(record)

    def read(self) -> None:
        """Reads all that is committed."""
        self._marked += 1
        self._source.sql(f"INSERT INTO marks VALUES ({self._marked})")
        deadline = Deadline("all that is committed", lambda: self._source.task and self._source.task.progress(), _READ_S)
        while self._reached < self._marked:
            deadline.check()
            self.take(self._source.poll())

    def restart(self) -> None:
        """Kills the task after a record; what it has read behind that is lost with it."""
        behind_changes = [
            i
            for i in range(self._stored, len(self.records))
            if self.records[i].value is not None and self.records[i].value["op"] in ("c", "u")
        ]
        if behind_changes:
            at = self._random.choice(behind_changes)
            del self.records[at + 1 :]
            self._source.store(self.records[-1])
            self._stored = len(self.records)
            self._reached = 0
        self._source.kill()
        self._source.start()


@pytest.fixture
def second_database(mariadb: EmbeddedMariaDB, unique_name: Callable[[str], str]) -> Iterator[str]:
    name = unique_name("db")
    mariadb.create_database(name)
    yield name
    mariadb.drop_database(name)


@pytest.mark.parametrize("number", range(_WORKLOADS))
@pytest.mark.timeout(1800)
@pytest.mark.long
def test_a_random_workload_is_replayed_exactly(
    source: MariaDbRunningSource,
    mariadb: EmbeddedMariaDB,
    second_database: str,
    settings: Callable[..., None],
    tmp_path: Path,
    number: int,
) -> None:
    choice = randomness.chance(f"polls-{number}")
    names_columns = number % 2 == 0
    settings(
        binlog_checksum="CRC32" if number % 3 == 0 else "NONE",
        binlog_row_metadata="FULL" if names_columns else "MINIMAL",
        log_bin_compress=str(1 - number % 2),
        log_bin_compress_min_len="10",
        max_binlog_size="16384",
    )
    databases = (source.database, second_database)
    workload = Workload(
        lambda: mariadb.connect(databases[0], local_infile=True, charset="utf8mb4"),
        databases,
        randomness.chance(f"statements-{number}"),
        tmp_path,
        rows=_ROWS,
    )
    replay = Replay("gtid", lambda topic: topic.removeprefix("shop."))
    topic = Topic(source, databases, choice)
    try:
        workload.create_tables()
        source.sql("CREATE TABLE marks(n int PRIMARY KEY)")
        source.start(
            database_include_list=",".join(databases),
            decimal_handling_mode="string",
            skipped_operations="none",
            gtid_ignore_on_recovery=choice.choice(("true", "false")),
        )
        snapshot = source.until("streaming")
        replay.load(snapshot)
        replay.compare(workload.tables(), "after the snapshot")
        source.store(snapshot[-1])
        log = BinaryLog(mariadb, "CRC32")
        reader = SecondReader(workload.columns(), workload.described)
        for phase in range(_PHASES):
            for _ in range(_STEPS):
                workload.step()
                if phase % 2 and choice.random() < 0.2:
                    topic.take(source.poll())
            if phase == _PHASES // 2:
                workload.run_big_transaction()
            if phase % 3 == 2:
                workload.end_all()
                topic.read()
                topic.restart()
        workload.end_all()
        topic.read()
        for _ in log.events():
            pass
        replay.run(reader.read(log.raw), topic.records, workload.states)
        replay.compare(workload.tables(), "at the end")
    finally:
        workload.close()
    assert replay.compared_records > _ROWS
    assert replay.compared_states > 3
