"""Parquet tables written by real processes that race, are killed, and run out of space."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from connect.record import TopicPartition
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.parquet import ParquetTable
from tests.support.waiting import WAIT_S

PARTITION = TopicPartition("t", 0)

_PRELUDE = """
import resource, sys
import pyarrow as pa
from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.parquet import ParquetTable
TP = TopicPartition("t", 0)
path, task = sys.argv[1:3]
table = ParquetTable(path, "c", task=task, min_files=3)
table.delete_drafts()

def append(first, end):
    rows = pa.table({"o": pa.array(range(first, end)), "by": pa.array([task] * (end - first))})
    return table.append(rows, TableCommit("c", first + 1, {TP: (first, end)}, {TP: end}))
"""

_RACER = """
for _ in range(int(sys.argv[3])):
    first = table.committed_offsets([TP]).ends.get(TP, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    print(append(first, first + 3) is not None, flush=True)
    sys.stdin.readline()
"""

_CRASHER = """
for _ in range(3):
    first = table.committed_offsets([TP]).ends.get(TP, 0)
    append(first, first + 2)
    print("committed", first + 2, flush=True)
table.compact()
"""

_FULL_DISK = """
first = table.committed_offsets([TP]).ends.get(TP, 0)
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


def drafts(path: Path) -> list[Path]:
    return list((path / "_sluice").rglob("*.draft"))


def test_of_two_processes_that_append_one_range_exactly_one_succeeds(tmp_path: Path) -> None:
    path, rounds = tmp_path / "t", 100
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
    assert drafts(path) == []


# The first commit creates the table; the second one differs from the third only in its number.
@pytest.mark.parametrize("visit", [1, *(pytest.param(visit, marks=pytest.mark.long) for visit in (2, 3))])
@pytest.mark.parametrize("point", ["linking", "drafted", "entered", "renamed"])
def test_next_task_repairs_what_a_killed_one_left(tmp_path: Path, point: str, visit: int) -> None:
    path = tmp_path / "t"
    killed = start(_CRASHER, path, "0", crash_at=f"parquet.{point}:{visit}")
    output, _ = killed.communicate(timeout=WAIT_S)
    assert killed.returncode == -signal.SIGKILL
    committed = [int(line.split()[1]) for line in output.splitlines()]
    check_repair(path, at_least=max(committed, default=0), at_most=2 * visit)


@pytest.mark.parametrize(
    "point", ["merged:1", *(pytest.param(point, marks=pytest.mark.long) for point in ("linking:4", "entered:4", "renamed:6"))]
)
def test_next_task_repairs_a_killed_compaction(tmp_path: Path, point: str) -> None:
    path = tmp_path / "t"
    table = ParquetTable(str(path), "c", task="0", min_files=3)
    for first in (0, 2, 4):
        rows = pa.table({"o": pa.array(range(first, first + 2)), "by": pa.array(["0"] * 2)})
        table.append(rows, TableCommit("c", first + 1, {PARTITION: (first, first + 2)}, {PARTITION: first + 2}))
    table.compact()
    killed = start(_CRASHER, path, "0", crash_at=f"parquet.{point}")
    output, _ = killed.communicate(timeout=WAIT_S)
    assert killed.returncode == -signal.SIGKILL
    assert output.splitlines()[-1] == "committed 12"
    files = len(list(path.glob("*.parquet")))
    check_repair(path, at_least=12, at_most=12)
    assert (len(list(path.glob("*.parquet"))) < files) == (point in ("entered:4", "renamed:6"))


def check_repair(path: Path, *, at_least: int, at_most: int) -> None:
    successor = ParquetTable(str(path), "c", task="0")
    successor.delete_drafts()
    end = successor.committed_offsets([PARTITION]).ends.get(PARTITION, 0)
    assert at_least <= end <= at_most
    assert offsets(path) == list(range(end)) if end else not list(path.glob("*.parquet"))
    assert drafts(path) == []


def test_full_disk_is_reported_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = start(_FULL_DISK, path, "0")
    output, _ = writer.communicate(timeout=WAIT_S)
    assert writer.returncode == 0
    assert output.count("cannot write to") == 3
    assert "File too large" in output
    assert offsets(path) == [0, 1]
    check_repair(path, at_least=2, at_most=2)
    assert sorted(p.name[-5:] for p in (path / "_sluice" / "entries").iterdir()) == [".json"]
