"""Changes to the rows of a table: its columns in its types, and the metadata columns that it keeps."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError, SchemaError
from connectors.spark import config
from connectors.spark.decode.arrow_types import UTC_TIMESTAMP
from connectors.spark.decode.change_batch import DELETE, OFFSET_ID, OPERATION, PARTITION_ID, SOURCE_MS, TOMBSTONE, Changes
from connectors.spark.plan.evolution import Columns, fit

METADATA_TYPES: Columns = {
    config.OP: pa.string(),
    config.SOURCE_TS: UTC_TIMESTAMP,
    config.TOPIC: pa.string(),
    config.PARTITION: pa.int32(),
    config.OFFSET: pa.int64(),
    config.DELETED: pa.bool_(),
}
TOPIC_ID = "topic"
"""Column of a meta table once changes of several topics are put together."""


def image_columns(changes: Changes) -> Columns:
    """The columns that the records bring, without those whose type nobody knows yet."""
    return {f.name: f.type for f in changes.image.schema if f.name and not pa.types.is_null(f.type)}


def refuse_collisions(columns: Columns, metadata: Sequence[str]) -> None:
    """Raises SchemaError when a record has a field with the name of a metadata column that the table keeps."""
    for name in metadata:
        if name in columns:
            raise SchemaError(
                f"the records have a field {name}, which is also a metadata column; leave it out of metadata.columns"
            )


def fitted(changes: Changes, columns: Columns) -> Changes:
    """The changes with exactly these columns in their image; nulls where the records have none.

    Raises DataError that names record, column and value.
    """
    made = {}
    for name, type_ in columns.items():
        if name not in changes.image.column_names:
            made[name] = pa.chunked_array([pa.nulls(changes.num_rows, type_)])
            continue
        try:
            made[name] = fit(changes.image[name], type_, name)
        except DataError as e:
            if isinstance(e, SchemaError) or len(e.args) < 2:
                raise SchemaError(f"topic {changes.topic}: {e.message}") from e
            raise DataError(f"{changes.locate(e.args[1])}: {e.message}") from e
    return Changes(changes.topic, changes.meta, pa.table(made), changes.keys)


def together(parts: Sequence[Changes]) -> Changes:
    """Changes of equal columns as one, the topic of each a column of ``meta``."""
    metas = [p.meta.append_column(TOPIC_ID, pa.repeat(pa.scalar(p.topic), p.num_rows)) for p in parts]
    topics = ", ".join(dict.fromkeys(p.topic for p in parts))
    return Changes(topics, pa.concat_tables(metas), pa.concat_tables([p.image for p in parts]), None)


def metadata_columns(meta: pa.Table, wanted: Sequence[str], deleted: pa.ChunkedArray | None) -> dict[str, pa.ChunkedArray]:
    """The metadata columns of rows; ``deleted`` under upsert, where a tombstone's operation is a delete."""
    found: dict[str, pa.ChunkedArray] = {}
    for name in wanted:
        if name == config.OP:
            operation = meta[OPERATION]
            if deleted is not None:
                operation = pc.if_else(pc.fill_null(pc.equal(operation, TOMBSTONE), False), DELETE, operation)
            found[name] = operation
        elif name == config.SOURCE_TS:
            found[name] = meta[SOURCE_MS].cast(pa.timestamp("ms", "UTC")).cast(UTC_TIMESTAMP)
        elif name == config.TOPIC:
            found[name] = meta[TOPIC_ID]
        elif name == config.PARTITION:
            found[name] = meta[PARTITION_ID]
        elif name == config.OFFSET:
            found[name] = meta[OFFSET_ID]
        elif name == config.DELETED and deleted is not None:
            found[name] = deleted
    return found


def appended_image(changes: Changes) -> Changes:
    """The changes with columns of the record key filled in where there is no image: tombstones, and deletes without before."""
    image = changes.image.drop_columns([""]) if "" in changes.image.column_names else changes.image
    for name in changes.keys.column_names if changes.keys is not None else ():
        assert changes.keys is not None
        key = changes.keys[name]
        if name not in image.column_names:
            image = image.append_column(name, key) if image.num_columns else pa.table({name: key})
            continue
        own = image[name]
        filled = pc.coalesce(own, changes.key_as(name, own.type))
        image = image.set_column(image.column_names.index(name), name, filled)
    if not image.num_columns:
        image = pa.table({"": pa.nulls(changes.num_rows)})
    return Changes(changes.topic, changes.meta, image, None)
