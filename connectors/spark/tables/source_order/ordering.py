"""Compares an upsert with what the table has, and keeps of its changes those that are newer (``sequence.by=source``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.config_keys import DELETED, SEQ
from connectors.spark.decode.change_batch import POSITION as CHANGE_POSITION
from connectors.spark.plan.source_order import is_delete
from connectors.spark.tables.files.file_reader import read_rows
from connectors.spark.tables.files.key_index import Mask, Matches
from connectors.spark.tables.files.live_files import LiveFiles, group_rows
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.files.upsert import Find, find_kept_rows
from connectors.spark.tables.source_order.deleted_keys import DeletedKeys
from connectors.spark.tables.source_order.order_state import POSITION, OrderState, OrderStateFiles
from connectors.spark.tables.source_order.row_positions import RowPositions
from connectors.spark.tables.table import Upsert


@dataclass(frozen=True, slots=True)
class OrderedUpsert:
    """``upsert`` and ``matches`` have only changes that apply. ``truncated`` are rows of live files, by file number, that a
    truncate removes. ``state`` is the new state of the table, if it changes. ``outdated`` counts changes that are ignored."""

    upsert: Upsert
    matches: Matches
    truncated: Mapping[int, Rows]
    state: OrderState | None
    outdated: int

    @property
    def new_state_id(self) -> int | None:
        """Names the new state; None if the table keeps the one that it has."""
        return None if self.state is None else self.state.id


class SourceOrder:
    """Orders the changes of one table. Used by one thread at a time. ``files`` must be set before the first upsert."""

    def __init__(self, deleted_retention_ms: int, files: OrderStateFiles | None = None) -> None:
        self.files = files
        self.deleted_keys = DeletedKeys(deleted_retention_ms)
        self._positions = RowPositions()
        self._is_used = False
        self.outdated = 0

    def figures(self) -> dict[str, int]:
        """For the progress of a task; empty until the first upsert."""
        return {"outdated": self.outdated, "deleted_keys": self.deleted_keys.key_count} if self._is_used else {}

    def apply(self, upsert: Upsert, matches: Matches, live: LiveFiles, state_id: int) -> OrderedUpsert:
        """Compares the changes with the rows of their keys, ``matches``, and with the table's state. Writes a new state if there
        is one, which belongs to nobody until the commit. Either :meth:`committed` or :meth:`abandoned` must follow."""
        files = self.files
        assert files is not None
        self._is_used = True
        deleted_keys = self.deleted_keys
        deleted_keys.load(state_id, {name: upsert.columns[name] for name in upsert.keys}, files)
        before = deleted_keys.state.truncated_at
        truncate = upsert.changes.truncate
        at = truncate.position if truncate is not None else None
        is_latest = at is not None and (before is None or at >= before)  # RESTORE brings rows back, but no older state
        truncated_at = at if is_latest else before
        is_outdated = self._find_outdated(upsert, matches, live)
        if before is not None:  # what is older than the truncate of this commit has been planned with it
            is_outdated |= _to_mask(pc.less(upsert.changes.meta[CHANGE_POSITION], before))
        if is_outdated.any():
            upsert, matches = _filter(upsert, matches, ~is_outdated)
        truncated: dict[int, Rows] = {}
        if not is_latest:
            upsert = replace(upsert, update=None)  # the table had a later truncate
        elif truncated_at is not None and upsert.update is None:
            truncated = self._find_truncated(live, truncated_at)
            matches = _without(matches, truncated)
        state = deleted_keys.plan(None if upsert.soft_deletes else _deleted_rows(upsert), truncated_at, files)
        return OrderedUpsert(upsert, matches, truncated, state, int(is_outdated.sum()))

    def find_kept_rows(self, ordered: OrderedUpsert, live: LiveFiles, find: Find) -> Matches:
        """The rows of the table that have kept values (:func:`find_kept_rows`). A row of an old key that is newer than the change
        of the key, or truncated, has none."""
        upsert = ordered.upsert
        kept = find_kept_rows(upsert, ordered.matches, find)
        if kept is ordered.matches:
            return kept
        kept = _without(kept, ordered.truncated)
        position = upsert.changes.meta[CHANGE_POSITION].combine_chunks()
        is_older = np.ones(len(kept.keys), bool)
        for number in np.unique(kept.files):
            here = np.flatnonzero(kept.files == number)
            here = here[np.argsort(kept.rows[here], kind="stable")]
            old = read_rows(live, live.at(int(number)), kept.rows[here].astype(np.int64), {SEQ: upsert.columns[SEQ]})
            newer = _to_mask(pc.greater_equal(old[SEQ], position.take(pa.array(kept.keys[here]))))
            is_older[here] = ~newer
        return kept.filter(is_older)

    def committed(self, ordered: OrderedUpsert | None) -> None:
        """The table has these changes now."""
        if ordered is not None and self.files is not None:
            self.outdated += ordered.outdated
            if ordered.state is not None:
                self.deleted_keys.committed(ordered.state, self.files)

    def abandoned(self, ordered: OrderedUpsert | None) -> None:
        """The table certainly does not have these changes."""
        if ordered is not None and ordered.state is not None and self.files is not None:
            self.files.delete(ordered.state.id)

    @contextlib.contextmanager
    def writing(self, ordered: OrderedUpsert) -> Iterator[None]:
        """Abandons the changes when the block that writes their files fails."""
        try:
            yield
        except BaseException:
            self.abandoned(ordered)
            raise

    def _find_outdated(self, upsert: Upsert, matches: Matches, live: LiveFiles) -> Mask:
        """Which changes are not newer than the table's row of their key, or than its delete."""
        meta = upsert.changes.meta
        outdated = np.zeros(meta.num_rows, bool)
        if not meta.num_rows:
            return outdated
        positions, deletes = meta[CHANGE_POSITION].combine_chunks(), _to_mask(is_delete(meta))
        oldest = pc.min(positions).as_py()
        for number, rows in group_rows(matches.files, matches.rows).items():
            file = live.at(number)
            bounds = self._positions.bounds(live, file)
            if not bounds.may_reach(oldest):
                continue
            here = np.flatnonzero(matches.files == number)
            here = here[np.argsort(matches.rows[here], kind="stable")]  # like ``rows``
            keys = matches.keys[here]
            change = positions.take(pa.array(keys))
            read = np.flatnonzero(_to_mask(pc.less_equal(change, bounds.highest)))
            if not len(read):
                continue
            wanted = {name: type_ for name, type_ in upsert.columns.items() if name in (SEQ, DELETED)}
            old = read_rows(live, file, rows[read], wanted)
            change, keys = change.take(pa.array(read)), keys[read]
            is_older = _to_mask(pc.less(change, old[SEQ]))
            is_same = _to_mask(pc.equal(change, old[SEQ]))
            was_deleted = np.zeros(len(keys), bool)
            if upsert.soft_deletes and DELETED in wanted:
                was_deleted = _to_mask(old[DELETED])
            outdated[keys[is_older | (is_same & ~(was_deleted & ~deletes[keys]))]] = True
        for key, deleted_at in self.deleted_keys.find(upsert.rows):
            if positions[key].as_py() < deleted_at:  # a repeated delete has something to delete if RESTORE brought the row back
                outdated[key] = True
        return outdated

    def _find_truncated(self, live: LiveFiles, position: str) -> dict[int, Rows]:
        found = {}
        for file in live.by_path.values():
            rows = self._positions.older_rows(live, file, position)
            if file.deleted is not None:
                rows = rows[~file.deleted[rows]]
            if len(rows):
                found[file.number] = rows
        return found


