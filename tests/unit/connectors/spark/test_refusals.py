"""Errant records in batches: which are found, which others are written, and what commits and reports contain."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError, DataError, RetriableError, SchemaError
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import RawRecord
from connect.testing.harness import MemoryReporter, SinkContext
from connectors.sink_support.batch_isolation import find_bad_records
from connectors.spark.delivery import errant_records
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.task import SparkSinkTask

TP = TopicPartition("t", 0)
KEY_SCHEMA = {"type": "struct", "optional": False, "fields": [{"field": "id", "type": "int64", "optional": False}]}


@given(st.integers(0, 200), st.sets(st.integers(0, 199)))
def test_exactly_the_bad_records_are_found(size: int, bad: set[int]) -> None:
    tried: list[range] = []

    def attempt(part: range) -> None:
        tried.append(part)
        if wrong := bad.intersection(part):
            raise DataError(f"{min(wrong)}")

    found = find_bad_records([range(size // 3), range(size // 3, size)], attempt)
    assert list(found) == sorted(b for b in bad if b < size)
    assert all(str(at) == error.message for at, error in found.items())
    assert len(tried) <= 2 + 2 * len(found) * (size.bit_length() + 1)


def test_the_majority_decides_which_records_are_bad() -> None:
    kinds = ["a", *"bbbbbbbb"]
    known: list[str] = []

    def attempt(part: range) -> None:
        seen = {kinds[at] for at in part} | set(known)
        if len(seen) > 1:
            raise DataError("mixed")
        known[:] = seen

    assert list(find_bad_records([range(len(kinds))], attempt)) == [0]


class Sink:
    """A task that appends to Parquet files, which needs no Spark."""

    def __init__(self, folder: Path, *, reporter: Any = None, schemas: bool = False, content: str = "", **more: str) -> None:
        self.folder = folder
        key, value = JsonConverter(), JsonConverter()
        for converter, is_key in ((key, True), (value, False)):
            converter.configure({"schemas.enable": str(schemas).lower(), "schema.content": "" if is_key else content}, is_key)
        config = {
            "name": "lake",
            "topics": "t",
            "table.format": "parquet",
            "table.location": str(folder),
            "metadata.columns": "__offset",
            "commit.interval.ms": "600000",
            "errors.tolerance": "all",
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        self.context = SinkContext(config, key, value, raw_allowed=True, reporter=reporter)
        self.task = SparkSinkTask()
        self.task.initialize(self.context)
        self.task.start(config)
        assert self.task.wants_raw()
        self.task.open([TP])
        self.next = self.context.requested_offsets.get(TP, 0)

    def put(self, *values: Any, keys: list[bytes | None] | None = None) -> None:
        data = [v if isinstance(v, bytes | None) else json.dumps(v).encode() for v in values]
        offsets = list(range(self.next, self.next + len(data)))
        headers: Any = [[("h", b"x")]] * len(data)
        self.task.put_raw([RawBatch("t", 0, offsets, keys or [None] * len(data), data, [7] * len(data), headers)])
        self.next += len(data)

    def commit(self) -> int | None:
        self.task.flush({TP: self.next})
        return self.task.pre_commit({TP: self.next}).get(TP)

    def rows(self, table: str = "t") -> list[dict[str, Any]]:
        files = sorted((self.folder / table).glob("*.parquet"))
        return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]

    def ends(self) -> dict[TopicPartition, int]:
        return dict(ParquetTable(str(self.folder / "t"), "lake", lambda topic: None).stored_ends())


def refused(reporter: MemoryReporter) -> dict[int, str]:
    return {record.offset: str(error) for record, error in reporter.reported_raw}


def envelope(id_: int, **source: Any) -> dict[str, Any]:
    return {"before": None, "after": {"id": id_}, "op": "c", "source": {"ts_ms": 1, **source}}


def test_undecodable_records_are_reported_and_the_others_are_written_in_order(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter)
    values: list[Any] = [{"id": i, "name": f"n{i}"} for i in range(100)]
    values[0] = {"id": "first", "name": "n"}
    values[17] = b"{broken"
    values[50] = {"id": 50, "name": [1]}
    values[51] = b'{"id":51,"name":"\xff"}'
    values[99] = b"[" * 100_000 + b"]" * 100_000
    sink.put(*values)
    assert sink.commit() == 100
    assert [row["__offset"] for row in sink.rows()] == [i for i in range(100) if i not in (0, 17, 50, 51, 99)]
    found = refused(reporter)
    assert list(found) == [0, 17, 50, 51, 99]
    assert all(f"topic t, partition 0, offset {offset}: " in text for offset, text in found.items())
    assert "field id: " in found[0]
    assert "field name: " in found[50]
    assert sink.ends() == {TP: 100}
    record = reporter.reported_raw[1][0]
    assert record == RawRecord("t", 0, 17, None, b"{broken", 7, [("h", b"x")])
    assert sink.task.progress()["refused"] == 5


def test_a_plain_record_does_not_turn_change_events_into_plain_rows(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter)
    sink.put({"hello": 1}, *(envelope(i) for i in range(9)))
    sink.commit()
    assert [row["id"] for row in sink.rows()] == list(range(9))
    assert list(refused(reporter)) == [0]
    assert "offset 0: no op field" in refused(reporter)[0]


def test_change_events_without_a_known_operation_or_a_row_are_reported(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter, metadata_columns="__op,__offset")
    sink.put(
        *(envelope(i) for i in range(3)),
        {**envelope(3), "op": "ignored"},
        {**envelope(4), "op": "tombstone"},
        {**envelope(5), "op": "u", "after": None},
        {**envelope(6), "op": "d", "before": None, "after": None},
    )
    sink.commit()
    assert [(row["__offset"], row["__op"]) for row in sink.rows()] == [(0, "c"), (1, "c"), (2, "c"), (6, "d")]
    found = refused(reporter)
    assert list(found) == [3, 4, 5]
    assert "topic t, partition 0, offset 4: op is 'tombstone', and that of a change event is c, u, r, d, t, or m" in found[4]
    assert "topic t, partition 0, offset 5: after is null, and op is 'u'" in found[5]


def test_values_that_the_table_cannot_hold_are_found_at_the_commit(tmp_path: Path) -> None:
    def message(type_: str, value: Any, name: str = "n") -> dict[str, Any]:
        fields = [{"field": name, "type": type_, "optional": True}]
        return {"schema": {"type": "struct", "optional": False, "fields": fields}, "payload": {name: value}}

    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter, schemas=True)
    sink.put(message("int32", 1))
    sink.commit()
    good = [message("int32", i) for i in range(2, 20)]
    sink.put(*good, message("string", "x"), message("int64", 1 << 40), message("int64", 5), message("int32", 1, "__offset"))
    assert sink.commit() == 23
    assert [row["n"] for row in sink.rows()] == [*range(1, 20), 5]
    found = refused(reporter)
    assert list(found) == [19, 20, 22]
    assert "column n is INT in the table, but STRING in the records" in found[19]
    assert "topic t, partition 0, offset 20: column n: 1099511627776 does not fit INT" in found[20]
    assert "field __offset" in found[22]
    assert sink.ends() == {TP: 23}
    sink.put(message("int32", 99))
    sink.commit()
    assert sink.rows()[-1]["n"] == 99


def test_errant_records_are_not_read_again_even_without_other_records(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter)
    sink.put({"id": 1})
    sink.commit()
    sink.put(b"{", b"{")
    assert sink.commit() == 3
    again = Sink(tmp_path, reporter=reporter)
    assert again.next == 3
    assert list(refused(reporter)) == [1, 2]
    assert sink.rows() == [{"id": 1, "__offset": 0}]


def test_redelivered_batches_of_other_sizes_are_reported_with_their_own_bytes(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter)
    values: list[Any] = [{"id": 0}, b"{1", {"id": 2}, b"{3", {"id": 4}, b"{5"]
    for first, last in ((0, 2), (2, 4), (1, 6)):
        sink.next = first
        sink.put(*values[first:last])
    assert sink.commit() == 6
    assert [(r.offset, r.value, r.headers) for r, _ in reporter.reported_raw] == [
        (at, values[at], [("h", b"x")]) for at in (1, 3, 5)
    ]
    assert [row["id"] for row in sink.rows()] == [0, 2, 4]


def test_a_record_without_a_table_name_in_its_source_block_is_errant(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter, table_name_format="${schema}.${table}")
    sink.put(envelope(1, schema="s", table="a"), envelope(2, schema="s"), envelope(3, schema="s", table="b"))
    assert sink.commit() == 3
    assert [row["id"] for row in sink.rows("s.a")] == [1]
    assert [row["id"] for row in sink.rows("s.b")] == [3]
    assert "offset 1: " in refused(reporter)[1]
    assert "source.table" in refused(reporter)[1]


@pytest.mark.parametrize("bad", [b"{broken", b'{"id":"x"}'])
def test_without_tolerance_the_first_bad_record_is_the_error(tmp_path: Path, bad: bytes) -> None:
    sink = Sink(tmp_path, errors_tolerance="none")
    sink.put({"id": 1}, {"id": 2}, bad, {"id": 3}, bad)
    with pytest.raises(DataError, match="topic t, partition 0, offset 2: "):
        sink.commit()
    assert sink.rows() == []


def test_a_report_beyond_the_tolerance_fails_the_batch(tmp_path: Path) -> None:
    class Intolerant(MemoryReporter):
        def report_raw(self, record: RawRecord, error: Exception) -> Future[None]:
            super().report_raw(record, error)
            raise ConnectError("tolerance exceeded")

    reporter = Intolerant()
    sink = Sink(tmp_path, reporter=reporter, errors_tolerance="none")
    sink.put({"id": 1}, b"{", b"{")
    with pytest.raises(ConnectError, match="tolerance exceeded"):
        sink.commit()
    assert list(refused(reporter)) == [1]
    assert sink.rows() == []


def test_tolerated_records_without_a_reporter_are_counted_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink(tmp_path)
    sink.put({"id": 1}, b"{", b"{")
    assert sink.commit() == 3
    assert sink.task.progress()["refused"] == 2
    assert next(r.getMessage() for r in caplog.records if "Skipped" in r.getMessage()).startswith("Skipped 2 errant records")
    assert [row["id"] for row in sink.rows()] == [1]


class Slow(MemoryReporter):
    """Reports that end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[Future[None]] = []

    def report_raw(self, record: RawRecord, error: Exception) -> Future[None]:
        super().report_raw(record, error)
        self.open.append(Future())
        return self.open[-1]


