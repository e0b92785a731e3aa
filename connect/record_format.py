"""Lossless JSON format of records, used by ``sluice preview`` and the conformance vectors.

A record is ``{"topic", "partition", "timestamp", "key", "value", "headers", ...}``; keys, values, and headers are
``{"schema", "payload"}``. With a schema, the payload is like JsonConverter's (NaN and infinities as text, maps without string
keys as pairs); without one, a value that JSON cannot represent unambiguously is ``{"$t": type, "v": value}``.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from functools import lru_cache
from typing import Any

from connect.data.headers import Header, Headers
from connect.data.logical import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    FarInstant,
    bytes_to_decimal,
    date_of,
    decimal_scale,
    decimal_to_bytes,
    epoch_millis,
    instant_of,
    millis_to_time,
)  # fmt: skip
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_value
from connect.errors import DataError
from connect.java.number_text import decimal_text
from connect.java.sized_numbers import Float32, Int8, Int16, Int32, round_to_float32
from connect.record import NO_TIMESTAMP_TYPE, ConnectRecord, SchemaAndValue, SinkRecord, SourceRecord

_NARROW: dict[str, type[int]] = {"int8": Int8, "int16": Int16, "int32": Int32}
_TYPES = {t.value: t for t in Type}
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_SPECIAL_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


# -- schemas


def schema_from_json(node: Any) -> Schema | None:
    """Returns the schema of parsed JSON; a missing element, key, or value schema remains None."""
    if node is None:
        return None
    if not isinstance(node, dict) or node.get("type") not in _TYPES:
        raise DataError(f"{_short(node)} is not a schema: it needs a type, one of {', '.join(_TYPES)}")
    members: dict[str, Any] = {k: node[k] for k in ("name", "version", "doc", "parameters") if k in node}
    kind = _TYPES[node["type"]]
    if kind is Type.ARRAY:
        members["value_schema"] = schema_from_json(node.get("items"))
    elif kind is Type.MAP:
        members.update(key_schema=schema_from_json(node.get("keys")), value_schema=schema_from_json(node.get("values")))
    elif kind is Type.STRUCT:
        members["fields"] = [(field["field"], _present(field)) for field in node.get("fields", ())]
    schema = Schema(kind, optional=node.get("optional", False), **members)
    return schema.replace(default=payload_from_json(schema, node["default"])) if "default" in node else schema


def _present(node: Any) -> Schema:
    schema = schema_from_json(node)
    if schema is None:
        raise DataError("A field without a schema")
    return schema


def schema_to_json(schema: Schema | None) -> Any:
    """The schema as JSON, members in JsonConverter's order."""
    if schema is None:
        return None
    node: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.ARRAY:
        node["items"] = schema_to_json(schema.value_schema)
    elif schema.type is Type.MAP:
        node["keys"], node["values"] = schema_to_json(schema.key_schema), schema_to_json(schema.value_schema)
    elif schema.fields is not None:
        node["fields"] = [{**schema_to_json(f.schema), "field": f.name} for f in schema.fields]
    node["optional"] = schema.optional
    for member in ("name", "version", "doc", "parameters"):
        if getattr(schema, member) is not None:
            node[member] = getattr(schema, member)
    if schema.default is not None:
        node["default"] = payload_to_json(schema, schema.default)
    return node


# -- payloads


def payload_from_json(schema: Schema | None, node: Any) -> Any:
    """Returns the value of a payload. Raises DataError when it does not match the schema."""
    if schema is None or (isinstance(node, dict) and "$t" in node):
        return _plain_from_json(node)
    if node is None:
        return None
    try:
        return _typed_from_json(schema, node)
    except (TypeError, ValueError, AttributeError, KeyError) as e:
        raise DataError(f"Payload {_short(node)} is not a {schema.name or schema.type.name}") from e


