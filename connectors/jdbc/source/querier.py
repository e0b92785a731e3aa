"""Runs a query and turns its rows into records, a batch at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SourceRecord
from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.database import Session
from connectors.jdbc.dialects.dialect import RowReader
from connectors.jdbc.source.offset_tracking import ExactValues
from connectors.jdbc.source.record_keys import RecordKeyBuilder, RecordKeyConfig
from connectors.jdbc.source.table_queries import TableQuery


class TableQuerier:
    """Runs a query whenever it is due. Used on one thread."""

    def __init__(self, query: TableQuery, keys: RecordKeyConfig) -> None:
        self.query = query
        self.due = 0.0
        """When the query may run next, by the monotonic clock."""
        self.failures = 0
        """Consecutive failures."""
        self.is_missing = False
        """Whether the table was missing last time."""
        self.has_ended = False
        """Whether the query was read to its end once."""
        self.rows = 0
        """Rows that became records."""
        self._keys = keys
        self._reader: RowReader | None = None
        self._fields: Sequence[tuple[str, Schema]] | None = None
        self._schema = Schema(Type.STRUCT, fields=())
        self._key: RecordKeyBuilder | None = None
        self._key_columns: tuple[str, ...] = ()
        self._pending_row: tuple[list[Any], tuple[int | None, ...]] | None = None

    @property
    def is_running(self) -> bool:
        return self._reader is not None

    def start(self, session: Session) -> bool:
        """Runs the query. Returns False if there is nothing to run now."""
        running = self.query.open(session)
        if running is None:
            return False
        self._reader = running.reader
        self._set_schemas(running.reader.fields, running.table)
        return True

    def _set_schemas(self, fields: Sequence[tuple[str, Schema]], table: JdbcTable | None) -> None:
        """Updates the schemas, but keeps the same objects while the columns are the same."""
        columns = self._keys.columns_of(self.query.name, table)
        if fields is not self._fields and fields != self._fields:
            _require_distinct_names([name for name, _ in fields])
            self._schema = Schema(Type.STRUCT, name=self.query.name.name if self.query.name else None, fields=fields)
            self._key = None
        self._fields = fields
        if not columns:
            self._key = None
        elif self._key is None or self._key_columns != columns:
            name = f"{self.query.name.name}.Key" if self.query.name else None
            self._key = RecordKeyBuilder.create(columns, self._schema, name, primitive=self._keys.primitive)
        self._key_columns = columns

    def read(self, max_rows: int) -> list[SourceRecord] | None:
        """Returns the next records, at most ``max_rows``; None at the end of the query."""
        reader, tracker = self._reader, self.query.tracker
        assert reader is not None
        holds_row = tracker.needs_next_row
        batch = reader.read(max_rows + 1 if holds_row and self._pending_row is None else max_rows)
        values = batch.values
        exact: ExactValues = batch.exact if batch.exact is not None else self.query.exact(values)
        last = not values
        if holds_row and self._pending_row is not None:
            values, exact = [self._pending_row[0], *values], [self._pending_row[1], *exact]
            self._pending_row = None
        if last and not values:
            return None
        offsets = tracker.offsets(exact, last=last)
        if holds_row and not last:
            self._pending_row = values.pop(), exact[-1]
        self.rows += len(values)
        return self._build_records(values, offsets)

    def _build_records(self, values: list[list[Any]], offsets: Sequence[dict[str, Any] | None]) -> list[SourceRecord]:
        partition, topic, schema = self.query.partition, self.query.topic, self._schema
        if self._key is None:
            return [
                SourceRecord(partition, offset, topic, None, None, None, schema, Struct(schema, row))
                for row, offset in zip(values, offsets, strict=True)
            ]
        key_schema = self._key.schema
        return [
            SourceRecord(partition, offset, topic, None, key_schema, key, schema, Struct(schema, row))
            for row, offset, key in zip(values, offsets, self._key.keys(values), strict=True)
        ]

    def finish(self, due: float) -> None:
        """Records that the query was read to its end, and when it is due next."""
        self.query.on_end()
        self.has_ended = True
        self.failures = 0
        self.is_missing = False
        self.reset(due)

    def reset(self, due: float) -> None:
        """Stops the query. Records that were built count; the next query continues after them."""
        reader, self._reader = self._reader, None
        self._pending_row = None
        self.due = due
        if reader is not None:
            with contextlib.suppress(Exception):
                reader.close()


def _require_distinct_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"The query has {names.count(name)} columns named {name}; rename them with AS")
