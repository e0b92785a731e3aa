"""A table of a snapshot: how its rows are queried, and what they become."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from connect.record import SourceRecord
from connectors.cdc.snapshot.key_ranges import Key, KeyRange
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.cdc.snapshot.row_stream import RowBlock
from connectors.cdc.snapshot.table_read import TableLockedError
from connectors.databases.mysql.row_decoder import Decode
from connectors.mysql.config import MySqlConfig
from connectors.mysql.errors import MySqlServerError
from connectors.mysql.snapshot.events import MySqlTableEvents, text_decoder
from connectors.mysql.snapshot.key_ranges import key_order, range_condition
from connectors.mysql.snapshot.row_stream import MySqlRowStream
from connectors.mysql.snapshot.table_plan import MySqlTablePlan, count_ranges, select_statement, split_table

_LOCK_WAIT_TIMEOUT: Final = 1205


class MySqlSnapshotTable:
    """See :class:`connectors.cdc.snapshot.table_read.SnapshotTable`."""

    def __init__(self, plan: MySqlTablePlan, events: MySqlTableEvents, settings: MySqlConfig, leader: MySqlRowStream) -> None:
        self._plan = plan
        self._events = events
        self._settings = settings
        self._leader = leader

    @cached_property
    def _decode(self) -> Decode:
        return text_decoder(self._plan.rows)

    def __str__(self) -> str:
        return str(self._plan.rows.table)

    @property
    def id(self) -> str:
        return str(self)

    @property
    def fingerprint(self) -> str:
        return self._plan.fingerprint

    @property
    def has_key(self) -> bool:
        return bool(self._plan.key)

    def split(self, stream: MySqlRowStream, missing: Sequence[KeyRange]) -> list[KeyRange]:
        try:
            return split_table(stream.connection, self._plan, missing, count_ranges(self._plan, self._settings))
        except MySqlServerError as e:
            raise self._explained(stream, e) from e

    def start(self, stream: MySqlRowStream, bounds: KeyRange) -> None:
        key = self._plan.key
        try:
            stream.start(
                select_statement(self._plan.rows, self._settings, range_condition(key, bounds), key_order(key)), self._decode
            )
        except MySqlServerError as e:
            raise self._explained(stream, e) from e

    def _explained(self, stream: MySqlRowStream, error: MySqlServerError) -> Exception:
        if stream is not self._leader and error.number == _LOCK_WAIT_TIMEOUT:
            return TableLockedError(is_usable=True)
        return error

    def key_of(self, row: list[Any]) -> Key:
        return tuple(column.text(row[column.index]) for column in self._plan.key)

    def records(self, rows: Sequence[list[Any]], marker: str, offsets: OffsetStep) -> list[SourceRecord]:
        return self._events.records(rows, marker, offsets)

    def batch(self, rows: Sequence[list[Any]], block: RowBlock, offsets: OffsetStep) -> Sequence[SourceRecord]:
        return self._events.batch(rows, offsets)
