"""One feed being read: rows become records, a batch at a time."""

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
from connectors.jdbc.source.offset_tracking import Exact
from connectors.jdbc.source.record_keys import KeyMaker, KeyRules
from connectors.jdbc.source.table_queries import Feed


class Querier:
    """Reads a feed whenever it is due. One thread."""

    def __init__(self, feed: Feed, keys: KeyRules) -> None:
        self.feed = feed
        self.due = 0.0
        """When the next query may begin, by the monotonic clock."""
        self.failures = 0
        """How many queries in a row have failed."""
        self.gone = False
        """Whether the table was missing the last time."""
        self.rows = 0
        """How many rows became records."""
        self._keys = keys
        self._reader: RowReader | None = None
        self._fields: Sequence[tuple[str, Schema]] | None = None
        self._schema = Schema(Type.STRUCT, fields=())
        self._key: KeyMaker | None = None
        self._held: tuple[list[Any], tuple[int | None, ...]] | None = None

    @property
    def querying(self) -> bool:
        return self._reader is not None

    def begin(self, session: Session) -> bool:
        """Runs the query. Returns whether there is one to read."""
        opened = self.feed.open(session)
        if opened is None:
            return False
        self._reader = opened.reader
        self._adopt(opened.reader.fields, opened.table)
        return True

    def _adopt(self, fields: Sequence[tuple[str, Schema]], table: JdbcTable | None) -> None:
        """Keeps the schemas as they are, the same objects, as long as the columns are the same."""
        columns = self._keys.columns_of(self.feed.name, table)
        if fields is not self._fields and fields != self._fields:
            _require_different([name for name, _ in fields])
            self._schema = Schema(Type.STRUCT, name=self.feed.name.name if self.feed.name else None, fields=fields)
            self._key = None
        self._fields = fields
        if not columns:
            self._key = None
        elif self._key is None or self._key_columns != columns:
            name = f"{self.feed.name.name}.Key" if self.feed.name else None
            self._key = KeyMaker.of(columns, self._schema, name, primitive=self._keys.primitive)
        self._key_columns = columns

    _key_columns: tuple[str, ...] = ()

    def read(self, most: int) -> list[SourceRecord] | None:
        """The next records, ``most`` at most; None when the query was read to its end."""
        reader, stamp = self._reader, self.feed.stamp
        assert reader is not None
        holds = stamp.holds_back
        part = reader.read(most + 1 if holds and self._held is None else most)
        values = part.values
        exact: Exact = part.exact if part.exact is not None else self.feed.exact(values)
        last = not values
        if holds and self._held is not None:
            values, exact = [self._held[0], *values], [self._held[1], *exact]
            self._held = None
        if last and not values:
            return None
        offsets = stamp.offsets(exact, last=last)
        if holds and not last:
            self._held = values.pop(), exact[-1]
        self.rows += len(values)
        return self._records(values, offsets)

    def _records(self, values: list[list[Any]], offsets: Sequence[dict[str, Any] | None]) -> list[SourceRecord]:
        partition, topic, schema = self.feed.partition, self.feed.topic, self._schema
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

    def end(self, due: float) -> None:
        """The query was read to its end; the next is due then."""
        self.feed.ended()
        self.failures = 0
        self.gone = False
        self.reset(due)

    def reset(self, due: float) -> None:
        """Ends the query where it is: what was made of it stays, the next begins after that."""
        reader, self._reader = self._reader, None
        self._held = None
        self.due = due
        if reader is not None:
            with contextlib.suppress(Exception):
                reader.close()


def _require_different(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"The query gives {names.count(name)} columns the name {name}; name each differently with AS")
