"""Source partitions, offsets, and the offsets of rows."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConnectError, DataError
from connectors.jdbc.source.modes import CursorColumns, QueryRange, incremental_query, with_suffix
from connectors.jdbc.source.offset_tracking import IncrementingOffsets, TimestampIncrementingOffsets, TimestampOffsets
from connectors.jdbc.source.offsets import (
    NO_POSITION,
    SourcePosition,
    build_offset,
    find_offset_problem,
    legacy_table_partition,
    parse_offset,
    table_partition,
)
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName

ORDERS = TableName("orders", "public")
NS = 1_700_000_000_123_456_000


def test_partitions_have_the_form_of_both_protocols() -> None:
    assert table_partition(TableName("t", "s", "db")) == {"protocol": "1", "table": "db.s.t"}
    assert table_partition(ORDERS) == {"protocol": "1", "table": "public.orders"}
    assert legacy_table_partition(ORDERS) == {"table": "orders"}


def test_offsets_have_milliseconds_and_the_nanoseconds_of_the_second() -> None:
    assert build_offset(SourcePosition(NS, 42)) == {"incrementing": 42, "timestamp": 1700000000123, "timestamp_nanos": 123456000}
    assert build_offset(SourcePosition(None, 42)) == {"incrementing": 42}
    assert build_offset(SourcePosition(-1)) == {"timestamp": -1, "timestamp_nanos": 999_999_999}


@pytest.mark.parametrize(
    "position",
    [SourcePosition(NS, 42), SourcePosition(NS), SourcePosition(None, 7), SourcePosition(-1), SourcePosition(0, 0), NO_POSITION],
)
def test_position_survives_a_round_trip_through_its_offset(position: SourcePosition) -> None:
    assert parse_offset(build_offset(position)) == position


def test_an_offset_without_nanoseconds_is_read() -> None:
    assert parse_offset({"timestamp": 1700000000123}) == SourcePosition(1_700_000_000_123_000_000)


@pytest.mark.parametrize(
    ("offset", "needed", "words"),
    [
        ({"incrementing": "4"}, (), "incrementing must be an integer"),
        ({"incrementing": True}, (), "incrementing must be an integer"),
        ({"id": 4}, (), "has no 'id'"),
        ({"timestamp": 4, "timestamp_nanos": 10**9}, (), "from 0 to 999999999"),
        ({"incrementing": 4}, ("incrementing", "timestamp"), "needs timestamp"),
    ],
)
def test_problems_of_offsets_are_reported(offset: dict[str, object], needed: tuple[str, ...], words: str) -> None:
    assert words in (find_offset_problem(offset, needed) or "")


def test_each_row_has_its_own_incrementing_offset() -> None:
    tracker = IncrementingOffsets(NO_POSITION, "t")
    assert tracker.offsets([(1,), (5,)], last=False) == [{"incrementing": 1}, {"incrementing": 5}]
    assert tracker.position == SourcePosition(None, 5)


def test_timestamp_becomes_the_offset_only_when_another_one_follows() -> None:
    tracker = TimestampOffsets(SourcePosition(10), "t")
    t0, t1, t2 = ({"timestamp": 0, "timestamp_nanos": ns} for ns in (10, 20, 30))
    assert tracker.offsets([(20,), (20,), (30,), (30,)], last=False) == [t0, t1, t1]
    assert tracker.position == SourcePosition(20)
    assert tracker.offsets([(30,)], last=True) == [t2]
    assert tracker.position == SourcePosition(30)


def test_rows_with_the_first_timestamp_have_no_offset_if_nothing_was_read_before() -> None:
    tracker = TimestampOffsets(NO_POSITION, "t")
    assert tracker.offsets([(20,), (20,), (20,)], last=True) == [None, None, {"timestamp": 0, "timestamp_nanos": 20}]


def test_of_several_timestamp_columns_the_first_that_is_not_null_counts() -> None:
    tracker = TimestampIncrementingOffsets(NO_POSITION, "t")
    assert tracker.offsets([(1, None, 7), (2, 8, None)], last=True) == [
        {"incrementing": 1, "timestamp": 0, "timestamp_nanos": 7},
        {"incrementing": 2, "timestamp": 0, "timestamp_nanos": 8},
    ]


def test_row_without_incrementing_value_or_timestamp_is_an_error() -> None:
    with pytest.raises(ConnectError, match=r"public\.orders has null in the incrementing column"):
        IncrementingOffsets(NO_POSITION, "public.orders").offsets([(None,)], last=True)
    with pytest.raises(ConnectError, match="null in all of its timestamp columns"):
        TimestampOffsets(NO_POSITION, "t").offsets([(None, None)], last=True)
    with pytest.raises(ConnectError, match="64 bits"):
        IncrementingOffsets(NO_POSITION, "t").offsets([(2**63,)], last=True)


SELECT = Sql('SELECT * FROM "t"')
BEGIN, END = Sql(Bind("begin")), Sql(Bind("end"))


def part_of(columns: CursorColumns, *, inclusive: bool = False) -> QueryRange:
    count = len(columns.timestamps)
    return QueryRange(4, (BEGIN,) * count, (END,) * count, inclusive)


@pytest.mark.parametrize(
    ("columns", "text", "values"),
    [
        (CursorColumns('"id"'), 'SELECT * FROM "t" WHERE "id" > ? ORDER BY "id" ASC', [4]),
        (CursorColumns(None, ('"a"',)), 'SELECT * FROM "t" WHERE "a" > ? AND "a" < ? ORDER BY "a" ASC', ["begin", "end"]),
        (
            CursorColumns(None, ('"a"', '"b"')),
            'SELECT * FROM "t" WHERE COALESCE("a","b") > ? AND COALESCE("a","b") < ? ORDER BY COALESCE("a","b") ASC',
            ["begin", "end"],
        ),
        (
            CursorColumns('"id"', ('"a"',)),
            'SELECT * FROM "t" WHERE "a" < ? AND (("a" = ? AND "id" > ?) OR "a" > ?) ORDER BY "a","id" ASC',
            ["end", "begin", 4, "begin"],
        ),
    ],
)
def test_queries_have_the_form_of_confluents_connector(columns: CursorColumns, text: str, values: list[object]) -> None:
    query = incremental_query(SELECT, columns, part_of(columns))
    assert query.text == text
    assert query.values == values


def test_query_can_include_rows_with_the_start_timestamp() -> None:
    time, both = CursorColumns(None, ("a",)), CursorColumns("id", ("a",))
    uses_timestamp = incremental_query(Sql("SELECT *"), time, part_of(time, inclusive=True))
    by_both = incremental_query(Sql("SELECT *"), both, part_of(both, inclusive=True))
    assert uses_timestamp.text == "SELECT * WHERE a >= ? AND a < ? ORDER BY a ASC"
    assert by_both.text == "SELECT * WHERE a < ? AND a >= ? ORDER BY a,id ASC"


def test_a_suffix_comes_last() -> None:
    assert with_suffix(SELECT, "LIMIT 5").text == 'SELECT * FROM "t" LIMIT 5'
    assert with_suffix(SELECT, "") is SELECT


def test_each_timestamp_column_is_compared_in_its_own_sql_form() -> None:
    query = incremental_query(
        Sql("SELECT *"), CursorColumns(None, ("a", "b")), QueryRange(-1, (Sql("1"), Sql("'x'")), (Sql("2"), Sql("2")))
    )
    assert query.text == (
        "SELECT * WHERE CASE WHEN a IS NOT NULL THEN a > 1 WHEN b IS NOT NULL THEN b > 'x' END AND COALESCE(a,b) < 2 "
        "ORDER BY COALESCE(a,b) ASC"
    )


def test_error_for_an_unreadable_offset_says_what_to_do() -> None:
    unreadable: tuple[dict[str, Any], ...] = ({"timestamp": "x"}, {"incrementing": []})
    for offset in unreadable:
        with pytest.raises(DataError, match="alter or remove it"):
            parse_offset(offset)
