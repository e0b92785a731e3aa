"""Reads what ExtractNewRecordState leaves of a change event in the fields of a plain record: ``__deleted`` (or another field),
``__op``, and ``__source_ts_ms``."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import OP
from connectors.spark.decode.change_batch import DELETE, OPERATION, RESERVED, SOURCE_MS, WITH_ROW, ChangeBatch, empty_rows

SOURCE_MS_FIELD = "__source_ts_ms"
_MARKS = pa.array(["true", "false"])


def unwrap(changes: ChangeBatch, settings: TableConfig) -> ChangeBatch:
    """The changes with operation and time of plain records from their fields, as far as the table needs them.

    In a table with one row per key, a record with a true ``delete_field`` is a delete, and the field is no column. A field with
    the name of the metadata column ``__op`` is its value. Raises DataError that names the record for a mark that is neither true
    nor false, and for an operation that only the sink gives to records.
    """
    plain = changes.meta[OPERATION].is_null()
    if not changes.num_rows or not pc.all(plain).as_py():
        return changes  # a batch has either change events, or plain records, or tombstones
    meta, image = changes.meta, changes.image
    deleted = pa.chunked_array([pa.repeat(pa.scalar(False), changes.num_rows)])
    if settings.upserts and settings.delete_field in image.column_names:
        deleted = _read_marks(changes, settings.delete_field)
        image = _without(image, settings.delete_field)
        meta = _with(meta, OPERATION, pc.if_else(deleted, DELETE, meta[OPERATION]))
    if OP in settings.metadata_columns and OP in image.column_names and pa.types.is_string(image[OP].type):
        operations = image[OP]
        # A table with one row per key acts on operations: only these have no effect that is not wanted already.
        harmless = pc.or_kleene(pc.or_(deleted, operations.is_null()), pc.is_in(operations, WITH_ROW))
        if not settings.upserts or pc.all(harmless).as_py():
            if not settings.upserts:
                _refuse_reserved(changes, operations)
            meta = _with(meta, OPERATION, pc.if_else(deleted, DELETE, operations))
            image = _without(image, OP)
    if SOURCE_MS_FIELD in image.column_names and image[SOURCE_MS_FIELD].type == pa.int64():
        meta = _with(meta, SOURCE_MS, pc.coalesce(meta[SOURCE_MS], image[SOURCE_MS_FIELD]))
    return replace(changes, meta=meta, image=image, is_unwrapped=True)


def _read_marks(changes: ChangeBatch, name: str) -> pa.ChunkedArray:
    """By row, whether the field marks a delete; a missing mark does not. The transformation writes text."""
    column = changes.image[name]
    if pa.types.is_boolean(column.type):
        return pc.fill_null(column, False)
    known = pc.is_in(column, _MARKS) if pa.types.is_string(column.type) else pc.is_null(column)
    wrong = pc.and_(column.is_valid(), pc.invert(known))
    if pc.any(wrong).as_py():
        at = pc.index(wrong, True).as_py()
        raise DataError(
            f"{changes.describe_record(at)}: field {name} is {column[at].as_py()!r}, and a mark of deletes is true or false; set "
            "delete.field to the field that marks deletes, or to nothing if none does"
        )
    return pc.fill_null(pc.equal(column, "true"), False) if pa.types.is_string(column.type) else pc.is_valid(column)


def _refuse_reserved(changes: ChangeBatch, operations: pa.ChunkedArray) -> None:
    at = pc.index(pc.is_in(operations, RESERVED), True).as_py()
    if at >= 0:
        raise DataError(
            f"{changes.describe_record(at)}: field {OP} is {operations[at].as_py()!r}, which in the metadata column of that name "
            f"stands for a record without a value; remove {OP} from metadata.columns to write the field as an ordinary column"
        )


def _with(meta: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    at = meta.column_names.index(name)
    return meta.set_column(at, meta.schema.field(at), column)


def _without(image: pa.Table, name: str) -> pa.Table:
    # A table keeps its number of rows only with a column.
    return image.drop_columns([name]) if image.num_columns > 1 else empty_rows(image.num_rows)