def _typed_from_json(schema: Schema, node: Any) -> Any:
    if schema.name == DECIMAL:
        return bytes_to_decimal(base64.b64decode(node, validate=True), decimal_scale(schema))
    if schema.name == DATE:
        return date_of(node)
    if schema.name == TIME:
        return millis_to_time(node)
    if schema.name == TIMESTAMP:
        return instant_of(node)
    match schema.type:
        case Type.FLOAT32 | Type.FLOAT64:
            value = _SPECIAL_FLOATS[node] if isinstance(node, str) else float(node)
            return round_to_float32(value) if schema.type is Type.FLOAT32 else value
        case Type.BYTES:
            return base64.b64decode(node, validate=True)
        case Type.ARRAY:
            return [payload_from_json(schema.value_schema, element) for element in node]
        case Type.MAP:
            pairs = node.items() if isinstance(node, dict) else node
            return {payload_from_json(schema.key_schema, k): payload_from_json(schema.value_schema, v) for k, v in pairs}
        case Type.STRUCT:
            fields = schema.fields or ()
            return Struct(schema, [payload_from_json(f.schema, node.get(f.name)) for f in fields])
        case Type.STRING | Type.BOOLEAN:
            return _of_kind(node, str if schema.type is Type.STRING else bool)
        case _:
            limit = 1 << (_BITS[schema.type] - 1)
            if isinstance(node, bool) or not -limit <= _of_kind(node, int) < limit:
                raise ValueError("out of range")
            return node


def _of_kind(node: Any, kind: type[Any]) -> Any:
    if not isinstance(node, kind):
        raise TypeError(f"expected {kind.__name__}")
    return node


def _plain_from_json(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain_from_json(element) for element in node]
    if not isinstance(node, dict):
        return node
    if "$t" not in node:
        return {key: _plain_from_json(element) for key, element in node.items()}
    kind, value = node["$t"], node["v"]
    if kind in _NARROW:
        return _NARROW[kind](value)
    if kind in ("float32", "float64"):
        number = _SPECIAL_FLOATS[value] if isinstance(value, str) else float(value)
        return Float32(round_to_float32(number)) if kind == "float32" else number
    match kind:
        case "bytes":
            return base64.b64decode(value, validate=True)
        case "decimal":
            return decimal.Decimal(value)
        case "instant":
            return instant_of(value)
        case "struct":
            return payload_from_json(schema_from_json(node["schema"]), value)
        case "map":
            return {_plain_from_json(k): _plain_from_json(v) for k, v in value}
    raise DataError(f"Unknown $t {kind!r} in a schemaless payload")


def payload_to_json(schema: Schema | None, value: Any) -> Any:
    """Returns the payload of a value. A value that does not match its schema is written like a schemaless one."""
    if value is None:
        return None
    if schema is None:
        return _plain_to_json(value)
    try:
        validate_value(schema, value)
        return _typed_to_json(schema, value)
    except DataError:
        # Maybe only one member is wrong: then only that one is written like a schemaless value.
        inside = isinstance(value, Struct) and value.schema == schema
        if inside or (schema.type in (Type.ARRAY, Type.MAP) and isinstance(value, list | dict)):
            return _typed_to_json(schema, value)
        return _plain_to_json(value)


def _typed_to_json(schema: Schema, value: Any) -> Any:
    if schema.name == DECIMAL:
        return _base64(decimal_to_bytes(value, decimal_scale(schema)))
    if schema.name in (DATE, TIME, TIMESTAMP):
        return epoch_millis(value) // 86_400_000 if schema.name == DATE else epoch_millis(value)
    match schema.type:
        case Type.FLOAT32 | Type.FLOAT64:
            return _float_to_json(round_to_float32(value) if schema.type is Type.FLOAT32 else value)
        case Type.BYTES:
            return _base64(value)
        case Type.ARRAY:
            return [payload_to_json(schema.value_schema, element) for element in value]
        case Type.MAP:
            keys, values = schema.key_schema, schema.value_schema
            if (keys is None or keys.type is Type.STRING) and all(isinstance(k, str) for k in value):
                return {k: payload_to_json(values, v) for k, v in value.items()}
            return _pairs([payload_to_json(keys, k), payload_to_json(values, v)] for k, v in value.items())
        case Type.STRUCT:
            return {f.name: payload_to_json(f.schema, v) for f, v in zip(schema.fields or (), value.values, strict=True)}
        case _:
            return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain_to_json(value: Any) -> Any:
    match value:
        case None | bool() | str():
            return value
        case Int8() | Int16() | Int32():
            return {"$t": type(value).__name__.lower(), "v": int(value)}
        case int():
            return value
        case Float32():
            return {"$t": "float32", "v": _float_to_json(float(value))}
        case float():
            shown = _float_to_json(value)
            return {"$t": "float64", "v": shown} if isinstance(shown, str) else shown
        case bytes() | bytearray() | memoryview():
            return {"$t": "bytes", "v": _base64(value)}
        case decimal.Decimal():
            return {"$t": "decimal", "v": decimal_text(value)}
        case dt.date() | dt.time() | FarInstant():
            return {"$t": "instant", "v": epoch_millis(value)}
        case Struct():
            return {"$t": "struct", "v": _typed_to_json(value.schema, value), "schema": schema_to_json(value.schema)}
        case list() | tuple():
            return [_plain_to_json(element) for element in value]
        case dict():
            if all(isinstance(k, str) for k in value) and "$t" not in value:
                return {k: _plain_to_json(value[k]) for k in sorted(value)}
            return {"$t": "map", "v": _pairs([_plain_to_json(k), _plain_to_json(v)] for k, v in value.items())}
    raise DataError(f"A value of type {type(value).__name__} cannot be written in a record")


