"""Finds the tables of records."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConfigError, DataError
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import SparkSinkConfig
from connectors.spark.decode.change_batch import DATABASE, OPERATION, SCHEMA, TABLE, TOMBSTONE, ChangeBatch
from connectors.spark.routes import Routes

log = logging.getLogger(__name__)

Source = Mapping[str, str | None]
RouterKnowledge = tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]
"""Tables by topic, and the names of key fields by table."""


class TableRouter:
    """Divides the decoded records of a topic by table. Used on the task's thread.

    If table names come from the source block, a tombstone, which has none, belongs to its topic's only table. If the topic has
    several tables, it belongs to the only one whose key has the fields of the tombstone's key. A tombstone without such a table
    is ignored and counted: a table that does not exist has nothing to delete, and a guess could delete another row.
    """

    def __init__(self, config: SparkSinkConfig) -> None:
        self._config = config
        self._tables: dict[str, set[str]] = {}
        self._key_names: dict[str, frozenset[str]] = {}
        self.ignored_tombstones = 0
        """Tombstones without a table, since the task started."""
        self.unrouted = 0
        """Records whose field chose no table, since the task started."""

    def knowledge(self) -> RouterKnowledge:
        """Returns what is known, for a router in another process."""
        return {topic: frozenset(tables) for topic, tables in self._tables.items()}, dict(self._key_names)

    def learn(self, knowledge: RouterKnowledge) -> None:
        """Adds what another router has found out."""
        tables, key_names = knowledge
        for topic, found in tables.items():
            self.add_tables(topic, found)
        self._key_names |= key_names

    def add_tables(self, topic: str, tables: Collection[str]) -> None:
        """The topic has these tables, which exist."""
        self._tables.setdefault(topic, set()).update(map(self._config.current_table_of, tables))

    def tables_of(self, topic: str) -> frozenset[str]:
        """Returns the topic's tables that are known so far, and their changelogs."""
        tables = self.current_tables_of(topic)
        return tables | {log for table in tables if (log := self._config.changelog_of(table)) is not None}

    def current_tables_of(self, topic: str) -> frozenset[str]:
        """Returns the topic's tables that are known so far, without changelogs."""
        routes = self._config.routes
        if routes is not None and not routes.is_dynamic:
            return frozenset(routes.tables)
        if not self._config.names_need_record:
            return frozenset((self._config.table_name(topic, None, None, None),))
        return frozenset(self._tables.get(topic, ()))

    def route(
        self, topic: str, decoded: Sequence[ChangeBatch]
    ) -> tuple[list[tuple[str, ChangeBatch]], list[BadRecord]]:  # fmt: skip
        """Returns the records by table, those of a table also for its changelog, and the records that name no table."""
        routed, bad_records = self._route(topic, decoded)
        logged = [(log, part) for table, part in routed if (log := self._config.changelog_of(table)) is not None]
        return [*routed, *logged], bad_records

    def _route(
        self, topic: str, decoded: Sequence[ChangeBatch]
    ) -> tuple[list[tuple[str, ChangeBatch]], list[BadRecord]]:  # fmt: skip
        if self._config.routes is not None:
            return self._route_by_field(topic, decoded, self._config.routes), []
        if not self._config.names_need_source:
            name = self._config.table_name(topic, None, None, None)
            return [(name, changes) for changes in decoded], []
        found: list[tuple[str, ChangeBatch]] = []
        bad_records: list[BadRecord] = []
        without_source: list[ChangeBatch] = []
        for changes in decoded:
            for source, part in _split_by_source(changes):
                if all(value is None for value in source.values()):
                    without_source.append(part)
                    continue
                try:
                    table = self._config.table_name(topic, source[DATABASE], source[SCHEMA], source[TABLE])
                except ConfigError as e:
                    bad_records += _refuse_all(part, e)
                    continue
                self.add_tables(topic, [table])
                if part.keys is not None:
                    # Records that were decoded together may have other keys.
                    names = [name for name in part.keys.column_names if part.keys[name].null_count < part.num_rows]
                    self._key_names[table] = frozenset(names)
                found.append((table, part))
        # Afterwards, because the other records may have named the topic's tables.
        for part in without_source:
            is_tombstone = pc.fill_null(pc.equal(part.meta[OPERATION], TOMBSTONE), False)
            others = part.filter(pc.invert(is_tombstone))
            tombstones = part.filter(is_tombstone)
            if tombstones.num_rows:
                found += self._route_tombstones(topic, tombstones)
            if others.num_rows:
                try:
                    found.append((self._name_without_source(topic), others))
                except ConfigError as e:
                    bad_records += _refuse_all(others, e)
        return found, bad_records

    def _route_by_field(self, topic: str, decoded: Sequence[ChangeBatch], routes: Routes) -> list[tuple[str, ChangeBatch]]:
        found: list[tuple[str, ChangeBatch]] = []
        for changes in decoded:
            if not routes.field:
                found += [(table, changes) for table in routes.tables]
                continue
            values = changes.texts_at(routes.field)
            for value in pc.unique(values).to_pylist():
                tables = routes.tables_for(value)
                mask = pc.is_null(values) if value is None else pc.fill_null(pc.equal(values, value), False)
                part = changes.filter(mask)
                if routes.is_dynamic:
                    self.add_tables(topic, tables)
                if not tables:
                    self.unrouted += part.num_rows
                found += [(table, part) for table in tables]
        return found

    def _name_without_source(self, topic: str) -> str:
        tables = self._tables.get(topic, set())
        return next(iter(tables)) if len(tables) == 1 else self._config.table_name(topic, None, None, None)

    def _route_tombstones(self, topic: str, tombstones: ChangeBatch) -> list[tuple[str, ChangeBatch]]:
        tables = self._tables.get(topic, set())
        if len(tables) == 1:
            return [(next(iter(tables)), tombstones)]
        found = []
        # A table whose key is not known yet may have the same one.
        if tombstones.keys is not None and all(table in self._key_names for table in tables):
            keys = [self._key_names[table] for table in tables]
            for table in sorted(tables):
                key = self._key_names[table]
                if keys.count(key) == 1:
                    part = tombstones.filter(_has_key(tombstones.keys, key))
                    if part.num_rows:
                        found.append((table, part))
        self._count_ignored(topic, tombstones, tombstones.num_rows - sum(part.num_rows for _, part in found))
        return found

    def _count_ignored(self, topic: str, tombstones: ChangeBatch, ignored: int) -> None:
        if ignored and not self.ignored_tombstones:
            log.warning(
                "Ignoring tombstones of topic %s, from offset %d of partition %d on: they name no table, and %s. The number of "
                "ignored tombstones is in the progress",
                topic,
                tombstones.location(0)[1],
                tombstones.location(0)[0].partition,
                "several of the topic's tables may have the row" if self._tables.get(topic) else "the topic has no table yet",
            )
        self.ignored_tombstones += ignored


