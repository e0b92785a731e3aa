"""Discovers the tables to read, and plans chunks of large ones."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect.source import OffsetReader
from connectors.jdbc.database import Session
from connectors.jdbc.source.chunk_plans import MAX_CHUNKS, ChunkPlan, chunk_partition, find_stored_plan, plan_chunks
from connectors.jdbc.source.config import JdbcSourceConfig
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.offsets import legacy_table_partition, table_partition
from connectors.jdbc.source.table_selection import (
    format_topic,
    is_listed,
    nearest_table,
    require_distinct_topics,
)
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_ALL_TABLE_TYPES = ("TABLE", "PARTITIONED TABLE", "FOREIGN TABLE", "VIEW", "MATERIALIZED VIEW")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class DiscoveredTables:
    """The tables to read, and the chunk plans of large ones. In bulk mode a table in chunks is only in ``plans``."""

    tables: tuple[TableName, ...]
    plans: Mapping[TableName, ChunkPlan] = field(default_factory=dict)
    is_complete: bool = True
    """False while the tables that were found first are being planned."""

    def __str__(self) -> str:
        names = [str(table) for table in self.tables] + [str(table) for table in self.plans if table not in self.tables]
        return ", ".join(names) or "none"


@functools.cache
def _warn_about_topic(table: str, topic: str) -> None:
    """Warns once per process. It is no error, because a transformation may change the topic."""
    log.warning(
        "table %s has the topic %r, which is not a valid topic name (letters, digits, '.', '_', '-'; at most 249). Its "
        "records cannot be written unless a transformation such as RegexRouter changes the topic. Exclude the table "
        "(table.whitelist, table.include.list) or rename the topic",
        table,
        topic,
    )


def list_tables(session: Session, settings: JdbcSourceConfig) -> list[TableName]:
    """Lists the tables that the configuration selects. Raises ConnectError if two of them would share a topic."""
    found = session.dialect.tables(session, settings.table_types, catalog=settings.catalog, schema=settings.schema)
    chosen = settings.table_filter.select([name for name, _ in found], session.dialect)
    if not settings.qualifies_names:
        chosen = list(dict.fromkeys(TableName(name.name) for name in chosen))
    topics = {name: format_topic(name, settings.topic_prefix, settings.topic_format) for name in chosen}
    require_distinct_topics(chosen, topics)
    for name, topic in topics.items():
        if not _TOPIC.fullmatch(topic):
            _warn_about_topic(str(name), topic)
    for text in settings.table_filter.missing([name for name, _ in found], session.dialect):
        log.warning("table.whitelist has %s, which does not exist%s", text, _suggest_table(session, settings, text))
    if not chosen and not settings.table_filter.whitelist:
        log.warning("the configuration selects no table of %s, so there is nothing to read yet", session.label)
    return chosen


def _suggest_table(session: Session, settings: JdbcSourceConfig, text: str) -> str:
    """Explains why a table was not found: it has another type or is outside the patterns; or suggests a similar name."""
    found = session.dialect.tables(session, _ALL_TABLE_TYPES)
    for name, kind in found:
        if is_listed(name, (text,), session.dialect):
            if kind not in settings.table_types:
                return f": {name} is a {kind}, but table.types only has {', '.join(settings.table_types)}"
            return f": {name} does not match catalog.pattern and schema.pattern"
    near = nearest_table(text, [name for name, _ in found])
    return f"; did you mean {near}?" if near else ""


class TableDiscovery:
    """Discovers tables repeatedly. A table is planned once and keeps its plan until its chunks are done."""

    def __init__(self, settings: JdbcSourceConfig, offsets: OffsetReader | None) -> None:
        """``offsets`` is needed only for chunk plans."""
        self._settings, self._offsets = settings, offsets
        self._plans: dict[TableName, ChunkPlan | None] = {}
        self._has_planned = False

    def discover(self, session: Session) -> Iterator[DiscoveredTables]:
        """Yields the tables; first without those that must be planned, which takes time."""
        tables = list_tables(session, self._settings)
        if self._settings.chunk_rows is None or self._offsets is None:
            yield DiscoveredTables(tuple(tables))
            return
        self._drop_finished_plans(self._offsets, tables)
        unknown = [table for table in tables if table not in self._plans]
        if unknown:
            yield self._result([table for table in tables if table in self._plans])
            for table in unknown:
                self._plans[table] = self._plan_table(session, table, self._offsets)
        self._has_planned = True
        yield self._result(tables)

    def _result(self, tables: list[TableName]) -> DiscoveredTables:
        plans = {table: plan for table in tables if (plan := self._plans.get(table)) is not None}
        whole = tables if self._settings.mode.mode is not Mode.BULK else [table for table in tables if table not in plans]
        return DiscoveredTables(tuple(whole), plans, self._has_planned)

    def _drop_finished_plans(self, offsets: OffsetReader, tables: list[TableName]) -> None:
        if self._settings.mode.mode is Mode.BULK:
            return
        for table in tables:
            if self._plans.get(table) is not None and _has_offset(offsets, table):
                log.info("%s: all chunks are read", table)
                self._plans[table] = None

    def _plan_table(self, session: Session, name: TableName, offsets: OffsetReader) -> ChunkPlan | None:
        bulk = self._settings.mode.mode is Mode.BULK
        if not bulk and _has_offset(offsets, name):
            return None
        stored = offsets.offsets([chunk_partition(name, chunk) for chunk in range(MAX_CHUNKS)])
        plan = find_stored_plan(stored, unfinished=bulk)
        if plan is None:
            table = session.dialect.describe(session, name)
            plan = plan_chunks(session, table, self._settings) if table is not None else None
        if plan is not None:
            log.info("%s: reading %d rows in %d chunks of %s", name, plan.rows, plan.chunks, plan.key)
        return plan


def _has_offset(offsets: OffsetReader, table: TableName) -> bool:
    return any(offset is not None for offset in offsets.offsets([table_partition(table), legacy_table_partition(table)]))
