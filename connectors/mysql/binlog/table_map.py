"""TABLE_MAP: which table and columns a number in rows events stands for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

from connect.errors import DataError
from connectors.mysql.binlog.column_types import JSON, WireColumn, read_columns
from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.binlog.table_metadata import TableMapMetadata, read_metadata
from connectors.mysql.binlog.wire import packed_bytes, packed_int, short_bytes, take


class TableMap:
    """A table as the server describes it before each statement. Immutable.

    Its columns and metadata are parsed when first used. Two are equal if all bytes are, so they can be keys of caches; the same
    structure usually is the same object. Properties raise DataError if what they parse is damaged.
    """

    def __init__(self, description: bytes, *, is_mariadb: bool) -> None:
        """``description`` is TABLE_MAP without the number and flags. Raises IndexError or ValueError if it is damaged."""
        self._description = description
        self._is_mariadb = is_mariadb
        self._hash = hash(description)
        end = len(description)
        schema, at = short_bytes(description, 0, end)
        table, at = short_bytes(description, at + 1, end)
        count, at = packed_int(description, at + 1, end)
        types, at = take(description, at, count, end)
        self.schema = schema.decode()
        self.table = table.decode()
        self.column_count = count
        self.type_codes = types
        self._rest = at

    @cached_property
    def _parts(self) -> tuple[bytes, bytes, bytes]:
        """Metadata of the types, bits of nullable columns, optional metadata."""
        data, end = self._description, len(self._description)
        with self._explained():
            metadata, at = packed_bytes(data, self._rest, end)
            nullable, at = take(data, at, (self.column_count + 7) // 8, end)
        return metadata, nullable, data[at:]

    @cached_property
    def columns(self) -> tuple[WireColumn, ...]:
        """The columns' types."""
        with self._explained():
            return read_columns(self.type_codes, self._parts[0])

    @cached_property
    def nullable(self) -> tuple[bool, ...]:
        bits = self._parts[1]
        return tuple(bool(bits[i >> 3] & 1 << (i & 7)) for i in range(self.column_count))

    @cached_property
    def metadata(self) -> TableMapMetadata:
        """What binlog_row_metadata adds; everything in it may be missing."""
        with self._explained():
            return read_metadata(self._parts[2], self.columns, is_mariadb=self._is_mariadb)

    @cached_property
    def json_columns(self) -> tuple[int, ...]:
        """The indexes of JSON columns, which PARTIAL_UPDATE_ROWS may change in part."""
        return tuple(i for i, column in enumerate(self.columns) if column.type_code == JSON)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (IndexError, ValueError) as e:
            raise DataError(f"TABLE_MAP of {self} cannot be read: {e}") from e

    def column_label(self, index: int) -> str:
        """Returns a column's name, if it is known, or its number from 1 on, for messages."""
        names = self.metadata.names
        return names[index] if names and index < len(names) else f"#{index + 1}"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TableMap)
            and self._description == other._description
            and self._is_mariadb == other._is_mariadb
        )  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    def __repr__(self) -> str:
        return f"TableMap({self}, {self.column_count} columns)"


class TableMapEvent(NamedTuple):
    """Rows events with ``table_id`` refer to ``table`` until the next TABLE_MAP with this number."""

    header: EventHeader
    table_id: int
    flags: int
    table: TableMap
