"""Builds records of rows: change events and events of snapshots, which converters can write without creating them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from connect.data.headers import Header, Headers
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ErrantSourceRecord, SourceRecord
from connect.text_records import Cell, Fixed, Part, RecordTemplate, Slot, StructTemplate, TextKind, TextRows
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.errant_rows import errant_record
from connectors.cdc.schema.row_keys import key_cells
from connectors.cdc.streaming.record_forms import context_headers, tombstone_of
from connectors.cdc.streaming.row_templates import envelope_template, struct_template
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.offsets import SEQUENCE, TIME
from connectors.sqlite.schema import source_block as block
from connectors.sqlite.schema.table_rows import SqliteTableRows
from connectors.sqlite.types.registry import show_value


class SharedValues(NamedTuple):
    """What consecutive events share: when the connector read them, their marker, and more members of their offsets."""

    now_ms: int
    now_us: int
    now_ns: int
    marker: str
    extras: Mapping[str, Any]


class EventRow(NamedTuple):
    """The cells of an event after those of its rows. ``ts_us`` and ``ts_ns`` have the precision of SQLite's clock."""

    sequence: int
    ts_ms: int
    ts_us: int
    ts_ns: int
    sequence_text: str
    before: tuple[int, int]
    shared: SharedValues


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event, perhaps with a tombstone."""

    op: str
    has_before: bool
    has_after: bool


CREATED, UPDATED, DELETED = EventKind("c", False, True), EventKind("u", True, True), EventKind("d", True, False)
TOUCHED, READ = EventKind("u", False, True), EventKind("r", False, True)
TRUNCATED: Final = EventKind("t", False, False)


def share_values(marker: str, extras: Mapping[str, Any]) -> SharedValues:
    """The values of events that are read now."""
    ns = time.time_ns()
    return SharedValues(ns // 1_000_000, ns // 1000, ns, marker, extras)


class EventBuilder:
    """Builds records for the topics of a connector."""

    def __init__(self, settings: SqliteConfig, version: str) -> None:
        self.settings = settings
        self.partition = source_partition(settings.topic_prefix)
        self.database = os.path.splitext(os.path.basename(settings.file))[0]
        self._version = version
        self.context = (
            tuple(context_headers(settings.topic_prefix, block.CONNECTOR)) if settings.extended_headers else ()
        )  # fmt: skip

    def source_constants(self, rows: SqliteTableRows) -> list[Any]:
        """The values of a table's source blocks, without those that differ between events."""
        table = rows.table
        return block.source_values(self._version, self.settings.topic_prefix, self.database, table.schema, table.name)

    def record(
        self,
        rows: SqliteTableRows,
        kind: EventKind,
        before: Sequence[Any] | None,
        after: Sequence[Any] | None,
        place: EventRow,
        offset: Mapping[str, Any],
        header: Header | None = None,
    ) -> SourceRecord:
        """Builds an event; ``header`` comes before Debezium's context headers."""
        schemas, shared = rows.schemas, place.shared
        source = self.source_constants(rows)
        source[block.TS_MS], source[block.TS_US], source[block.TS_NS] = place.ts_ms, place.ts_us, place.ts_ns
        source[block.SNAPSHOT], source[block.SEQUENCE], source[block.SEQ] = shared.marker, place.sequence_text, place.sequence
        present = before if after is None else after
        key = None if present is None else rows.key_of(present)
        values = [
            None if before is None else Struct(schemas.value, list(before)),
            None if after is None else Struct(schemas.value, list(after)),
            Struct(block.SOURCE, source),
            None,
            kind.op,
            shared.now_ms,
            shared.now_us,
            shared.now_ns,
        ]
        headers = () if kind is READ else self.context if header is None else (header, *self.context)
        return SourceRecord(
            self.partition,
            offset,
            rows.topic,
            None,
            None if key is None else schemas.key,
            None if key is None or schemas.key is None else Struct(schemas.key, key),
            schemas.envelope,
            Struct(schemas.envelope, values),
            None,
            Headers(headers) if headers else None,
        )

    def key_header(self, name: str, rows: SqliteTableRows, key: list[Any]) -> Header:
        """The header of a change of the key."""
        schema = rows.schemas.key
        assert schema is not None
        return Header(name, schema, Struct(schema, key))

    def errant(
        self, rows: SqliteTableRows, values: Sequence[Any], error: Exception, offset: Mapping[str, Any]
    ) -> ErrantSourceRecord:
        """The report of a row that cannot be converted. ``values`` are those of ``rows.columns``."""
        named = name_value(rows, values, error)
        named.__cause__ = error
        mode = self.settings.events.failure_mode
        return errant_record(named, rows.topic, str(rows.table), rows.columns, values, mode, self.partition, offset)


