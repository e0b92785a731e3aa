"""Queries of a table that is read in chunks: one per chunk, and the incremental query that follows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.errors import ConnectError
from connect.source import OffsetReader
from connectors.jdbc.database import Session
from connectors.jdbc.source.chunk_plans import (
    AT,
    DONE,
    PLAN,
    ChunkKey,
    ChunkPlan,
    ChunkProgress,
    chunk_condition,
    chunk_partition,
    require_chunk_key,
)
from connectors.jdbc.source.config import JdbcSourceConfig
from connectors.jdbc.source.modes import Mode, with_suffix
from connectors.jdbc.source.offset_tracking import ExactValues, OffsetTracker, RowOffsets
from connectors.jdbc.source.offsets import NO_POSITION, SourcePosition, legacy_table_partition, table_partition
from connectors.jdbc.source.table_queries import IncrementalTableQuery, RunningQuery, describe_table, select_all
from connectors.jdbc.source.table_selection import format_topic
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)


class ChunkKeyOffsets:
    """Each row's offset has its key; the offset of a chunk's last row marks it as done."""

    needs_next_row = True

    def __init__(self, plan: ChunkPlan, at: ChunkKey | None) -> None:
        self.position = NO_POSITION
        self.at = at
        self._plan = plan.json_text

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        keys: Sequence[Any] = [row[0] for row in (exact if last else exact[:-1])]
        plan = self._plan
        found: RowOffsets = [{PLAN: plan, AT: key} for key in keys]
        if keys:
            self.at = keys[-1]
        if last and found and found[-1] is not None:
            found[-1][DONE] = True
        return found


class ChunkQuery:
    """Reads the rows of one chunk: once, or in bulk mode repeatedly."""

    def __init__(self, name: TableName, plan: ChunkPlan, chunk: int, settings: JdbcSourceConfig, progress: ChunkProgress) -> None:
        self.name: TableName | None = name
        self.label = f"{name}, chunk {chunk + 1} of {plan.chunks}"
        self.partition: Mapping[str, Any] = chunk_partition(name, chunk)
        self.topic = format_topic(name, settings.topic_prefix, settings.topic_format)
        self._table, self._plan, self._chunk, self._settings = name, plan, chunk, settings
        self._repeats = settings.mode.mode is Mode.BULK
        # Bulk mode starts the next copy after a complete one, and continues an incomplete one.
        starts_over = self._repeats and progress.done
        self._key = ChunkKeyOffsets(plan, None if starts_over else progress.at)
        self.tracker: OffsetTracker = self._key
        self.finished = progress.done and not self._repeats
        self.completed = progress.done
        self._key_index = 0

    @property
    def rows_expected(self) -> int:
        return self._plan.rows // self._plan.chunks

    def open(self, session: Session) -> RunningQuery | None:
        if self.finished:
            return None
        table = describe_table(session, self._table)
        where = chunk_condition(session, table, self._plan, self._chunk, self._key.at, self._settings)
        order = f" ORDER BY {session.dialect.quote(self._plan.key)} ASC"
        query = with_suffix(select_all(session, self._table) + where + order, self._settings.suffix)
        reader = session.dialect.reader(session, query, replace(self._settings.read, exact=()), table)
        names = [name for name, _ in reader.fields]
        if self._plan.key not in names:
            reader.close()
            raise ConnectError(
                f"{self._table} is read in chunks of {self._plan.key}, a column that it no longer has; delete the offsets of "
                "the table's chunks, or set snapshot.chunks=off"
            )
        self._key_index = names.index(self._plan.key)
        return RunningQuery(reader, table)

    def exact(self, values: Sequence[Sequence[Any]]) -> ExactValues:
        index, key = self._key_index, self._plan.key
        keys: Any = [(require_chunk_key(row[index], key),) for row in values]
        return list(keys)

    def on_end(self) -> None:
        self.completed = True
        if self._repeats:
            self._key = ChunkKeyOffsets(self._plan, None)
            self.tracker = self._key
        else:
            self.finished = True


class ChunkHandoverQuery(IncrementalTableQuery):
    """Continues incrementally after the chunks of a table. Starts when the offsets of all chunks are stored as done.

    A chunk whose remaining rows were deleted stores no more offsets, so it counts as done too.
    """

    def __init__(self, name: TableName, plan: ChunkPlan, settings: JdbcSourceConfig, offsets: OffsetReader) -> None:
        super().__init__(name, settings, None)
        self._plan, self._offsets = plan, offsets
        self._waiting = True

    def open(self, session: Session) -> RunningQuery | None:
        if self._waiting and not self._try_start(session):
            return None
        return super().open(session)

    def _try_start(self, session: Session) -> bool:
        plan, name = self._plan, self._table
        partitions = [table_partition(name), legacy_table_partition(name)]
        stored = self._offsets.offsets(partitions + [chunk_partition(name, chunk) for chunk in range(plan.chunks)])
        own = stored[0] if stored[0] is not None else stored[1]
        if own is not None:
            self.resume(own)
        else:
            table = describe_table(session, name)
            for chunk, offset in enumerate(stored[2:]):
                progress = ChunkProgress.parse(offset, plan)
                if not progress.done:
                    where = chunk_condition(session, table, plan, chunk, progress.at, self._settings)
                    query = Sql(f"SELECT 1 FROM {session.dialect.table_ref(name)}") + where
                    if session.query(session.dialect.limited(query, 1), f"looking for unread rows of {name}"):
                        return False
            if plan.number is not None:
                self.start_at(SourcePosition(None, plan.number - 1), inclusive=False)
            else:
                self.start_at(SourcePosition(plan.time_ns), inclusive=True)
            log.info("%s: all %d chunks are read; continuing with new rows", name, plan.chunks)
        self._waiting = False
        return True
