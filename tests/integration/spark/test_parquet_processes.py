"""Parquet tables written by real processes that race, are killed, and run out of space, and what plain readers see meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.tables.parquet.table import ParquetTable
from tests.support.cases import first_fast
from tests.support.waiting import WAIT_S

PARTITION = TopicPartition("t", 0)

_PRELUDE = """
import resource, sys
import pyarrow as pa
from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.table import OffsetCommit
TP = TopicPartition("t", 0)
path, task = sys.argv[1:3]
table = ParquetTable(path, "c", lambda topic: TopicIdentity("cluster", "1"))

def load():
    if table.load([TP]).columns is None:
        table.create({"o": pa.int64(), "by": pa.string()}, ())
    return table.load([TP]).ends.get(TP, 0)

def append(first, end):
    rows = pa.table({"o": pa.array(range(first, end)), "by": pa.array([task] * (end - first))})
    return table.append(rows, OffsetCommit({TP: (first, end)}, {TP: end}))
"""

_RACER = """
for _ in range(int(sys.argv[3])):
    first = load()
    print("ready", flush=True)
    sys.stdin.readline()
    print(append(first, first + 3) is not None, flush=True)
    sys.stdin.readline()
"""

_CRASHER = """
for _ in range(3):
    first = load()
    append(first, first + 2)
    print("committed", first + 2, flush=True)
"""

_FULL_DISK = """
first = load()
append(first, first + 2)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for limit in (0, 20, 300):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        append(first + 2, first + 200)
    except ConnectError as e:
        print(e, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
"""


def start(program: str, path: Path | str, task: str, *arguments: str, crash_at: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "SLUICE_CRASH_AT": crash_at}
    command = [sys.executable, "-c", _PRELUDE + program, str(path), task, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def answers(children: list[subprocess.Popen[str]]) -> list[str]:
    """Waits for one line of each."""
    return [child.stdout.readline() for child in children if child.stdout is not None]


def release(children: list[subprocess.Popen[str]]) -> None:
    """Lets each continue."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()


def offsets(path: Path) -> list[int]:
    return sorted(ds.dataset(str(path), format="parquet").to_table(["o"])["o"].to_pylist())


def left_behind(path: Path) -> list[Path]:
    return list(path.rglob(".*"))


def test_of_two_processes_that_append_one_range_exactly_one_succeeds(tmp_path: Path) -> None:
    path, rounds = tmp_path / "t", 30
    racers = [start(_RACER, path, task, str(rounds)) for task in "01"]
    try:
        for _ in range(rounds):
            assert answers(racers) == ["ready\n", "ready\n"]
            release(racers)
            assert sorted(answers(racers)) == ["False\n", "True\n"]
            release(racers)
        for racer in racers:
            racer.communicate(timeout=WAIT_S)
            assert racer.returncode == 0
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    assert offsets(path) == list(range(3 * rounds))
    assert left_behind(path) == []


# The first three files are the columns, the start of the chain, and the first rows; the next ones add rows.
@pytest.mark.parametrize("visit", [3, *(pytest.param(visit, marks=pytest.mark.long) for visit in (1, 2, 4))])
@pytest.mark.parametrize("point", first_fast(["linked", "linking", "encoded"]))
def test_next_task_goes_on_where_a_killed_one_ended(tmp_path: Path, point: str, visit: int) -> None:
    path = tmp_path / "t"
    killed = start(_CRASHER, path, "0", crash_at=f"parquet.{point}:{visit}")
    output, _ = killed.communicate(timeout=WAIT_S)
    assert killed.returncode == -signal.SIGKILL
    committed = [int(line.split()[1]) for line in output.splitlines()]
    check_successor(path, at_least=max(committed, default=0), at_most=max(committed, default=0) + 2)
    successor = start(_CRASHER, path, "1")
    successor.communicate(timeout=WAIT_S)
    assert successor.returncode == 0
    check_successor(path, at_least=6, at_most=12)


def check_successor(path: Path, *, at_least: int, at_most: int) -> None:
    successor = ParquetTable(str(path), "c", lambda topic: TopicIdentity("cluster", "1"))
    state = successor.load([PARTITION])
    end = state.ends.get(PARTITION, 0)
    assert at_least <= end <= at_most
    files = list(path.glob("*.parquet"))
    assert offsets(path) == list(range(end)) if files else end == 0
    assert left_behind(path) == []


def test_full_disk_is_reported_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = start(_FULL_DISK, path, "0")
    output, _ = writer.communicate(timeout=WAIT_S)
    assert writer.returncode == 0
    assert output.count("cannot write to") == 3
    assert "File too large" in output
    assert offsets(path) == [0, 1]
    check_successor(path, at_least=2, at_most=2)


def test_plain_readers_see_each_record_once_while_two_processes_write(tmp_path: Path) -> None:
    path, rounds = tmp_path / "t", 10
    racers = [start(_RACER, path, task, str(rounds)) for task in "01"]
    try:
        for number in range(rounds):
            assert answers(racers) == ["ready\n", "ready\n"]
            release(racers)
            # Between these calls, files may appear at any moment.
            found = duckdb.execute(f"SELECT o FROM '{path}/*.parquet' ORDER BY o").fetchall() if number else []
            by_duckdb = [row[0] for row in found]
            assert by_duckdb == list(range(len(by_duckdb)))
            by_arrow = offsets(path) if number else []
            assert by_arrow == list(range(len(by_arrow)))
            assert sorted(answers(racers)) == ["False\n", "True\n"]
            release(racers)
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
