"""Feeds of a table that is read in chunks: each chunk, and what follows when all are done."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.errors import ConnectError
from connect.source import OffsetReader
from connectors.jdbc.connection.database import Session
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
    """Each row has its key; the last of a chunk says that it is done."""

    needs_next_row = True

    def __init__(self, plan: ChunkPlan, at: ChunkKey | None) -> None:
        self.position = NO_POSITION
        self.at = at
        self._plan = plan.text

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
    """The rows of one chunk: once, or in bulk mode each time."""

    def __init__(self, name: TableName, plan: ChunkPlan, chunk: int, settings: JdbcSourceConfig, progress: ChunkProgress) -> None:
        self.name: TableName | None = name
        self.label = f"{name}, chunk {chunk + 1} of {plan.chunks}"
        self.partition: Mapping[str, Any] = chunk_partition(name, chunk)
        self.topic = format_topic(name, settings.topic_prefix, settings.topic_format)
        self._table, self._plan, self._chunk, self._settings = name, plan, chunk, settings
        self._repeats = settings.mode.mode is Mode.BULK
        # A copy that was done is followed by the next; one that was not goes on.
        again = self._repeats and progress.done
        self._key = ChunkKeyOffsets(plan, None if again else progress.at)
        self.tracker: OffsetTracker = self._key
        self.finished = progress.done and not self._repeats
        self.completed = progress.done
        self._place = 0

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
                f"{self._table} is read in chunks of {self._plan.key}, which it has no more; delete the connector's offsets of "
                "the table's chunks, or set snapshot.chunks=off"
            )
        self._place = names.index(self._plan.key)
        return RunningQuery(reader, table)

    def exact(self, values: Sequence[Sequence[Any]]) -> ExactValues:
        place, key = self._place, self._plan.key
        kept: Any = [(require_chunk_key(row[place], key),) for row in values]
        return list(kept)

    def ended(self) -> None:
        self.completed = True
        if self._repeats:
            self._key = ChunkKeyOffsets(self._plan, None)
            self.tracker = self._key
        else:
            self.finished = True


class ChunkHandoverQuery(IncrementalTableQuery):
    """What comes after the chunks of a table. Begins when the offsets of all of them are stored as done.

    A chunk of which no row is left (they were deleted meanwhile) stores nothing more: it is done too.
    """

    def __init__(self, name: TableName, plan: ChunkPlan, settings: JdbcSourceConfig, offsets: OffsetReader) -> None:
        super().__init__(name, settings, None)
        self._plan, self._offsets = plan, offsets
        self._waiting = True

    def open(self, session: Session) -> RunningQuery | None:
        if self._waiting and not self._may_begin(session):
            return None
        return super().open(session)

    def _may_begin(self, session: Session) -> bool:
        plan, name = self._plan, self._table
        partitions = [table_partition(name), legacy_table_partition(name)]
        stored = self._offsets.offsets(partitions + [chunk_partition(name, chunk) for chunk in range(plan.chunks)])
        own = stored[0] if stored[0] is not None else stored[1]
        if own is not None:
            self.resume(own)
        else:
            table = describe_table(session, name)
            for chunk, offset in enumerate(stored[2:]):
                progress = ChunkProgress.load(offset, plan)
                if not progress.done:
                    where = chunk_condition(session, table, plan, chunk, progress.at, self._settings)
                    query = Sql(f"SELECT 1 FROM {session.dialect.table_ref(name)}") + where
                    if session.query(session.dialect.limited(query, 1), f"looking for rows of {name} that are to be read"):
                        return False
            if plan.number is not None:
                self.begin_at(SourcePosition(None, plan.number - 1), inclusive=False)
            else:
                self.begin_at(SourcePosition(plan.time_ns), inclusive=True)
            log.info("%s: all %d chunks are read; going on with what is new", name, plan.chunks)
        self._waiting = False
        return True
