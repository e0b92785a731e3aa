"""A table of a snapshot, which is read with COPY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connect.record import SourceRecord
from connectors.cdc.snapshot.key_ranges import Key, KeyRange
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.cdc.snapshot.table_read import TableLockedError
from connectors.postgres.config import PostgresConfig
from connectors.postgres.errors import ServerError
from connectors.postgres.snapshot.copy_stream import Block, CopyStream
from connectors.postgres.snapshot.events import TableEvents
from connectors.postgres.snapshot.key_ranges import key_order, range_condition
from connectors.postgres.snapshot.table_plan import TablePlan, count_ranges, split_table
from connectors.postgres.snapshot.transaction import is_lock_timeout, select_statement


class PostgresSnapshotTable:
    """See :class:`connectors.cdc.snapshot.table_read.SnapshotTable`. ``leader`` has the locks of all tables."""

    def __init__(self, plan: TablePlan, events: TableEvents, settings: PostgresConfig, leader: CopyStream) -> None:
        self._plan = plan
        self._events = events
        self._settings = settings
        self._leader = leader

    def __str__(self) -> str:
        return str(self._plan.rows.table)

    @property
    def id(self) -> str:
        return str(self._plan.rows.table.oid)

    @property
    def fingerprint(self) -> str:
        return self._plan.fingerprint

    @property
    def has_key(self) -> bool:
        return bool(self._plan.key)

    def split(self, stream: CopyStream, missing: Sequence[KeyRange]) -> list[KeyRange]:
        try:
            return split_table(stream.connection, self._plan, missing, count_ranges(self._plan, self._settings))
        except ServerError as e:
            raise self._explained(stream, e) from e

    def start(self, stream: CopyStream, bounds: KeyRange) -> None:
        key = self._plan.key
        conditions = range_condition(key, bounds)
        try:
            stream.start(select_statement(self._events.rows, self._settings, conditions, key_order(key)))
        except ServerError as e:
            raise self._explained(stream, e) from e

    def _explained(self, stream: CopyStream, error: ServerError) -> Exception:
        return error if stream is self._leader or not is_lock_timeout(error) else TableLockedError(is_usable=False)

    def key_of(self, row: str) -> Key:
        return self._events.key_of(row, [column.index for column in self._plan.key])

    def records(self, rows: Sequence[str], marker: str, offsets: OffsetStep) -> list[SourceRecord]:
        return self._events.records(rows, marker, offsets)

    def batch(self, rows: Sequence[str], block: Any, offsets: OffsetStep) -> Sequence[SourceRecord]:
        assert isinstance(block, Block)
        return self._events.batch(rows, block.traits, offsets)
