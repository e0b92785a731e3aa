"""Parquet tables in an S3 bucket: fencing, crashes, and the sink task itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark.source.task import SparkSourceTask
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.staging import open_location
from connectors.spark.tables.table import OffsetCommit
from tests.support.replayed_events import FAST, events, poll_all
from tests.support.s3 import EmbeddedS3
from tests.support.waiting import WAIT_S

pytestmark = pytest.mark.long

PARTITION = TopicPartition("t", 0)

_WRITER = """
import sys
import pyarrow as pa
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.table import OffsetCommit
TP = TopicPartition("t", 0)
table = ParquetTable(sys.argv[1], "c", lambda topic: TopicIdentity("cluster", "1"))
won = 0
if table.load([TP]).columns is None:
    table.create({"o": pa.int64()}, ())
while (first := table.load([TP]).ends.get(TP, 0)) < 40:
    rows = pa.table({"o": pa.array(range(first, first + 2))})
    won += table.append(rows, OffsetCommit({TP: (first, first + 2)}, {TP: first + 2})) is not None
print(won)
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[EmbeddedS3]:
    server = EmbeddedS3()
    yield server
    server.stop()


@pytest.fixture
def location(s3: EmbeddedS3, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3a://{s3.create_bucket()}/lake"


def start(path: str, task: str, crash_at: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "SLUICE_CRASH_AT": crash_at}
    return subprocess.Popen([sys.executable, "-c", _WRITER, path, task], stdout=subprocess.PIPE, text=True, env=environment)


def offsets(path: str) -> list[int]:
    files, root = open_location(path)
    return sorted(ds.dataset(root, filesystem=files, format="parquet").to_table(["o"])["o"].to_pylist())


def open_table(path: str) -> ParquetTable:
    table = ParquetTable(path, "c", lambda topic: TopicIdentity("cluster", "1"))
    if table.load([PARTITION]).columns is None:
        table.create({"o": pa.int64()}, ())
        table.load([PARTITION])
    return table


def append(table: ParquetTable, first: int, end: int) -> int | None:
    rows = pa.table({"o": pa.array(range(first, end))})
    return table.append(rows, OffsetCommit({PARTITION: (first, end)}, {PARTITION: end}))


def test_two_processes_that_append_the_same_ranges_write_each_row_once(location: str) -> None:
    path = f"{location}/t"
    writers = [start(path, task) for task in "01"]
    try:
        won = [int(writer.communicate(timeout=120)[0]) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert sum(won) == 20
    assert offsets(path) == list(range(40))


def test_successor_of_a_killed_writer_goes_on_where_it_ended(location: str) -> None:
    path = f"{location}/t"
    for visit, end in ((1, 0), (3, 2), (2, 4)):
        killed = start(path, "0", crash_at=f"parquet.encoded:{visit}")
        killed.communicate(timeout=WAIT_S)
        assert killed.returncode == -signal.SIGKILL
        assert open_table(path).load([PARTITION]).ends == ({PARTITION: end} if end else {})
        assert offsets(path) == list(range(end)) if end else True
    killed = start(path, "0", crash_at="spark.staged:4")
    killed.communicate(timeout=WAIT_S)
    assert offsets(path) == list(range(10))


def test_outdated_task_is_refused(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")  # a table needs it, so the environment cannot turn it off
    path = f"{location}/t"
    owner, zombie = open_table(path), open_table(path)
    for first in range(6):
        assert append(owner, first, first + 1) == first + 1
    assert append(zombie, 0, 3) is None
    assert offsets(path) == list(range(6))
    assert zombie.load([PARTITION]).ends == {PARTITION: 6}
    assert append(zombie, 6, 8) == 8


def test_sink_task_writes_into_a_bucket_and_continues_after_a_crash(location: str, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    for o in range(10):
        t.add(None, json.dumps({"o": o}).encode())
    props = {"name": "lake", "topics": "t", "table.format": "parquet", "table.location": location, "commit.interval.ms": "600000"}
    crashed = run(props, [t], raw=True, group={})
    crashed.deliver(upto=6)
    crashed.commit()
    restarted = run(props, [t], raw=True, group={})
    assert restarted.position == {PARTITION: 6}
    restarted.deliver()
    restarted.close()
    crashed.task.close()
    assert offsets(f"{location}/t") == list(range(10))


def test_store_that_ignores_the_condition_is_rejected(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, name, content, **_: put(store, name, content))
    with pytest.raises(ConnectError, match="ignores the condition If-None-Match"):
        append(open_table(f"{location}/t"), 0, 1)


def test_missing_bucket_is_reported_with_its_name(location: str) -> None:
    path = location.replace("/lake", "-absent/lake/t")
    with pytest.raises(ConnectError, match="-absent/lake/t"):
        append(open_table(path), 0, 1)


def test_source_reads_directories_and_tables_of_a_bucket(location: str) -> None:
    files, root = open_location(location)

    def add(name: str, *numbers: int) -> None:
        with files.open_output_stream(f"{root}/landing/{name}") as stream:
            pq.write_table(pa.table({"o": pa.array(numbers)}), stream)

    def read(folder: str, offsets: MemoryOffsets) -> list[tuple[str, Any]]:
        config = {**FAST, "source.format": "parquet", "source.location": f"{location}/{folder}"}
        with SourceHarness(SparkSourceTask(), config, offsets) as harness:
            records = poll_all(harness)
            harness.commit()
        return [(op, after) for op, _, after in events(records)]

    add("day=1/a.parquet", 1, 2)
    add("_temporary/b.parquet", 9)
    offsets = MemoryOffsets()
    assert read("landing", offsets) == [("r", {"o": 1, "day": "1"}), ("r", {"o": 2, "day": "1"})]
    add("day=2/c.parquet", 3)
    assert read("landing", offsets) == [("c", {"o": 3, "day": "2"})]
    table = open_table(f"{location}/t")
    append(table, 0, 1)
    assert read("t", offsets) == [("r", {"o": 0})]
    for first in range(1, 6):
        append(table, first, first + 1)
    assert read("t", offsets) == [("c", {"o": number}) for number in range(1, 6)]