def name_value(rows: SqliteTableRows, values: Sequence[Any], error: Exception) -> DataError:
    """The error for a row that cannot be decoded, with its table, key, and column."""
    names = [column.name for column in rows.columns]
    key = ", ".join(f"{name}={_shown(values[names.index(name)])}" for name in rows.key)
    reason = error.message if isinstance(error, DataError) else str(error)
    for column, value in zip(rows.columns, values, strict=True):
        if value is None:
            continue
        try:
            column.type.decode(value)
        except DataError as e:
            reason = f"column {column.name}: {'its value, which is masked, does not fit' if column.is_masked else e.message}"
            break
    return DataError(f"a row of table {rows.table} with the key ({key}) cannot be converted: {reason}")


def _shown(value: Any) -> str:
    return "null" if value is None else show_value(value)


class RowTemplates:
    """The templates of one structure of a table, by kind of event."""

    def __init__(self, rows: SqliteTableRows, builder: EventBuilder) -> None:
        self._rows = rows
        self._builder = builder
        self._found: dict[EventKind, RecordTemplate] = {}

    def of(self, kind: EventKind) -> RecordTemplate:
        """The template of events whose rows are the cells of before and after, then an :class:`EventRow`."""
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = self._create(kind)
        return found

    def _create(self, kind: EventKind) -> RecordTemplate:
        rows, builder = self._rows, self._builder
        schemas, width = rows.schemas, len(rows.columns)
        first = _cells(rows, 0)
        last = _cells(rows, width) if kind.has_before and kind.has_after else first
        end = width * (kind.has_before + kind.has_after)
        now = [Slot(SharedValues._fields.index(name)) for name in ("now_ms", "now_us", "now_ns")]
        before, after = first if kind.has_before else None, last if kind.has_after else None
        envelope = envelope_template(schemas, self._source(kind, end), kind.op, now, before, after)
        key = None if schemas.key is None else StructTemplate(schemas.key, key_cells(rows.columns, rows.key_indexes, last))
        has_tombstones = kind is DELETED and builder.settings.tombstones and key is not None
        reader = EventReader(rows, builder, kind, has_tombstones=has_tombstones)
        headers = () if kind is READ else builder.context
        size = 2 if has_tombstones else 1
        return RecordTemplate(rows.topic, key, envelope, headers, size, reader)

    def _source(self, kind: EventKind, end: int) -> StructTemplate:
        names = [field.name for field in block.SOURCE.fields or ()]
        constants = self._builder.source_constants(self._rows)
        parts: dict[str, Part] = {name: Fixed(value) for name, value in zip(names, constants, strict=True)}
        for name, field in (
            ("seq", "sequence"), ("ts_ms", "ts_ms"), ("ts_us", "ts_us"), ("ts_ns", "ts_ns"), ("sequence", "sequence_text")
        ):  # fmt: skip
            parts[name] = Cell(end + EventRow._fields.index(field), TextKind.VALUE, _same)
        if kind is READ:
            parts["snapshot"] = Slot(SharedValues._fields.index("marker"))
        return struct_template(block.SOURCE, parts)


def _cells(rows: SqliteTableRows, first: int) -> tuple[Cell, ...]:
    return tuple(Cell(first + i, TextKind.VALUE, _same) for i in range(len(rows.columns)))


def _same(value: Any) -> Any:
    return value


class EventReader:
    """Reads the rows of one template (:class:`connect.text_records.RowReader`)."""

    def __init__(self, rows: SqliteTableRows, builder: EventBuilder, kind: EventKind, *, has_tombstones: bool) -> None:
        self._rows = rows
        self._builder = builder
        self._kind = kind
        self._has_tombstones = has_tombstones
        self._completes = kind is not READ  # a row that is read is as of a change that is emitted
        self._width = len(rows.columns)
        self._end = self._width * (kind.has_before + kind.has_after)

    def text_rows(self, rows: Sequence[Sequence[Any]]) -> TextRows:
        return TextRows(rows, has_nulls=True, is_plain=False, slots=None)

    def create(self, row: Sequence[Any]) -> list[SourceRecord]:
        kind, width = self._kind, self._width
        place = EventRow(*row[self._end :])
        before = row[:width] if kind.has_before else None
        after = row[self._end - width : self._end] if kind.has_after else None
        offset = event_offset(place, is_last=self._completes and not self._has_tombstones)
        record = self._builder.record(self._rows, kind, before, after, place, offset)
        if not self._has_tombstones:
            return [record]
        return [record, tombstone_of(record, event_offset(place, is_last=True))]

    def last_offset(self, row: Sequence[Any]) -> Mapping[str, Any]:
        return event_offset(EventRow(*row[self._end :]), is_last=self._completes)


def event_offset(place: EventRow, *, is_last: bool) -> dict[str, Any]:
    """The offset of an event. Only the last record of a change completes it: others repeat the offset before it."""
    sequence, ts_ms = (place.sequence, place.ts_ms) if is_last else place.before
    return {SEQUENCE: sequence, TIME: ts_ms, **place.shared.extras}