def _split_by_source(changes: ChangeBatch) -> Iterator[tuple[Source, ChangeBatch]]:
    sources = changes.meta.group_by([DATABASE, SCHEMA, TABLE], use_threads=False).aggregate([]).to_pylist()
    for source in sources:
        yield source, changes if len(sources) == 1 else changes.filter(_has_source(changes, source))


def _has_source(changes: ChangeBatch, source: Source) -> pa.ChunkedArray:
    """Mask of the changes whose source block has these values."""
    mask = None
    for column, value in source.items():
        same = pc.is_null(changes.meta[column]) if value is None else pc.equal(changes.meta[column], pa.scalar(value))
        mask = pc.fill_null(same, False) if mask is None else pc.and_(mask, pc.fill_null(same, False))
    return mask


def _has_key(keys: pa.Table, names: Collection[str]) -> pa.ChunkedArray:
    """Mask of the rows that have a value in exactly these columns."""
    masks = [keys[name].is_valid() if name in names else keys[name].is_null() for name in keys.column_names]
    if not masks or not set(names) <= set(keys.column_names):
        return pa.chunked_array([pa.array([False] * keys.num_rows)])
    return functools.reduce(pc.and_, masks)


def _refuse_all(changes: ChangeBatch, error: ConfigError) -> list[BadRecord]:
    return [BadRecord.of(*changes.location(i), DataError(error.message)) for i in range(changes.num_rows)]
