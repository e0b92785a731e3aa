"""What a truncate does to a table: it deletes every row that is older.

Nothing of a truncate is remembered. It removes the rows that the table has when it is committed, and the earlier changes of its
own commit. Kafka orders records only within a partition, so a table that several partitions feed refuses truncates by name,
unless its rows have positions (``sequence.by=source``).

Where rows stay in the table (soft deletes, versions), a truncate is a delete of every key of its commit, and an update of the
other rows: it gives the same table whatever is committed together with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connect.record import TopicPartition
from connectors.spark.config_keys import CURRENT, DELETED, SEQ, SEQUENCE_BY, VALID_TO
from connectors.spark.decode.change_batch import (
    DELETE,
    MESSAGE,
    OPERATION,
    POSITION,
    TOPIC_ID,
    TRUNCATE,
    ChangeBatch,
    find_deletes,
)
from connectors.spark.plan.evolution import Mask
from connectors.spark.plan.key_equality import Ints, number_keys
from connectors.spark.plan.projection import source_times

MADE = "made"
"""Column of ``meta`` after truncates have become deletes: whether a delete was made of one, and is no record."""


@dataclass(frozen=True, slots=True)
class TruncatePoint:
    """A truncate: its record's metadata, as one row."""

    meta: pa.Table

    @property
    def position(self) -> str | None:
        """In the source's log."""
        found: str | None = self.meta[POSITION][0].as_py()
        return found

    @property
    def topic(self) -> str:
        found: str = self.meta[TOPIC_ID][0].as_py()
        return found


@dataclass(frozen=True, slots=True)
class Feeds:
    """What is known of the partitions that feed a table: those whose records it has or gets now, and the number of partitions of
    their topics."""

    partitions: Collection[TopicPartition]
    counts: Mapping[str, int] = field(default_factory=dict)

    def of_topic(self, topic: str) -> set[TopicPartition]:
        """All partitions that may feed the table, if one is of this topic."""
        return {*self.partitions, *(TopicPartition(topic, number) for number in range(self.counts.get(topic, 1)))}


NO_FEEDS = Feeds(())


def find_truncates(meta: pa.Table) -> pa.ChunkedArray:
    """Mask of the truncates."""
    return pc.fill_null(pc.equal(meta[OPERATION], TRUNCATE), False)


def find_row_changes(meta: pa.Table) -> pa.ChunkedArray:
    """Mask of the changes of one row, which has a key."""
    return pc.invert(pc.fill_null(pc.is_in(meta[OPERATION], pa.array([TRUNCATE, MESSAGE])), False))


def contains_truncate(changes: Sequence[ChangeBatch]) -> bool:
    return any(pc.any(find_truncates(one.meta)).as_py() for one in changes)


def check_truncates(changes: Sequence[ChangeBatch], table: str, feeds: Feeds, *, orders_by_source: bool) -> None:
    """Raises DataError for a truncate of which nobody knows which rows of the table are older."""
    for one in changes:
        at = pc.index(find_truncates(one.meta), True).as_py()
        if at < 0:
            continue
        partitions = feeds.of_topic(one.topic)
        found = {tp.topic for tp in partitions} if orders_by_source else set(map(str, partitions))
        if len(found) < 2:
            continue
        several = "topics, whose positions cannot be compared" if orders_by_source else "partitions"
        way_out = f"set {SEQUENCE_BY}=source, which orders changes by their position in the source's log"
        way_out = "write them into tables of their own" if orders_by_source else f"{way_out}, or give the topic one partition"
        raise DataError(
            f"{one.describe_record(at)}: which rows are older than this truncate is not known, because table {table} is fed by "
            f"several {several}: {', '.join(sorted(found)[:5])}. Either {way_out}; or leave truncates out "
            "(skipped.operations=t on the source, or delete.mode=ignore)"
        )


def drop_truncates(changes: ChangeBatch) -> ChangeBatch:
    """The changes without truncates."""
    found = find_truncates(changes.meta)
    return changes.filter(pc.invert(found)) if pc.any(found).as_py() else changes


def drop_before_truncate(changes: ChangeBatch) -> tuple[ChangeBatch, list[TruncatePoint]]:
    """The changes after the last truncate; and the truncates. They are sorted from the oldest to the newest."""
    at = pc.indices_nonzero(find_truncates(changes.meta)).to_pylist()
    points = [TruncatePoint(changes.meta.slice(one, 1)) for one in at]
    return (changes.slice(range(at[-1] + 1, changes.num_rows)) if at else changes), points


