"""Debezium's ReselectColumnsPostProcessor: reads unavailable values and nulls of changed rows from the table.

The values are those that the table has now: newer than the change if the row has changed again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connect.errors import ConnectError
from connectors.cdc.config.post_processor_keys import ReselectSettings
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.pgoutput import INSERT, UNCHANGED, UPDATE, Insert, Tuple, Update, skip_tuple
from connectors.postgres.streaming.replication import HEADER_SIZE
from connectors.postgres.streaming.toast import encode_tuple, read_row_again

log = logging.getLogger(__name__)

_MARKER_AT = HEADER_SIZE + 5
"""Where a message says which kind of tuple follows."""


class Reselection:
    """Fills in the new rows of changes."""

    def __init__(self, settings: ReselectSettings, tables: CapturedTables) -> None:
        self._settings = settings
        self._tables = tables
        self._selected: dict[str, tuple[TableRows, frozenset[int]]] = {}

    def apply(self, data: bytes, kind: int, rows: TableRows, xid: int | None) -> bytes:
        """The message of a change with the values that the table has. Raises ConnectionLostError, and ConnectError if there is
        no such row and the settings say that this is an error."""
        if kind not in (INSERT, UPDATE):
            return data
        message = pgoutput.decode(data[HEADER_SIZE:])
        assert isinstance(message, Insert | Update)
        old: Sequence[object] = message.old or () if isinstance(message, Update) else ()
        wanted = [i for i in self._selected_columns(rows) if self._is_wanted(message.new[i], old[i] if old else None)]
        key = rows.key if self._settings.uses_event_key else rows.table.key
        if not wanted or not key or not rows.key:
            return data
        found = read_row_again(self._tables.connect, rows, message.new, wanted, key, xid)
        if found is None:
            return self._not_found(data, rows, message.new, key)
        return _with_new_tuple(data, kind, found)

    def _is_wanted(self, value: object, old: object) -> bool:
        if value is UNCHANGED:
            return self._settings.unavailable and not isinstance(old, bytes)  # a complete old row has the value
        return value is None and self._settings.nulls

    def _selected_columns(self, rows: TableRows) -> frozenset[int]:
        """The positions of columns that are read again."""
        name = str(rows.table)
        known, found = self._selected.get(name, (None, frozenset()))
        if known is not rows:
            found = frozenset(column.source_index for column in rows.columns if self._settings.selects(f"{name}:{column.name}"))
            self._selected[name] = rows, found
        return found

    def _not_found(self, data: bytes, rows: TableRows, new: Tuple, key: Sequence[str]) -> bytes:
        names = [column.name for column in rows.table.columns]
        values = [new[names.index(name)] for name in key if name in names]
        shown = ", ".join(
            f"{name}={value.decode()}" for name, value in zip(key, values, strict=False) if isinstance(value, bytes)
        )
        message = f"table {rows.table} has no row with {shown} any more, so values of its change are not read again"
        if self._settings.fails:
            raise ConnectError(f"{message} (reselect.error.handling.mode=fail)")
        log.warning("%s", message)
        return data


def _with_new_tuple(data: bytes, kind: int, values: Tuple) -> bytes:
    at = _MARKER_AT
    if kind == UPDATE and data[at] != ord("N"):
        at = skip_tuple(data, at + 1)
    return data[: at + 3] + encode_tuple(values)