@pytest.mark.parametrize("end", ["acknowledged", "failed"])
def test_offsets_are_committed_only_after_the_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(errant_records, "_SETTLE_S", 0.01)
    reporter = Slow()
    sink = Sink(tmp_path, reporter=reporter)
    sink.put({"id": 1}, b"{")
    for _ in range(2):
        with pytest.raises(RetriableError, match="did not take 1 errant records"):
            sink.commit()
    assert sink.rows() == []
    assert len(reporter.open) == 1  # tried again, reported once
    (report,) = reporter.open
    if end == "failed":
        report.set_exception(ConnectError("refused by the broker"))
        with pytest.raises(ConnectError, match="refused by the broker"):
            sink.commit()
        assert sink.rows() == []
        return
    report.set_result(None)
    assert sink.commit() == 2
    assert [row["id"] for row in sink.rows()] == [1]


def test_errors_of_the_table_are_not_errant_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter, schema_evolution="fail")
    sink.put({"id": 1})
    sink.commit()
    sink.put({"id": 2, "new": 3})
    with pytest.raises(SchemaError, match=r"schema\.evolution=fail"):
        sink.commit()
    monkeypatch.setattr(ParquetTable, "load", fail)
    with pytest.raises(ConnectError, match="no such bucket"):
        sink.commit()
    assert not reporter.reported_raw


