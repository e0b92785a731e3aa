"""Writers in other processes, killed in the middle of transactions, while the task restarts at random records."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect.record import SourceRecord
from tests.integration.sqlite.conftest import SqliteCase
from tests.integration.sqlite.replay import ReplayedTables
from tests.support.replayed_events import plain
from tests.support.sqlite_writer import KEYS, create_tables, open_database, write_transaction

KILLS = int(os.environ.get("SLUICE_CHAOS_KILLS", "20"))
SEED = os.environ.get("SLUICE_CHAOS_SEED", "sqlite")


@contextmanager
def _writers(path: Path, seeds: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    children = [_start(path, seed) for seed in seeds]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait(30)


def _start(path: Path, seed: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.support.sqlite_writer", str(path), seed])


def _replay(records: list[SourceRecord]) -> ReplayedTables:
    replayed = ReplayedTables(KEYS)
    for record in records:
        if record.value is not None:
            replayed.apply(plain(record.value))
    return replayed


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_nothing_is_lost_when_writers_are_killed_and_the_task_restarts(case: SqliteCase, journal: str) -> None:
    print(f"to run it again: SLUICE_CHAOS_SEED={SEED} SLUICE_CHAOS_KILLS={KILLS}")
    choice = random.Random(f"{SEED}-{journal}")
    case.run(f"PRAGMA journal_mode={journal}")
    create_tables(case.writer)
    for _ in range(200):
        write_transaction(case.writer, choice)
    delivered: list[SourceRecord] = []
    killed_in_transaction = 0
    case.start(incremental_snapshot_chunk_size="7", max_batch_size="1000", database_busy_timeout_ms="20000")
    harness = case.harness
    assert harness is not None
    with _writers(case.path, ["first", "second"]) as writers:
        # A restart in the snapshot of a table without a key repeats rows.
        delivered += case.poll_until(lambda records: bool(harness.task.is_loaded()))
        case.commit()
        for kill in range(KILLS):
            assert case.harness is not None
            end = time.monotonic() + choice.uniform(0.05, 0.3)
            found: list[SourceRecord] = []
            while time.monotonic() < end:
                found += case.harness.poll()
            victim = choice.randrange(2)
            os.kill(writers[victim].pid, signal.SIGKILL)
            writers[victim].wait(30)
            killed_in_transaction += journal == "DELETE" and Path(f"{case.path}-journal").exists()
            writers[victim] = _start(case.path, f"{SEED}-{kill}")
            # The task ends at a random record: what follows it was not delivered.
            if found and choice.random() < 0.7:
                found = found[: choice.randrange(len(found)) + 1]
                last = found[-1]
                case.stop()
                case.offsets.store(last.source_partition or {}, last.source_offset or {})
                delivered += found
                case.start()
            else:
                delivered += found
                case.commit()
    delivered += case.read_all(120)
    assert _replay(delivered).differences(case.writer, KEYS) == {}
    assert len(delivered) > 1000
    if journal == "DELETE":
        print(f"{killed_in_transaction} writers were killed in a transaction")


def test_random_statements_add_up_to_the_tables_at_any_time(case: SqliteCase) -> None:
    """Whatever the conflict resolutions, triggers, and foreign keys of the writer do."""
    choice = random.Random(SEED)
    case.writer.close()
    case.writer = open_database(str(case.path), choice)
    create_tables(case.writer)
    case.start()
    replayed = ReplayedTables(KEYS)
    for round_ in range(60):
        case.writer.execute(f"PRAGMA recursive_triggers={'ON' if round_ % 2 else 'OFF'}")
        for _ in range(20):
            write_transaction(case.writer, choice)
        for record in case.read_all():
            if record.value is not None:
                replayed.apply(plain(record.value))
        assert replayed.differences(case.writer, KEYS) == {}, f"round {round_}, {SEED=}"
