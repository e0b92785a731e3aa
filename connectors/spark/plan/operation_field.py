"""Operations in a field of the row: the block ``_cdc`` of DebeziumTransform and DmsTransform, and similar ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.change_batch import DELETE, OPERATION, ChangeBatch

_UPDATE = "u"


def with_operations(changes: ChangeBatch, path: Sequence[str]) -> ChangeBatch:
    """The changes with the operations in this field, where they are no change events. As for the Iceberg sink by Tabular, the
    first letter counts: D deletes the row, U updates it, and everything else, null too, inserts it."""
    letters = pc.utf8_slice_codeunits(pc.utf8_upper(pc.utf8_trim_whitespace(changes.texts_at(path))), 0, 1)
    known = changes.meta[OPERATION]
    found = pc.if_else(pc.equal(letters, "D"), DELETE, pc.if_else(pc.equal(letters, "U"), _UPDATE, pa.scalar(None, pa.string())))
    operations = pc.coalesce(known, found)
    index = changes.meta.schema.get_field_index(OPERATION)
    return replace(changes, meta=changes.meta.set_column(index, changes.meta.schema.field(index), operations))
