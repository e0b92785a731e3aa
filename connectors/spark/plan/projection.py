"""Converts changes to rows of a table: its columns with its types, plus metadata columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError, SchemaError
from connectors.spark import config_keys
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.arrow_types import UTC_TIMESTAMP
from connectors.spark.decode.change_batch import (
    DELETE,
    OFFSET_ID,
    OPERATION,
    PARTITION_ID,
    POSITION,
    SOURCE_MS,
    TOPIC_ID,
    ChangeBatch,
    empty_rows,
    find_deletes,
    find_tombstones,
)
from connectors.spark.decode.variant import is_variant
from connectors.spark.plan.evolution import Columns, cast_column, cast_key, cast_known_fields, copied, without_empty_structs

_MAX_MS = (2**63 - 1) // 1000
"""Columns have microseconds."""
METADATA_TYPES: Columns = {
    config_keys.OP: pa.string(),
    config_keys.SEQ: pa.string(),
    config_keys.SOURCE_TS: UTC_TIMESTAMP,
    config_keys.TOPIC: pa.string(),
    config_keys.PARTITION: pa.int32(),
    config_keys.OFFSET: pa.int64(),
    config_keys.DELETED: pa.bool_(),
    config_keys.VALID_FROM: UTC_TIMESTAMP,
    config_keys.VALID_TO: UTC_TIMESTAMP,
    config_keys.CURRENT: pa.bool_(),
}


def without_other_fields(changes: ChangeBatch, table: Columns) -> ChangeBatch:
    """The changes without columns and nested fields that none of them has a value for, which only the records of other tables may
    have, unless the schema of the records or the table has them."""
    if changes.has_schema:
        return changes
    found: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(changes.image.column_names, changes.image.columns, strict=True):
        if changes.has_values(name):
            found[name] = cast_known_fields(column, _type_of_values(column), name)[0]
        elif name in table:
            found[name] = pa.chunked_array([pa.nulls(changes.num_rows, table[name])])
    return replace(changes, image=pa.table(found) if found else empty_rows(changes.num_rows))


def _type_of_values(column: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """The type of a column that has values, without nested fields that have none."""
    t, type_ = pa.types, column.type
    if is_variant(type_) or not t.is_nested(type_):
        return type_
    array = as_array(column) if isinstance(column, pa.ChunkedArray) else column
    if t.is_struct(type_):
        members = zip([f.name for f in type_], array.flatten(), strict=True)
        return pa.struct([(name, _type_of_values(values)) for name, values in members if values.null_count < len(values)])
    inside = array.flatten() if t.is_list(type_) else copied(array).items
    found = None if inside.null_count == len(inside) else without_empty_structs(_type_of_values(inside), "")
    if found is None:
        return type_  # nothing tells what an element would be
    return pa.list_(found) if t.is_list(type_) else pa.map_(type_.key_type, found)


def image_columns(changes: ChangeBatch, table: Collection[str] = ()) -> Columns:
    """The columns of the records, without those whose type is unknown. Structs that have no fields are left out, unless ``table``
    has such a column."""
    found: Columns = {}
    for field in changes.image.schema:
        type_ = without_empty_structs(field.type, field.name)
        if type_ is not None:
            found[field.name] = type_
        elif field.name in table and not pa.types.is_null(field.type):
            found[field.name] = _emptied(field.type)
    return found


def _emptied(type_: pa.DataType) -> pa.DataType:
    return pa.list_(_emptied(type_.value_type)) if pa.types.is_list(type_) else pa.struct([])


def check_metadata_names(columns: Columns, metadata: Sequence[str]) -> None:
    """Raises SchemaError when a record has a field with the name of a metadata column."""
    for name in metadata:
        if name in columns:
            raise SchemaError(
                f"the records have a field {name}, which is also a metadata column; remove it from metadata.columns"
            )


def project(changes: ChangeBatch, columns: Columns, *, drops_fields: bool = False) -> ChangeBatch:
    """Projects the image to exactly these columns; columns that the records lack are null. ``drops_fields``: values in nested
    fields that the columns lack are left out.

    Raises DataError that names record, column, and value.
    """
    converted = {}
    for name, type_ in columns.items():
        if name not in changes.image.column_names:
            converted[name] = pa.chunked_array([pa.nulls(changes.num_rows, type_)])
            continue
        try:
            converted[name] = cast_column(changes.image[name], type_, name, drops_fields=drops_fields)
        except DataError as e:
            if isinstance(e, SchemaError) or len(e.args) < 2:
                raise SchemaError(f"topic {changes.topic}: {e.message}") from e
            raise DataError(f"{changes.describe_record(e.args[1])}: {e.message}") from e
    return ChangeBatch(changes.topic, changes.meta, pa.table(converted), changes.keys)


def concat_batches(parts: Sequence[ChangeBatch]) -> ChangeBatch:
    """Concatenates batches with equal columns; ``meta`` gets a topic column."""
    metas = [p.meta.append_column(TOPIC_ID, pa.repeat(pa.scalar(p.topic), p.num_rows)) for p in parts]
    topics = ", ".join(dict.fromkeys(p.topic for p in parts))
    # Only some of them have old keys.
    whole = pa.concat_tables(metas, promote_options="default")
    return ChangeBatch(topics, whole, pa.concat_tables([p.image for p in parts]), None)


def source_times(meta: pa.Table) -> pa.ChunkedArray:
    """The times of changes in the source, which :func:`check_source_times` has accepted."""
    return meta[SOURCE_MS].cast(pa.timestamp("ms", "UTC")).cast(UTC_TIMESTAMP)


def check_source_times(meta: pa.Table, describe_record: Callable[[int], str], field: str = "source.ts_ms") -> None:
    """Raises DataError for a time of a change, from this field of its record, that no TIMESTAMP can hold."""
    ms = meta[SOURCE_MS]
    is_beyond = pc.or_(pc.greater(ms, _MAX_MS), pc.less(ms, -_MAX_MS))
    at = pc.index(is_beyond, True).as_py()
    if at >= 0:
        raise DataError(
            f"{describe_record(at)}: {field} is {ms[at].as_py()}, which is beyond what a TIMESTAMP holds; it must be in "
            "milliseconds since 1970, so correct it in the source or with a transformation"
        )


def metadata_columns(meta: pa.Table, wanted: Sequence[str], deleted: pa.ChunkedArray | None) -> dict[str, pa.ChunkedArray]:
    """The metadata columns of rows. ``deleted`` is given for upsert, where the operation of a tombstone is a delete."""
    found: dict[str, pa.ChunkedArray] = {}
    for name in wanted:
        if name == config_keys.OP:
            operation = meta[OPERATION]
            if deleted is not None:
                operation = pc.if_else(find_tombstones(meta), DELETE, operation)
            found[name] = operation
        elif name == config_keys.SEQ:
            found[name] = meta[POSITION]
        elif name == config_keys.SOURCE_TS:
            found[name] = source_times(meta)
        elif name == config_keys.TOPIC:
            found[name] = meta[TOPIC_ID]
        elif name == config_keys.PARTITION:
            found[name] = meta[PARTITION_ID]
        elif name == config_keys.OFFSET:
            found[name] = meta[OFFSET_ID]
        elif name == config_keys.DELETED and deleted is not None:
            found[name] = deleted
    return found


def deleted_metadata(meta: pa.Table, wanted: Sequence[str]) -> dict[str, pa.Scalar]:
    """The metadata columns of rows that a change with this metadata, one row, deletes."""
    at = meta.column_names.index(OPERATION)
    meta = meta.set_column(at, OPERATION, pa.array([DELETE]))
    columns = metadata_columns(meta, wanted, pa.chunked_array([pa.array([True])]))
    return {name: column[0] for name, column in columns.items()}


def image_with_keys(changes: ChangeBatch) -> ChangeBatch:
    """Fills in columns of the record key where there may be no image: tombstones, and deletes without before. Other records have
    keys, too, if another table of their topic needs them."""
    image = changes.columns()
    without_row = find_deletes(changes.meta)
    if changes.keys is not None and pc.any(without_row).as_py():
        keys = pa.table({name: pc.if_else(without_row, changes.keys[name], None) for name in changes.keys.column_names})
        changes = replace(changes, keys=keys)
        for name in keys.column_names:
            if name not in image.column_names:
                image = image.append_column(name, keys[name]) if image.num_columns else pa.table({name: keys[name]})
                continue
            own = image[name]
            filled = pc.coalesce(own, cast_key(changes, name, own.type))
            image = image.set_column(image.column_names.index(name), name, filled)
    if not image.num_columns:
        image = empty_rows(changes.num_rows)
    return ChangeBatch(changes.topic, changes.meta, image, None)
