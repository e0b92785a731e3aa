"""What an upsert changes in the files of a table: rows that go, rows that come, and rows that a truncate updates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.truncates import RowUpdate
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.files.upsert import Find, find_kept_rows, plan_upsert
from connectors.spark.tables.source_order.ordering import OrderedUpsert, SourceOrder, join_rows
from connectors.spark.tables.table import Upsert

_BATCH_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Patch:
    """``rows`` are added, and ``deleted`` are rows of live files, by file number. ``empties``: the rows of all files go.
    ``unavailable`` counts values that became null."""

    rows: pa.Table
    deleted: Mapping[int, Rows]
    empties: bool
    columns: Columns
    update: RowUpdate | None
    unavailable: int
    ordered: OrderedUpsert | None = None
    is_blind: bool = False
    """Whether it was planned without the rows of the table, so that it fits any version with the same columns."""

    @classmethod
    def of_rows(cls, rows: pa.Table) -> Patch:
        """Only adds rows."""
        return cls(rows, {}, False, {}, None, 0, is_blind=True)

    def updated_rows(self, live: LiveFiles) -> Iterator[tuple[LiveFile, Rows]]:
        """The rows that are updated, file by file."""
        if self.update is None:
            return
        reads = {name: self.columns[name] for name in self.update.reads}
        for file in live.by_path.values():
            found = [np.empty(0, np.int64)]
            for first, batch in read_file(live, file, reads, _BATCH_ROWS):
                applies = self.update.applies_to(batch)
                if file.deleted is not None:
                    applies = applies & ~file.deleted[first : first + batch.num_rows]
                found.append(first + np.flatnonzero(applies))
            rows = np.concatenate(found)
            if file.number in self.deleted:
                rows = np.setdiff1d(rows, self.deleted[file.number], assume_unique=True)
            if len(rows):
                yield file, rows


def updated_copies(
    live: LiveFiles, file: LiveFile, rows: Rows, update: RowUpdate, columns: Columns
) -> Iterator[tuple[Rows, pa.Table]]:
    """Rows (sorted) of a file as they are after an update, in batches with their numbers."""
    for first, batch in read_file(live, file, columns, _BATCH_ROWS):
        start, stop = np.searchsorted(rows, [first, first + batch.num_rows])
        if start < stop:
            here = rows[start:stop]
            yield here, update.apply(batch.take(pa.array(here - first)))


@contextlib.contextmanager
def planned_patch(
    upsert: Upsert, find: Find, live: LiveFiles, order: SourceOrder, state_id: int, *, fail_unavailable: bool
) -> Iterator[Patch]:
    """Plans an upsert of live files. ``state_id`` names what the table knows of the order of changes; what is new of that is
    deleted if the block, which writes the patch, fails."""
    if not upsert.by_source:
        yield _plan(upsert, find, live, fail_unavailable=fail_unavailable)
        return
    matches = find(upsert.rows) if upsert.rows.num_rows else Matches.empty()
    ordered = order.apply(upsert, matches, live, state_id)
    with order.writing(ordered):
        kept = order.find_kept_rows(ordered, live, find)
        plan = plan_upsert(ordered.upsert, ordered.matches, live, kept=kept, fail_unavailable=fail_unavailable)
        deleted = join_rows(plan.deleted, ordered.truncated)
        yield Patch(plan.rows, deleted, False, upsert.columns, ordered.upsert.update, plan.unavailable, ordered)


def _plan(upsert: Upsert, find: Find, live: LiveFiles, *, fail_unavailable: bool) -> Patch:
    matches = kept = Matches.empty()
    if upsert.rows.num_rows and not upsert.empties:
        matches = find(upsert.searched)
        kept = find_kept_rows(upsert, matches, find)
    plan = plan_upsert(upsert, matches, live, kept=kept, fail_unavailable=fail_unavailable)
    return Patch(plan.rows, plan.deleted, upsert.empties, upsert.columns, upsert.update, plan.unavailable)
