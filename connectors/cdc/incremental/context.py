"""The state of an incremental snapshot: which tables are left, and how far the first one is read.

It is part of the offsets, with Debezium's keys, so that a restart continues at the same chunk, and Debezium can take over.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from connect.errors import DataError
from connectors.cdc.config.signal_keys import parse_table_name
from connectors.cdc.incremental.java_keys import JavaKeys, Position

log = logging.getLogger(__name__)

# Debezium's keys.
_PRIMARY_KEY = "incremental_snapshot_primary_key"
_MAXIMUM_KEY = "incremental_snapshot_maximum_key"
_CORRELATION_ID = "incremental_snapshot_correlation_id"
_COLLECTIONS = "incremental_snapshot_collections"
# Our own: keys of all types as texts, with the names of their columns.
_CHUNK = "incremental_snapshot_chunk"
_KEYS = (_PRIMARY_KEY, _MAXIMUM_KEY, _CORRELATION_ID, _COLLECTIONS, _CHUNK)


@dataclass(frozen=True, slots=True)
class DataCollection:
    """A table to read. ``condition`` is a SQL condition, ``surrogate_key`` a column that orders the rows instead of the key."""

    schema: str
    name: str
    condition: str = ""
    surrogate_key: str = ""
    signal_id: str | None = None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableScan:
    """How far a table is read: up to ``end``, of at most ``maximum``. ``columns`` order the rows; ``types`` are their types, and
    ``orders`` says what else their order depends on, such as collations.

    ``columns`` is empty if an offset of Debezium does not say, ``orders`` also if an earlier release has stored it.
    """

    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    end: Position | None = None
    maximum: Position | None = None
    orders: tuple[str, ...] = ()


class IncrementalContext:
    """The tables to read, in order."""

    def __init__(self, keys: JavaKeys, offset: Mapping[str, Any] | None = None) -> None:
        self._keys = keys
        self._collections: list[DataCollection] = []
        self._signal_id: str | None = None
        self._scan = TableScan()
        self._is_paused = False
        self._offset: dict[str, Any] | None = None
        if offset is not None and offset.get(_COLLECTIONS):
            self._load(offset)

    # --- state ----------------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return bool(self._collections)

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def collections(self) -> Sequence[DataCollection]:
        return self._collections

    @property
    def current(self) -> DataCollection:
        return self._collections[0]

    @property
    def scan(self) -> TableScan:
        """How far the current table is read."""
        return self._scan

    @property
    def signal_id(self) -> str | None:
        """The ID of the signal that was added last."""
        return self._signal_id

    def add(self, collections: Iterable[DataCollection], signal_id: str | None) -> list[DataCollection]:
        """Adds tables, and returns those that are not waiting already with the same condition."""
        added = [c for c in collections if not any(_same(c, known) for known in self._collections)]
        self._collections += added
        self._signal_id = signal_id
        self._offset = None
        return added

    def pause(self) -> None:
        self._is_paused = True
        self._offset = None

    def resume(self) -> None:
        self._is_paused = False
        self._offset = None

    def start_scan(self, scan: TableScan) -> None:
        """The current table is read from its start, or as an offset says."""
        self._scan = scan
        self._offset = None

    def complete_chunk(self, end: Position) -> None:
        """The rows up to ``end`` are emitted."""
        self._scan = replace(self._scan, end=end)
        self._offset = None

    def complete_table(self) -> None:
        """The current table is read completely, or cannot be read."""
        self._remove(self._collections[:1])

    def remove(self, collections: Iterable[DataCollection]) -> None:
        """Stops reading tables."""
        self._remove(list(collections))

    def _remove(self, removed: Sequence[DataCollection]) -> None:
        if self._collections and self._collections[0] in removed:
            self._scan = TableScan()
        self._collections = [c for c in self._collections if c not in removed]
        if not self._collections:
            self._signal_id = None
            self._is_paused = False
        self._offset = None

    # --- offsets --------------------------------------------------------------------------------------------------------------

    def offset(self) -> Mapping[str, Any]:
        """The keys to add to offsets."""
        if self._offset is None:
            self._offset = self._store() if self._collections else {}
        return self._offset

    def _store(self) -> dict[str, Any]:
        scan = self._scan
        stored: dict[str, Any] = {}
        end, maximum = self._keys.write(scan.end, scan.types), self._keys.write(scan.maximum, scan.types)
        if end is not None and maximum is not None:
            stored = {_PRIMARY_KEY: end, _MAXIMUM_KEY: maximum}
        stored[_COLLECTIONS] = _json([_stored_collection(c) for c in self._collections])
        stored[_CORRELATION_ID] = self._signal_id
        chunk: dict[str, Any] = {"columns": scan.columns, "types": scan.types, "end": scan.end, "maximum": scan.maximum}
        if any(scan.orders):
            chunk["orders"] = scan.orders
        if self._is_paused:
            chunk["paused"] = True
        stored[_CHUNK] = _json(chunk)
        return stored

    def _load(self, offset: Mapping[str, Any]) -> None:
        self._signal_id = offset.get(_CORRELATION_ID)
        for stored in json.loads(offset[_COLLECTIONS]):
            collection = _parse_collection(stored)
            if collection is not None:
                self._collections.append(collection)
        if _CHUNK in offset:
            chunk = json.loads(offset[_CHUNK])
            self._is_paused = bool(chunk.get("paused"))
            end, maximum = (None if chunk[name] is None else tuple(chunk[name]) for name in ("end", "maximum"))
            orders = tuple(chunk.get("orders", ()))
            self._scan = TableScan(tuple(chunk["columns"]), tuple(chunk["types"]), end, maximum, orders)
            return
        try:
            end, maximum = self._keys.parse(offset.get(_PRIMARY_KEY)), self._keys.parse(offset.get(_MAXIMUM_KEY))
        except DataError as e:
            log.warning("cannot read the key of the incremental snapshot in the offset; starting its table again: %s", e.message)
            return
        if end is not None and maximum is not None:
            self._scan = TableScan(end=end, maximum=maximum)


def incremental_offset(offset: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of an offset that belongs to an incremental snapshot."""
    return {key: offset[key] for key in _KEYS if key in offset}


def _same(one: DataCollection, other: DataCollection) -> bool:
    return replace(one, signal_id=None) == replace(other, signal_id=None)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _stored_collection(collection: DataCollection) -> dict[str, Any]:
    parts = (
        f'"{part.replace(chr(34), chr(34) * 2)}"' if "." in part or '"' in part else part
        for part in (collection.schema, collection.name)
    )
    return {
        f"{_COLLECTIONS}_id": ".".join(parts),
        f"{_COLLECTIONS}_additional_condition": f"({collection.condition})" if collection.condition else None,
        f"{_COLLECTIONS}_surrogate_key": collection.surrogate_key or None,
        f"{_COLLECTIONS}_correlation_id": collection.signal_id,
    }


def _parse_collection(stored: Mapping[str, Any]) -> DataCollection | None:
    name = parse_table_name(stored[f"{_COLLECTIONS}_id"])
    if name is None:
        log.warning("cannot read the table %s of the incremental snapshot in the offset; skipping it", stored)
        return None
    condition = stored.get(f"{_COLLECTIONS}_additional_condition") or ""
    if condition.startswith("(") and condition.endswith(")"):
        condition = condition[1:-1]
    return DataCollection(
        *name, condition, stored.get(f"{_COLLECTIONS}_surrogate_key") or "", stored.get(f"{_COLLECTIONS}_correlation_id")
    )