def truncates_as_deletes(changes: ChangeBatch, keys: Sequence[str]) -> tuple[ChangeBatch, list[TruncatePoint]]:
    """The changes with deletes of their keys instead of truncates; and the truncates. They are sorted from the oldest to the
    newest. A key that the changes have just deleted has nothing more to delete."""
    truncates = np.flatnonzero(find_truncates(changes.meta).to_numpy())
    if not len(truncates):
        return changes, []
    points = [TruncatePoint(changes.meta.slice(int(at), 1)) for at in truncates]
    has_key = find_row_changes(changes.meta).to_numpy()
    is_delete = find_deletes(changes.meta).to_numpy()
    at = np.flatnonzero(has_key)
    numbers = np.full(changes.num_rows, -1)
    numbers[at] = number_keys([changes.image[name].take(pa.array(at)) for name in keys], len(at))
    known, first = np.unique(numbers[at], return_index=True)
    first_row = dict(zip(known.tolist(), at[first].tolist(), strict=True))
    places: list[Ints] = []
    key_rows: list[Ints] = []
    before = -1
    for truncate in truncates:
        # By key: its last change since the truncate before.
        recent = at[(at > before) & (at < truncate)]
        last = dict(zip(numbers[recent].tolist(), recent.tolist(), strict=True))
        deleted = [key for key, row in last.items() if not is_delete[row]]
        if before < 0:
            deleted += [key for key in first_row if key not in last]
        # Equal keys of floating point may differ: the row has the value of its last change.
        key_rows.append(np.array([last.get(key, first_row[key]) for key in deleted], np.int64))
        places.append(np.full(len(deleted), truncate))
        before = int(truncate)
    kept = np.setdiff1d(np.arange(changes.num_rows), truncates)
    rows, of_keys = np.concatenate([kept, *places]), np.concatenate([kept, *key_rows])
    is_made = np.arange(len(rows)) >= len(kept)
    order = np.argsort(rows, kind="stable")
    return _with_deletes(changes, keys, rows[order], of_keys[order], is_made[order]), points


def _with_deletes(changes: ChangeBatch, keys: Sequence[str], rows: Ints, of_keys: Ints, is_made: Mask) -> ChangeBatch:
    """These rows; those that are made are deletes of the keys of other rows."""
    meta = changes.meta.take(pa.array(rows))
    operations = pc.if_else(pa.array(is_made), DELETE, meta[OPERATION])
    image, with_keys = changes.image.take(pa.array(rows, mask=is_made)), changes.image.select(list(keys)).take(pa.array(of_keys))
    for name in keys:
        image = image.set_column(image.column_names.index(name), name, with_keys[name])
    meta = meta.set_column(meta.column_names.index(OPERATION), OPERATION, operations)
    return replace(changes, meta=meta.append_column(MADE, pa.array(is_made)), image=image)


@dataclass(frozen=True, slots=True)
class RowUpdate:
    """What a truncate does to the rows that stay in the table: those to which it applies get these values."""

    values: Mapping[str, pa.Scalar]
    reads: tuple[str, ...]
    """The columns that say to which rows it applies."""
    before: str | None = None
    """Only rows that are older than this position, or have none."""
    then: RowUpdate | None = None
    """Of a later position: for the rows to which this one does not apply."""

    def applies_to(self, rows: pa.Table) -> Mask:
        """To which rows it applies."""
        if CURRENT in self.reads:
            return np.asarray(pc.fill_null(rows[CURRENT], False))
        found = np.asarray(pc.and_(pc.invert(pc.fill_null(rows[DELETED], False)), self._is_older(rows)))
        return found if self.then is None else found | self.then.applies_to(rows)

    def apply(self, rows: pa.Table) -> pa.Table:
        """The rows, to which it applies, with their new values."""
        later = rows if self.then is None else self.then.apply(rows)
        is_older = self._is_older(rows)
        for name, value in self.values.items():
            at = rows.column_names.index(name)
            column = pc.if_else(is_older, value.cast(rows[name].type), later[name])
            later = later.set_column(at, name, column)
        return later

    def _is_older(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """Mask of the rows before this position."""
        if self.before is None:
            return pa.repeat(pa.scalar(True), rows.num_rows)
        return pc.fill_null(pc.less(rows[SEQ], self.before), True)


def deleting(values: Mapping[str, pa.Scalar], before: str | None, then: RowUpdate | None = None) -> RowUpdate:
    """Deletes rows softly: they get these values of their metadata columns."""
    return RowUpdate(values, (DELETED,) if before is None else (DELETED, SEQ), before, then)


def closing(point: TruncatePoint) -> RowUpdate:
    """Closes the open versions of rows at the time of a truncate."""
    return RowUpdate({VALID_TO: source_times(point.meta)[0], CURRENT: pa.scalar(False)}, (CURRENT,))
