"""Changes to tables that records stand for: rows to write and rows to delete, in the order of the records.

Each sink (Confluent's and Aiven's, Debezium's) has a :class:`ChangePlanner` that turns records into changes. The writer knows
nothing else about records.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter
from typing import Any, Protocol

from connect.errors import ConnectError
from connect.record import SinkRecord
from connectors.jdbc.options import InsertMode, SinkField
from connectors.jdbc.table_name import TableName

Row = Sequence[Any]
"""Connect values, in the order of a shape's fields."""
RowBuilder = Callable[[Sequence[SinkRecord]], Sequence[Row]]
"""Returns one row per record."""


class Operation(Enum):
    """Operation on the rows of a table."""

    WRITE = "write"
    """Insert, upsert or update, depending on the configuration."""
    DELETE = "delete"
    TRUNCATE = "truncate"
    """Deletes all rows of the table. The rows of such a shape are empty, one per record."""


@dataclass(frozen=True, eq=False)
class RowShape:
    """Table, operation and fields that rows have in common. Compared by identity: planners keep one per kind of record."""

    table: TableName
    operation: Operation
    fields: tuple[SinkField, ...]
    """In the column order of a new table. For deletes only the key."""
    insert_mode: InsertMode | None = None
    """Overrides the configured mode."""
    key_names: tuple[str, ...] = field(init=False)
    """Sorted."""
    _key_indexes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        keys = sorted((one.name, index) for index, one in enumerate(self.fields) if one.is_key)
        object.__setattr__(self, "key_names", tuple(name for name, _ in keys))
        object.__setattr__(self, "_key_indexes", tuple(index for _, index in keys))

    def keys(self, rows: Sequence[Row]) -> Iterable[Hashable]:
        """Returns a value per row that identifies its key among shapes of equal ``key_names``. The shape must have a key."""
        keys = map(itemgetter(*self._key_indexes), rows)
        if all(self.fields[index].schema.type.is_primitive for index in self._key_indexes):
            return keys
        return map(repr, keys)


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Rows of one shape, and the record of each row."""

    shape: RowShape
    rows: Sequence[Row]
    records: Sequence[SinkRecord]

    def __len__(self) -> int:
        return len(self.records)

    def part(self, first: int, end: int) -> RowChanges:
        return RowChanges(self.shape, self.rows[first:end], self.records[first:end])


@dataclass(frozen=True, slots=True)
class ErrantRecord:
    """A record that cannot be written, and the reason."""

    record: SinkRecord
    error: ConnectError


class ErrantRecordError(ConnectError):
    """A record cannot be written and errors are not tolerated, so nothing of its batch is written."""

    def __init__(self, errant: ErrantRecord) -> None:
        super().__init__(errant.error.message)
        self.errant = errant


Reject = Callable[[SinkRecord, ConnectError], None]
"""Takes a record that cannot be written. Raises ErrantRecordError if errors are not tolerated."""


class ChangePlanner(Protocol):
    """Turns records into changes. Runs on the task's thread and keeps no records."""

    def plan(self, records: Sequence[SinkRecord], reject: Reject) -> list[RowChanges]:
        """Returns the changes of a batch, in its order. Records that are no change (schema change events) are omitted.

        Raises ConnectError for errors that are no record's fault.
        """
