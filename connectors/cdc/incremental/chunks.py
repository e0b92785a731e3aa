"""Chunks of tables: the next rows in key order, as of one point in time, and how a database reads them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from connect.record import SourceRecord
from connectors.cdc.incremental.context import DataCollection, TableScan
from connectors.cdc.incremental.java_keys import JavaKeys, Position
from connectors.cdc.incremental.window import ChunkWindow
from connectors.cdc.streaming.observers import MarkT

log = logging.getLogger(__name__)

WindowT = TypeVar("WindowT", bound=ChunkWindow[Any, Any, Any])


class ChunkDelayed(Exception):
    """The chunk cannot be read now; try again soon. Never leaves the package."""


class TableSkipped(Exception):
    """The table cannot be read. ``status`` is Debezium's name of the reason. Never leaves the package."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Chunk(Generic[WindowT, MarkT]):
    """Rows that were read. ``mark``: transactions that commit before it may be part of the snapshot, later ones are not.

    ``scan`` is the state before the chunk, ``end`` the key of its last row, None if there is none.
    """

    window: WindowT
    scan: TableScan
    end: Position | None
    row_count: int
    is_last: bool
    mark: MarkT


class ChunkSource(Protocol[WindowT, MarkT]):
    """What incremental snapshots need from a database. Every method but ``finish`` and ``close`` may raise
    ConnectionLostError."""

    @property
    def java_keys(self) -> JavaKeys:
        """How keys are stored in offsets."""

    @property
    def crash_point(self) -> str:
        """The name of the crash point behind each chunk."""

    def find_tables(self) -> Sequence[tuple[str, str]]:
        """The tables (schema, name) that can be read: all captured tables except the signal table."""

    def read(self, collection: DataCollection, scan: TableScan) -> Chunk[WindowT, MarkT]:
        """Reads the next chunk of a table. Raises ChunkDelayed and TableSkipped.

        Everything that the stream has sent so far is part of the rows. Otherwise they could be older than changes before them.
        """

    def records(self, window: WindowT, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SourceRecord]:
        """The 'r' events of the rows that are left: the last one has the offset ``after``, the others ``before``."""

    def finish(self) -> None:
        """All tables are read."""

    def close(self) -> None:
        """Closes connections; chunks may be read again later. May be called twice."""


def order_names(table: object, key: Sequence[str], collection: DataCollection) -> Sequence[str]:
    """Returns the names of the columns that order the rows of a table. Raises TableSkipped if there are none."""
    names = [collection.surrogate_key] if collection.surrogate_key else key
    if not names:
        raise TableSkipped(
            "NO_PRIMARY_KEY", f"table {table} has no key; name a column that orders its rows in surrogate-key of the signal"
        )
    return names


def unusable_order_column(table: object, name: str) -> TableSkipped:
    """The error for a column of a surrogate key that is not captured, or has no order."""
    return TableSkipped("UNKNOWN_SCHEMA", f"table {table} has no captured column {name} (surrogate-key)")


def continue_scan(
    table: object,
    scan: TableScan,
    columns: tuple[str, ...],
    types: tuple[str, ...],
    orders: tuple[str, ...],
    read_maximum: Callable[[], Position | None],
) -> TableScan:
    """Returns how far a table is read, from its start if other columns order its rows now, or these have other types or orders.

    ``read_maximum`` reads the highest position; None if there are no rows.
    """
    is_same = scan.columns in ((), columns) and scan.types in ((), types) and scan.orders in ((), orders)
    if not is_same or (scan.end is not None and len(scan.end) != len(columns)):
        log.warning("incremental snapshot: the key of %s has changed; reading the table from its start", table)
        scan = TableScan()
    if scan.maximum is None:
        return TableScan(columns, types, None, read_maximum(), orders)
    return TableScan(columns, types, scan.end, scan.maximum, orders)


class SignalTableWriter(Protocol):
    """Writes rows of the signal table. Its methods raise RejectedStatementError and ConnectionLostError."""

    def insert(self, signal_id: str, signal_type: str, data: str) -> None: ...

    def delete(self, signal_id: str) -> None: ...
