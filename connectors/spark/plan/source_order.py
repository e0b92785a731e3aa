"""Orders changes by their position in the source's log (``sequence.by=source``), whatever the order of their arrival.

Of two changes of a key, the one with the greater position wins. A delete and an insert can share a position: an update of the
source's primary key is both, and ``key.columns`` may be others. Then the insert is the later one. A change with the position of
another one, and of its kind, is a repetition.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connectors.spark.config_keys import SEQUENCE_BY
from connectors.spark.decode.change_batch import (
    DELETE,
    MESSAGE,
    OPERATION,
    POSITION,
    SEQUENCE,
    TOMBSTONE,
    ChangeBatch,
)
from connectors.spark.plan.truncates import find_truncates

_READ = "r"
_POSTGRES = r"^(?P<commit>[0-9]{20})\.(?P<lsn>[0-9]{20})$"
_NOTHING = "0" * 20
_KIND = "kind"


def with_source_order(changes: ChangeBatch) -> ChangeBatch:
    """The changes that have a place in the order, with their positions. Messages and tombstones have none: the delete event just
    before a tombstone has already deleted the row.

    Raises DataError that names the record for any other record without a position.
    """
    operations = changes.meta[OPERATION]
    unordered = pc.fill_null(pc.is_in(operations, pa.array([TOMBSTONE, MESSAGE])), False)
    if pc.any(unordered).as_py():
        changes = changes.filter(pc.invert(unordered))
    positions = _of_rows_read(changes.meta[POSITION], changes.meta[OPERATION])
    if positions.null_count:
        at = pc.index(positions.is_null(), True).as_py()
        what = "record is no change event, so it" if changes.meta[OPERATION][at].as_py() is None else "change event"
        raise DataError(
            f"{changes.describe_record(at)}: the {what} has no position in the source's log, which {SEQUENCE_BY}=source needs: "
            "source.sequence or source.lsn of PostgreSQL, source.file and source.pos of MySQL and MariaDB, or those of Sluice's "
            "other sources; set "
            f"{SEQUENCE_BY}=log"
        )
    meta = changes.meta.set_column(changes.meta.column_names.index(POSITION), POSITION, positions)
    return replace(changes, meta=meta)


def _of_rows_read(positions: pa.ChunkedArray, operations: pa.ChunkedArray) -> pa.ChunkedArray:
    """The positions. Those of rows that a PostgreSQL source has read, and not streamed, are put before changes that may be newer.

    The LSN of such a row says little: a transaction that commits later may have written before it. The row is newer than the
    commit that its position names, and older than all that follows. Without such a commit, it is older than all changes.
    """
    is_read = pc.fill_null(pc.equal(operations, _READ), False)
    if not pc.any(is_read).as_py():
        return positions
    parts = pc.extract_regex(positions, _POSTGRES)
    commit, lsn = pc.struct_field(parts, "commit"), pc.struct_field(parts, "lsn")
    is_first = pc.equal(commit, _NOTHING)
    # A minus sorts before digits; among themselves, rows of snapshots have the order of their LSNs.
    before_all = pc.binary_join_element_wise("-" + _NOTHING[1:], lsn, ".")
    after_commit = pc.binary_join_element_wise(commit, _NOTHING, ".")
    read = pc.if_else(is_first, before_all, after_commit)
    return pc.if_else(is_read, pc.coalesce(read, positions), positions)


def is_delete(meta: pa.Table) -> pa.ChunkedArray:
    """Mask of the changes that delete a row."""
    return pc.fill_null(pc.equal(meta[OPERATION], DELETE), False)


def sort_by_position(changes: ChangeBatch) -> ChangeBatch:
    """The changes from the oldest to the newest. Those that share a position and are of one kind stay in the order of their
    arrival, which in one partition is that of their offsets."""
    if changes.num_rows < 2:
        return changes
    # Of those that share a position, truncates come first, and inserts last.
    kind = pc.add(is_delete(changes.meta).cast(pa.int8()), pc.multiply(find_truncates(changes.meta).cast(pa.int8()), 2))
    by = changes.meta.select([POSITION, SEQUENCE]).append_column(_KIND, kind)
    keys = [(POSITION, "ascending"), (_KIND, "descending"), (SEQUENCE, "ascending")]
    order = pc.sort_indices(by, sort_keys=keys)
    return ChangeBatch(changes.topic, changes.meta.take(order), changes.image.take(order), None)
