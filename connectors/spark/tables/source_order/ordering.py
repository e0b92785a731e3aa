"""Compares an upsert with what the table has, and keeps of its changes those that are newer (``sequence.by=source``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.config_keys import DELETED, SEQ
from connectors.spark.decode.change_batch import POSITION as CHANGE_POSITION
from connectors.spark.decode.change_batch import TOPIC_ID
from connectors.spark.plan.key_equality import first_rows
from connectors.spark.plan.source_order import is_delete
from connectors.spark.tables.files.file_reader import read_rows
from connectors.spark.tables.files.key_index import Mask, Matches
from connectors.spark.tables.files.live_files import LiveFiles, group_rows
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.files.upsert import Find, find_kept_rows
from connectors.spark.tables.source_order.deleted_keys import DeletedKeys
from connectors.spark.tables.source_order.order_state import POSITION, LastTruncate, OrderState, OrderStateFiles
from connectors.spark.tables.source_order.row_positions import RowPositions
from connectors.spark.tables.table import SourceChanges, Upsert


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
        files, changes = self.files, upsert.by_source
        assert files is not None
        assert changes is not None
        self._is_used = True
        deleted_keys = self.deleted_keys
        deleted_keys.load(state_id, {name: upsert.columns[name] for name in upsert.keys}, files)
        before, truncate = deleted_keys.state.truncated, upsert.changes.truncate
        now = None if truncate is None or truncate.position is None else LastTruncate(truncate.topic, truncate.position)
        is_latest = now is not None and not now.is_before(before)  # RESTORE brings rows back, but no older state
        is_outdated = self._find_outdated(upsert, matches, live)
        if before is not None:  # what is older than the truncate of this commit has been planned with it
            is_outdated |= _find_truncated_changes(changes.changes.meta, before)
        if is_outdated.any():
            upsert, matches = _without_changes(upsert, changes, matches, is_outdated)
        truncated: dict[int, Rows] = {}
        if not is_latest:
            upsert = replace(upsert, update=None)  # the table had a later truncate
        elif now is not None and upsert.update is None:
            truncated = self._find_truncated(live, now.position)
            matches = _without(matches, truncated)
        state = deleted_keys.plan(None if upsert.soft_deletes else _deleted_rows(upsert), now if is_latest else before, files)
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
        """Which of the changes behind the upsert are not newer than the table's row of their key, or than its delete."""
        assert upsert.by_source is not None
        meta, numbers = upsert.by_source.changes.meta, upsert.by_source.numbers
        outdated = np.zeros(meta.num_rows, bool)
        if not meta.num_rows:
            return outdated
        positions = meta[CHANGE_POSITION].combine_chunks()
        first = positions.take(pa.array(first_rows(numbers)))  # of each key
        newest, was_deleted = self._newest_rows(upsert, matches, live, first)
        deleted_at = np.full(len(first), None, object)
        for key, position in self.deleted_keys.find(upsert.rows):
            deleted_at[key] = max(position, deleted_at[key] or position)
        for known, also_same in ((newest, True), (deleted_at, False)):
            keys = np.flatnonzero([one is not None for one in known])
            if not len(keys):
                continue
            at = np.flatnonzero(np.isin(numbers, keys))
            change, of_key = positions.take(pa.array(at)), pa.array(known[numbers[at]], pa.string())
            is_outdated = _to_mask(pc.less(change, of_key))
            if also_same:  # a repeated delete has something to delete if RESTORE brought the row back
                revives = was_deleted[numbers[at]] & ~_to_mask(is_delete(meta))[at]
                is_outdated |= _to_mask(pc.equal(change, of_key)) & ~revives
            outdated[at] |= is_outdated
        return outdated

    def _newest_rows(
        self, upsert: Upsert, matches: Matches, live: LiveFiles, first: pa.Array
    ) -> tuple[np.ndarray[Any, np.dtype[np.object_]], Mask]:
        """By key: the position of the table's row, and whether it is marked as deleted. None where it is older than the first
        change."""
        newest, was_deleted = np.full(len(first), None, object), np.zeros(len(first), bool)
        oldest = pc.min(first).as_py()
        wanted = {name: type_ for name, type_ in upsert.columns.items() if name in (SEQ, DELETED)}
        for number, rows in group_rows(matches.files, matches.rows).items():
            file = live.at(number)
            bounds = self._positions.bounds(live, file)
            if not bounds.may_reach(oldest):
                continue
            here = np.flatnonzero(matches.files == number)
            here = here[np.argsort(matches.rows[here], kind="stable")]  # like ``rows``
            keys = matches.keys[here]
            read = np.flatnonzero(_to_mask(pc.less_equal(first.take(pa.array(keys)), bounds.highest)))
            if not len(read):
                continue
            old = read_rows(live, file, rows[read], wanted)
            deleted = old[DELETED].to_pylist() if upsert.soft_deletes and DELETED in wanted else [False] * len(read)
            for key, position, is_deleted in zip(keys[read].tolist(), old[SEQ].to_pylist(), deleted, strict=True):
                if position is not None and (newest[key] is None or position > newest[key]):
                    newest[key], was_deleted[key] = position, bool(is_deleted)
        return newest, was_deleted

    def _find_truncated(self, live: LiveFiles, position: str) -> dict[int, Rows]:
        found = {}
        for file in live.by_path.values():
            rows = self._positions.older_rows(live, file, position)
            if file.deleted is not None:
                rows = rows[~file.deleted[rows]]
            if len(rows):
                found[file.number] = rows
        return found


def _find_truncated_changes(meta: pa.Table, truncated: LastTruncate) -> Mask:
    is_older = pc.less(meta[CHANGE_POSITION], truncated.position)
    return _to_mask(pc.and_(is_older, pc.equal(meta[TOPIC_ID], truncated.topic)))


def _without_changes(upsert: Upsert, changes: SourceChanges, matches: Matches, outdated: Mask) -> tuple[Upsert, Matches]:
    """The upsert of the changes that are not outdated, and the matches of its rows."""
    kept = changes.changes.filter(pa.array(~outdated))
    before = changes.numbers[~outdated]
    found, first = np.unique(before, return_index=True)
    by_first = found[np.argsort(first)]  # the order of the new rows
    rows = np.full(upsert.rows.num_rows, -1, np.int64)
    rows[by_first] = np.arange(len(by_first))
    matches = matches.filter(rows[matches.keys] >= 0)
    matches = Matches(rows[matches.keys], matches.files, matches.rows)
    return replace(changes.reduce(kept), by_source=replace(changes, changes=kept, numbers=rows[before])), matches


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
