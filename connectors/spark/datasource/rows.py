"""Turns rows of a spool into Arrow batches for Spark: records as Spark's Kafka source shows them, or typed rows of one table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.json.converter import JsonConverter
from connect.errors import DataError
from connect.spool.segments import HEADERS, columns_of_topic, restore_bytes, restore_headers
from connect.suggestions import did_you_mean
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.change_batch import MESSAGE, OPERATION, POSITION, SEQUENCE, SOURCE_MS, TOMBSTONE, ChangeBatch
from connectors.spark.decode.column_decoder import ColumnRecords
from connectors.spark.decode.json import NotBatchable, Prefix, read_schema
from connectors.spark.decode.json_batch_decoder import Payloads
from connectors.spark.decode.layouts import detect_layout
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.toast import placeholders
from connectors.spark.decode.topic_decoder import DECODE_ERRORS, TopicDecoder

OP, TS, ROW_POSITION, UNCHANGED = "_op", "_ts", "_position", "_unchanged"
_UTC = pa.timestamp("us", "UTC")
ADDED_COLUMNS = pa.schema([(OP, pa.string()), (TS, _UTC), (ROW_POSITION, pa.string()), (UNCHANGED, pa.list_(pa.string()))])
"""Columns of typed rows after those of the table."""
RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _UTC),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
"""The columns of Spark's Kafka source. ``offset`` is the number of the row in the spool."""
_BATCH_ROWS = 20_000
_PREFIX, _SUFFIX = '{"schema":', ',"payload":'
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
        rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(_UTC),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        restore_headers(rows),
    ]
    return pa.table(columns, schema=RECORDS)


def topic_of_table(table: str, topics: Sequence[str]) -> str | None:
    """Returns the topic with this name, or the only one that ends with it after a dot; None if there is none. Raises DataError
    if there are several."""
    if table in topics:
        return table
    found = [topic for topic in topics if topic.endswith(f".{table}")]
    if len(found) > 1:
        raise DataError(f"table {table} could be any of the topics {', '.join(found)}: use one of these names")
    return found[0] if found else None


def unknown_table(table: str, topics: Sequence[str]) -> DataError:
    """The error for a table without records."""
    seen = f"topics seen: {', '.join(topics)}" if topics else "the connector has written no record"
    last_parts = [topic.rpartition(".")[2] for topic in topics]
    near = did_you_mean(table, [*topics, *(".".join(topic.split(".")[-2:]) for topic in topics), *last_parts], "; ")
    return DataError(
        f"The connector has no record of table {table} yet, so its columns are not known ({seen}{near}). Check the option table, "
        "or give the columns with .schema(...)"
    )


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
    return pa.schema(list(detect_layout(read_schema(_schema_of(text))).row.table))


def _schema_of(text: str) -> dict[str, Any]:
    """The schema in the text before payloads."""
    found: dict[str, Any] = json.loads(text[len(_PREFIX) : -len(_SUFFIX)])
    return found


