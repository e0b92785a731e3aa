"""What a connector knows of its tables, and the task configurations that follow from it."""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect.errors import ConfigError
from connect.source import OffsetReader
from connectors.jdbc.database import Session
from connectors.jdbc.source.chunk_plans import MOST_CHUNKS, Plan, chunk_partition, make_plan, stored_plan
from connectors.jdbc.source.config import Settings
from connectors.jdbc.source.modes import Mode
from connectors.jdbc.source.offsets import old_table_partition, table_partition
from connectors.jdbc.source.table_selection import (
    grouped,
    is_listed,
    names_text,
    nearest_table,
    parse_names,
    require_topics_apart,
    topic_of,
)
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_KINDS = ("TABLE", "PARTITIONED TABLE", "FOREIGN TABLE", "VIEW", "MATERIALIZED VIEW")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
TABLES, CHUNKS = "tables", "tables.chunks"
"""Keys of task configurations alone: which tables a task reads, and which chunks of which."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The tables to read, and the plans of those that are read in chunks. In bulk mode such a table is in ``plans`` alone."""

    tables: tuple[TableName, ...]
    plans: Mapping[TableName, Plan] = field(default_factory=dict)

    def __str__(self) -> str:
        names = [str(table) for table in self.tables] + [str(table) for table in self.plans if table not in self.tables]
        return ", ".join(names) or "none"


@dataclass(frozen=True, slots=True)
class Share:
    """One task's part of a table in chunks."""

    table: TableName
    plan: Plan
    chunks: tuple[int, ...]


@functools.cache
def _warn_of_topic(table: str, topic: str) -> None:
    """Once a process. A transformation may give the records another topic, so it is no error yet."""
    log.warning(
        "table %s goes to the topic %r, which is no name of a topic (letters, digits, '.', '_' and '-', 249 at most): unless a "
        "transformation such as RegexRouter changes it, its records cannot be written. Leave the table out (table.whitelist, "
        "table.include.list) or rename it on the way",
        table,
        topic,
    )


def list_tables(session: Session, settings: Settings) -> list[TableName]:
    """The tables that a configuration chooses, as they are now. Raises ConnectError when two of them would share a topic."""
    found = session.dialect.tables(session, settings.kinds, catalog=settings.catalog, schema=settings.schema)
    chosen = settings.selection.choose([name for name, _ in found], session.dialect)
    if not settings.qualified:
        chosen = list(dict.fromkeys(TableName(name.name) for name in chosen))
    topics = {name: topic_of(name, settings.topic_prefix, settings.topic_format) for name in chosen}
    require_topics_apart(chosen, topics)
    for name, topic in topics.items():
        if not _TOPIC.fullmatch(topic):
            _warn_of_topic(str(name), topic)
    for text in settings.selection.missing([name for name, _ in found], session.dialect):
        log.warning("table.whitelist names %s, which is not there%s", text, _instead(session, settings, text))
    if not chosen and not settings.selection.whitelist:
        log.warning("%s has no table that the configuration chooses, so there is nothing to read yet", session.label)
    return chosen


def _instead(session: Session, settings: Settings, text: str) -> str:
    """What is there instead of a table that was not found: one of another kind, outside of the patterns, or of a name like it."""
    found = session.dialect.tables(session, _KINDS)
    for name, kind in found:
        if is_listed(name, (text,), session.dialect):
            if kind not in settings.kinds:
                return f": {name} is a {kind}, and table.types has {', '.join(settings.kinds)} only"
            return f": {name} is outside of what catalog.pattern and schema.pattern leave"
    near = nearest_table(text, [name for name, _ in found])
    return f"; did you mean {near}?" if near else ""


