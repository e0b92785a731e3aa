"""Assigns tables and chunks to tasks, through keys of the task configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from connect.errors import ConfigError
from connectors.jdbc.source.chunk_plans import ChunkPlan
from connectors.jdbc.source.table_discovery import DiscoveredTables
from connectors.jdbc.table_name import TableName, split_name

T = TypeVar("T")

TABLES, CHUNKS, COMPLETE = "tables", "tables.chunks", "tables.complete"
"""Keys that only task configurations have: the tables and the chunks that a task reads, and ``false`` if the connector is still
planning others."""


@dataclass(frozen=True, slots=True)
class ChunkAssignment:
    """The chunks of a table that one task reads."""

    table: TableName
    plan: ChunkPlan
    chunks: tuple[int, ...]


def assign_tasks(discovered: DiscoveredTables, max_tasks: int) -> list[dict[str, str]]:
    """Returns the keys to add to each task's configuration: adjacent tables in groups, like Confluent's connector, and chunks in
    turn."""
    chunks = [(table, chunk) for table, plan in discovered.plans.items() for chunk in range(plan.chunks)]
    tasks = min(max_tasks, len(discovered.tables) + len(chunks))
    tables = group_evenly(discovered.tables, min(tasks, len(discovered.tables)))
    configs: list[dict[str, str]] = []
    for number in range(tasks):
        own = tables[number] if number < len(tables) else []
        config = {TABLES: format_names(own)}
        if not discovered.is_complete:
            config[COMPLETE] = "false"
        if chunks:
            mine: dict[TableName, list[int]] = {}
            for table, chunk in chunks[number::tasks]:
                mine.setdefault(table, []).append(chunk)
            # A task that reads a table after its chunks needs the plan, to know when all chunks are done.
            for table in own:
                if table in discovered.plans:
                    mine.setdefault(table, [])
            config[CHUNKS] = json.dumps(
                [
                    {"table": format_names([table]), "plan": discovered.plans[table].json_text, "chunks": found}
                    for table, found in mine.items()
                ]
            )
        configs.append(config)
    return configs


def parse_assignment(config: Mapping[str, str]) -> tuple[list[TableName], list[ChunkAssignment]]:
    """Parses the keys that :func:`assign_tasks` added. Raises ConfigError."""
    tables = parse_names(config.get(TABLES, ""))
    try:
        assignments = [
            ChunkAssignment(parse_names(part["table"])[0], ChunkPlan.parse(part["plan"]), tuple(part["chunks"]))
            for part in json.loads(config.get(CHUNKS, "[]"))
        ]
    except (ValueError, KeyError, TypeError, IndexError) as e:
        raise ConfigError(f"{CHUNKS} of a task's configuration cannot be read: {e}", key=CHUNKS) from e
    return tables, assignments


def group_evenly(items: Sequence[T], groups: int) -> list[list[T]]:
    """Splits items into even groups of neighbors, larger groups first: Kafka's ``ConnectorUtils.groupPartitions``."""
    if groups <= 0:
        return []
    size, larger = divmod(len(items), groups)
    out: list[list[T]] = []
    at = 0
    for number in range(groups):
        end = at + size + (1 if number < larger else 0)
        out.append(list(items[at:end]))
        at = end
    return out


def format_names(tables: Sequence[TableName]) -> str:
    """Formats table names as one text, each part quoted."""
    return ",".join(".".join(_quote(part) for part in (t.catalog, t.schema, t.name) if part is not None) for t in tables)


def parse_names(text: str) -> list[TableName]:
    """Parses the text of :func:`format_names`. Raises ConfigError."""
    names: list[TableName] = []
    for one in _split_outside_quotes(text):
        parts = split_name(one)
        if len(parts) > 3:
            raise ConfigError.invalid("tables", one, "expected [catalog.][schema.]table")
        names.append(TableName(*reversed(parts)))
    return names


def _quote(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'


def _split_outside_quotes(text: str) -> list[str]:
    return [one for one in re.findall(r'(?:"(?:[^"]|"")*"|[^",])+', text) if one.strip()]
