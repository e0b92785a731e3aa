"""The record path: decodes records of any converter, after any transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SinkRecord
from connectors.spark.decode import schema_inference
from connectors.spark.decode.arrow_types import ColumnConversion
from connectors.spark.decode.decoded_values import (
    DecodedValues,
    change_events,
    image_of,
    plain_rows,
    tombstones,
)
from connectors.spark.decode.exact_values import inside, parse_document, prefixed, read_string, show
from connectors.spark.decode.json import NotBatchable
from connectors.spark.decode.json_batch_decoder import JsonBatchDecoder
from connectors.spark.decode.json_record_decoder import JsonRecordDecoder, finish_rows
from connectors.spark.decode.layouts import SINGLE_FIELD, SchemaCache
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.schema_inference import InferredSchema
from connectors.spark.decode.source_block import SourceBlock


class RecordDecoder:
    """Decodes values of one topic's records. Values without a schema are decoded like JSON, so that both give one table."""

    def __init__(
        self,
        schemas: SchemaCache,
        inferred: InferredSchema,
        source: SourceBlock,
        batches: JsonBatchDecoder,
        documents: JsonRecordDecoder,
    ) -> None:
        self._schemas = schemas
        self._inferred = inferred
        self._source = source
        self._batches = batches
        self._documents = documents

    def decode(self, records: Sequence[SinkRecord], raw: RawBuffer) -> list[DecodedValues]:
        """Decodes the values of all records; ``raw`` has their partitions and offsets. Raises DataError that names the record."""
        groups: dict[int, tuple[Schema | None, list[int]]] = {}
        for position, record in enumerate(records):
            kind = -1 if record.value is None else id(record.value_schema)
            groups.setdefault(kind, (record.value_schema, []))[1].append(position)
        found = []
        for kind, (schema, positions) in groups.items():
            if kind == -1:
                found.append(tombstones(positions))
                continue
            values = [records[at].value for at in positions]
            if schema is None:
                found.append(self._schemaless(raw, positions, values))
            else:
                found.append(self._with_schema(raw, schema, positions, values))
        return found

    def _with_schema(self, raw: RawBuffer, schema: Schema, positions: list[int], values: list[Any]) -> DecodedValues:
        layout = self._schemas.layout(schema)

        def describe(at: int) -> str:
            return raw.describe(positions[at])

        if layout.single:
            values = [{SINGLE_FIELD: v} for v in values]
        if not layout.envelope:
            return replace(plain_rows(positions, convert_values(values, layout.row, describe)), defaults=layout.defaults)
        operations = pa.array(_operations(values, describe), pa.string())
        source = self._source.columns(self._read_sources([v.get("source") for v in values], describe))
        rows = convert_values([image_of(v) for v in values], layout.row, describe)
        return replace(change_events(positions, operations, source, rows, describe), defaults=layout.defaults)

    def _read_sources(self, blocks: list[Any], describe: Callable[[int], str]) -> pa.Array:
        if all(block is None or isinstance(block, Struct) for block in blocks):
            found = self._source.read_structs(blocks)
            if found is not None:
                return found
        read = []
        for at, block in enumerate(blocks):
            try:
                read.append(self._source.read(block))
            except DataError as e:
                raise DataError(f"{describe(at)}: {prefixed(e)}") from e
        return pa.array(read, self._source.type)

    def _schemaless(self, raw: RawBuffer, positions: list[int], values: list[Any]) -> DecodedValues:
        lines = [dump_value(v, at, lambda at: raw.describe(positions[at])) for at, v in enumerate(values)]
        state = self._inferred.state()
        try:
            return self._batches.decode_schemaless(raw, positions, lines)
        except (pa.ArrowException, ValueError, DataError, NotBatchable, RecursionError):
            self._inferred.restore(state)
        return self._documents.decode_schemaless(raw, positions, [parse_document(line) for line in lines])


def _operations(events: Sequence[Any], describe: Callable[[int], str]) -> list[str | None]:
    found = []
    for at, event in enumerate(events):
        try:
            if not isinstance(event, Struct | dict):
                raise DataError(f"{show(event)} is not a change event")
            found.append(inside("op", read_string, event.get("op")))
        except DataError as e:
            raise DataError(f"{describe(at)}: {prefixed(e)}") from e
    return found


def convert_values(values: Sequence[Any], row: ColumnConversion, describe: Callable[[int], str]) -> pa.Array:
    """The rows of struct values. Raises DataError that names the record, as ``describe`` does, and the field."""
    errors = (ValueError, TypeError, OverflowError, DataError)
    prepare = row.prepare
    try:
        prepared = [None if v is None else prepare(v) for v in values]
    except errors as error:
        for at, value in enumerate(values):
            try:
                if value is not None:
                    prepare(value)
            except errors as e:
                text = prefixed(e) if isinstance(e, DataError) else str(e)
                raise DataError(f"{describe(at)}: {text}") from e
        raise DataError(f"{describe(0)}: {error}") from error
    return finish_rows(prepared, row, describe)


def dump_value(value: Any, index: int, describe: Callable[[int], str]) -> bytes:
    """The JSON of a value without a schema. Raises DataError that names the record and the field."""
    try:
        return schema_inference.dump(value)
    except (TypeError, ValueError) as e:
        name = schema_inference.find_unserializable_member(value)
        what = f"JSON cannot represent a value without a schema: {e}; use records with a schema"
        raise DataError(f"{describe(index)}: {'' if name is None else f'field {name}: '}{what}") from e
