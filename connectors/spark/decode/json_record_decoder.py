"""The exact path: decodes JSON value by value, in every form that JsonConverter reads, with errors that name record and field.

It reads what Arrow's reader cannot: maps, non-finite numbers, decimals as numbers, other layouts and encodings of the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from connect.converters.json.schema_text import schema_text
from connect.converters.json.value_writer import WriteOptions
from connect.data.schema import Schema
from connect.errors import DataError
from connectors.spark.decode.arrow_types import ColumnConversion, struct_column
from connectors.spark.decode.change_batch import DELETE
from connectors.spark.decode.decoded_values import (
    DecodedValues,
    change_events,
    image_of,
    plain_rows,
    row_of_plain,
    tombstones,
)
from connectors.spark.decode.exact_values import inside, null_refused, parse_document, prefixed, read_string, show
from connectors.spark.decode.json import JsonSchemas, NotBatchable
from connectors.spark.decode.layouts import SINGLE_FIELD, SchemaCache
from connectors.spark.decode.present_fields import fields_of_nodes
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.rescued_json import RESCUED, node_text, object_text
from connectors.spark.decode.schema_inference import InferredSchema
from connectors.spark.decode.source_block import SourceBlock

_ENVELOPE = (
    'with schemas.enable, a JSON document needs "schema" and "payload" and no other fields; set schemas.enable=false on the '
    "converter to read plain JSON"
)
_KEPT_TYPE = "; a column keeps the type of its first values"


class JsonDocument(NamedTuple):
    """A parsed value and its schema."""

    schema: Schema | None
    node: Any


class DocumentReader:
    """Parses keys or values of one topic. ``fixed`` is the converter's ``schema.content``. With ``fills_defaults``, null becomes
    the default of its schema."""

    def __init__(self, texts: JsonSchemas, *, with_schemas: bool, fixed: Schema | None, fills_defaults: bool = False) -> None:
        self._texts = texts
        self._with_schemas = with_schemas
        self._fills_defaults = fills_defaults
        # Through its JSON form, in which defaults are read.
        self._fixed = None if fixed is None else texts.read(json.loads(schema_text(fixed, WriteOptions())))

    def read(self, data: bytes) -> JsonDocument:
        """Parses a document. Raises DataError."""
        document = self._read(data)
        schema = document.schema
        if document.node is not None or schema is None:
            return document
        if self._fills_defaults and schema.default is not None:
            return JsonDocument(schema, schema.default)
        if not schema.optional:
            raise null_refused(schema)
        return document

    def _read(self, data: bytes) -> JsonDocument:
        if not self._with_schemas or self._fixed is not None:
            return JsonDocument(self._fixed, parse_document(data))
        try:
            prefix = self._texts.find_prefix(data)
        except NotBatchable:
            prefix = None
        if prefix is not None and data.endswith(b"}"):
            return JsonDocument(prefix.schema, parse_document(data[len(prefix.text) : -1] or b"}"))
        node = parse_document(data)
        if not isinstance(node, dict) or node.keys() != {"schema", "payload"}:
            raise DataError(_ENVELOPE)
        schema = node["schema"]
        if schema is not None and not isinstance(schema, dict):
            raise DataError(f"{show(schema)} is not a JSON schema")
        return JsonDocument(None if schema is None else self._texts.read(schema), node["payload"])


def read_rows(nodes: Sequence[Any], row: ColumnConversion, describe: Callable[[int], str], hint: str = "") -> pa.Array:
    """The rows of parsed JSON. Raises DataError that names the record, as ``describe`` does, and the field."""
    read = []
    for at, node in enumerate(nodes):
        try:
            read.append(row.read(node))
        except DataError as e:
            raise DataError(f"{describe(at)}: {prefixed(e)}{hint}") from e
        except RecursionError as e:
            raise DataError(f"{describe(at)}: a value is nested too deeply") from e
    return finish_rows(read, row, describe)


def finish_rows(prepared: Sequence[Any], row: ColumnConversion, describe: Callable[[int], str]) -> pa.Array:
    """The rows of values of the row's stored type. Raises DataError that names the record and the field."""
    errors = (ValueError, TypeError, OverflowError, DataError, pa.ArrowException)
    try:
        return row.finish(pa.array(prepared, row.stored))
    except errors as error:
        for at, value in enumerate(prepared):
            try:
                row.finish(pa.array([value], row.stored))
            except errors as e:
                raise DataError(f"{describe(at)}: {_bad_field(value, row)}{e}") from e
        raise DataError(f"{describe(0)}: {error}") from error


def _bad_field(value: Any, row: ColumnConversion) -> str:
    """``field x: `` for the first field that the row's type cannot hold."""
    for name in value or ():
        only = {other: value[name] if other == name else None for other in value}
        try:
            row.finish(pa.array([only], row.stored))
        except (ValueError, TypeError, OverflowError, DataError, pa.ArrowException):
            return f"field {name}: "
    return ""


