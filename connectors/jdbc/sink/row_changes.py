"""What records mean for tables: rows to write, rows to delete, in the order of the records.

A face of the sink (Confluent's and Aiven's, Debezium's) is a :class:`Planner`; the engine knows nothing of records beyond this.
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
"""Connect's values, in the order of a shape's fields."""


class Operation(Enum):
    """What is done with rows."""

    WRITE = "write"
    """Insert, upsert or update, as the settings say."""
    DELETE = "delete"
    TRUNCATE = "truncate"
    """All rows of the table go. The rows of such a shape are empty, one a record."""


@dataclass(frozen=True, eq=False)
class RowShape:
    """Rows of one form for one table. Compared by identity: made once for each kind of record, and kept by the planner."""

    table: TableName
    operation: Operation
    fields: tuple[SinkField, ...]
    """In the order that a new table's columns get. Of a delete the key alone."""
    insert_mode: InsertMode | None = None
    """How the rows are written, where it is not as the settings say."""
    key_names: tuple[str, ...] = field(init=False)
    """Sorted."""
    _key_places: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        places = sorted((one.name, place) for place, one in enumerate(self.fields) if one.is_key)
        object.__setattr__(self, "key_names", tuple(name for name, _ in places))
        object.__setattr__(self, "_key_places", tuple(place for _, place in places))

    def keys(self, rows: Sequence[Row]) -> Iterable[Hashable]:
        """What tells rows of one key from those of another, row by row, for shapes of equal ``key_names``; there must be some."""
        keys = map(itemgetter(*self._key_places), rows)
        if all(self.fields[place].schema.type.is_primitive for place in self._key_places):
            return keys
        return map(repr, keys)


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Rows of one shape with the records that they come from, one for one."""

    shape: RowShape
    rows: Sequence[Row]
    records: Sequence[SinkRecord]

    def __len__(self) -> int:
        return len(self.records)

    def part(self, first: int, end: int) -> RowChanges:
        return RowChanges(self.shape, self.rows[first:end], self.records[first:end])


@dataclass(frozen=True, slots=True)
class ErrantRecord:
    """A record that cannot be written, and why."""

    record: SinkRecord
    error: ConnectError


class ErrantRecordError(ConnectError):
    """A record cannot be written and failures are not tolerated: nothing of its batch is."""

    def __init__(self, refused: ErrantRecord) -> None:
        super().__init__(refused.error.message)
        self.refused = refused


Reject = Callable[[SinkRecord, ConnectError], None]
"""Takes a record that cannot be written. Raises RefusedError when that is not tolerated."""


class ChangePlanner(Protocol):
    """Tells what records mean. On the task's thread; keeps nothing of the records."""

    def plan(self, records: Sequence[SinkRecord], reject: Reject) -> list[RowChanges]:
        """The changes of a batch, in its order. A record that is no change (a schema change event) is left out.

        Raises ConnectError for what no record is to blame for.
        """
