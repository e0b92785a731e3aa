"""Feeds of a table that is read in chunks: each chunk, and what follows when all are done."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.errors import ConnectError
from connect.source import OffsetReader
from connectors.jdbc.database import Session
from connectors.jdbc.source.chunk_plans import AT, DONE, PLAN, Key, Plan, Progress, chunk_partition, conditions, key_in_row
from connectors.jdbc.source.config import Settings
from connectors.jdbc.source.modes import Mode, with_suffix
from connectors.jdbc.source.offset_tracking import Exact, Offsets, Stamp
from connectors.jdbc.source.offsets import NOWHERE, Position, old_table_partition, table_partition
from connectors.jdbc.source.table_queries import IncrementalFeed, Opened, described, select_all
from connectors.jdbc.source.table_selection import topic_of
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)


class ByKey:
    """Each row has its key; the last of a chunk says that it is done."""

    holds_back = True

    def __init__(self, plan: Plan, at: Key | None) -> None:
        self.position = NOWHERE
        self.at = at
        self._plan = plan.text

    def offsets(self, exact: Exact, *, last: bool) -> Offsets:
        keys: Sequence[Any] = [row[0] for row in (exact if last else exact[:-1])]
        plan = self._plan
        found: Offsets = [{PLAN: plan, AT: key} for key in keys]
        if keys:
            self.at = keys[-1]
        if last and found and found[-1] is not None:
            found[-1][DONE] = True
        return found


class ChunkFeed:
    """The rows of one chunk: once, or in bulk mode each time."""

    def __init__(self, name: TableName, plan: Plan, chunk: int, settings: Settings, progress: Progress) -> None:
        self.name: TableName | None = name
        self.label = f"{name}, chunk {chunk + 1} of {plan.chunks}"
        self.partition: Mapping[str, Any] = chunk_partition(name, chunk)
        self.topic = topic_of(name, settings.topic_prefix, settings.topic_format)
        self._table, self._plan, self._chunk, self._settings = name, plan, chunk, settings
        self._repeats = settings.mode.mode is Mode.BULK
        # A copy that was done is followed by the next; one that was not goes on.
        again = self._repeats and progress.done
        self._key = ByKey(plan, None if again else progress.at)
        self.stamp: Stamp = self._key
        self.finished = progress.done and not self._repeats
        self.completed = progress.done
        self._place = 0

    @property
    def rows_expected(self) -> int:
        return self._plan.rows // self._plan.chunks

    def open(self, session: Session) -> Opened | None:
        if self.finished:
            return None
        table = described(session, self._table)
        where = conditions(session, table, self._plan, self._chunk, self._key.at, self._settings)
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
        return Opened(reader, table)

    def exact(self, values: Sequence[Sequence[Any]]) -> Exact:
        place, key = self._place, self._plan.key
        kept: Any = [(key_in_row(row[place], key),) for row in values]
        return list(kept)

    def ended(self) -> None:
        self.completed = True
        if self._repeats:
            self._key = ByKey(self._plan, None)
            self.stamp = self._key
        else:
            self.finished = True


class HandoverFeed(IncrementalFeed):
    """What comes after the chunks of a table. Begins when the offsets of all of them are stored as done.

    A chunk of which no row is left (they were deleted meanwhile) stores nothing more: it is done too.
    """

    def __init__(self, name: TableName, plan: Plan, settings: Settings, offsets: OffsetReader) -> None:
        super().__init__(name, settings, None)
        self._plan, self._offsets = plan, offsets
        self._waiting = True

    def open(self, session: Session) -> Opened | None:
        if self._waiting and not self._may_begin(session):
            return None
        return super().open(session)

    def _may_begin(self, session: Session) -> bool:
        plan, name = self._plan, self._table
        partitions = [table_partition(name), old_table_partition(name)]
        stored = self._offsets.offsets(partitions + [chunk_partition(name, chunk) for chunk in range(plan.chunks)])
        own = stored[0] if stored[0] is not None else stored[1]
        if own is not None:
            self.resume(own)
        else:
            table = described(session, name)
            for chunk, offset in enumerate(stored[2:]):
                progress = Progress.load(offset, plan)
                if not progress.done:
                    where = conditions(session, table, plan, chunk, progress.at, self._settings)
                    query = Sql(f"SELECT 1 FROM {session.dialect.table_ref(name)}") + where
                    if session.query(session.dialect.limited(query, 1), f"looking for rows of {name} that are to be read"):
                        return False
            if plan.number is not None:
                self.begin_at(Position(None, plan.number - 1), inclusive=False)
            else:
                self.begin_at(Position(plan.time_ns), inclusive=True)
            log.info("%s: all %d chunks are read; going on with what is new", name, plan.chunks)
        self._waiting = False
        return True
