"""Finds tables that a change of the configuration captures, so that their existing rows are read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from connectors.cdc.config.capture import CaptureSettings
from connectors.cdc.schema.filters import Filters
from connectors.mysql.schema.model import TableId

CAPTURED: Final = "captured_tables"
"""Our own key in offsets: the lists of tables that are captured."""
_LISTS: Final = ("schema_include", "schema_exclude", "table_include", "table_exclude")


def dump_lists(capture: CaptureSettings) -> str:
    """The lists as they are stored in offsets."""
    return json.dumps({name: getattr(capture, name) for name in _LISTS}, separators=(",", ":"), ensure_ascii=False)


def find_newly_captured(stored: str | None, capture: CaptureSettings, tables: Iterable[TableId]) -> list[str]:
    """Returns the tables (database.table) that are captured, but were not with the stored lists; none without these."""
    if stored is None or stored == dump_lists(capture):
        return []
    lists: dict[str, Any] = {name: tuple(value) for name, value in json.loads(stored).items() if name in _LISTS}
    before, now = Filters(replace(capture, **lists)), Filters(capture)
    found = sorted(id for id in tables if now.captures_table(*id) and not before.captures_table(*id))
    return [str(id) for id in found if not now.is_signal_table(*id)]
