"""Turns rows of a spool into Arrow batches for Spark: records as Spark's Kafka source shows them, or typed rows of one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.json.converter import JsonConverter
from connect.errors import DataError
from connect.spool.segments import restore_bytes, restore_headers
from connectors.spark.config_keys import UNAVAILABLE
from connectors.spark.datasource.columns import OP, RECORDS, ROW_POSITION, TS, UNCHANGED, UTC
from connectors.spark.datasource.spool_decoder import SpoolDecoder, read_value_schema
from connectors.spark.decode.change_batch import MESSAGE, OPERATION, POSITION, SEQUENCE, TOMBSTONE, ChangeBatch
from connectors.spark.decode.layouts import detect_layout
from connectors.spark.decode.toast import placeholders
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.plan.evolution import cast_column, show_value
from connectors.spark.plan.projection import check_source_times, source_times

_BATCH_ROWS = 20_000
_NUMBER_WIDTH = 20


def records_of(rows: pa.Table, first_row: int, schemas: Mapping[str, str]) -> pa.Table:
    """Returns rows as records; ``first_row`` is the number of the first one in the spool."""
    count = rows.num_rows
    columns = [
        restore_bytes(rows, "key", schemas),
        restore_bytes(rows, "value", schemas),
        rows["topic"].cast(pa.string()),
        pc.fill_null(rows["partition"], 0),
        pa.array(range(first_row, first_row + count), pa.int64()),
        rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(UTC),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        restore_headers(rows),
    ]
    return pa.table(columns, schema=RECORDS)


def columns_of(texts: Sequence[str]) -> pa.Schema:
    """Returns the columns of a table whose records have these schemas, the latest last. Raises DataError if they differ in the
    type of a column."""
    found = [_columns_of(text) for text in texts]
    try:
        merged = pa.unify_schemas([*reversed(found)], promote_options="permissive")
    except pa.ArrowException as e:
        raise DataError(f"a column of the table has changed its type: {e}. Give the columns with .schema(...)") from e
    return pa.schema([field.with_nullable(True) for field in merged])


def _columns_of(text: str) -> pa.Schema:
    return pa.schema(list(detect_layout(read_value_schema(text)).row.table))


class TypedRows:
    """Decodes the records of one topic into rows of the columns that Spark wants. Not thread-safe."""

    def __init__(self, topic: str, columns: pa.Schema, unavailable: str = UNAVAILABLE, *, ignores_others: bool) -> None:
        """``unavailable`` is the placeholder for unavailable values. ``ignores_others``: columns and nested fields that Spark
        does not want are left out; else they are an error."""
        self._topic = topic
        self._columns = columns
        self._unavailable = unavailable
        self._ignores_others = ignores_others
        converter = JsonConverter()
        decoder = TopicDecoder(
            topic,
            converter,
            converter,
            key_schemas=True,
            value_schemas=True,
            fill_defaults=False,
            key_name=None,
            needs_names=False,
            needs_keys=False,
            needs_position=True,
        )
        self._decoder = SpoolDecoder(decoder, with_keys=False)

    def decode(self, rows: pa.Table, first_row: int, schemas: Mapping[str, str]) -> pa.Table:
        """Decodes rows of the spool; those of other topics are left out. Raises DataError that names record and column."""
        found = [self._rows_of(batch) for batch in self._decoder.decode(rows, first_row, schemas)]
        table = pa.concat_tables([part for part in found if part.num_rows] or [self._empty()])
        if len(found) > 1:
            table = table.sort_by(SEQUENCE)
        return table.drop_columns([SEQUENCE])

    def _empty(self) -> pa.Table:
        return pa.schema([*self._columns, (SEQUENCE, pa.int64())]).empty_table()

    def _rows_of(self, batch: ChangeBatch) -> pa.Table:
        operations = batch.meta[OPERATION]
        is_row = pc.invert(pc.fill_null(pc.is_in(operations, pa.array([TOMBSTONE, MESSAGE])), False))
        batch = batch.filter(is_row)
        image, meta, count = batch.image, batch.meta, batch.num_rows
        if not count:
            return self._empty()
        self._require_known(batch)
        check_source_times(meta, lambda at: self._describe(batch, at))
        unchanged: list[tuple[str, pa.ChunkedArray]] = []
        added = {
            OP: meta[OPERATION],
            TS: source_times(meta),
            ROW_POSITION: _positions(meta),
        }
        columns = []
        for field in self._columns:
            if field.name in image.column_names:
                column = image[field.name]
                if (mask := placeholders(column, self._unavailable)) is not None:
                    unchanged.append((field.name, mask))
                    column = pc.if_else(mask, pa.scalar(None, column.type), column)
                columns.append(self._cast(batch, field, column))
            elif field.name == UNCHANGED:
                columns.append(None)
            else:
                columns.append(added.get(field.name, pa.nulls(count, field.type)))
        listed = _unchanged_names(unchanged, count)
        filled = [listed if column is None else column for column in columns]
        return pa.table([*filled, meta[SEQUENCE]], schema=pa.schema([*self._columns, (SEQUENCE, pa.int64())]))

    def _require_known(self, batch: ChangeBatch) -> None:
        if self._ignores_others:
            return
        wanted = set(self._columns.names)
        for name in batch.image.column_names:
            if name and name not in wanted:
                raise DataError(
                    f"{self._describe(batch)}: the table has a new column {name}, which the query does not have. Start the query "
                    "again: it reads the new columns, and continues where it was. A query with .schema(...) ignores new columns"
                )

    def _cast(self, batch: ChangeBatch, field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            return cast_column(column, field.type, field.name, drops_fields=self._ignores_others)
        except DataError as e:
            is_value = len(e.args) > 1
            at = e.args[1] if is_value else 0
            value = f": {show_value(column, at)}" if is_value else ""
            raise DataError(
                f"{self._describe(batch, at)}: column {field.name} of type {column.type} does not fit the query's {field.type}"
                f"{value}. Start the query again to read the new type; or give one that holds all values with .schema(...), and "
                "convert them in the query (CAST)"
            ) from e

    def _describe(self, batch: ChangeBatch, at: int = 0) -> str:
        position = batch.meta[POSITION][at].as_py()
        shown = "" if position is None else f", source position {position}"
        return f"topic {self._topic}, row {batch.location(at)[1]} of the spool{shown}"


def _positions(meta: pa.Table) -> pa.ChunkedArray:
    """The position in the source, and after a dot the number of the row in the spool."""
    rows = pc.utf8_lpad(meta[SEQUENCE].combine_chunks().cast(pa.string()), _NUMBER_WIDTH, "0")
    return pc.coalesce(pc.binary_join_element_wise(meta[POSITION].combine_chunks(), rows, "."), rows)


def _unchanged_names(found: Sequence[tuple[str, pa.ChunkedArray]], count: int) -> pa.Array:
    if not found:
        return pa.nulls(count, pa.list_(pa.string()))
    masks = [(name, mask.to_pylist()) for name, mask in found]
    listed = [[name for name, mask in masks if mask[at]] or None for at in range(count)]
    return pa.array(listed, pa.list_(pa.string()))


def batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Splits a table into batches for Spark."""
    yield from table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)
