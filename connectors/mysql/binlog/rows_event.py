"""Events with changed rows: WRITE, UPDATE, and DELETE_ROWS in all versions, compressed and partial ones included."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from connectors.mysql.binlog import event_types as codes
from connectors.mysql.binlog.compression import decompress_event_part
from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.binlog.wire import packed_int, take, u16

STATEMENT_END = 0x1
"""Flag: the last rows event of a statement."""


class RowsKind(Enum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class RowsVariant(NamedTuple):
    """``has_extra``: version 2, whose post-header ends with data of any length."""

    kind: RowsKind
    has_extra: bool
    is_compressed: bool = False
    is_partial: bool = False


ROWS_EVENTS: dict[int, RowsVariant] = {
    codes.WRITE_ROWS_V1: RowsVariant(RowsKind.INSERT, False),
    codes.UPDATE_ROWS_V1: RowsVariant(RowsKind.UPDATE, False),
    codes.DELETE_ROWS_V1: RowsVariant(RowsKind.DELETE, False),
    codes.WRITE_ROWS_V2: RowsVariant(RowsKind.INSERT, True),
    codes.UPDATE_ROWS_V2: RowsVariant(RowsKind.UPDATE, True),
    codes.DELETE_ROWS_V2: RowsVariant(RowsKind.DELETE, True),
    codes.PARTIAL_UPDATE_ROWS: RowsVariant(RowsKind.UPDATE, True, is_partial=True),
    codes.MARIADB_WRITE_ROWS_COMPRESSED_V1: RowsVariant(RowsKind.INSERT, False, is_compressed=True),
    codes.MARIADB_UPDATE_ROWS_COMPRESSED_V1: RowsVariant(RowsKind.UPDATE, False, is_compressed=True),
    codes.MARIADB_DELETE_ROWS_COMPRESSED_V1: RowsVariant(RowsKind.DELETE, False, is_compressed=True),
    codes.MARIADB_WRITE_ROWS_COMPRESSED: RowsVariant(RowsKind.INSERT, True, is_compressed=True),
    codes.MARIADB_UPDATE_ROWS_COMPRESSED: RowsVariant(RowsKind.UPDATE, True, is_compressed=True),
    codes.MARIADB_DELETE_ROWS_COMPRESSED: RowsVariant(RowsKind.DELETE, True, is_compressed=True),
}


class ExtraRowInfo(NamedTuple):
    """``partition_id`` is that of the row, or of the row before an update; ``ndb`` is NDB's data."""

    ndb: bytes | None = None
    partition_id: int | None = None
    source_partition_id: int | None = None


class RowsEvent(NamedTuple):
    """Rows of one table, not yet decoded: a row decoder reads ``data`` from ``at`` on.

    ``table`` is None if the server did not describe the table: then the rows cannot be read, but may be those of a table that
    the user does not want. ``present`` and ``present_after`` are bits, from the lowest, of the columns in the images before and
    after; for inserts and deletes there is only ``present``. ``is_partial``: JSON columns may be changed in part.
    """

    header: EventHeader
    kind: RowsKind
    table_id: int
    table: TableMap | None
    flags: int
    column_count: int
    present: bytes
    present_after: bytes
    is_partial: bool
    extra: ExtraRowInfo
    data: bytes
    at: int

    @property
    def is_statement_end(self) -> bool:
        return bool(self.flags & STATEMENT_END)


_NO_EXTRA = ExtraRowInfo()


def decode_rows_event(
    data: bytes, header: EventHeader, variant: RowsVariant, table_id_bytes: int, tables: dict[int, TableMap]
) -> RowsEvent:
    """Decodes what is in front of the rows. ``data`` begins after the header and ends before the checksum."""
    end = len(data)
    raw_id, at = take(data, 0, table_id_bytes, end)
    table_id = int.from_bytes(raw_id, "little")
    (flags,) = u16(data, at)
    at += 2
    extra = _NO_EXTRA
    if variant.has_extra:
        (length,) = u16(data, at)
        if length < 2:
            raise ValueError(f"extra data of {length} bytes; it includes the two of its length")
        content, at = take(data, at + 2, length - 2, end)
        if content:
            extra = _read_extra(content, variant.kind)
    count, at = packed_int(data, at, end)
    width = (count + 7) // 8
    present, at = take(data, at, width, end)
    present_after = b""
    if variant.kind is RowsKind.UPDATE:
        present_after, at = take(data, at, width, end)
    table = tables.get(table_id)
    if table is not None and table.column_count != count:
        raise ValueError(f"rows of {table} have {count} columns; its TABLE_MAP has {table.column_count}")
    if variant.is_compressed:
        data, at = decompress_event_part(data, at, end), 0
    return RowsEvent(
        header, variant.kind, table_id, table, flags, count, present, present_after, variant.is_partial, extra, data, at
    )


def _read_extra(data: bytes, kind: RowsKind) -> ExtraRowInfo:
    ndb = partition = source_partition = None
    at, end = 0, len(data)
    while at < end:
        code = data[at]
        at += 1
        if code == 0:
            if at >= end or data[at] < 2:  # the length includes itself and a byte for the format
                raise ValueError("NDB's extra data has no length")
            length = data[at]
            ndb, at = take(data, at, length, end)
        elif code == 1:
            (partition,) = u16(data, at)
            at += 2
            if kind is RowsKind.UPDATE:
                (source_partition,) = u16(data, at)
                at += 2
        else:
            break  # like the server, which knows no size of other parts
    return ExtraRowInfo(ndb, partition, source_partition)
