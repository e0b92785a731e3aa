"""Reads the positions of a table's rows (``__seq``): only of files that may have a row that is newer than a change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.spark.config_keys import SEQ
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows

SEQ_COLUMN = {SEQ: pa.string()}
_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class PositionBounds:
    """What a file's footer says of its rows, the deleted ones included. None: unknown, or there is none."""

    lowest: str | None
    highest: str | None
    has_nulls: bool

    def may_reach(self, position: str) -> bool:
        """Whether a row may have this position, or a greater one."""
        return self.highest is not None and self.highest >= position


class RowPositions:
    """Remembers the bounds of files. A file is known by its path, which never gets other rows."""

    def __init__(self) -> None:
        self._bounds: dict[str, PositionBounds] = {}

    def bounds(self, live: LiveFiles, file: LiveFile) -> PositionBounds:
        """The bounds of the positions of a file's rows."""
        found = self._bounds.get(file.path)
        if found is None:
            if len(self._bounds) > 2 * len(live) + 64:
                self._bounds = {path: one for path, one in self._bounds.items() if path in live.by_path}
            found = self._bounds[file.path] = _read_bounds(live, file)
        return found

    def older_rows(self, live: LiveFiles, file: LiveFile, position: str) -> Rows:
        """The rows of a file, deleted ones included, that are older than this position or have none."""
        bounds = self.bounds(live, file)
        if bounds.highest is None or bounds.highest < position:
            return np.arange(file.rows)
        if not bounds.has_nulls and bounds.lowest is not None and bounds.lowest >= position:
            return np.empty(0, np.int64)
        found = [np.empty(0, np.int64)]
        for first, rows in read_file(live, file, SEQ_COLUMN, _BATCH_ROWS):
            is_older = pc.fill_null(pc.less(rows[SEQ], position), True)
            found.append(first + np.flatnonzero(is_older.to_numpy()))
        return np.concatenate(found)


def _read_bounds(live: LiveFiles, file: LiveFile) -> PositionBounds:
    if SEQ in file.values:
        return PositionBounds(None, "\U0010ffff", True)  # a partition column: every row is read
    with live.open(file) as parquet:
        names = live.format.columns(SEQ_COLUMN).in_file(parquet.schema_arrow, file.path, file.values).names
        return _bounds_of(parquet.metadata, names[0]) if names else PositionBounds(None, None, True)


def _bounds_of(metadata: pq.FileMetaData, name: str) -> PositionBounds:
    columns = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    at = columns.index(name)
    lows, highs, has_nulls = [], [], False
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(at).statistics
        if statistics is None or not statistics.has_null_count:
            return PositionBounds(None, "\U0010ffff", True)
        has_nulls |= statistics.null_count > 0
        if statistics.null_count == metadata.row_group(group).num_rows:
            continue
        if not statistics.has_min_max:
            return PositionBounds(None, "\U0010ffff", True)
        lows.append(str(statistics.min))
        highs.append(str(statistics.max))
    return PositionBounds(min(lows, default=None), max(highs, default=None), has_nulls)