class TypedRows:
    """Decodes the records of one topic into rows of the columns that Spark wants. Not thread-safe."""

    def __init__(self, topic: str, columns: pa.Schema, *, ignores_others: bool) -> None:
        """``ignores_others``: columns that Spark does not want are left out; else they are an error."""
        self._topic = topic
        self._columns = columns
        self._ignores_others = ignores_others
        self._prefixes: dict[int, Prefix] = {}
        converter = JsonConverter()
        self._decoder = TopicDecoder(
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

    def decode(self, rows: pa.Table, first_row: int, schemas: Mapping[str, str]) -> pa.Table:
        """Decodes rows of the spool; those of other topics are left out. Raises DataError that names record and column."""
        chosen = pc.indices_nonzero(pc.fill_null(pc.equal(rows["topic"].cast(pa.string()), self._topic), False))
        if len(chosen) < rows.num_rows:
            rows = rows.take(chosen)
        numbers = pc.add(chosen.cast(pa.int64()), first_row)
        found = [self._rows_of(batch, numbers) for batch in self._decode(rows, numbers, schemas)]
        table = pa.concat_tables([part for part in found if part.num_rows] or [self._empty()])
        if len(found) > 1:
            table = table.sort_by(SEQUENCE)
        return table.drop_columns([SEQUENCE])

    def _decode(self, rows: pa.Table, numbers: pa.Array, schemas: Mapping[str, str]) -> list[ChangeBatch]:
        names = columns_of_topic(rows.schema, self._topic)
        in_columns = [as_array(rows[name]) for name in names]
        found = [batch for column in in_columns for batch in self._decode_columns(rows, column, numbers, schemas)]
        if not found:
            return self._decode_records(rows, numbers, schemas)
        is_record = reduce(pc.and_, (column.is_null() for column in in_columns))
        here = pc.indices_nonzero(is_record)
        if len(here):
            places = here.cast(pa.int64())
            records = self._decode_records(rows.drop_columns(names).take(here), numbers.take(here), schemas)
            found += [_with_sequence(batch, places.take(batch.meta[SEQUENCE])) for batch in records]
        return found

    def _decode_columns(
        self, rows: pa.Table, column: pa.StructArray, numbers: pa.Array, schemas: Mapping[str, str]
    ) -> Iterator[ChangeBatch]:
        """Decodes the values that are in a column. Raises DataError."""
        ids = as_array(rows["value_schema"])
        for number in pc.unique(ids.filter(column.is_valid())).to_pylist():
            here = pc.indices_nonzero(pc.and_(column.is_valid(), pc.equal(ids, number))).cast(pa.int64())
            values, offsets = (one if len(here) == len(one) else one.take(here) for one in (column, numbers))
            records = ColumnRecords(0, offsets, None, None, self._prefix(number, schemas).schema, values)
            try:
                batch = self._decoder.decode_columns(records)
            except DECODE_ERRORS as e:
                raise DataError(f"topic {self._topic}, one of rows {offsets[0]} to {offsets[-1]} of the spool: {e}") from e
            yield _with_sequence(batch, here)

    def _decode_records(self, rows: pa.Table, numbers: pa.Array, schemas: Mapping[str, str]) -> list[ChangeBatch]:
        count = rows.num_rows
        raw = RawBuffer(self._topic, [0] * count, numbers.to_pylist())
        try:
            return self._decoder.decode_payloads(raw, *self._split(rows, schemas))
        except (NotBatchable, *DECODE_ERRORS):
            # Whole messages, value by value: this supports more forms, and errors name the record and the field.
            raw.keys, raw.values = [None] * count, restore_bytes(rows, "value", schemas).to_pylist()
            return self._decoder.decode_exactly(raw, 0)

    def _split(self, rows: pa.Table, schemas: Mapping[str, str]) -> tuple[list[Payloads], Sequence[int]]:
        """Returns the payloads by schema, and the positions of rows without a value. Raises NotBatchable if a value has no
        schema."""
        values, ids, frames = (as_array(rows[name]) for name in ("value", "value_schema", "value_frame"))
        nulls = pc.indices_nonzero(values.is_null()).to_numpy()
        if ids.null_count != len(nulls):
            raise NotBatchable
        groups = []
        for number in pc.unique(ids.drop_null()).to_pylist():
            for is_framed in (True, False):
                chosen = pc.and_(pc.fill_null(pc.equal(ids, number), False), pc.equal(frames.is_valid(), is_framed))
                here = pc.indices_nonzero(chosen)
                if len(here):
                    payloads, used = (one if len(here) == len(one) else one.take(here) for one in (values, frames))
                    prefix = self._prefix(number, schemas)
                    groups.append(Payloads(prefix, here.to_numpy(), payloads, used if is_framed else None))
        return groups, nulls

    def _prefix(self, number: int, schemas: Mapping[str, str]) -> Prefix:
        if number not in self._prefixes:
            text = schemas[str(number)]
            self._prefixes[number] = Prefix(text.encode(), read_schema(_schema_of(text)))
        return self._prefixes[number]

    def _empty(self) -> pa.Table:
        return pa.schema([*self._columns, (SEQUENCE, pa.int64())]).empty_table()

    def _rows_of(self, batch: ChangeBatch, numbers: pa.Array) -> pa.Table:
        operations = batch.meta[OPERATION]
        is_row = pc.invert(pc.fill_null(pc.is_in(operations, pa.array([TOMBSTONE, MESSAGE])), False))
        batch = batch.filter(is_row)
        image, meta, count = batch.image, batch.meta, batch.num_rows
        if not count:
            return self._empty()
        self._require_known(batch)
        unchanged: list[tuple[str, pa.ChunkedArray]] = []
        added = {
            OP: meta[OPERATION],
            TS: meta[SOURCE_MS].cast(pa.timestamp("ms", "UTC")).cast(_UTC),
            ROW_POSITION: _positions(meta, numbers),
        }
        columns = []
        for field in self._columns:
            if field.name in image.column_names:
                column = image[field.name]
                if (mask := placeholders(column)) is not None:
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
        if column.type == field.type:
            return column
        try:
            return pc.cast(column, field.type)
        except pa.ArrowException as e:
            raise DataError(
                f"{self._describe(batch)}: column {field.name} of type {column.type} does not fit the query's {field.type}: {e}. "
                "Start the query again to read the new type, or give it with .schema(...)"
            ) from e

    def _describe(self, batch: ChangeBatch) -> str:
        position = batch.meta[POSITION][0].as_py()
        at = "" if position is None else f", source position {position}"
        return f"topic {self._topic}, row {batch.location(0)[1]} of the spool{at}"


def _with_sequence(batch: ChangeBatch, numbers: pa.Array) -> ChangeBatch:
    return replace(batch, meta=batch.meta.set_column(batch.meta.column_names.index(SEQUENCE), SEQUENCE, numbers))


def _positions(meta: pa.Table, numbers: pa.Array) -> pa.ChunkedArray:
    """The position in the source, and after a dot the number of the row in the spool."""
    rows = pc.utf8_lpad(numbers.take(meta[SEQUENCE].combine_chunks()).cast(pa.string()), _NUMBER_WIDTH, "0")
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