class Surveyor:
    """Looks again and again. Plans are made once: a table keeps its plan until the chunks are done."""

    def __init__(self, settings: Settings, offsets: OffsetReader | None) -> None:
        """``offsets`` is needed for plans alone."""
        self._settings, self._offsets = settings, offsets
        self._plans: dict[TableName, Plan | None] = {}

    def look(self, session: Session) -> Iterator[Survey]:
        """What there is now; first without the tables that have to be looked into, for that takes time."""
        tables = list_tables(session, self._settings)
        if self._settings.chunk_rows is None or self._offsets is None:
            yield Survey(tuple(tables))
            return
        self._forget_finished(self._offsets, tables)
        unknown = [table for table in tables if table not in self._plans]
        if unknown:
            yield self._survey([table for table in tables if table in self._plans])
            for table in unknown:
                self._plans[table] = self._plan(session, table, self._offsets)
        yield self._survey(tables)

    def _survey(self, tables: list[TableName]) -> Survey:
        plans = {table: plan for table in tables if (plan := self._plans.get(table)) is not None}
        whole = tables if self._settings.mode.mode is not Mode.BULK else [table for table in tables if table not in plans]
        return Survey(tuple(whole), plans)

    def _forget_finished(self, offsets: OffsetReader, tables: list[TableName]) -> None:
        if self._settings.mode.mode is Mode.BULK:
            return
        for table in tables:
            if self._plans.get(table) is not None and _has_offset(offsets, table):
                log.info("%s: its chunks are read", table)
                self._plans[table] = None

    def _plan(self, session: Session, name: TableName, offsets: OffsetReader) -> Plan | None:
        bulk = self._settings.mode.mode is Mode.BULK
        if not bulk and _has_offset(offsets, name):
            return None
        stored = offsets.offsets([chunk_partition(name, chunk) for chunk in range(MOST_CHUNKS)])
        plan = stored_plan(stored, unfinished=bulk)
        if plan is None:
            table = session.dialect.describe(session, name)
            plan = make_plan(session, table, self._settings) if table is not None else None
        if plan is not None:
            log.info("%s: %d rows are read in %d chunks of %s", name, plan.rows, plan.chunks, plan.key)
        return plan


def _has_offset(offsets: OffsetReader, table: TableName) -> bool:
    return any(offset is not None for offset in offsets.offsets([table_partition(table), old_table_partition(table)]))


def deal(survey: Survey, max_tasks: int) -> list[dict[str, str]]:
    """What each task's configuration has beside the connector's: tables in groups of neighbours, as in the originals; chunks in
    turn."""
    pieces = [(table, chunk) for table, plan in survey.plans.items() for chunk in range(plan.chunks)]
    tasks = min(max_tasks, len(survey.tables) + len(pieces))
    tables = grouped(survey.tables, min(tasks, len(survey.tables)))
    dealt: list[dict[str, str]] = []
    for number in range(tasks):
        own = tables[number] if number < len(tables) else []
        config = {TABLES: names_text(own)}
        if pieces:
            mine: dict[TableName, list[int]] = {}
            for table, chunk in pieces[number::tasks]:
                mine.setdefault(table, []).append(chunk)
            # The plan of a table that is the task's own is needed even without a chunk of it: to know when all are done.
            for table in own:
                if table in survey.plans:
                    mine.setdefault(table, [])
            config[CHUNKS] = json.dumps(
                [
                    {"table": names_text([table]), "plan": survey.plans[table].text, "chunks": found}
                    for table, found in mine.items()
                ]
            )
        dealt.append(config)
    return dealt


def parse_share(config: Mapping[str, str]) -> tuple[list[TableName], list[Share]]:
    """What :func:`deal` wrote. Raises ConfigError."""
    tables = parse_names(config.get(TABLES, ""))
    try:
        shares = [
            Share(parse_names(part["table"])[0], Plan.load(part["plan"]), tuple(part["chunks"]))
            for part in json.loads(config.get(CHUNKS, "[]"))
        ]
    except (ValueError, KeyError, TypeError, IndexError) as e:
        raise ConfigError(f"{CHUNKS} of a task's configuration cannot be read: {e}", key=CHUNKS) from e
    return tables, shares
