"""Directories of Parquet files become events: each row once, in order, wherever the task restarts."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from connect.data.schema import Field
from connect.record import SourceRecord
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.parquet import directory_feed
from connectors.spark.source.parquet.listing import is_unchanged
from connectors.spark.source.parquet.positions import ListedFile, parse_directory_offset
from connectors.spark.source.table_feed import FeedBatch, Waiting
from connectors.spark.source.task import SparkSourceTask
from tests.support import randomness
from tests.support.parquet_directory import ParquetDirectory, rows_of
from tests.support.replayed_events import FAST, as_counter, deliver_with_kills, events, plain, poll_all, read_all

HOUR_MS = "3600000"


@pytest.fixture
def directory(tmp_path: Path) -> ParquetDirectory:
    return ParquetDirectory(tmp_path / "shop" / "orders")


def read(directory: ParquetDirectory, offsets: MemoryOffsets | None = None, **config: str) -> list[SourceRecord]:
    return read_all(directory.folder, offsets, **{"source_format": "parquet", **config})


def plain_schema(record: SourceRecord) -> Sequence[Field]:
    """The columns of the row in an envelope."""
    after = None if record.value_schema is None else record.value_schema.field("after")
    assert after is not None
    return after.schema.fields or ()


def ids(records: list[SourceRecord]) -> list[int]:
    return [after["id"] for _, _, after in events(records)]


def test_files_are_read_by_modification_time_and_name_and_later_ones_are_inserts(directory: ParquetDirectory) -> None:
    directory.add("b.parquet", rows_of(3, 4), age_s=500)
    directory.add("a.parquet", rows_of(5), age_s=400)
    directory.add("z/a.parquet", rows_of(1, 2), age_s=600)
    offsets = MemoryOffsets()
    snapshot = read(directory, offsets)
    assert events(snapshot) == [("r", None, row) for row in rows_of(1, 2, 3, 4, 5)]
    directory.add("0.parquet", rows_of(6), age_s=0)
    assert events(read(directory, offsets)) == [("c", None, rows_of(6)[0])]
    assert read(directory, offsets) == []


def test_envelope_and_offset_name_the_file_and_the_row(directory: ParquetDirectory) -> None:
    path = directory.add("a.parquet", rows_of(1, 2), age_s=500)
    record = read(directory)[0]
    modified_ms = path.stat().st_mtime_ns // 1_000_000
    version = (record.source_offset or {})["version"]
    assert record.source_offset == {
        "version": version,
        "snapshot": True,
        "passed_ms": -1,
        "passed_file": "",
        "file": "a.parquet",
        "modified_ms": modified_ms,
        "size_bytes": path.stat().st_size,
        "row": 1,
        "rows": 2,
        "first_row": 0,
    }
    source = plain(record.value)["source"]
    del source["version"]
    assert source == {
        "connector": "spark",
        "name": "spark-source",
        "ts_ms": modified_ms,
        "snapshot": "true",
        "db": "shop",
        "sequence": f'["{version}","0"]',
        "table": "orders",
        "table_id": str(directory.folder),
        "table_version": version,
    }


def test_hidden_and_empty_files_are_left_alone(directory: ParquetDirectory) -> None:
    directory.add("a.parquet", rows_of(1))
    for name in ("_SUCCESS", ".a.parquet.crc", "_temporary/0/a.parquet", ".hidden/a.parquet", "b.parquet._COPYING_"):
        path = directory.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half-written")
    (directory.folder / "created-only.parquet").touch()
    assert ids(read(directory)) == [1]


def test_partitions_are_columns_of_the_given_types(directory: ParquetDirectory) -> None:
    folder = "day=2026-01-02/_shop=a%2Fb"
    directory.add(f"{folder}/a.parquet", rows_of(1), age_s=500)
    directory.add("day=__HIVE_DEFAULT_PARTITION__/_shop=c/a.parquet", rows_of(2), age_s=400)
    shown = [after for _, _, after in events(read(directory, source_partition_types="day:date"))]
    assert shown == [{**rows_of(1)[0], "day": 20455, "_shop": "a/b"}, {**rows_of(2)[0], "day": None, "_shop": "c"}]
    assert events(read(directory))[0][2]["day"] == "2026-01-02"


def test_rows_have_keys_and_flat_rows_have_the_operation_in_a_header(directory: ParquetDirectory) -> None:
    directory.add("a.parquet", rows_of(1))
    (record,) = read(directory, key_columns="id", source_value_format="flat")
    assert plain(record.key) == {"id": 1}
    assert plain(record.value) == rows_of(1)[0]
    assert [header.value for header in record.headers or ()] == ["r"]


def test_start_can_be_the_latest_files_or_a_time(directory: ParquetDirectory) -> None:
    directory.add("a.parquet", rows_of(1), age_s=500)
    path = directory.add("b.parquet", rows_of(2), age_s=0)
    start = str(path.stat().st_mtime_ns // 1_000_000)
    assert [(op, after["id"]) for op, _, after in events(read(directory, source_start=start))] == [("c", 2)]
    offsets = MemoryOffsets()
    assert read(directory, offsets, source_start="latest") == []
    directory.add("c.parquet", rows_of(3), age_s=1)
    assert ids(read(directory, offsets, source_start="latest")) == [3]


# --- schemas


def test_added_columns_and_wider_types_are_new_schemas(directory: ParquetDirectory) -> None:
    directory.add("a.parquet", [{"id": 1}], {"id": pa.int32()}, age_s=500)
    directory.add("b.parquet", [{"id": 2, "n": 0.5}], {"id": pa.int64(), "n": pa.float32()}, age_s=400)
    directory.add("c.parquet", [{"id": 3}], {"id": pa.int16()}, age_s=300)
    records = read(directory)
    assert [after for _, _, after in events(records)] == [{"id": 1}, {"id": 2, "n": 0.5}, {"id": 3, "n": None}]
    types = [[(f.name, f.schema.type.name) for f in plain_schema(record)] for record in records]
    assert types == [[("id", "INT32")], *[[("id", "INT64"), ("n", "FLOAT32")]] * 2]


def test_rest_of_a_file_has_the_columns_that_its_first_rows_had(directory: ParquetDirectory) -> None:
    directory.add("a.parquet", [{"id": 1, "n": 1}], {"id": pa.int64(), "n": pa.int64()}, age_s=2000)
    directory.add("b.parquet", [{"id": number} for number in (2, 3, 4)], {"id": pa.int32()}, age_s=1000)
    offsets = MemoryOffsets()
    config = {**FAST, "source.format": "parquet", "source.location": str(directory.folder), "batch.max.rows": "1"}
    with SourceHarness(SparkSourceTask(), config, offsets) as harness:
        harness.poll_records(2)
        harness.commit()
    rest = read(directory, offsets)
    assert [after for _, _, after in events(rest)] == [{"id": 3, "n": None}, {"id": 4, "n": None}]
    assert [(f.name, f.schema.type.name) for f in plain_schema(rest[0])] == [("id", "INT64"), ("n", "INT64")]


def test_types_of_other_writers_are_those_of_tables(directory: ParquetDirectory) -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)
    columns: dict[str, pa.Array] = {
        "small": pa.array([255], pa.uint8()),
        "large": pa.array([2**64 - 1], pa.uint64()),
        "half": pa.array([0.5], pa.float16()),
        "nanos": pa.array([moment], pa.timestamp("ns", "Europe/Berlin")),
        "millis": pa.array([dt.datetime(2026, 1, 2)], pa.timestamp("ms")),
        "name": pa.array(["a"]).dictionary_encode(),
        "text": pa.array(["b"], pa.large_string()),
        "digest": pa.array([b"cd"], pa.binary(2)),
        "vector": pa.array([[1.5, 2.5]], pa.list_(pa.float32(), 2)),
        "amount": pa.array([decimal.Decimal("1.50")], pa.decimal128(10, 2)),
        "nothing": pa.nulls(1),
    }
    directory.add_table("a.parquet", pa.table(columns))
    assert events(read(directory))[0][2] == {
        "small": 255,
        "large": decimal.Decimal(2**64 - 1),
        "half": 0.5,
        "nanos": "2026-01-02T03:04:05.000006Z",
        "millis": 1_767_312_000_000_000,
        "name": "a",
        "text": "b",
        "digest": b"cd",
        "vector": [1.5, 2.5],
        "amount": decimal.Decimal("1.50"),
    }


@pytest.mark.parametrize(
    ("found", "unchanged"),
    [((1_500, 9), True), ((1_000, 9), True), ((2_000, 9), False), ((1_501, 9), False), ((1_500, 8), False)],
)
def test_time_of_one_file_may_have_seconds_only(found: tuple[int, int], unchanged: bool) -> None:
    assert is_unchanged(ListedFile(1_500, "a", 9), ListedFile(found[0], "a", found[1])) is unchanged


# --- restarts and late files


def test_file_that_appears_after_a_newer_one_is_read_although_the_task_was_stopped(directory: ParquetDirectory) -> None:
    offsets = MemoryOffsets()
    directory.add("b.parquet", rows_of(1), age_s=30)
    assert ids(read(directory, offsets)) == [1]
    directory.add("a.parquet", rows_of(2), age_s=40)
    directory.add("c.parquet", rows_of(3), age_s=20)
    assert ids(read(directory, offsets)) == [2, 3]
    assert read(directory, offsets) == []


def test_file_that_appears_later_than_the_lag_is_read_with_a_warning(
    directory: ParquetDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.add("b.parquet", rows_of(1), age_s=500)
    config = {**FAST, "source.format": "parquet", "source.location": str(directory.folder)}
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert ids(poll_all(harness)) == [1]
        directory.add("a.parquet", rows_of(2), age_s=1000)
        records = harness.poll()
        while not records:
            records = harness.poll()
    assert ids(records) == [2]
    assert "a.parquet" in caplog.text
    assert "increase source.lag.ms" in caplog.text


def test_offset_lists_recent_files_only_until_they_settle(directory: ParquetDirectory) -> None:
    offsets = MemoryOffsets()
    directory.add("a.parquet", rows_of(1), age_s=30)
    directory.add("b.parquet", rows_of(2), age_s=20)
    read(directory, offsets, source_lag_ms=HOUR_MS)
    stored = offsets.offset(table_partition(str(directory.folder))) or {}
    assert len(stored["recent"]) == 2 * 16
    assert stored["passed_ms"] == -1
    read(directory, offsets, source_lag_ms="1000")
    stored = offsets.offset(table_partition(str(directory.folder))) or {}
    assert "recent" not in stored
    assert stored["passed_file"] == "b.parquet"
    assert read(directory, offsets, source_lag_ms="1000") == []


def test_more_files_than_one_listing_takes_are_read_in_several(
    directory: ParquetDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_feed, "_MAX_FILES", 3)
    for number in range(8):
        directory.add(f"{number}.parquet", rows_of(number), age_s=1000)
    records = read(directory)
    assert [(op, after["id"]) for op, _, after in events(records)] == [("r", number) for number in range(8)]
    assert len({(record.source_offset or {})["version"] for record in records}) == 3


def test_burst_of_recent_files_beyond_the_limit_of_an_offset_waits_until_they_settle(
    directory: ParquetDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_feed, "_MAX_RECENT", 3)
    offsets = MemoryOffsets()
    for number in range(5):
        directory.add(f"{number}.parquet", rows_of(number), age_s=50 - number)
    assert ids(read(directory, offsets, source_lag_ms=HOUR_MS)) == [0, 1, 2]
    assert read(directory, offsets, source_lag_ms=HOUR_MS) == []
    assert ids(read(directory, offsets, source_lag_ms="1000")) == [3, 4]


@settings(deadline=None)
@given(data=st.data())
def test_every_row_of_a_random_history_is_delivered_once_wherever_the_task_restarts(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    directory = ParquetDirectory(tmp_path_factory.mktemp("history") / "t")
    config = {
        **FAST,
        "source.format": "parquet",
        "source.location": str(directory.folder),
        "source.lag.ms": HOUR_MS,
        "batch.max.rows": "2",
    }

    def add_files() -> None:
        for _ in range(data.draw(st.integers(0, 3))):
            number = len(directory.rows)
            count = data.draw(st.integers(0, 5))
            # Any time within the lag, in any order; also several files at the same time.
            age_s = data.draw(st.sampled_from([0, 1, 1, 60, 600, 1800]))
            name = f"{data.draw(st.sampled_from('az'))}{number}-{len(list(directory.folder.iterdir()))}.parquet"
            directory.add(name, rows_of(*range(number, number + count)), age_s=age_s)

    delivered = deliver_with_kills(data.draw, config, str(directory.folder), add_files)
    assert as_counter(after for _, _, after in events(delivered)) == as_counter(directory.rows)
    # Later events have a later sequence.
    sequences = [tuple(map(int, json.loads(plain(record.value)["source"]["sequence"]))) for record in delivered]
    assert sequences == sorted(set(sequences))


# --- restarts at any offset, by a manual clock


class Arrivals:
    """A directory and a clock, which ``now_ms`` reads. File ``n`` has the row ``n``."""

    LAG_MS = 5_000

    def __init__(self, folder: Path) -> None:
        self.directory = ParquetDirectory(folder)
        self.now_ms = 1_000_000
        self.offset: dict[str, Any] | None = None
        self.read: list[int] = []
        self.count = 0

    def add(self, age_ms: int) -> None:
        self.directory.add(f"{self.count}.parquet", [{"id": self.count}], {"id": pa.int64()})
        at_ns = (self.now_ms - age_ms) * 1_000_000
        os.utime(self.directory.folder / f"{self.count}.parquet", ns=(at_ns, at_ns))
        self.count += 1

    def run_task(self, max_batches: int = 1_000, start: str = "snapshot") -> None:
        """Starts a task at the stored offset, and kills it after some batches, or when it has read everything."""
        folder = str(self.directory.folder)
        config = directory_feed.DirectoryFeedSettings((), start, 100, self.LAG_MS, {})
        position = None if self.offset is None else parse_directory_offset(self.offset)
        feed = directory_feed.DirectoryFeed(fs.LocalFileSystem(), folder, folder, config, position)
        for item in feed.items():
            if isinstance(item, FeedBatch):
                assert item.changes.after is not None
                assert item.offset_after is not None
                self.read += item.changes.after["id"].to_pylist()
                self.offset = item.offset_after(item.first_row + len(item.changes))
                max_batches -= 1
                if not max_batches:
                    return
            elif isinstance(item, Waiting) and item.is_idle:
                assert feed.position is not None
                self.offset = feed.position.to_offset()
                return


@pytest.fixture
def arrivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arrivals:
    created = Arrivals(tmp_path / "arrivals")
    monkeypatch.setattr(directory_feed, "_now_ms", lambda: created.now_ms)
    return created


def test_offset_passes_no_file_that_is_planned_and_older_than_a_done_one(arrivals: Arrivals) -> None:
    arrivals.add(300)
    arrivals.run_task()
    arrivals.add(500)
    arrivals.add(400)
    arrivals.now_ms += arrivals.LAG_MS
    arrivals.run_task(max_batches=1)
    arrivals.run_task()
    assert arrivals.read == [0, 1, 2]


def test_file_that_appears_in_the_last_millisecond_of_the_lag_is_read(arrivals: Arrivals) -> None:
    arrivals.add(arrivals.LAG_MS)
    arrivals.run_task()
    arrivals.add(arrivals.LAG_MS)
    arrivals.directory.folder.joinpath("1.parquet").rename(arrivals.directory.folder / "0.earlier.parquet")
    arrivals.run_task()
    assert arrivals.read == [0, 1]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("start", ["snapshot", "latest"])
def test_every_file_that_arrives_within_the_lag_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, start: str
) -> None:
    chance = randomness.chance(f"arrivals-{number}")
    for history in range(10):
        arrivals = Arrivals(tmp_path / str(history))
        monkeypatch.setattr(directory_feed, "_now_ms", lambda now=arrivals: now.now_ms)
        monkeypatch.setattr(directory_feed, "_MAX_FILES", chance.choice([2, 10_000]))
        monkeypatch.setattr(directory_feed, "_MAX_RECENT", chance.choice([2, 2_000]) if start == "snapshot" else 2_000)
        arrivals.run_task(start=start)
        for _ in range(chance.randint(3, 7)):
            for _ in range(chance.randint(0, 3)):
                arrivals.add(chance.randint(0, arrivals.LAG_MS))
            arrivals.run_task(chance.choice([1, 2, 1_000]), start)
            arrivals.now_ms += chance.choice([10, 1_000, 4_000, 8_000, 20_000])
        for _ in range(20):
            arrivals.now_ms += arrivals.LAG_MS
            arrivals.run_task(start=start)
        assert sorted(arrivals.read) == list(range(arrivals.count)), f"history {history}"


def test_one_listing_is_one_transaction(directory: ParquetDirectory) -> None:
    directory.add("a.parquet", rows_of(*range(5)), age_s=1000)
    directory.add("b.parquet", rows_of(*range(5, 9)), age_s=900)
    config = {
        **FAST,
        "source.format": "parquet",
        "source.location": str(directory.folder),
        "transaction.boundary": "connector",
        "batch.max.rows": "2",
    }
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert harness.transactions is not None
        records: list[SourceRecord] = []
        while not harness.transactions.commits:
            records += harness.poll()
        assert len(records) == 9
        directory.add("c.parquet", rows_of(10), age_s=0)
        while len(records) < 10:
            records += harness.poll()
    assert len({(record.source_offset or {})["version"] for record in records}) == 2
