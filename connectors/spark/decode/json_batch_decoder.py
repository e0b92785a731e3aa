"""The batch path: decodes JsonConverter's usual bytes, one batch at a time, in native code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connect.spool.segments import join_frames
from connectors.spark.decode.change_batch import DELETE
from connectors.spark.decode.decoded_values import (
    DecodedValues,
    change_events,
    image_of,
    plain_rows,
    row_of_plain,
    rows_of_envelopes,
    struct_of,
    tombstones,
)
from connectors.spark.decode.json import JsonSchemas, Lines, NotBatchable, Prefix, parse, split_by_prefix
from connectors.spark.decode.layouts import SINGLE_FIELD, SchemaCache
from connectors.spark.decode.present_fields import fields_of_lines
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.schema_inference import InferredSchema, readable
from connectors.spark.decode.source_block import SourceBlock

_BEFORE_ROW = b'{"before":null,"after":'
_QUOTED = re.compile(rb':"(NaN|-?Infinity)"')


class Payloads(NamedTuple):
    """Values of one schema, without it."""

    prefix: Prefix
    positions: Sequence[int]
    payloads: Lines
    frames: pa.DictionaryArray | None = None
    """The texts around the payloads (``connect.spool.segments``), if they have such, without nulls."""


class JsonBatchDecoder:
    """Decodes values of one topic. Raises NotBatchable, or errors that name no record, for all that needs the record path."""

    def __init__(
        self, schemas: SchemaCache, texts: JsonSchemas, inferred: InferredSchema, source: SourceBlock, *, with_schemas: bool
    ) -> None:
        self._schemas = schemas
        self._texts = texts
        self._inferred = inferred
        self._source = source
        self._with_schemas = with_schemas

    def decode(self, raw: RawBuffer) -> list[DecodedValues]:
        """Decodes the values of all records; groups are in no order."""
        if self._with_schemas:
            groups, nulls = split_by_prefix(raw.values, self._texts)
            found = [self._with_schema(raw, *group) for group in groups]
        else:
            nulls = [i for i, v in enumerate(raw.values) if v is None]
            lines = [v for v in raw.values if v is not None]
            positions = [i for i, v in enumerate(raw.values) if v is not None] if nulls else list(range(len(lines)))
            found = [self.decode_schemaless(raw, positions, lines)] if lines else []
        if nulls:
            found.append(tombstones(nulls))
        return found

    def decode_payloads(self, raw: RawBuffer, groups: Sequence[Payloads], nulls: Sequence[int]) -> list[DecodedValues]:
        """Like :meth:`decode`, for values that are split already; ``nulls`` are the positions of records without a value."""
        found = [
            self._with_schema(raw, prefix, positions, payloads)
            if frames is None
            else self._with_frames(raw, prefix, positions, payloads, frames)
            for prefix, positions, payloads, frames in groups
        ]
        return [*found, tombstones(nulls)] if len(nulls) else found

    def _with_frames(
        self, raw: RawBuffer, prefix: Prefix, positions: Sequence[int], payloads: Lines, frames: pa.DictionaryArray
    ) -> DecodedValues:
        """Decodes what rows share once, if the rows themselves are all that they do not share."""
        layout = self._schemas.layout(prefix.schema, in_json=True)
        json_type = layout.row.json
        before, after = frames.dictionary.flatten()
        is_row = layout.envelope and layout.rewrite_maps is None and pc.all(pc.equal(before, _BEFORE_ROW)).as_py()
        if json_type is None or not is_row:
            return self._with_schema(raw, prefix, positions, join_frames(payloads, frames))
        shared = _parse_with_types(pc.binary_join_element_wise(before, b"null", after, b""), self._envelope_types(json_type))
        operations = shared["op"].combine_chunks()
        if pc.any(pc.equal(operations, DELETE)).as_py():
            raise NotBatchable
        rows = layout.row.from_json(struct_of(_parse_with_types(payloads, pa.schema(list(json_type)))))
        source = self._source.columns(shared["source"].combine_chunks()).take(frames.indices)
        operations = operations.take(frames.indices)
        values = change_events(positions, operations, source, rows, lambda at: raw.describe(positions[at]))
        return replace(values, defaults=layout.defaults)

    def _envelope_types(self, row: pa.DataType) -> pa.Schema:
        return pa.schema([("before", row), ("after", row), ("op", pa.string()), ("source", self._source.type)])

    def _with_schema(self, raw: RawBuffer, prefix: Prefix, positions: Sequence[int], payloads: Lines) -> DecodedValues:
        layout = self._schemas.layout(prefix.schema, in_json=True)
        json_type = layout.row.json
        if json_type is None or _has_null(payloads):
            raise NotBatchable
        if isinstance(payloads, pa.Array) and (layout.single or layout.rewrite_maps is not None):
            payloads = payloads.to_pylist()
        if layout.single:
            payloads = [b'{"' + SINGLE_FIELD.encode() + b'":' + p + b"}" for p in payloads]
        if layout.rewrite_maps is not None:
            payloads = list(map(layout.rewrite_maps, payloads))
        if not layout.envelope:
            table = _parse_with_types(payloads, pa.schema(list(json_type)))
            return replace(plain_rows(positions, layout.row.from_json(struct_of(table))), defaults=layout.defaults)
        table = _parse_with_types(payloads, self._envelope_types(json_type))
        values = rows_of_envelopes(raw, positions, table, layout.row, self._source)
        return replace(values, defaults=layout.defaults)

    def decode_schemaless(self, raw: RawBuffer, positions: Sequence[int], lines: list[bytes]) -> DecodedValues:
        """Decodes values without a schema, one line each."""
        inferred = self._inferred
        if inferred.envelope is None:
            inferred.count_envelopes(readable(lines))
        table = inferred.parse(lines, self._source.type)
        if inferred.envelope and not inferred.row.num_fields:
            raise NotBatchable  # perhaps none of the events has a row
        row = inferred.column()
        if inferred.envelope:
            values = rows_of_envelopes(raw, positions, table, row, self._source)
        else:
            values = plain_rows(positions, row.from_json(struct_of(table)))
        fields = None
        if inferred.tells_missing:
            fields = fields_of_lines(lines, image_of if inferred.envelope else row_of_plain)
        return replace(values, fields=fields, has_schema=False)


def _has_null(payloads: Lines) -> bool:
    if isinstance(payloads, pa.Array):
        return bool(pc.any(pc.equal(payloads, b"null")).as_py())
    return b"null" in payloads


def _parse_with_types(payloads: Lines, types: pa.Schema) -> pa.Table:
    try:
        return parse(payloads, types, infer=False)
    except pa.ArrowInvalid:
        # Arrow's reader takes non-finite numbers without quotes only. A text column that holds such a word fails now and needs
        # the record path.
        payloads = payloads.to_pylist() if isinstance(payloads, pa.Array) else payloads
        unquoted = [_QUOTED.sub(rb":\1", p) if b'Infinity"' in p or b'"NaN"' in p else p for p in payloads]
        if unquoted == payloads:
            raise
        return parse(unquoted, types, infer=False)
