"""The positions of deleted keys of one table, in memory: a late change must not bring a deleted row back."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.plan.evolution import cast_column
from connectors.spark.tables.files.key_encoding import encode_rows
from connectors.spark.tables.files.key_index import Ints32, KeyIndex, Mask
from connectors.spark.tables.source_order.order_state import (
    DELETED_MS,
    POSITION,
    DeletedKeysFile,
    KeyTypes,
    LastTruncate,
    LostStateError,
    OrderState,
    OrderStateFiles,
)

log = logging.getLogger(__name__)

_GROWTH = 4
"""A segment that has fewer rows than this times those after it is merged with them, so there are few segments, and a row is
rewritten a few times only."""
_CLEANING_S = 3600


class DeletedKeys:
    """A cache of the newest state. Used by one thread at a time.

    It takes about 100 bytes per deleted key. Keys are forgotten after ``retention_ms``.
    """

    def __init__(self, retention_ms: int, clock: Callable[[], float] = time.time) -> None:
        self._retention_ms = retention_ms
        self._clock = clock
        self.state = OrderState()
        self._is_forgotten = False
        """Whether the state that the table names has, or had, deleted keys that ``state`` does not need."""
        self._keys: KeyTypes = {}
        self._numbers: dict[int, int] = {}
        """By segment: its number in the index."""
        self._positions: list[pa.ChunkedArray | None] = []
        self._index = KeyIndex(self._are_live)
        self._written: tuple[int, pa.Table] | None = None
        """The state that was written last, and its own rows."""
        self._cleaned_at = 0.0

    @property
    def key_count(self) -> int:
        """The number of keys that are kept."""
        return sum(segment.rows for segment in self.state.segments)

    def load(self, state_id: int, keys: KeyTypes, files: OrderStateFiles) -> None:
        """Follows the table to this state. Without key columns, which a truncate does not need, deleted keys are not read. Raises
        LostStateError, unless keys are not kept, or another ConnectError when a file cannot be read now."""
        if state_id == self.state.id and dict(keys) == dict(self._keys):
            return
        if dict(keys) != dict(self._keys):
            self._keys, self._numbers, self._positions = dict(keys), {}, []
            self._index = KeyIndex(self._are_live)
        try:
            state = files.read(state_id)
            self._follow(state, files)
            self._is_forgotten = bool(state.segments) and not self._retention_ms
        except LostStateError as e:
            if self._retention_ms:
                raise
            log.warning("Forgetting deleted keys, because sequence.deleted.retention.ms=0: %s", e.message)
            self._follow(OrderState(state_id), files)
            self._is_forgotten = True

    def _follow(self, state: OrderState, files: OrderStateFiles) -> None:
        wanted = {segment.id for segment in state.segments}
        for gone in self._numbers.keys() - wanted:
            self._positions[self._numbers.pop(gone)] = None
        for segment in state.segments if self._retention_ms and self._keys else ():
            if segment.id not in self._numbers:
                is_own = self._written is not None and self._written[0] == segment.id
                self._add(segment, self._written[1] if is_own and self._written else files.read_rows(segment))
        self.state = state

    def _add(self, segment: DeletedKeysFile, rows: pa.Table) -> None:
        if not set(self._keys) <= set(rows.column_names):
            return  # of other key columns
        keys = pa.table({name: cast_column(rows[name], type_, name) for name, type_ in self._keys.items()})
        encoded, valid = encode_rows(keys, self._keys)
        at = np.flatnonzero(valid)
        number = self._numbers[segment.id] = len(self._positions)
        self._positions.append(rows[POSITION])
        self._index.add(encoded.take(at), np.full(len(at), number, np.int32), at.astype(np.int32))

    def _are_live(self, numbers: Ints32, rows: Ints32) -> Mask:
        live = np.array([one is not None for one in self._positions], bool)
        return live[numbers] if len(live) else np.zeros(len(numbers), bool)

    def find(self, rows: pa.Table) -> list[tuple[int, str]]:
        """The rows whose key was deleted, with the position of the delete. A key may be found several times."""
        if not len(self._index) or not rows.num_rows:
            return []
        encoded, _ = encode_rows(rows, self._keys)
        matches = self._index.find(encoded)
        found = []
        for key, number, row in zip(matches.keys.tolist(), matches.files.tolist(), matches.rows.tolist(), strict=True):
            positions = self._positions[number]
            assert positions is not None
            found.append((key, positions[row].as_py()))
        return found

    def plan(self, deleted: pa.Table | None, truncated: LastTruncate | None, files: OrderStateFiles) -> OrderState | None:
        """Writes the state after a commit that deletes these keys (with their positions in the column ``POSITION``); None when
        the state remains. :meth:`committed` must follow the commit."""
        if not self._retention_ms:
            deleted = None
        if (deleted is None or not deleted.num_rows) and truncated == self.state.truncated and not self._is_forgotten:
            return None
        now_ms = int(self._clock() * 1000)
        rows = pa.table({n: pa.array([], t) for n, t in self._keys.items()} | {POSITION: pa.array([], pa.string())})
        if deleted is not None and deleted.num_rows:
            rows = deleted.select([*self._keys, POSITION])
        rows = rows.append_column(DELETED_MS, pa.array(np.full(rows.num_rows, now_ms)))
        segments = self.state.segments if self._retention_ms else ()
        kept = [segment for segment in segments if segment.until_ms > now_ms - self._retention_ms]
        parts = [rows]
        while self._keys and kept and kept[-1].rows < _GROWTH * sum(part.num_rows for part in parts):
            parts.insert(0, self._needed_rows(files.read_rows(kept.pop()), rows.schema, now_ms))
        whole = pa.concat_tables(parts)
        state = files.write(whole, truncated, kept)
        self._written = state.id, whole
        return state

    def _needed_rows(self, rows: pa.Table, schema: pa.Schema, now_ms: int) -> pa.Table:
        if not set(schema.names) <= set(rows.column_names):
            return schema.empty_table()
        rows = rows.filter(pc.greater(rows[DELETED_MS], now_ms - self._retention_ms))
        return pa.table({member.name: cast_column(rows[member.name], member.type, member.name) for member in schema})

    def committed(self, state: OrderState, files: OrderStateFiles) -> None:
        """Moves on to a state that a commit named, and now and then deletes files that no state needs any more."""
        self._follow(state, files)
        self._written, self._is_forgotten = None, False
        now = self._clock()
        if now - self._cleaned_at > _CLEANING_S:
            self._cleaned_at = now
            files.delete_unused(state, dt.datetime.fromtimestamp(now, dt.UTC))
