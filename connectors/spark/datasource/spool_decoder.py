"""Decodes rows of a spool as the sink decodes records of Kafka: columns, and payloads of JSON without their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from connect.data.schema import Schema
from connect.errors import DataError
from connect.spool.segments import RECORD_COLUMNS, columns_of_topic, restore_bytes, restore_headers
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.decode.change_batch import SEQUENCE, ChangeBatch
from connectors.spark.decode.column_decoder import ColumnRecords
from connectors.spark.decode.json import NotBatchable, Prefix, read_schema
from connectors.spark.decode.json_batch_decoder import Payloads
from connectors.spark.decode.raw_buffer import RawBuffer, RawHeaders
from connectors.spark.decode.topic_decoder import DECODE_ERRORS, TopicDecoder

_PREFIX, _SUFFIX = '{"schema":', ',"payload":'


def read_value_schema(text: str, *, defaults: bool = False) -> Schema:
    """Reads the schema in the text before payloads. Raises DataError."""
    return read_schema(json.loads(text[len(_PREFIX) : -len(_SUFFIX)]), defaults=defaults)


class SpoolDecoder:
    """Decodes the rows of one topic. Not thread-safe.

    The sequence of a change is its row's number in the spool, like its offset. ``with_keys`` reads keys and headers, too.
    """

    def __init__(self, decoder: TopicDecoder, *, with_keys: bool) -> None:
        self._topic = decoder.topic
        self._decoder = decoder
        self._with_keys = with_keys
        self._prefixes: dict[int, Prefix] = {}

    def decode(self, rows: pa.Table, first_row: int, schemas: Mapping[str, str]) -> list[ChangeBatch]:
        """Decodes those of consecutive rows that are of the topic; ``first_row`` is the number of the first one, and ``schemas``
        are the spool's. Groups are in no order. Raises DataError that names the record."""
        names = columns_of_topic(rows.schema, self._topic)
        chosen = pc.indices_nonzero(pc.fill_null(pc.equal(rows["topic"].cast(pa.string()), self._topic), False))
        if not len(chosen):
            return []
        if len(chosen) < rows.num_rows:
            rows = rows.select([*RECORD_COLUMNS, *names]).take(chosen)
        numbers = pc.add(chosen.cast(pa.int64()), first_row)
        in_columns = [as_array(rows[name]) for name in names]
        rows = rows.select(RECORD_COLUMNS)
        found = [batch for column in in_columns for batch in self._decode_columns(rows, column, numbers, schemas)]
        if not found:
            return self._decode_records(rows, numbers, schemas)
        here = pc.indices_nonzero(reduce(pc.and_, (column.is_null() for column in in_columns)))
        if len(here):
            found += self._decode_records(rows.take(here), numbers.take(here), schemas)
        return found

    def _decode_columns(
        self, rows: pa.Table, column: pa.StructArray, numbers: pa.Array, schemas: Mapping[str, str]
    ) -> Iterator[ChangeBatch]:
        """Decodes the records that are in a column. Raises DataError."""
        keys, values = column.flatten()
        kinds = pa.table([rows["key_schema"], rows["value_schema"], values.is_valid()], ["key", "value", "has_value"])
        kinds = kinds.filter(column.is_valid()).group_by(kinds.column_names, use_threads=False).aggregate([])
        for kind in kinds.to_pylist():
            here = pc.and_(column.is_valid(), pc.equal(values.is_valid(), kind["has_value"]))
            for name in ("key", "value"):
                if kind[name] is not None:
                    here = pc.and_(here, pc.fill_null(pc.equal(as_array(rows[f"{name}_schema"]), kind[name]), False))
            places = pc.indices_nonzero(here)
            is_all = len(places) == len(numbers)
            found, of_values, offsets = (one if is_all else one.take(places) for one in (keys, values, numbers))
            key_schema = None if kind["key"] is None or not self._with_keys else self._prefix(kind["key"], schemas).schema
            records = ColumnRecords(
                0,
                offsets,
                key_schema,
                None if key_schema is None else found,
                self._prefix(kind["value"], schemas).schema,
                of_values if kind["has_value"] else None,
            )
            try:
                batch = self._decoder.decode_columns(records)
            except DECODE_ERRORS as e:
                raise DataError(f"topic {self._topic}, one of rows {offsets[0]} to {offsets[-1]} of the spool: {e}") from e
            yield _with_sequence(batch, offsets)

    def _decode_records(self, rows: pa.Table, numbers: pa.Array, schemas: Mapping[str, str]) -> list[ChangeBatch]:
        raw = self._raw(rows, numbers, schemas)
        try:
            found = self._decoder.decode_payloads(raw, *self._split(rows, schemas))
        except (NotBatchable, *DECODE_ERRORS):
            # Whole messages, value by value: this supports more forms, and errors name the record and the field.
            raw.values = restore_bytes(rows, "value", schemas).to_pylist()
            found = self._decoder.decode_exactly(raw, 0)
        return [_with_sequence(batch, numbers.take(batch.meta[SEQUENCE])) for batch in found]

    def _raw(self, rows: pa.Table, numbers: pa.Array, schemas: Mapping[str, str]) -> RawBuffer:
        """The places of rows, and their keys and headers."""
        nothing: list[bytes | None] = [None] * rows.num_rows
        raw = RawBuffer(self._topic, [0] * rows.num_rows, numbers.to_pylist(), nothing, nothing)
        if self._with_keys:
            raw.partitions = pc.fill_null(rows["partition"], 0).to_pylist()
            raw.keys = restore_bytes(rows, "key", schemas).to_pylist()
            raw.headers = _headers(rows)
        return raw

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
            self._prefixes[number] = Prefix(text.encode(), read_value_schema(text, defaults=self._decoder.reads_defaults))
        return self._prefixes[number]


def _headers(rows: pa.Table) -> list[RawHeaders] | None:
    """The headers of records; None if none has any."""
    if as_array(rows["headers"]).null_count == rows.num_rows:
        return None
    return [[(one["key"], one["value"]) for one in listed or ()] or None for listed in restore_headers(rows).to_pylist()]


def _with_sequence(batch: ChangeBatch, numbers: pa.Array | pa.ChunkedArray) -> ChangeBatch:
    return replace(batch, meta=batch.meta.set_column(batch.meta.column_names.index(SEQUENCE), SEQUENCE, numbers))
