"""How a connector takes part in ``sluice verify``, which compares target tables with their source database.

A source connector returns a :class:`VerifiableSource` from ``verification``, a sink connector a :class:`VerifiableSink`. Both
only read. All methods are called on one thread, and may raise ConnectError.

A *position* is a place in the log of the source, as an integer that grows. A snapshot of the source has a position: the snapshot
contains only transactions that committed before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from connect.data.schema import Schema
from connect.record import SinkRecord, SourceRecord, TopicPartition

Key = tuple[str, ...]
"""The key of a row of the source, as texts that the database understands."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source, and the topic of its records."""

    name: str
    topic: str
    key: tuple[str, ...]
    """The fields of the record key. A table without a key cannot be compared."""
    estimated_rows: int
    notes: tuple[str, ...] = ()
    """What cannot be verified, such as masked columns."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows of one table: the records that the source would write for them, with their keys."""

    records: Sequence[SourceRecord]
    keys: Sequence[Key]
    versions: Sequence[str | None]
    """Differs after each change of a row, also after one that restores its values. None if the source cannot tell."""
    select: Callable[[Sequence[int]], SourceRows] | None = None
    """Returns some of the rows by their indexes. None if ``records`` exist already: with it, they may be
    :class:`connect.text_records.TextRecords`, which are created when somebody looks at one."""


class SourceSnapshot(Protocol):
    """Tables as of one point in time. Holds resources of the database until it is closed."""

    @property
    def position(self) -> int:
        """Everything in the snapshot was committed before this position."""

    def writers(self, table: str) -> frozenset[str]:
        """Returns the transactions that had written to the table and may not be visible yet, looked up before the snapshot."""

    def rows(self, table: str) -> Iterator[SourceRows]:
        """Yields all rows of a table, without versions."""

    def sample(self, table: str, count: int) -> Iterator[SourceRows]:
        """Yields about ``count`` rows from random places of the table, without versions; all rows of a small table."""

    def rows_of(self, table: str, keys: Sequence[Key]) -> Iterator[SourceRows]:
        """Yields the rows that have one of these keys, with versions. A key that the database cannot parse has no row."""

    def close(self) -> None: ...


class VerifiableSource(Protocol):
    """A database that a source connector captures."""

    placeholders: frozenset[str]
    """The texts that stand for unavailable values in records."""

    def tables(self) -> Sequence[SourceTable]:
        """Returns the captured tables."""

    def snapshot(self) -> SourceSnapshot:
        """Takes a snapshot of all tables."""

    def position_of(self, offset: Mapping[str, Any]) -> int:
        """Returns the position up to which a stored source offset says that records are in Kafka; 0 before the snapshot of the
        connector is complete."""

    def position_of_value(self, value: Any) -> int | None:
        """Returns a position from the value of a record in Kafka, such that records of all transactions that committed before it
        precede the record in its partition. None if the value does not tell, or is of another source."""

    def describe_position(self, position: int) -> str: ...

    def example(self, table: str) -> SourceRecord:
        """Returns a record like those of the table's rows, with zeros and nulls."""

    def vary(self, record: SourceRecord) -> SourceRecord:
        """Returns the record of the same row as another event of it, with other metadata (operation, times, positions). A column
        that differs between both depends on the event, so its value is not known from the row."""

    def delete_events(self, table: str, keys: Sequence[Key]) -> Sequence[SourceRecord]:
        """Returns the records that the source writes when rows with these keys are deleted."""

    def read_again(self, table: str, keys: Sequence[Key]) -> tuple[str, Mapping[str, Any]]:
        """Returns type and data of the signal that makes the running connector read the rows with these keys again."""

    def close(self) -> None: ...


class ColumnType(Enum):
    """What kind of values a column of the target has; decides in which form both sides are compared."""

    INTEGER = "integer"
    FLOAT = "float"
    """Of 32 bits."""
    DOUBLE = "double"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    """Read as microseconds."""
    JSON = "json"
    ARRAY = "array"
    NESTED = "nested"
    """Structs and maps."""
    ANY = "any"
    """Of any of these types, which differs by row."""


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """Rows that a sink has in a table after it has written records, in columns. ``records`` has the indexes of the records."""

    table: str
    key: tuple[str, ...]
    """The columns that identify a row. Empty if the sink keeps no single row per key."""
    columns: Mapping[str, tuple[Schema | None, Sequence[Any]]]
    """Connect values by column. The schema is None if the values have none."""
    records: Sequence[int]


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Limits rows to those whose ``column`` has one of these values. Readers may ignore it."""

    column: str
    values: Sequence[int] | Sequence[str]


TargetRows = Mapping[str, Sequence[Any]]
"""Python values by column: int, float, Decimal, bool, str, bytes, dates and times of :mod:`datetime`, lists, dicts, None. Dates
may be days, times and timestamps microseconds since 1970 UTC."""


class TargetTable(Protocol):
    """One version of a table of the target. Holds resources until it is closed."""

    @property
    def version(self) -> str:
        """Describes the version for people."""

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        """The columns, without those that the sink adds itself."""

    @property
    def estimated_rows(self) -> int: ...

    def rows(self, columns: Sequence[str], only: KeyFilter | None = None) -> Iterator[TargetRows]:
        """Yields the rows that count as present, in batches."""

    def close(self) -> None: ...


@runtime_checkable
class ColumnarTargetTable(Protocol):
    """A :class:`TargetTable` that can also be read into Arrow, which is faster."""

    def record_batches(self, columns: Sequence[str], only: KeyFilter | None = None) -> Iterator[Any]:
        """Yields the rows of :meth:`TargetTable.rows` as Arrow record batches of these columns."""

    def python_values(self, column: Any) -> Sequence[Any]:
        """Returns the values of an Arrow array as :meth:`TargetTable.rows` has them."""


@dataclass(frozen=True, slots=True)
class PartitionEvents:
    """The events of one partition in a table that keeps every event."""

    topic: str | None
    """None if the table does not tell."""
    partition: int
    events: int
    offsets: int
    """How many different offsets they have."""
    first: int
    last: int
    repeated: Sequence[int]
    """Offsets that several events have, not necessarily all of them."""


@runtime_checkable
class EventTable(Protocol):
    """A :class:`TargetTable` that keeps every event, of which the newest one of each key counts as present."""

    def partition_events(self) -> Sequence[PartitionEvents]:
        """Returns how many events there are."""


class VerifiableSink(Protocol):
    """The tables of a sink connector."""

    keeps_deleted_rows: bool
    """Whether rows stay in the tables after they were deleted in the source, as the configuration demands."""

    negative_zero: bool
    """Whether the tables tell -0.0 from 0.0."""

    ignores_missing_columns: bool
    """Whether columns that a table lacks are left out, as the configuration demands."""

    def expect(self, records: Sequence[SinkRecord]) -> Sequence[ExpectedRows]:
        """Returns the rows that the tables have after the sink has written these records. Leaves out records that it does not
        write."""

    def open(self, table: str, key: Sequence[str]) -> TargetTable:
        """Opens the newest version of a table, in which ``key`` identifies rows. Raises NotFoundError if it does not exist."""

    def written_offsets(self, table: str) -> Mapping[TopicPartition, int]:
        """Returns, by partition, the offset up to which the newest version of a table contains all records: a version that is
        opened later contains them too. Leaves out partitions of which the table does not tell; then the offsets that the sink
        has committed count."""

    def close(self) -> None: ...
