"""The bounds of a batch in the spool: all that Spark carries of a batch whose rows the driver reads from the spool itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from connect.errors import ConnectError
from connect.spool.positions import SpoolPosition
from connect.spool.reader import SpoolReader, SpoolSlice

BOUNDS = pa.schema(
    [
        ("spool", pa.string()),
        ("first_segment", pa.int64()),
        ("first_row", pa.int64()),
        ("last_segment", pa.int64()),
        ("last_row", pa.int64()),
    ]
)
"""The columns of the only row: the spool's ID, and the positions of the first row and after the last one; nulls if the batch has
no rows."""


def bounds_row(spool: str, slices: Sequence[SpoolSlice]) -> dict[str, Any]:
    """Returns the row for consecutive rows of a spool."""
    if not slices:
        return dict.fromkeys(BOUNDS.names)
    first, last = slices[0], slices[-1]
    positions = (first.entry.segment, first.first, last.entry.segment, last.last)
    return dict(zip(BOUNDS.names, (spool, *positions), strict=True))


def slices_between(reader: SpoolReader, row: Mapping[str, Any]) -> list[SpoolSlice]:
    """Returns the rows that a row of bounds is about. Raises ConnectError if they are of another spool, and DataError if they are
    gone."""
    spool, *positions = (row[name] for name in BOUNDS.names)
    if spool is None:
        return []
    if not reader.refresh() or reader.id != spool:
        raise ConnectError(
            f"the query reads spool {spool}, which {reader.directory} does not have: give SpoolTables the options of the stream"
        )
    first, last = SpoolPosition(*positions[:2]), SpoolPosition(*positions[2:])
    reader.require_rows_from(first, "the batch")
    return reader.slices(first, last)
