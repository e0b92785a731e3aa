"""Decodes record keys of one topic to columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.data.schema import Schema, Type
from connect.errors import DataError
from connect.record import SinkRecord
from connectors.spark.decode import schema_inference
from connectors.spark.decode.change_batch import TOMBSTONE, WITHOUT_ROW, RecordKeys, table_of_struct
from connectors.spark.decode.decoded_values import struct_of
from connectors.spark.decode.exact_values import parse_document
from connectors.spark.decode.json import JsonSchemas, NotBatchable, Prefix, parse, split_by_prefix
from connectors.spark.decode.json_record_decoder import DocumentReader, JsonDocument, read_rows
from connectors.spark.decode.layouts import SchemaCache
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.record_decoder import convert_values, dump_value
from connectors.spark.decode.schema_inference import InferredSchema


class KeyDecoder:
    """Decodes the keys of all records, or without ``needs_keys`` only those of deletes and tombstones: other rows have their
    columns in the image.

    Each method returns the keys by schema, since the types of one field may differ; no keys if no record needs or has one."""

    def __init__(
        self,
        schemas: SchemaCache,
        texts: JsonSchemas,
        inferred: InferredSchema,
        reader: DocumentReader,
        *,
        with_schemas: bool,
        needs_keys: bool,
        keeps_tombstones: bool = True,
        skips_single: bool = False,
    ) -> None:
        """Without ``keeps_tombstones``, the keys of tombstones are not needed either. ``skips_single``: keys that are single
        values are no keys of rows, which have their key columns themselves."""
        self._schemas = schemas
        self._texts = texts
        self._inferred = inferred
        self._reader = reader
        self._with_schemas = with_schemas
        self._needs_keys = needs_keys
        self._keeps_tombstones = keeps_tombstones
        self._skips_single = skips_single

    def _wanted(self, operations: pa.Array) -> list[bool] | None:
        """Which keys are needed; None for all of them."""
        if self._needs_keys:
            return None
        wanted = pc.fill_null(pc.is_in(operations, WITHOUT_ROW), False)
        if not self._keeps_tombstones:
            wanted = pc.and_(wanted, pc.fill_null(pc.not_equal(operations, TOMBSTONE), True))
        return wanted.to_pylist() if pc.any(wanted).as_py() else []

    def _select(self, keys: list[bytes | None], operations: pa.Array) -> list[bytes | None]:
        wanted = self._wanted(operations)
        return keys if wanted is None else [k if t else None for k, t in zip(keys, wanted, strict=False)]

    def decode_batch(self, raw: RawBuffer, operations: pa.Array) -> list[RecordKeys]:
        """Decodes JSON in the usual form in native code. Raises NotBatchable, or errors that name no record."""
        keys = self._select(raw.keys, operations)
        present = [at for at, k in enumerate(keys) if k is not None]
        if not present:
            return []
        if self._with_schemas:
            groups, _ = split_by_prefix(keys, self._texts)
            return [
                RecordKeys(where, self._with_schema(prefix, payloads), is_single)
                for prefix, where, payloads in groups
                for is_single in [prefix.schema.type is not Type.STRUCT]
                if not (is_single and self._skips_single)
            ]
        lines = [k for k in keys if k is not None]
        objects = sum(line.lstrip().startswith(b"{") for line in lines)
        if objects not in (0, len(lines)):
            raise NotBatchable
        if not objects and self._skips_single:
            return []
        if not objects:
            lines = [_wrap(line, self._schemas.key_name()) for line in lines]
        return [RecordKeys(present, self._schemaless(lines), not objects, has_schema=False)]

    def _with_schema(self, prefix: Prefix, payloads: list[bytes]) -> pa.Table:
        column = self._schemas.key_column(prefix.schema)
        if prefix.schema.type is not Type.STRUCT:
            payloads = [_wrap(p, self._schemas.key_name()) for p in payloads]
        if column.json is None:
            raise NotBatchable
        return table_of_struct(column.from_json(struct_of(parse(payloads, pa.schema(list(column.json)), infer=False))))

    def _schemaless(self, lines: list[bytes]) -> pa.Table:
        table = self._inferred.parse(lines, None)
        return table_of_struct(self._inferred.column().from_json(struct_of(table)))

    def decode_exactly(self, raw: RawBuffer, operations: pa.Array) -> list[RecordKeys]:
        """Like :meth:`decode_batch`, value by value. Raises DataError that names record and field."""
        groups: dict[int, tuple[Schema | None, list[int], list[JsonDocument]]] = {}
        for at, key in enumerate(self._select(raw.keys, operations)):
            if key is None:
                continue
            try:
                document = self._reader.read(key)
            except DataError as e:
                raise DataError(f"{raw.describe(at)}: the key cannot be read: {e.message}") from e
            if document.node is not None and not (self._skips_single and _is_single(*document)):
                _, positions, documents = groups.setdefault(id(document.schema), (document.schema, [], []))
                positions.append(at)
                documents.append(document)
        parts: list[RecordKeys] = []
        for schema, positions, documents in groups.values():
            is_single = [_is_single(*document) for document in documents]
            nodes = [{self._schemas.key_name(): d.node} if one else d.node for d, one in zip(documents, is_single, strict=True)]
            describe = _describer(raw, positions)
            if schema is None:
                self._inferred.add_types(nodes)
                column = self._inferred.column()
            else:
                column = self._schemas.key_column(schema)
            table = table_of_struct(read_rows(nodes, column, describe))
            parts.append(RecordKeys(positions, table, any(is_single), schema is not None))
        return parts

    def decode_records(self, records: Sequence[SinkRecord], raw: RawBuffer, operations: pa.Array) -> list[RecordKeys]:
        """The keys of records of any converter. Raises DataError that names record and field."""
        wanted = self._wanted(operations)
        groups: dict[int, tuple[Schema | None, list[int]]] = {}
        for at, record in enumerate(records):
            is_needed = wanted is None or (wanted and wanted[at])
            if record.key is not None and is_needed and not (self._skips_single and _is_single(record.key_schema, record.key)):
                groups.setdefault(id(record.key_schema), (record.key_schema, []))[1].append(at)
        parts: list[RecordKeys] = []
        for schema, positions in groups.values():
            keys = [records[i].key for i in positions]
            describe = _describer(raw, positions)
            is_single = [_is_single(records[i].key_schema, records[i].key) for i in positions]
            keys = [{self._schemas.key_name(): k} if one else k for k, one in zip(keys, is_single, strict=True)]
            if schema is None:
                table = self._schemaless_records(keys, describe)
            else:
                table = table_of_struct(convert_values(keys, self._schemas.key_column(schema), describe))
            parts.append(RecordKeys(positions, table, any(is_single), schema is not None))
        return parts

    def decode_columns(self, schema: Schema | None, keys: pa.Array | None, operations: pa.Array) -> pa.Table | None:
        """The keys of records in columns, None if all are null. Raises DataError or Arrow's errors, which name no record."""
        wanted = self._wanted(operations)
        if schema is None or keys is None or wanted == []:
            return None
        if wanted is not None:
            keys = keys.take(pa.array([at if is_wanted else None for at, is_wanted in enumerate(wanted)], pa.int64()))
        if keys.null_count == len(keys):
            return None
        column = self._schemas.key_column(schema)
        if schema.type is not Type.STRUCT:
            keys = pa.StructArray.from_arrays([keys], [self._schemas.key_name()])
        return table_of_struct(column.finish(keys))

    def _schemaless_records(self, rows: list[dict[str, object]], describe: Callable[[int], str]) -> pa.Table:
        lines = [dump_value(row, at, describe) for at, row in enumerate(rows)]
        state = self._inferred.state()
        try:
            return self._schemaless(lines)
        except (pa.ArrowException, ValueError, DataError, NotBatchable):
            self._inferred.restore(state)
        nodes = [parse_document(line) for line in lines]
        self._inferred.add_types(nodes)
        return table_of_struct(read_rows(nodes, self._inferred.column(), describe))


def _is_single(schema: Schema | None, key: Any) -> bool:
    return not isinstance(key, dict) if schema is None else schema.type is not Type.STRUCT


def _describer(raw: RawBuffer, positions: Sequence[int]) -> Callable[[int], str]:
    return lambda at: raw.describe(positions[at])


def _wrap(text: bytes, name: str) -> bytes:
    return b"{" + schema_inference.dump(name) + b":" + text + b"}"
