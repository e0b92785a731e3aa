"""A random workload against a second reader of the log: the same events in order, and the database's rows at every commit.

``SLUICE_HISTORIES`` is the number of workloads, ``SLUICE_ROWS`` the size of a transaction in each, such as 1,000,000.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from connect.record import SourceRecord
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.postgres.second_reader import SecondReader
from tests.integration.postgres.workload import Workload
from tests.support import randomness
from tests.support.log_replay import Replay
from tests.support.waiting import Deadline

_WORKLOADS = randomness.size("SLUICE_HISTORIES", 2)
_ROWS = randomness.size("SLUICE_ROWS", 3000)
_PHASES, _STEPS = 8, 60
_READ_S = 600.0


class Topic:
    """What the source has written. A restart from the offset of any record continues exactly behind it."""

    def __init__(self, source: Any, choice: random.Random) -> None:
        self._source = source
        self._random = choice
        self.records: list[SourceRecord] = []
        self._stored = 0

    def take(self, records: list[SourceRecord]) -> None:
        self.records += [record for record in records if record.topic.startswith("shop.public.")]

    def read(self) -> None:
        """Reads all that is committed: a server that pauses for a moment on a loaded machine has not sent everything."""
        deadline = Deadline("the server to send everything", timeout_s=_READ_S)
        with self._source.sql() as db:
            end = db.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            sent = (
                "SELECT 1 FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid "
                "WHERE s.slot_name = %s AND r.sent_lsn >= %s"
            )
            while db.execute(sent, [self._source.config["slot.name"], *end]).fetchone() is None:
                deadline.check()
                self.take(self._source.poll())
        self.take(self._source.quiet())

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
        self._source.kill()
        with self._source.sql() as db:
            self._source.wait_for_slot(db)
        self._source.start()


@pytest.mark.parametrize("number", range(_WORKLOADS))
@pytest.mark.timeout(1800)
@pytest.mark.long
def test_a_random_workload_is_replayed_exactly(
    source: Any, postgres: EmbeddedPostgres, database: str, unique_name: Callable[[str], str], number: int
) -> None:
    choice = randomness.chance(f"polls-{number}")
    via_root = choice.random() < 0.5
    workload = Workload(
        lambda: postgres.connect(database), randomness.chance(f"statements-{number}"), via_root=via_root, rows=_ROWS
    )
    replay = Replay("txId", lambda topic: topic.rpartition(".")[2])
    topic = Topic(source, choice)
    try:
        workload.create_tables()
        source.start(
            publish_via_partition_root=str(via_root).lower(),
            decimal_handling_mode="string",
            skipped_operations="none",
        )
        snapshot = source.until("streaming")
        replay.load(snapshot)
        replay.compare(workload.tables(), "after the snapshot")
        source.store(snapshot[-1])
        with source.sql() as db:
            reader = SecondReader(db, unique_name("second"), source.config["publication.name"])
            for phase in range(_PHASES):
                for _ in range(_STEPS):
                    workload.step()
                    if phase % 2 and choice.random() < 0.2 and not workload.locks_tables:
                        topic.take(source.poll())
                if phase == _PHASES // 2:
                    workload.run_big_transaction()
                if phase % 3 == 2:
                    workload.end_locks()
                    topic.read()
                    topic.restart()
            workload.end_all()
            topic.read()
            replay.run(reader.read(), topic.records, workload.states)
        replay.compare(workload.tables(), "at the end")
    finally:
        workload.close()
    assert replay.compared_records > _ROWS
    assert replay.compared_states > 5
