"""Offsets of queries count rows with equal cursors, and keys of queries are checked: what needs no Spark."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import BadRequestError, ConfigError
from connectors.spark import SparkSource, session
from connectors.spark.source.config import QuerySettings
from connectors.spark.source.query.cursors import check_cursor_type, cursor_text
from connectors.spark.source.query.feed import SentRows
from connectors.spark.source.query.positions import CursorPosition, parse_cursor_offset
from connectors.spark.source.query.range_reader import CursorRange, RangeReader
from connectors.spark.source.query.spool import QuerySpool
from connectors.spark.source.table_feed import TableColumn, TableSchema
from connectors.spark.tables.files.partition_values import parse_text

CONFIG = {"source.format": "query", "source.query": "SELECT 1 AS n", "cursor.column": "n", "topic": "t"}
SCHEMA = TableSchema((TableColumn("n", pa.int64(), True), TableColumn("place", pa.int64(), True)))


def send(position: CursorPosition, cursors: list[int], sizes: list[int]) -> list[tuple[int, CursorPosition]]:
    """The places of the rows that follow a position, each with the position after it. Rows before its cursor are filtered out, as
    by the query."""
    start = -1 if position.cursor is None else int(position.cursor)
    places = [place for place, n in enumerate(cursors) if n > start or (n == start and position.row is not None)]
    table = pa.table({"n": pa.array([cursors[place] for place in places], pa.int64()), "place": pa.array(places, pa.int64())})
    sent = SentRows(position, CursorRange(SCHEMA, str(max(cursors)), len(places), table), "n")
    found, at = [], 0
    while at < len(places):
        size = sizes[at % len(sizes)]
        batch = sent.next_batch(table.slice(at, size))
        for number, place in enumerate(batch.rows["place"].to_pylist(), batch.first_row + 1):
            found.append((place, batch.position_after(number)))
        at += size
    return found


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=20).map(sorted),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_position_after_each_row_is_continued_by_the_next_row(cursors: list[int], sizes: list[int], others: list[int]) -> None:
    found = send(CursorPosition(0, True), cursors, sizes)
    assert [place for place, _ in found] == list(range(len(cursors)))
    for cut, (_, position) in enumerate(found):
        offset = position.to_offset()
        assert [place for place, _ in send(parse_cursor_offset(offset), cursors, others)] == list(range(cut + 1, len(cursors)))
    assert found[-1][1].row is None


@pytest.mark.parametrize("batch_rows", [10, 1])
def test_rows_that_are_removed_after_they_were_counted_are_no_range(
    batch_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "lease", MagicMock())
    reader = RangeReader(QuerySettings("SELECT 1", "n", "fail", str(tmp_path), MagicMock(s3=None)), (), 0, batch_rows, "owner")
    frame = MagicMock()
    ordered = frame.filter.return_value.orderBy.return_value
    empty = pa.schema([("n", pa.int64()), ("place", pa.int64())]).empty_table()
    ordered.toArrow.return_value = empty

    def write(uri: str) -> None:
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        pq.write_table(empty, folder / "part-0.parquet")

    ordered.write.option.return_value.option.return_value.parquet = write
    for name, result in (("_frame", (frame, SCHEMA)), ("_measure", (2, "7")), ("_is_after", True), ("_sort_columns", [])):
        monkeypatch.setattr(reader, name, MagicMock(return_value=result))
    for name in ("_cursor", "_value"):
        monkeypatch.setattr(reader, name, MagicMock(return_value=0))
    assert reader.next_range(CursorPosition(0, True)) is None
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    "value",
    [
        pa.scalar(-(2**63), pa.int64()),
        pa.scalar(decimal.Decimal("-12345678901234567890.50"), pa.decimal128(38, 2)),
        pa.scalar(dt.date(1, 1, 1)),
        pa.scalar(dt.datetime(2026, 1, 2, 3, 4, 5, 6), pa.timestamp("us")),
        pa.scalar(dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC), pa.timestamp("us", "UTC")),
        pa.scalar("a 'quoted' text"),
        pa.scalar(""),
        pa.scalar(2_932_897, pa.int32()).cast(pa.date32()),
        pa.scalar(2**31 - 1, pa.int32()).cast(pa.date32()),
        pa.scalar(-719_529, pa.int32()).cast(pa.date32()),
        pa.scalar(253_402_300_800_000_001, pa.int64()).cast(pa.timestamp("us")),
        pa.scalar(2**63 - 1, pa.int64()).cast(pa.timestamp("us", "UTC")),
    ],
)
def test_text_of_a_cursor_is_its_value(value: pa.Scalar) -> None:
    assert parse_text(cursor_text(value), value.type).equals(value)


@pytest.mark.parametrize(
    ("text", "type_", "number"),
    [
        ("+10000-01-01", pa.date32(), 2_932_897),
        ("10000-01-01", pa.date32(), 2_932_897),
        ("+10000-01-01 00:00:00", pa.timestamp("us", "UTC"), 253_402_300_800_000_000),
        ("2026-01-02 03:04:05.5", pa.timestamp("us"), 1_767_323_045_500_000),
        ("2026-01-02T03:04:05Z", pa.timestamp("us", "UTC"), 1_767_323_045_000_000),
        ("2026-01-02 03:04", pa.timestamp("us"), 1_767_323_040_000_000),
        ("2026-01-02", pa.timestamp("us"), 1_767_312_000_000_000),
    ],
)
def test_texts_of_spark_and_of_users_are_cursors(text: str, type_: pa.DataType, number: int) -> None:
    assert parse_text(text, type_).value == number


@pytest.mark.parametrize(
    ("text", "type_"),
    [("0x10", pa.int64()), ("1_0", pa.int64()), ("2026-13-01", pa.date32()), ("2026-01-01 24:00:00", pa.timestamp("us"))],
)
def test_text_that_is_no_cursor_is_refused(text: str, type_: pa.DataType) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_text(text, type_)


@pytest.mark.parametrize("type_", [pa.float64(), pa.bool_(), pa.binary(), pa.list_(pa.int32())])
def test_cursor_without_an_order_or_an_exact_text_is_refused(type_: pa.DataType) -> None:
    with pytest.raises(ConfigError, match=r"CAST it in source\.query"):
        check_cursor_type("n", type_, {})
    with pytest.raises(ConfigError, match="use COLLATE UTF8_BINARY"):
        check_cursor_type("n", pa.string(), {"__COLLATIONS": {"n": "icu.UNICODE_CI"}})


@pytest.mark.parametrize(
    ("config", "key", "words"),
    [
        ({"source.query": " "}, "source.query", "source.format=query needs it"),
        ({"cursor.column": ""}, "cursor.column", "source.format=query needs it"),
        ({"topic": "", "topic.prefix": "p"}, "topic", "source.format=query needs it"),
        ({"source.location": "/lake/t"}, "source.location", "source.format=query reads source.query; remove one of them"),
        ({"source.format": "delta", "source.location": "/lake/t"}, "source.query", "source.format is delta"),
        ({"source.start": "5"}, "source.start", "PATCH the offset to start at a cursor"),
        ({"source.lag.ms": "-1"}, "source.lag.ms", "at least 0"),
        ({"spark.remote": "sc://host:1"}, "source.spool.location", "Spark runs on other machines"),
        ({"spark.master": "spark://host:7077"}, "source.spool.location", "Spark runs on other machines"),
        ({"cursor.on.null": "drop"}, "cursor.on.null", "fail, skip"),
    ],
)
def test_bad_keys_of_queries_are_refused(config: dict[str, str], key: str, words: str) -> None:
    errors = {value.name: value.errors for value in SparkSource().validate({**CONFIG, **config}) if value.errors}
    assert words in errors[key][0]


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        ({"curser": "1"}, "did you mean cursor?"),
        ({"version": 1}, "an offset needs cursor"),
        ({"cursor": 1.5}, "cursor must be a text or an integer"),
        ({"cursor": "1", "row": -1}, "row must be an integer of at least 0"),
        ({"cursor": None, "row": 2}, "row counts the rows of a cursor, which is null"),
    ],
)
def test_offsets_of_queries_over_rest_are_checked(offset: dict[str, Any], words: str) -> None:
    partition = (("table", "t"),)
    with pytest.raises(BadRequestError) as raised:
        SparkSource().alter_offsets(CONFIG, {partition: offset})
    assert words in raised.value.message
    assert SparkSource().alter_offsets(CONFIG, {partition: {"cursor": 7}})


def test_spool_of_a_process_that_has_ended_is_removed(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    spool = QuerySpool(str(tmp_path), "feed-t", None)
    own = Path(spool.new_folder().uri.removeprefix("file://")).parent
    others = [own.with_name(own.name.removesuffix(str(os.getpid())) + pid) for pid in (ended.stdout.strip(), str(os.getppid()))]
    for folder in (own, *others):
        (folder / "range").mkdir(parents=True)
    spool.remove_abandoned()
    assert [folder.exists() for folder in (own, *others)] == [True, False, True]
    spool.remove()
    assert not own.exists()
