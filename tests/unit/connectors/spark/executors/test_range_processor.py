"""What an executor makes of a range: files, changes for the driver, needs, and errant records."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError
from connect.record import RawBatch, TopicPartition
from connect.sink import OffsetRange, RangeBatch
from connectors.spark.config import parse_config
from connectors.spark.config_keys import UNAVAILABLE
from connectors.spark.decode.schema_inference import TopicContent
from connectors.spark.delivery.topic_decoders import TopicContents
from connectors.spark.executors import range_processor
from connectors.spark.executors.job import (
    NeededColumns,
    PartResult,
    RangeJob,
    StagedPart,
    UnknownTable,
    WrittenPart,
    unpack_table,
)
from connectors.spark.executors.range_processor import RangeProcessor
from connectors.spark.tables.delta.file_target import DeltaFileTarget
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.executor_files import WriteTarget

P0 = TopicPartition("t", 0)
COLUMNS = {"id": pa.int64(), "v": pa.string()}
Log = Sequence[tuple[dict[str, Any] | None, Any]]


@dataclass(frozen=True)
class Reader:
    log: Log
    batch: int = 2
    fails_at: int | None = None
    headers: Mapping[int, list[tuple[str, bytes | None]]] = field(default_factory=dict)
    """By offset."""

    def converters(self) -> tuple[JsonConverter, JsonConverter]:
        found = JsonConverter(), JsonConverter()
        for converter, is_key in zip(found, (True, False), strict=True):
            converter.configure({"schemas.enable": "false"}, is_key)
        return found

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        for start in range(offset_range.first, offset_range.end, self.batch):
            offsets = list(range(start, min(offset_range.end, start + self.batch)))
            if self.fails_at in offsets:
                raise ConnectError("the broker is gone")
            keys = [None if key is None else json.dumps(key).encode() for key, _ in self.log[start : offsets[-1] + 1]]
            values = [
                v if isinstance(v, bytes) or v is None else json.dumps(v).encode() for _, v in self.log[start:][: len(keys)]
            ]
            headers = [self.headers.get(offset) for offset in offsets]
            raw = RawBatch("t", 0, offsets, keys, values, [7] * len(keys), headers if any(headers) else None)
            yield RangeBatch(raw, None, (), offsets[-1] + 1)


def event(op: str, id_: int, v: str | None = None, table: str = "t") -> tuple[dict[str, Any], dict[str, Any]]:
    row = {"id": id_, "v": v}
    sides = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {"id": id_}, {"op": op, "source": {"db": "d", "schema": "s", "table": table, "ts_ms": 1}, "ts_ms": 1, **sides}


class Executor:
    """Runs ranges of a topic into Delta tables of a folder that have ``COLUMNS``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.targets: dict[str, WriteTarget] = {}

    def add_table(
        self, name: str, keys: tuple[str, ...] = (), end: int | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        log = self.folder / name / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{3:020}.json").touch()
        columns = {**COLUMNS, **(extra or {})}
        files = DeltaFileTarget(str(self.folder / name), None, TableLayout(columns), 3, 1000)
        self.targets[name] = WriteTarget(columns, {} if end is None else {P0: end}, keys=keys, files=files)

    def run(
        self,
        log: Log,
        *,
        ranges: int = 2,
        fails_at: int | None = None,
        headers: Mapping[int, list[tuple[str, bytes | None]]] | None = None,
        contents: TopicContents | None = None,
        **more: str,
    ) -> list[PartResult]:
        props = {"topics": "t", "table.location": str(self.folder), "spark.engine": "executors", "metadata.columns": "none"}
        config = parse_config({**props, **{name.replace("__", "."): value for name, value in more.items()}})
        whole = OffsetRange(P0, 0, len(log))
        reader = Reader(log, fails_at=fails_at, headers=headers or {})
        job = RangeJob(config, reader, [whole] * ranges, self.targets, {}, contents or {})
        job = pickle.loads(pickle.dumps(job))
        return [pickle.loads(pickle.dumps(part)) for part in RangeProcessor(job, whole).run()]

    def rows(self, table: str, part: WrittenPart) -> list[dict[str, Any]]:
        return [row for path, _, _ in part.files for row in pq.read_table(self.folder / table / path).to_pylist()]


@pytest.fixture
def executor(tmp_path: Path) -> Executor:
    return Executor(tmp_path)


def test_executor_reads_a_topic_as_what_the_task_knows_it_to_be(executor: Executor) -> None:
    executor.add_table("t")
    event = {"op": "c", "before": None, "after": {"id": 1, "v": "x"}, "source": {"ts_ms": 1}}
    (first,) = executor.run([(None, event)])
    assert first.contents == {("t", "t"): TopicContent(True, 1, 1)}
    (second,) = executor.run([(None, {"id": 2, "v": "no event"})], contents=first.contents)
    assert ["change events and other records share the topic" in reason for _, reason, _ in second.bad_records] == [True]
    (unknown,) = executor.run([(None, {"id": 2, "v": "no event"})])
    assert not unknown.bad_records


def test_append_has_a_file_per_part_without_what_the_table_has(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_processor, "_PART_RECORDS", 4)
    executor.add_table("t", end=3)
    found = executor.run([(None, {"id": number, "v": "x"}) for number in range(10)])
    assert [(part.first, part.end, part.records) for part in found] == [(0, 4, 4), (4, 8, 4), (8, 10, 2)]
    written = [part.tables["t"] for part in found]
    rows = [executor.rows("t", one) for one in written if isinstance(one, WrittenPart)]
    assert [[row["id"] for row in of_part] for of_part in rows] == [[3], [4, 5, 6, 7], [8, 9]]


def test_upsert_has_the_latest_change_of_each_key(executor: Executor) -> None:
    executor.add_table("t", ("id",))
    log = [event("c", 1, "a"), event("c", 2, "b"), event("u", 1, "c"), event("d", 2), ({"id": 2}, None)]
    (part,) = executor.run(log, write__mode="upsert")
    written = part.tables["t"]
    assert isinstance(written, WrittenPart)
    assert executor.rows("t", written) == [{"id": 1, "v": "c"}]
    assert written.latest is not None
    assert unpack_table(written.latest).to_pylist() == [{"k0": 1, "file": 0, "row": 0}, {"k0": 2, "file": -1, "row": 0}]


@pytest.mark.parametrize(
    "change", [event("u", 1, UNAVAILABLE), (None, {"op": "t", "source": {"ts_ms": 1}, "before": None, "after": None})]
)
def test_changes_that_need_the_table_are_left_to_the_driver(executor: Executor, change: Any) -> None:
    executor.add_table("t", ("id",))
    (part,) = executor.run([event("c", 2, "b"), change], write__mode="upsert")
    staged = part.tables["t"]
    assert isinstance(staged, StagedPart)
    assert [offset for batch in staged.unpack(100) for offset in batch.meta["offset"].to_pylist()] == [0, 1]
    assert sorted(s for batch in staged.unpack(100) for s in batch.meta["sequence"].to_pylist()) == [100, 101]
    assert not list((executor.folder / "t").glob("*.parquet"))


def test_changes_with_the_key_of_an_old_row_are_left_to_the_driver(executor: Executor) -> None:
    executor.add_table("t", ("id",))
    log = [event("c", 2, "b"), event("c", 3, "c"), event("d", 2), event("c", 4, "b")]
    (part,) = executor.run(log, headers={3: [("__debezium.oldkey", b'{"id": 2}')]}, write__mode="upsert")
    staged = part.tables["t"]
    assert isinstance(staged, StagedPart)
    (batch,) = staged.unpack(100)
    assert batch.meta["old_key"].to_pylist() == [None, None, None, {"id": 2}]
    assert not list((executor.folder / "t").glob("*.parquet"))
    # An append needs no values of other rows.
    executor.add_table("t_changelog")
    (part,) = executor.run(log, headers={3: [("__debezium.oldkey", b'{"id": 2}')]}, write__mode="both")
    assert isinstance(part.tables["t"], StagedPart)
    written = part.tables["t_changelog"]
    assert isinstance(written, WrittenPart)
    assert [row["id"] for row in executor.rows("t_changelog", written)] == [2, 3, 2, 4]


def test_changes_that_are_ordered_by_their_source_are_left_to_the_driver(executor: Executor) -> None:
    executor.add_table("t", ("id",), extra={"__seq": pa.string()})
    executor.targets["t"] = replace(executor.targets["t"], files=None)  # as the writer describes such a table
    keyed = [event("c", 1, "a"), event("u", 1, "b")]
    log = [(key, {**value, "source": {**value["source"], "lsn": lsn}}) for lsn, (key, value) in enumerate(keyed, 7)]
    (part,) = executor.run(log, write__mode="upsert", sequence__by="source")
    staged = part.tables["t"]
    assert isinstance(staged, StagedPart)
    positions = [one for batch in staged.unpack(0) for one in batch.meta["position"].to_pylist()]
    assert len(positions) == 2
    assert positions[0] < positions[1]


def test_both_writes_a_row_into_each_table(executor: Executor) -> None:
    executor.add_table("t", ("id",))
    executor.add_table("t_changelog")
    (part,) = executor.run([event("c", 1, "a"), event("u", 1, "b")], write__mode="both")
    rows = {table: executor.rows(table, one) for table, one in part.tables.items() if isinstance(one, WrittenPart)}
    assert rows == {"t": [{"id": 1, "v": "b"}], "t_changelog": [{"id": 1, "v": "a"}, {"id": 1, "v": "b"}]}


def test_records_name_their_tables(executor: Executor) -> None:
    executor.add_table("a")
    log = [event("c", 1, "x", "a"), event("c", 2, "y", "b"), event("c", 3, "z", "a")]
    (part,) = executor.run(log, table__name__format="${table}")
    written = part.tables["a"]
    assert isinstance(written, WrittenPart)
    assert [row["id"] for row in executor.rows("a", written)] == [1, 3]
    assert part.tables["b"] == UnknownTable()
    assert part.knowledge == {"t": frozenset({"a", "b"})}


def test_new_columns_are_asked_for_or_left_to_the_driver_of_a_small_job(executor: Executor) -> None:
    executor.add_table("t")
    log: Log = [(None, {"id": 1, "v": "a", "more": True})]
    (part,) = executor.run(log)
    needed = part.tables["t"]
    assert isinstance(needed, NeededColumns)
    assert needed.incoming["more"] == pa.bool_()
    (part,) = executor.run(log, ranges=1)
    assert isinstance(part.tables["t"], StagedPart)
    executor.targets["t"] = replace(executor.targets["t"], columns=None)
    (part,) = executor.run(log)
    assert isinstance(part.tables["t"], NeededColumns)


def test_errant_records_have_their_bytes_and_others_are_written(executor: Executor) -> None:
    executor.add_table("t")
    log: Log = [(None, {"id": 1, "v": "a"}), (None, b"{"), (None, {"id": "text", "v": "b"}), (None, {"id": 2, "v": "c"})]
    (part,) = executor.run(log)
    written = part.tables["t"]
    assert isinstance(written, WrittenPart)
    assert [row["id"] for row in executor.rows("t", written)] == [1, 2]
    assert [(offset, record.value, record.timestamp) for offset, _, record in part.bad_records] == [
        (1, b"{", 7),
        (2, b'{"id": "text", "v": "b"}', 7),
    ]
    assert "offset 2" in part.bad_records[1][1]


def test_files_of_a_range_that_fails_are_deleted(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_processor, "_PART_RECORDS", 2)
    executor.add_table("t")
    with pytest.raises(ConnectError, match="the broker is gone"):
        executor.run([(None, {"id": number, "v": "x"}) for number in range(6)], fails_at=4)
    assert not list((executor.folder / "t").glob("*.parquet"))


def test_host_without_the_table_is_an_error(executor: Executor, tmp_path: Path) -> None:
    executor.add_table("t")
    elsewhere = DeltaFileTarget(str(tmp_path / "elsewhere"), None, TableLayout(COLUMNS), 3, 1000)
    executor.targets["t"] = replace(executor.targets["t"], files=elsewhere)
    with pytest.raises(ConnectError, match=r"host \S+ does not find version 3 of the table at .*elsewhere: table\.location"):
        executor.run([(None, {"id": 1, "v": "a"})])
