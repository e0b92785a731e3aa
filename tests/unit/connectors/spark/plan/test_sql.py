"""SQL statements of the sink."""

from __future__ import annotations

import datetime as dt

import pytest

from connectors.spark.plan.evolution import (
    quote,
)
from connectors.spark.plan.sql import literal, merge_statement


def test_merge_names_every_column_and_quotes_all_names() -> None:
    statement = merge_statement(
        "delta.`/lake/a``b`", "s", ["i`d"], ["i`d", "x", "old"], {"i`d", "x"}, {"x"}, ("i`d", 1, 9), deletes=True
    )
    assert statement == (
        "MERGE INTO delta.`/lake/a``b` AS t USING `s` AS s ON t.`i``d` = s.`i``d` AND t.`i``d` BETWEEN 1 AND 9 "
        "WHEN MATCHED AND s.`__sluice_delete` THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.`x` = CASE WHEN s.`__sluice_keep_x` THEN t.`x` ELSE s.`x` END, t.`old` = NULL "
        "WHEN NOT MATCHED AND NOT s.`__sluice_delete` THEN INSERT (`i``d`, `x`) "
        "VALUES (s.`i``d`, CASE WHEN s.`__sluice_keep_x` THEN NULL ELSE s.`x` END)"
    )


def test_merge_of_nothing_but_keys_has_no_update() -> None:
    assert "UPDATE" not in merge_statement("t", "s", ["id"], ["id"], {"id"}, (), None, deletes=False)


def test_literals_are_escaped() -> None:
    assert literal("a'b\\' OR 1=1") == "'a\\'b\\\\\\' OR 1=1'"
    assert literal(dt.date(2026, 1, 2)) == "DATE'2026-01-02'"
    with pytest.raises(TypeError):
        literal(1.5)


def test_identifiers_are_quoted() -> None:
    assert quote("a`b") == "`a``b`"


def test_a_soft_delete_keeps_columns_that_the_changes_lack() -> None:
    statement = merge_statement(
        "t", "s", ["id"], ["id", "x", "__deleted"], {"id", "__deleted"}, (), None, deletes=False, soft_flag="__deleted"
    )
    assert "t.`x` = CASE WHEN s.`__deleted` THEN t.`x` END, t.`__deleted` = s.`__deleted`" in statement
