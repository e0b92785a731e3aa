"""Changes of the stream replace the rows of a chunk, and changes of the table the whole chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from connectors.cdc.schema.filters import Filters
from connectors.mysql.config import MySqlConfig, parse_config
from connectors.mysql.incremental.order_columns import order_column, position_of, rows_after
from connectors.mysql.incremental.window import RowWindow
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.ddl import DdlContext, parse_create_table
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.streaming.observers import RowChange

_CONFIG = {
    "topic.prefix": "shop",
    "database.hostname": "db",
    "database.port": "3306",
    "database.user": "u",
    "database.password": "p",
    "database.server.id": "1",
    "schema.history.internal.kafka.topic": "h",
    "schema.history.internal.kafka.bootstrap.servers": "k:9092",
}
_CONTEXT = DdlContext(is_mariadb=True, server_version=110400, server_charset="utf8mb4")


def settings(**changes: str) -> MySqlConfig:
    return parse_config({**_CONFIG, **changes})


def table_of(ddl: str, **changes: str) -> MySqlTableRows:
    values = settings(**changes)
    return MySqlCapturedTables(values, Filters(values.capture)).rows_of(parse_create_table(ddl, "d", _CONTEXT))


def window_of(table: MySqlTableRows, *rows: list[Any], is_exact: bool = False) -> RowWindow:
    window = RowWindow(table, lambda: table, is_exact=is_exact)
    for row in rows:
        window.add_row(row)
    return window


_KEYED = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(9))"


def test_changes_remove_rows_by_their_keys() -> None:
    table = table_of(_KEYED)
    window = window_of(table, ["1", "a"], ["2", None], ["3", "c"])
    window.on_change(RowChange([2, None], [5, "x"]), table, keeps_same=False)
    window.on_change(RowChange(None, [3, "c"]), table, keeps_same=False)
    assert window.rows() == [["1", "a"]]
    assert not window.is_stale
    window.on_change(RowChange([1, "a"], [1, "a"]), table, keeps_same=True)
    assert window.rows() == [["1", "a"]]
    window.on_change(RowChange([1, "a"], [1, "a"]), table, keeps_same=False)
    assert window.is_empty


def test_rows_of_exact_chunks_stay() -> None:
    table = table_of(_KEYED)
    window = window_of(table, ["1", "a"], is_exact=True)
    window.on_change(RowChange([1, "a"], None), table, keeps_same=False)
    assert window.rows() == [["1", "a"]]


def test_without_a_key_only_equal_rows_are_removed() -> None:
    table = table_of("CREATE TABLE t (a INT, b VARCHAR(9))")
    window = window_of(table, ["1", "a"], ["1", "b"], ["1", None])
    window.on_change(RowChange([1, "a"], [1, "c"]), table, keeps_same=False)
    assert window.rows() == [["1", "b"], ["1", None]]


def test_rows_with_the_same_record_key_stay() -> None:
    table = table_of("CREATE TABLE t (id INT PRIMARY KEY, grp INT)", **{"message.key.columns": "d.t:grp"})
    window = window_of(table, ["1", "5"], ["2", "5"])
    window.on_change(RowChange([2, 5], [2, 6]), table, keeps_same=False)
    assert window.rows() == [["1", "5"]]


@pytest.mark.parametrize(
    ("ddl", "changes"),
    [
        ("CREATE TABLE t (name VARCHAR(9), grp INT)", {}),
        ("CREATE TABLE t (name VARCHAR(9) PRIMARY KEY, grp INT)", {"message.key.columns": "d.t:grp"}),
    ],
)
def test_masked_columns_that_identify_rows_are_compared_unmasked(ddl: str, changes: dict[str, str]) -> None:
    table = table_of(ddl, **{"column.mask.with.5.chars": "d.t.name", **changes})
    window = window_of(table, ["a", "5"], ["b", "5"])
    read = table.columns[0].text.type.decode
    window.on_change(RowChange(None, [read("a"), 5]), table, keeps_same=False)
    assert window.rows() == [["b", "5"]]


def test_masked_keys_are_compared_unmasked() -> None:
    table = table_of("CREATE TABLE t (name VARCHAR(9) PRIMARY KEY)", **{"column.mask.with.5.chars": "d.t.name"})
    window = window_of(table, ["a"], ["b"])
    read = table.columns[0].text.type.decode
    window.on_change(RowChange(None, [read("a")]), table, keeps_same=False)
    assert window.rows() == [["b"]]


def test_a_row_stays_if_its_change_is_not_emitted() -> None:
    """What the stream skips, the chunk has to have; a mask hides the change, but not that of the record key."""
    keys = {"column.mask.with.5.chars": "d.t.name"}
    for message_key, left, is_stale in (("", 0, False), ("id", 1, True)):
        table = table_of(
            "CREATE TABLE t (id INT, name VARCHAR(9) PRIMARY KEY)",
            **(keys | ({"message.key.columns": f"d.t:{message_key}"} if message_key else {})),
        )
        read = table.columns[1].text.type.decode
        window = window_of(table, ["1", "a"])
        window.on_change(RowChange([1, read("a")], [1, read("a")]), table, keeps_same=True)
        window.on_change(RowChange([2, read("b")], [2, read("c")]), table, keeps_same=True)
        assert (len(window.rows()), window.is_stale) == (1, False)
        # Without a record key of its own, this is a delete and a create. Otherwise, the row has another key for later changes.
        window.on_change(RowChange([1, read("a")], [1, read("x")]), table, keeps_same=True)
        assert (len(window.rows()), window.is_stale) == (left, is_stale)


def test_unknown_changes_and_other_versions_make_a_chunk_stale() -> None:
    table = table_of(_KEYED)
    other = table_of("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10))")
    for change, version in ((RowChange(None, None), table), (RowChange(None, [7, "x"]), other)):
        window = window_of(table, ["1", "a"])
        window.on_change(change, version, keeps_same=False)
        assert window.is_stale


@pytest.mark.parametrize(("has_changed", "is_stale"), [(False, False), (True, True), (None, True)])
def test_a_chunk_of_a_version_that_is_not_current_is_stale(has_changed: bool | None, is_stale: bool) -> None:
    """None: the table was dropped."""
    table, other = table_of(_KEYED), table_of(_KEYED)
    current = None if has_changed is None else other if has_changed else table
    assert RowWindow(table, lambda: current, is_exact=True).is_stale is is_stale


def test_a_row_whose_key_cannot_be_converted_stays_until_it_is_reported() -> None:
    table = table_of("CREATE TABLE t (day DATE PRIMARY KEY)")
    window = window_of(table, ["2024-02-31"], ["2024-01-01"])
    assert window.rows() == [["2024-02-31"], ["2024-01-01"]]


@pytest.mark.parametrize(
    ("type_", "value", "text", "condition"),
    [
        ("BIGINT", "-5", "-5", "`k` > -5"),
        ("DOUBLE", "0.1", "0.1", "`k` > 0.1e0"),
        ("ENUM('z','a')", "a", "a", "`k` > 2"),
        ("SET('z','a')", "z,a", "z,a", "`k` > 3"),
        ("BIT(9)", b"\x01\x00", "0100", "`k` > 256"),
        ("VARBINARY(9)", b"\xff", "ff", "`k` > X'ff'"),
        ("DATE", "2024-01-01", "2024-01-01", "`k` > '2024-01-01'"),
        ("VARCHAR(9) CHARACTER SET latin1", b"\xe4", "e4", "`k` > _latin1 X'e4'"),
    ],
)
def test_positions_are_literals_of_their_types(type_: str, value: Any, text: str, condition: str) -> None:
    table = table_of(f"CREATE TABLE t (k {type_} NOT NULL, PRIMARY KEY (k))")
    column = order_column(table, "K")
    assert column is not None
    assert position_of([column], [value]) == (text,)
    assert rows_after([column], (text,)) == f"((({condition})))"


def test_only_captured_columns_with_an_order_order_rows() -> None:
    table = table_of(
        "CREATE TABLE t (id INT PRIMARY KEY, hidden INT, place POINT, name VARCHAR(9) CHARACTER SET latin1 NULL)",
        **{"column.exclude.list": "d.t.hidden"},
    )
    assert order_column(table, "hidden") is None
    assert order_column(table, "place") is None
    assert order_column(table, "none") is None
    name, id_ = order_column(table, "name"), order_column(table, "id")
    assert name is not None
    assert id_ is not None
    # Debezium stores the text of a key, not the bytes of its character set.
    assert (name.has_java_value, name.is_nullable) == (False, True)
    assert (id_.has_java_value, id_.is_nullable) == (True, False)
    assert replace(name, type_name="VARCHAR").has_java_value
