"""SQL statements of the sink."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from connectors.spark.plan.evolution import (
    quote,
)
from connectors.spark.plan.sql import key_bounds, literal, merge_statement, written_columns


def test_merge_names_every_column_and_quotes_all_names() -> None:
    statement = merge_statement(
        "delta.`/lake/a``b`", "s", ["i`d"], ["i`d", "x", "old"], {"i`d", "x"}, {"x"}, ("1", "9"), deletes=True
    )
    assert statement == (
        "MERGE INTO delta.`/lake/a``b` AS t USING `s` AS s ON t.`i``d` = s.`i``d` AND t.`i``d` BETWEEN 1 AND 9 "
        "WHEN MATCHED AND s.`__sluice_delete` THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.`x` = CASE WHEN s.`__sluice_keep_x` THEN t.`x` ELSE s.`x` END, t.`old` = NULL "
        "WHEN NOT MATCHED AND NOT s.`__sluice_delete` THEN INSERT (`i``d`, `x`, `old`) "
        "VALUES (s.`i``d`, s.`x`, NULL)"
    )


def test_an_upsert_writes_null_into_columns_that_it_lacks_except_computed_ones() -> None:
    columns, computed = ["id", "plain", "computed", "given"], {"computed", "given"}
    written = written_columns(columns, {"id", "given"}, computed)
    assert written == ["id", "plain", "given"]
    statement = merge_statement("t", "s", ["id"], written, {"id", "given"}, (), None, deletes=False)
    assert "UPDATE SET t.`plain` = NULL, t.`given` = s.`given` WHEN" in statement
    assert "INSERT (`id`, `plain`, `given`) VALUES (s.`id`, NULL, s.`given`)" in statement


def test_merge_of_nothing_but_keys_has_no_update() -> None:
    assert "UPDATE" not in merge_statement("t", "s", ["id"], ["id"], {"id"}, (), None, deletes=False)


def test_literals_are_escaped() -> None:
    assert literal("a'b\\' OR 1=1") == "'a\\'b\\\\\\' OR 1=1'"


@pytest.mark.parametrize(
    ("values", "type_", "bounds"),
    [
        ([3, -(2**63), 2**63 - 1], pa.int64(), ("-9223372036854775808", "9223372036854775807")),
        (["b", "a'", None], pa.string(), ("'a\\''", "'b'")),
        (["a", "x" * 129], pa.string(), None),
        ([None], pa.string(), None),
        ([1.5], pa.float64(), None),
    ],
)
def test_bounds_of_keys_are_literals(values: list[Any], type_: pa.DataType, bounds: tuple[str, str] | None) -> None:
    assert key_bounds(pa.chunked_array([pa.array(values, type_)])) == bounds


@pytest.mark.parametrize("days", [-141_437, -141_432, -719_162, -719_529, 2_932_897, -(2**31), 2**31 - 1])
def test_bounds_of_dates_are_numbers_of_days_around_them(days: int) -> None:
    """Texts and java.sql.Date lack dates: 1582-10-10, and years before 1 and after 9999. Spark itself moves such dates."""
    found = key_bounds(pa.chunked_array([pa.array([days], pa.int32()).cast(pa.date32())]))
    assert found is not None
    low, high = (re.fullmatch(r"date_from_unix_date\((-?\d+)\)", text) for text in found)
    assert low is not None
    assert high is not None
    assert int(low[1]) == max(days - 11, -(2**31))
    assert int(high[1]) == min(days + 11, 2**31 - 1)


def test_identifiers_are_quoted() -> None:
    assert quote("a`b") == "`a``b`"


def test_a_soft_delete_keeps_columns_that_the_changes_lack() -> None:
    statement = merge_statement(
        "t", "s", ["id"], ["id", "x", "__deleted"], {"id", "__deleted"}, (), None, deletes=False, soft_flag="__deleted"
    )
    assert "t.`x` = CASE WHEN s.`__deleted` THEN t.`x` END, t.`__deleted` = s.`__deleted`" in statement
