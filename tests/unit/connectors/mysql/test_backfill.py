"""Tables that a change of the configuration captures."""

from __future__ import annotations

from dataclasses import replace

from connectors.cdc.config.capture import CaptureSettings
from connectors.mysql.schema.model import TableId
from connectors.mysql.signals.backfill import dump_lists, find_newly_captured

_TABLES = [TableId("shop", "orders"), TableId("shop", "items"), TableId("shop", "signals"), TableId("other", "t")]
_BEFORE = CaptureSettings(table_include=("shop.orders",))


def test_only_tables_that_were_not_captured_before_are_new() -> None:
    stored = dump_lists(_BEFORE)
    now = CaptureSettings(table_include=("shop.*",), signal_table=("shop", "signals"))
    assert find_newly_captured(stored, now, _TABLES) == ["shop.items"]
    assert find_newly_captured(stored, CaptureSettings(), _TABLES) == ["other.t", "shop.items", "shop.signals"]
    assert find_newly_captured(stored, CaptureSettings(schema_exclude=("shop",)), _TABLES) == ["other.t"]


def test_nothing_is_new_without_a_change_or_stored_lists() -> None:
    assert find_newly_captured(None, CaptureSettings(), _TABLES) == []
    assert find_newly_captured(dump_lists(_BEFORE), replace(_BEFORE, column_include=("a",)), _TABLES) == []