def _filter(upsert: Upsert, matches: Matches, kept: Mask) -> tuple[Upsert, Matches]:
    mask = pa.array(kept)
    matches = matches.filter(kept[matches.keys])
    numbers = np.cumsum(kept) - 1
    matches = Matches(numbers[matches.keys].astype(np.int64), matches.files, matches.rows)
    return replace(upsert, rows=upsert.rows.filter(mask), changes=upsert.changes.filter(mask)), matches


def _without(matches: Matches, truncated: Mapping[int, Rows]) -> Matches:
    """The matches whose rows remain."""
    kept = np.ones(len(matches.keys), bool)
    for number, rows in truncated.items():
        here = np.flatnonzero(matches.files == number)
        kept[here] = ~np.isin(matches.rows[here], rows)
    return matches.filter(kept)


def _deleted_rows(upsert: Upsert) -> pa.Table | None:
    """The keys that the upsert deletes, with the positions of the deletes; None when there are none."""
    deleted = upsert.changes.deleted
    if not pc.any(deleted).as_py():
        return None
    rows = upsert.rows.select(list(upsert.keys)).filter(deleted)
    return rows.append_column(POSITION, upsert.changes.meta[CHANGE_POSITION].filter(deleted))


def _to_mask(values: pa.Array | pa.ChunkedArray) -> Mask:
    """A mask of the rows with true."""
    found: Mask = pc.fill_null(values, False).to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else (
        pc.fill_null(values, False).to_numpy()
    )  # fmt: skip
    return found


def join_rows(deleted: Mapping[int, Rows], truncated: Mapping[int, Rows]) -> dict[int, Rows]:
    """Rows by file number that are in one of both."""
    joined = dict(deleted)
    for number, rows in truncated.items():
        joined[number] = np.union1d(joined[number], rows) if number in joined else rows
    return joined
