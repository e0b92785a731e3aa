"""Finds the tables of records."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConfigError, DataError
from connectors.sink_support.batch_isolation import find_bad_records
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import IGNORE
from connectors.spark.decode.change_batch import (
    DATABASE,
    DELETE,
    IGNORED,
    OPERATION,
    SCHEMA,
    TABLE,
    TRUNCATE,
    ChangeBatch,
    find_tombstones,
)
from connectors.spark.routes import Routes

log = logging.getLogger(__name__)

Source = Mapping[str, str | None]
RouterKnowledge = Mapping[str, frozenset[str]]
"""Tables by topic."""


class TableRouter:
    """Divides the decoded records of a topic by table. Used on the task's thread.

    If table names come from the source block, a tombstone, which has none, is ignored and counted: the tables that a topic had so
    far need not be all that it has, and a guess could delete a row of another one. The only table gets its offset.
    """

    def __init__(self, config: SparkSinkConfig) -> None:
        self._config = config
        self._tables: dict[str, set[str]] = {}
        self.ignored_tombstones = 0
        """Tombstones without a table, since the task started."""
        self.unrouted = 0
        """Records whose field chose no table, since the task started."""

    def knowledge(self) -> RouterKnowledge:
        """Returns what is known, for a router in another process."""
        return {topic: frozenset(tables) for topic, tables in self._tables.items()}

    def learn(self, knowledge: RouterKnowledge) -> None:
        """Adds what another router has found out."""
        for topic, found in knowledge.items():
            self.add_tables(topic, found)

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
            return self._route_by_field(topic, decoded, self._config.routes)
        if not self._config.names_need_source:
            name = self._config.table_name(topic, None, None, None)
            return [(name, changes) for changes in decoded], []
        found: list[tuple[str, ChangeBatch]] = []
        bad_records: list[BadRecord] = []
        tombstones: list[ChangeBatch] = []
        for changes in decoded:
            changes, ignored = self._split_tombstones(topic, changes)
            tombstones += ignored
            for source, part in _split_by_source(changes):
                try:
                    table = self._config.table_name(topic, source[DATABASE], source[SCHEMA], source[TABLE])
                except ConfigError as e:
                    bad_records += _refuse_all(part, e)
                    continue
                self.add_tables(topic, [table])
                found.append((table, part))
        tables = self.current_tables_of(topic)
        if len(tables) == 1:
            # The end of the only table passes them, so that it is not behind the topic when retention removes them.
            found += [(next(iter(tables)), part) for part in tombstones]
        return found, bad_records

    def _route_by_field(
        self, topic: str, decoded: Sequence[ChangeBatch], routes: Routes
    ) -> tuple[list[tuple[str, ChangeBatch]], list[BadRecord]]:  # fmt: skip
        found: list[tuple[str, ChangeBatch]] = []
        bad_records: list[BadRecord] = []
        for changes in decoded:
            if not routes.field:
                found += [(table, changes) for table in routes.tables]
                continue
            changes, without_text = _split_without_text(changes, routes.field)
            bad_records += without_text
            values = changes.texts_at(routes.field)
            for value in pc.unique(values).to_pylist():
                tables = routes.tables_for(value)
                mask = pc.is_null(values) if value is None else pc.fill_null(pc.equal(values, value), False)
                part = changes.filter(mask)
                if value is None and not self._ignores_deletes:
                    part, deletes = _split_deletes(part, ".".join(routes.field))
                    bad_records += deletes
                if routes.is_dynamic:
                    if any(map(self._config.is_changelog, tables)):
                        field = ".".join(routes.field)
                        error = DataError(f"{field} names {tables[0]}, which is the name of a changelog")
                        bad_records += _refuse_all(part, error)
                        continue
                    self.add_tables(topic, tables)
                if not tables:
                    self.unrouted += part.num_rows
                found += [(table, part) for table in tables]
        return found, bad_records

    @property
    def _ignores_deletes(self) -> bool:
        config = self._config
        return config.table.upserts and config.table.delete_mode == IGNORE and config.changelog is None

    def _split_tombstones(self, topic: str, changes: ChangeBatch) -> tuple[ChangeBatch, list[ChangeBatch]]:
        """The other changes, and the tombstones as records without a row."""
        is_tombstone = find_tombstones(changes.meta)
        if not pc.any(is_tombstone).as_py():
            return changes, []
        if not self.ignored_tombstones:
            place, offset = changes.location(pc.index(is_tombstone, True).as_py())
            log.warning(
                "Ignoring tombstones of topic %s, from offset %d of partition %d on: they name no table, and the delete events "
                "before them have deleted the rows. The number of ignored tombstones is in the progress",
                topic,
                offset,
                place.partition,
            )
        self.ignored_tombstones += pc.sum(is_tombstone).as_py()
        ignored = changes.filter(is_tombstone)
        at = ignored.meta.column_names.index(OPERATION)
        meta = ignored.meta.set_column(at, OPERATION, pa.array([IGNORED] * ignored.num_rows))
        return changes.filter(pc.invert(is_tombstone)), [replace(ignored, meta=meta)]


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


def _split_without_text(changes: ChangeBatch, field: Sequence[str]) -> tuple[ChangeBatch, list[BadRecord]]:
    """The changes without those whose field has a value that is no text, which are bad records."""
    errors = find_bad_records([range(changes.num_rows)], lambda part: changes.slice(part).texts_at(field))
    if not errors:
        return changes, []
    bad_records = [BadRecord.of(*changes.location(at), error) for at, error in errors.items()]
    return changes.filter(pa.array([at not in errors for at in range(changes.num_rows)])), bad_records


def _split_deletes(changes: ChangeBatch, field: str) -> tuple[ChangeBatch, list[BadRecord]]:
    """The changes, whose route field is null, without deletes and truncates, which are bad records: their tables would keep rows
    that the source no longer has."""
    reasons = {
        DELETE: f"this delete has no value in the route field {field}, so its table is not known; let the source send the whole "
        "deleted row (PostgreSQL: REPLICA IDENTITY FULL), route by a field of the key, or route without a field",
        TRUNCATE: f"a truncate has no row, so the route field {field} does not choose its table; leave truncates out "
        "(skipped.operations=t on the source, or delete.mode=ignore), or route without a field",
    }
    operations = changes.meta[OPERATION]
    is_bad = pc.fill_null(pc.is_in(operations, pa.array(list(reasons))), False)
    bad_records = [
        BadRecord.of(*changes.location(at), DataError(reasons[operations[at].as_py()]))
        for at in pc.indices_nonzero(is_bad).to_pylist()
    ]
    return changes.filter(pc.invert(is_bad)), bad_records


def _refuse_all(changes: ChangeBatch, error: ConfigError | DataError) -> list[BadRecord]:
    return [BadRecord.of(*changes.location(i), DataError(error.message)) for i in range(changes.num_rows)]
