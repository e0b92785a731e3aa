"""Reads the old key of rows that a change of the primary key has created (``__debezium.oldkey``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from connect.data.schema import Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SinkRecord
from connectors.spark.decode.change_batch import RecordKeys, group_parts
from connectors.spark.decode.json import NotBatchable
from connectors.spark.decode.key_decoder import KeyDecoder
from connectors.spark.decode.raw_buffer import RawBuffer

HEADER = "__debezium.oldkey"
_CREATE = "c"
_ENVELOPE = {"schema", "payload"}
_ERRORS = (DataError, NotBatchable, pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)


class OldKeyDecoder:
    """Decodes old keys like the keys of the same records. A header in another form counts as none: only the unavailable values of
    the row depend on it."""

    def __init__(self, keys: KeyDecoder, *, with_schemas: bool) -> None:
        self._keys = keys
        self._with_schemas = with_schemas

    def decode_raw(self, raw: RawBuffer, positions: Sequence[int], operations: pa.Array) -> pa.Array | None:
        """The old keys of the records at these positions of a batch, as structs; None when there are none."""
        if raw.headers is None:
            return None
        found: dict[int, bytes] = {}
        for at in pc.indices_nonzero(pc.fill_null(pc.equal(operations, _CREATE), False)).to_pylist():
            for name, value in raw.headers[positions[at]] or ():
                if name == HEADER and value is not None:
                    found[at] = value
        if not found:
            return None
        texts: list[bytes | None] = [None] * len(positions)
        for at, value in found.items():
            texts[at] = self._as_key(value, raw.keys[positions[at]])
        return self._decode(RawBuffer(raw.topic, [0] * len(texts), [0] * len(texts), texts), operations)

    def decode_records(self, records: Sequence[SinkRecord], operations: pa.Array) -> pa.Array | None:
        """The same for records of any converter."""
        chosen: list[SinkRecord] = []
        is_found = False
        for record, operation in zip(records, operations.to_pylist(), strict=True):
            header = record.headers.last_with_name(HEADER) if record.headers is not None and operation == _CREATE else None
            key = None if header is None else _as_record_key(header.value, record)
            is_found |= key is not None
            schema = key.schema if isinstance(key, Struct) else None
            chosen.append(SinkRecord(record.topic, 0, schema, key, None, None, 0))
        if not is_found:
            return None
        try:
            parts = self._keys.decode_records(chosen, RawBuffer("", [0] * len(chosen), [0] * len(chosen)), operations)
        except _ERRORS:
            return None
        return _to_structs(parts, len(chosen))

    def _decode(self, raw: RawBuffer, operations: pa.Array) -> pa.Array | None:
        try:
            return _to_structs(self._keys.decode_batch(raw, operations), len(raw))
        except _ERRORS:
            pass
        try:
            return _to_structs(self._keys.decode_exactly(raw, operations), len(raw))
        except _ERRORS:
            return None

    def _as_key(self, header: bytes, key: bytes | None) -> bytes | None:
        """The header as the bytes of a record key: with the schema of the record's own key, if the header has none."""
        try:
            document = orjson.loads(header)
            if not isinstance(document, dict):
                return None
            is_envelope = document.keys() == _ENVELOPE
            if is_envelope == self._with_schemas:
                return header
            if is_envelope:
                return orjson.dumps(document["payload"])
            schema = orjson.loads(key or b"")["schema"]
            return b'{"schema":' + orjson.dumps(schema) + b',"payload":' + header + b"}"
        except (ValueError, TypeError, KeyError):
            return None


def _as_record_key(value: Any, record: SinkRecord) -> Any:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except ValueError:
            return None
    if isinstance(value, dict) and value.keys() == _ENVELOPE:
        value = value["payload"]
    schema = record.key_schema
    if isinstance(value, dict) and schema is not None and schema.type is Type.STRUCT and schema.fields is not None:
        return Struct(schema, [_plain(value.get(member.name)) for member in schema.fields])
    return value if isinstance(value, (dict, Struct)) else None


def _plain(value: Any) -> Any:
    """A number without the size that a header converter has inferred from its text."""
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else float(value) if isinstance(value, float) else value


def _to_structs(parts: Sequence[RecordKeys], count: int) -> pa.Array | None:
    """The rows as structs: null where no column has a value. None if there are none, or their types do not agree."""
    group, *others = group_parts([part._replace(has_schema=False) for part in parts], count)
    table = group.keys
    if others or table is None or not table.num_columns:
        return None
    columns = [column.combine_chunks() for column in table.columns]
    columns = [pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one for one in columns]
    is_null = columns[0].is_null()
    return pa.StructArray.from_arrays(columns, table.column_names, mask=is_null)