class JsonRecordDecoder:
    """Decodes values of one topic."""

    def __init__(
        self,
        schemas: SchemaCache,
        inferred: InferredSchema,
        source: SourceBlock,
        reader: DocumentReader,
        *,
        rescues: bool = False,
    ) -> None:
        """With ``rescues``, fields of records without a schema that do not have the type of their column are null, and the image
        has them in its column RESCUED."""
        self._schemas = schemas
        self._inferred = inferred
        self._source = source
        self._reader = reader
        self._rescues = rescues

    def decode(self, raw: RawBuffer) -> list[DecodedValues]:
        """Decodes the values of all records; groups are in no order. Raises DataError that names record and field."""
        groups: dict[int, tuple[Schema | None, list[int], list[Any]]] = {}
        nulls = []
        for position, value in enumerate(raw.values):
            document = None if value is None else self._read(raw, position, value)
            if document is None or document.node is None:
                nulls.append(position)
                continue
            _, positions, nodes = groups.setdefault(id(document.schema), (document.schema, [], []))
            positions.append(position)
            nodes.append(document.node)
        found = [
            self.decode_schemaless(raw, positions, nodes) if schema is None else self._with_schema(raw, schema, positions, nodes)
            for schema, positions, nodes in groups.values()
        ]
        if nulls:
            found.append(tombstones(nulls))
        return found

    def _read(self, raw: RawBuffer, position: int, value: bytes) -> JsonDocument:
        try:
            return self._reader.read(value)
        except DataError as e:
            raise DataError(f"{raw.describe(position)}: the value cannot be read: {e.message}") from e

    def _with_schema(self, raw: RawBuffer, schema: Schema, positions: list[int], nodes: list[Any]) -> DecodedValues:
        layout = self._schemas.layout(schema, in_json=True)
        if layout.single:
            nodes = [{SINGLE_FIELD: node} for node in nodes]
        if layout.envelope:
            values = self._envelopes(raw, positions, nodes, layout.row, "")
        else:
            values = plain_rows(positions, read_rows(nodes, layout.row, lambda at: raw.describe(positions[at])))
        return replace(values, defaults=layout.defaults)

    def decode_schemaless(self, raw: RawBuffer, positions: Sequence[int], nodes: list[Any]) -> DecodedValues:
        """Decodes parsed values without a schema. Raises DataError that names record and field."""
        inferred = self._inferred
        if inferred.envelope is None:
            inferred.count_envelopes(nodes)
        for at, node in enumerate(nodes):
            if not isinstance(node, dict):
                raise DataError(f"{raw.describe(positions[at])}: {show(node)} is not one JSON object")
        texts: list[str | None] = []
        fields = None
        if inferred.tells_missing:
            fields = fields_of_nodes(nodes, image_of if inferred.envelope else row_of_plain)
        nodes = list(map(inferred.read_fields, nodes))
        if self._rescues:
            nodes, texts = self._set_aside(nodes)
        else:
            inferred.add_types(nodes)
        if inferred.envelope:
            has_row = inferred.row.num_fields or any(image_of(node) is not None for node in nodes)
            values = self._envelopes(raw, positions, nodes, inferred.column() if has_row else struct_column([]), _KEPT_TYPE)
        else:
            rows = read_rows(nodes, inferred.column(), lambda at: raw.describe(positions[at]), _KEPT_TYPE)
            values = plain_rows(positions, rows)
        if any(texts):
            values = replace(values, image=values.image.append_column(RESCUED, pa.array(texts, pa.string())))
        return replace(values, fields=fields, has_schema=False)

    def _set_aside(self, nodes: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str | None]]:
        """The records without the fields of their rows that do not fit, and by record these fields as JSON, or None."""
        kept: list[dict[str, Any]] = []
        texts: list[str | None] = []
        for node in nodes:
            image = image_of(node) if self._inferred.envelope else node
            if not isinstance(image, dict) or self._inferred.accepts(image):
                kept.append(node)
                texts.append(None)
                continue
            rest: dict[str, Any] = {}
            bad: dict[str, str] = {}
            for name, value in image.items():
                if value is None or self._inferred.accepts({name: value}):
                    rest[name] = value
                elif name in self._inferred.decisive:
                    # Without it, nobody would know that something else was meant: whoever reads the row refuses it.
                    self._inferred.add_types([{"after": {name: value}} if self._inferred.envelope else {name: value}])
                    rest[name] = value
                else:
                    bad[name] = node_text(value)
                    rest |= self._part_with_place(name, value)
            if self._inferred.envelope:
                rest = {**node, ("before" if node.get("op") == DELETE else "after"): rest}
            kept.append(rest)
            texts.append(object_text(bad) if bad else None)
        return kept, texts

    def _part_with_place(self, name: str, value: Any) -> dict[str, Any]:
        """The field without members of its objects that its column lacks, if it fits then: their types do not matter."""
        part = self._inferred.with_place({name: value})
        return part if part and part[name] != value and self._inferred.accepts(part) else {}

    def _envelopes(
        self, raw: RawBuffer, positions: Sequence[int], nodes: list[Any], row: ColumnConversion, hint: str
    ) -> DecodedValues:
        operations, sources = [], []
        for at, node in enumerate(nodes):
            try:
                if not isinstance(node, dict):
                    raise DataError(f"{show(node)} is not a change event")
                operations.append(inside("op", read_string, node.get("op")))
                sources.append(self._source.read(node.get("source")))
            except DataError as e:
                raise DataError(f"{raw.describe(positions[at])}: {prefixed(e)}") from e

        def describe(at: int) -> str:
            return raw.describe(positions[at])

        rows = read_rows([image_of(node) for node in nodes], row, describe, hint)
        source = self._source.columns(pa.array(sources, self._source.type))
        return change_events(positions, pa.array(operations, pa.string()), source, rows, describe)