def fail(*_: object) -> None:
    raise OSError("no such bucket")


def test_lost_partitions_are_neither_reported_nor_committed(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter)
    sink.put({"id": 1}, b"{")
    sink.task.close_partitions([TP], lost=True)
    sink.commit()
    assert not reporter.reported_raw
    assert sink.rows() == []


def test_decoded_records_are_reported_unchanged(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    sink = Sink(tmp_path, reporter=reporter)
    values = [{"id": 1}, {"id": "x"}, {"id": 3}, {"id": 4}]
    records = [SinkRecord("t", 0, None, None, None, value, offset) for offset, value in enumerate(values)]
    sink.task.put(records)
    sink.next = 4
    assert sink.commit() == 4
    assert [row["id"] for row in sink.rows()] == [1, 3, 4]
    ((record, error),) = reporter.reported
    assert record is records[1]
    assert "topic t, partition 0, offset 1: field id: " in str(error)


def test_the_sequence_column_has_the_position_of_each_change(tmp_path: Path) -> None:
    sink = Sink(tmp_path, metadata_columns="__offset,__seq,__op")
    first = envelope(1, sequence='[null,"5"]', lsn=5)
    sink.put(first, envelope(2, sequence='["8","7"]', lsn=7), envelope(3), None)
    assert sink.commit() == 4
    assert [(row["id"], row["__seq"]) for row in sink.rows()] == [
        (1, "00000000000000000000.00000000000000000005"),
        (2, "00000000000000000008.00000000000000000007"),
        (3, None),
        (None, None),
    ]
    assert list(sink.rows()[0]) == ["id", "__op", "__seq", "__offset"]


def test_a_fixed_schema_of_the_converter_applies(tmp_path: Path) -> None:
    reporter = MemoryReporter()
    fields = [{"field": "n", "type": "double", "optional": False}, {"field": "d", "type": "int8", "default": 7}]
    sink = Sink(tmp_path, reporter=reporter, schemas=True, content=json.dumps({"type": "struct", "fields": fields}))
    sink.put({"n": 1.5, "d": 1}, {"n": "NaN"}, {"n": "x"})
    assert sink.commit() == 3
    assert [(str(row["n"]), row["d"]) for row in sink.rows()] == [("1.5", 1), ("nan", 7)]
    assert 'offset 2: field n: "x" is not a number, which double needs' in refused(reporter)[2]
