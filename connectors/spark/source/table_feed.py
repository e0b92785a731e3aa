"""What every table format delivers: rows of a snapshot, then the changes of one version after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from connect.change_events.envelope import CREATE, DELETE, READ, UPDATE
from connectors.spark.source.offsets import FeedPosition, StorablePosition
from connectors.spark.tables.files.file_columns import FileColumns

Codes = np.ndarray[Any, np.dtype[np.uint8]]
READ_CODE, CREATE_CODE, UPDATE_CODE, DELETE_CODE = (ord(op) for op in (READ, CREATE, UPDATE, DELETE))


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table."""

    name: str
    type: pa.DataType
    nullable: bool
    in_files: pa.Field | None = None
    """The same with the names that data files have for it and for the fields in it; None if they have the table's."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a version, in order. Equal ones are the same object, so that they are compiled once."""

    columns: tuple[TableColumn, ...]

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {column.name: column.type for column in self.columns}

    def file_columns(self, types: Mapping[str, pa.DataType] | None = None) -> FileColumns:
        """How files that have columns by name have those of the schema, or those of ``types``, which can have others, too."""
        others = {column.name: column.in_files for column in self.columns if column.in_files is not None}
        return FileColumns.by_name(types or self.types, others, assumes_utc=True)


@dataclass(frozen=True, slots=True)
class FeedChanges:
    """Changes of rows, in order. ``operations`` has the code of each change's ``op``.

    ``before`` and ``after`` have a row per change, which counts only if the operation has that image; None if none has.
    """

    operations: Codes
    before: pa.Table | None
    after: pa.Table | None

    def __len__(self) -> int:
        return len(self.operations)

    def slice(self, start: int, length: int) -> FeedChanges:
        """``length`` changes from ``start`` on."""
        return FeedChanges(
            self.operations[start : start + length],
            None if self.before is None else self.before.slice(start, length),
            None if self.after is None else self.after.slice(start, length),
        )


def inserted(rows: pa.Table, code: int = CREATE_CODE) -> FeedChanges:
    """Changes that insert these rows."""
    return FeedChanges(np.full(rows.num_rows, code, np.uint8), None, rows)


def deleted(rows: pa.Table) -> FeedChanges:
    """Changes that delete these rows."""
    return FeedChanges(np.full(rows.num_rows, DELETE_CODE, np.uint8), rows, None)


@dataclass(frozen=True, slots=True)
class FeedVersion:
    """What all changes of a version share."""

    table_id: str
    version: int
    ts_ms: int
    """When the version was committed, in ms since 1970."""
    is_snapshot: bool
    order: str
    """What the order of the changes depends on, besides the table: a row number counts only with the same one."""
    snapshot_id: int | None = None
    """See :class:`connectors.spark.source.offsets.FeedPosition`."""

    def offset_after(self, row: int) -> dict[str, Any]:
        """The offset to store when the first ``row`` changes are done."""
        position = FeedPosition(self.version, row, self.is_snapshot, self.table_id, self.order or None, self.snapshot_id)
        return position.to_offset()


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """Some changes of a version, or rows of a snapshot. ``first_row`` is the number of the first change in its version."""

    version: FeedVersion
    schema: TableSchema
    changes: FeedChanges
    first_row: int
    offset_after: Callable[[int], dict[str, Any]] | None = None
    """The offset to store when this many changes of the version are done; None: :meth:`FeedVersion.offset_after`."""


@dataclass(frozen=True, slots=True)
class VersionEnd:
    """A version, or the snapshot, is complete."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing to deliver at the moment. ``is_idle``: nor soon, because the newest version is complete."""

    is_idle: bool


FeedItem = FeedBatch | VersionEnd | Waiting


class TableFeed(Protocol):
    """Reads one table. Used by one thread; ``figures`` by any."""

    @property
    def position(self) -> StorablePosition | None:
        """What follows is next; None before the start of a feed without a stored offset."""
        ...

    def move_to(self, position: Any) -> None:
        """Sets the position, one that the feed had, of the next call of ``items``."""
        ...

    def start_again(self) -> None:
        """Makes the next call of ``items`` start with a snapshot."""
        ...

    def items(self) -> Iterator[FeedItem]:
        """What follows the feed's position, without end. Returns to the caller often, with Waiting if need be.

        Raises TableAbsentError, VersionGapError, and other ConnectErrors; ``items`` may be called again then.
        """
        ...

    def figures(self) -> Mapping[str, Any]:
        """How far the feed is, for the progress of the task."""
        ...

    def close(self) -> None:
        """Releases what the feed holds. It is not used afterwards."""
        ...
