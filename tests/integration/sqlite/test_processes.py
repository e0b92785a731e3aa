"""Writers in other processes, killed in the middle of transactions, while the task restarts at random records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from connect.record import SourceRecord
from tests.integration.sqlite.conftest import SqliteCase
from tests.support import randomness
from tests.support.cases import first_fast
from tests.support.replayed_events import plain
from tests.support.replayed_topics import ReplayedTables
from tests.support.sqlite_writer import KEYS, create_tables, open_database, write_transaction
from tests.support.waiting import WAIT_S, eventually

KILLS = randomness.size("SLUICE_KILLS", 12)


@contextmanager
def _writers(path: Path, names: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    children = [_start(path, name) for name in names]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait(WAIT_S)


def _start(path: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.support.sqlite_writer", str(path), f"{randomness.SEED}-{name}"])


def _stops_in_transaction(pid: int) -> bool:
    """Stops the process, and lets it run on unless it holds a lock to write. Returns whether it does."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    if f" WRITE {pid} " in Path("/proc/locks").read_text(encoding="ascii"):
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def _are_enough(count: int, records: list[SourceRecord]) -> bool:
    return len(records) >= count


def _replay(records: list[SourceRecord]) -> ReplayedTables:
    replayed = ReplayedTables(KEYS)
    for record in records:
        if record.value is not None:
            replayed.apply(plain(record.value))
    return replayed


@pytest.mark.parametrize("journal", first_fast(["WAL", "DELETE"]))
def test_nothing_is_lost_when_writers_are_killed_and_the_task_restarts(case: SqliteCase, journal: str) -> None:
    """Every other kill is in a transaction."""
    choice = randomness.chance(f"kills-{journal}")
    case.run(f"PRAGMA journal_mode={journal}")
    create_tables(case.writer)
    for _ in range(200):
        write_transaction(case.writer, choice)
    delivered: list[SourceRecord] = []
    case.start(incremental_snapshot_chunk_size="7", max_batch_size="1000", database_busy_timeout_ms="120000")
    harness = case.harness
    assert harness is not None
    with _writers(case.path, [f"{journal}-first", f"{journal}-second"]) as writers:
        # A restart in the snapshot of a table without a key repeats rows.
        delivered += case.poll_until(lambda records: bool(harness.task.is_loaded()))
        case.commit()
        for kill in range(KILLS):
            found = case.poll_until(partial(_are_enough, choice.randrange(50, 300)))
            victim = choice.randrange(2)
            if kill % 2 == 0:
                eventually(partial(_stops_in_transaction, writers[victim].pid), "a transaction")
            os.kill(writers[victim].pid, signal.SIGKILL)
            writers[victim].wait(WAIT_S)
            writers[victim] = _start(case.path, f"{journal}-{kill}")
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
    delivered += case.read_all()
    assert _replay(delivered).differences(case.writer.execute, KEYS) == {}
    assert len(delivered) > 1000


@pytest.mark.long
def test_random_statements_add_up_to_the_tables_at_any_time(case: SqliteCase) -> None:
    """Whatever the conflict resolutions, triggers, and foreign keys of the writer do."""
    choice = randomness.chance("statements")
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
        assert replayed.differences(case.writer.execute, KEYS) == {}, f"round {round_}"
