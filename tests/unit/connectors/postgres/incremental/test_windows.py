"""Changes of the stream replace the rows of a chunk that they touch, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import parse_config
from connectors.postgres.incremental.window import CopyWindow
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming.pgoutput import UNCHANGED, Delete, Insert, Update, Value
from connectors.postgres.types.catalog_type import CatalogType

_CONFIG = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
_INT, _TEXT = 23, 25
_TYPES = {oid: CatalogType(oid, "pg_catalog", name, "b", 0, 0, -1) for oid, name in ((_INT, "int4"), (_TEXT, "text"))}


def table_of(key: Sequence[str] = ("id",), **config: str) -> TableRows:
    """The table t (id, name, grp)."""
    settings = parse_config(_CONFIG | {name.replace("_", "."): value for name, value in config.items()})
    columns = tuple(
        CapturedColumn(name, oid, -1, name in key, None) for name, oid in (("id", _INT), ("name", _TEXT), ("grp", _INT))
    )
    table = CapturedTable(1, "public", "t", columns, tuple(key), "d" if key else "f", "r", -1)
    return TableRows(table, _TYPES, settings, Filters(settings.capture))


def window_of(table: TableRows, *rows: Sequence[str | None]) -> CopyWindow:
    """Lines are numbers from 0."""
    window = CopyWindow(table)
    for number, cells in enumerate(rows):
        window.add_line(str(number), cells)
    return window


def row(*values: Value) -> list[Value]:
    return list(values)


def test_changes_remove_rows_by_their_keys() -> None:
    table = table_of()
    window = window_of(table, ["1", "a", "5"], ["2", None, "5"], ["3", "c", "5"], ["4", "d", "5"])
    window.on_change(Insert(1, row(b"4", b"d", b"5")), table, keeps_same=False)
    window.on_change(Update(1, None, False, row(b"1", UNCHANGED, b"6")), table, keeps_same=False)
    window.on_change(Delete(1, row(b"3", None, None), True), table, keeps_same=False)
    assert window.rows() == ["1"]
    window.on_change(Update(1, row(b"2", None, None), True, row(b"9", None, b"5")), table, keeps_same=False)
    assert window.is_empty
    assert not window.is_stale


def test_rows_with_the_same_record_key_stay() -> None:
    table = table_of(message_key_columns="public.t:grp")
    window = window_of(table, ["1", "a", "5"], ["2", "b", "5"])
    window.on_change(Update(1, None, False, row(b"2", b"x", b"5")), table, keeps_same=False)
    assert window.rows() == ["0"]


def test_rows_of_a_deleted_key_are_removed_if_the_record_key_is_another_one() -> None:
    table = table_of(message_key_columns="public.t:grp")
    window = window_of(table, ["1", "a", "5"], ["2", "b", "6"])
    window.on_change(Delete(1, row(b"2", None, None), True), table, keeps_same=False)
    assert window.rows() == ["0"]


def test_without_a_key_only_equal_rows_are_removed() -> None:
    table = table_of(())
    window = window_of(table, ["1", "a", "5"], ["1", "b", "5"], ["1", "a", None])
    window.on_change(Update(1, row(b"1", b"a", b"5"), False, row(b"1", UNCHANGED, b"7")), table, keeps_same=False)
    assert window.rows() == ["1", "2"]
    window.on_change(Delete(1, row(b"1", b"a", None), False), table, keeps_same=False)
    assert window.rows() == ["1"]


def test_masked_columns_are_compared_unmasked() -> None:
    keyed = table_of(("name",), column_mask_with_5_chars="public.t.name")
    window = window_of(keyed, ["1", "a", "5"], ["2", "b", "5"])
    window.on_change(Insert(1, row(b"3", b"a", b"5")), keyed, keeps_same=False)
    assert window.rows() == ["1"]
    keyless = table_of((), column_mask_with_5_chars="public.t.name")
    window = window_of(keyless, ["1", "a", "5"], ["1", "b", "5"], ["1", None, "5"])
    window.on_change(Delete(1, row(b"1", b"a", b"5"), False), keyless, keeps_same=False)
    assert window.rows() == ["1", "2"]


def test_a_row_stays_if_its_change_is_not_emitted() -> None:
    """What the stream skips, the chunk has to have; a mask hides the change, also that of a null, but not of the record key."""
    masked = table_of(column_mask_with_5_chars="public.t.name")
    window = window_of(masked, ["1", "a", "5"])
    for old, new in ((b"a", b"a"), (b"a", b"x"), (None, b"x")):
        change = Update(1, row(b"1", old, b"5"), False, row(b"1", new, b"5"))
        window.on_change(change, masked, keeps_same=True)
        assert (window.rows(), window.is_stale) == (["0"], False)
    window.on_change(change, masked, keeps_same=False)
    assert window.is_empty


@pytest.mark.parametrize(("key", "left", "is_stale"), [("", [], False), ("public.t:id", ["0"], True)])
def test_a_masked_key_that_changes_does_not_stay(key: str, left: list[str], is_stale: bool) -> None:
    """With another record key, the change is skipped, but later ones would not find the row."""
    table = table_of(("name",), column_mask_with_5_chars="public.t.name", message_key_columns=key)
    window = window_of(table, ["1", "a", "5"])
    window.on_change(Update(1, row(b"2", b"b", b"5"), False, row(b"2", b"x", b"5")), table, keeps_same=True)
    assert (window.rows(), window.is_stale) == (["0"], False)
    window.on_change(Update(1, row(b"1", b"a", b"5"), False, row(b"1", b"x", b"5")), table, keeps_same=True)
    assert (window.rows(), window.is_stale) == (left, is_stale)


def test_a_change_that_cannot_be_converted_is_reported_so_its_row_goes() -> None:
    table = table_of()
    window = window_of(table, ["1", "a", "5"])
    window.on_change(Update(1, row(b"1", b"a", b"?"), False, row(b"1", b"a", b"6")), table, keeps_same=True)
    assert window.is_empty


@pytest.mark.parametrize(
    "change",
    [
        Update(1, None, False, row(b"1", b"x", b"5")),
        Update(1, row(b"2", None, None), True, row(b"1", b"x", b"5")),
        Delete(1, row(b"2", None, None), True),
    ],
)
def test_a_change_without_the_old_values_makes_the_chunk_stale(change: Update | Delete) -> None:
    """The table's key is not captured, and the server sends no other old values."""
    table = table_of(message_key_columns="public.t:grp", column_exclude_list="public.t.id")
    window = window_of(table, ["a", "5"], ["b", "5"])
    window.on_change(change, table, keeps_same=False)
    assert window.is_stale


def test_an_unavailable_value_or_a_column_that_is_gone_makes_the_chunk_stale() -> None:
    table = table_of(("name",))
    window = window_of(table, ["1", "a", "5"])
    window.on_change(Update(1, None, False, row(b"1", UNCHANGED, b"5")), table, keeps_same=False)
    assert window.is_stale
    window = window_of(table, ["1", "a", "5"])
    window.on_change(Insert(1, row(b"1", b"a", b"5")), table_of(column_exclude_list="public.t.name"), keeps_same=False)
    assert window.is_stale


def test_a_value_that_cannot_be_converted_is_compared_as_text() -> None:
    table = table_of()
    window = window_of(table, ["x", "a", "5"], ["y", "b", "5"], ["3", "c", "5"])
    window.on_change(Delete(1, row(b"y", None, None), True), table, keeps_same=False)
    assert window.rows() == ["0", "2"]
    assert not window.is_stale