def _pairs(pairs: Any) -> list[list[Any]]:
    return sorted(pairs, key=json.dumps)


def _float_to_json(value: float) -> Any:
    if value != value:
        return "NaN"
    return value if abs(value) != float("inf") else ("Infinity" if value > 0 else "-Infinity")


def _base64(data: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(data).decode("ascii")


def _short(node: Any) -> str:
    text = json.dumps(node, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."


# -- records


def data_from_json(node: Any) -> SchemaAndValue:
    """Returns the data of a ``{"schema", "payload"}`` pair; null means that both are null."""
    if node is None:
        return SchemaAndValue(None, None)
    written = node.get("schema")
    # Records with the same schema share one object, for which transformations compile one plan.
    schema = _schema_of_text(json.dumps(written)) if isinstance(written, dict) else schema_from_json(written)
    return SchemaAndValue(schema, payload_from_json(schema, node.get("payload")))


@lru_cache(maxsize=256)
def _schema_of_text(text: str) -> Schema | None:
    return schema_from_json(json.loads(text))


def data_to_json(schema: Schema | None, value: Any) -> dict[str, Any]:
    return {"schema": schema_to_json(schema), "payload": payload_to_json(schema, value)}


def record_from_json(node: dict[str, Any]) -> SinkRecord | SourceRecord:
    """Returns the record of parsed JSON: with ``offset``, a sink record, otherwise a source record."""
    key, value = data_from_json(node.get("key")), data_from_json(node.get("value"))
    headers = None
    if node.get("headers"):
        headers = Headers(Header(h["key"], *data_from_json(h)) for h in node["headers"])
    if "offset" in node:
        return SinkRecord(
            node["topic"], node["partition"], key.schema, key.value, value.schema, value.value, node["offset"],
            node.get("timestamp"), node.get("timestampType") or NO_TIMESTAMP_TYPE, headers,
        )  # fmt: skip
    return SourceRecord(
        _plain_from_json(node.get("sourcePartition")), _plain_from_json(node.get("sourceOffset")), node["topic"],
        node.get("partition"), key.schema, key.value, value.schema, value.value, node.get("timestamp"), headers,
    )  # fmt: skip


def record_to_json(record: ConnectRecord) -> dict[str, Any]:
    """Returns the JSON of a record, with its members in the order of the format."""
    node: dict[str, Any] = {"topic": record.topic, "partition": record.partition, "timestamp": record.timestamp}
    if isinstance(record, SinkRecord):
        node |= {"timestampType": record.timestamp_type, "offset": record.offset}
    no_key = record.key is None and record.key_schema is None
    node["key"] = None if no_key else data_to_json(record.key_schema, record.key)
    node["value"] = data_to_json(record.value_schema, record.value)
    node["headers"] = [{"key": h.key, **data_to_json(h.schema, h.value)} for h in record.headers or ()]
    if isinstance(record, SourceRecord):
        node["sourcePartition"] = _plain_to_json(record.source_partition)
        node["sourceOffset"] = _plain_to_json(record.source_offset)
    return node
