"""JsonToMapTransform: parses a JSON text into a struct whose nested objects are maps of texts."""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.logical import decimal_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connect.java.number_text import double_text
from connect.record import ConnectRecord, SinkRecord
from connect.strict import STRICT, is_strict
from connect.transforms.api import Transformation
from connect.transforms.config import require_non_null
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import new_struct, struct_schema_like

_ROOT = "json.root"
_PAYLOAD = "payload"
_CONFIG_DEF = ConfigDef().define(
    _ROOT, ConfigType.BOOLEAN, False, importance=Importance.MEDIUM,
    doc="Whether the value becomes one map of texts, in the field payload, rather than a field per member of the object.",
)  # fmt: skip
_MAX_SCHEMAS = 64
_SPACE = " \t\n\r"
_MAX_DIGITS = 1000
"""Jackson refuses longer numbers."""
_MAX_DEPTH = 500
"""Jackson refuses more than 1,000 levels, and Python's recursion ends before."""

_MAP = Schema(Type.MAP, key_schema=Schema.STRING, value_schema=Schema.STRING, optional=True)
_OPTIONAL_MAP = Schema(Type.MAP, key_schema=Schema.OPTIONAL_STRING, value_schema=Schema.OPTIONAL_STRING, optional=True)
_TEXTS = Schema(Type.ARRAY, value_schema=Schema.OPTIONAL_STRING, optional=True)
_MAPS = Schema(Type.ARRAY, value_schema=_OPTIONAL_MAP, optional=True)
_ROOT_SCHEMA = Schema(Type.STRUCT, fields=[(_PAYLOAD, _MAP)])
_SCALARS = {
    "text": Schema.OPTIONAL_STRING,
    "boolean": Schema.OPTIONAL_BOOLEAN,
    "int": Schema.OPTIONAL_INT32,
    "long": Schema.OPTIONAL_INT64,
    "big": decimal_schema(0, optional=True),
    "double": Schema.OPTIONAL_FLOAT64,
}
_LISTS = {kind: Schema(Type.ARRAY, value_schema=schema, optional=True) for kind, schema in _SCALARS.items()}


class JsonToMapTransform(Transformation):
    """Members with simple values and arrays become fields, and nested objects maps of texts. A null value passes. Raises
    DataError for values that are no JSON object."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        require_non_null(values, _ROOT)
        self._from_root: bool = values[_ROOT]
        self._strict = is_strict(configs)
        self._schemas: dict[tuple[tuple[str, Schema], ...], Schema] = {}

    def close(self) -> None:
        self._schemas.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record
        if not isinstance(record.value, str):
            raise DataError("record value is not a string, use StringConverter")
        found = _parse_object(record.value, record, self._strict)
        new = copy_record(record)
        if self._from_root:
            new.value_schema, new.value = _ROOT_SCHEMA, new_struct(_ROOT_SCHEMA, [_text_map(found)])
            return new
        fields = [(name, schema) for name, value in found.items() if (schema := _schema_of(value)) is not None]
        new.value_schema = self._struct_schema(fields)
        new.value = new_struct(new.value_schema, [_convert(found[name], schema) for name, schema in fields])
        return new

    def _struct_schema(self, fields: list[tuple[str, Schema]]) -> Schema:
        key = tuple(fields)
        known = self._schemas.get(key)
        if known is None:
            known = struct_schema_like(None, fields)
            if len(self._schemas) >= _MAX_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            self._schemas[key] = known
        return known


def _place(record: ConnectRecord) -> str:
    if isinstance(record, SinkRecord):
        return f"topic {record.topic} partition {record.partition} offset {record.offset}"
    return f"topic {record.topic} partition {'NULL' if record.partition is None else record.partition}"


def _limited(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse_number(text: str) -> Any:
        if len(text) > _MAX_DIGITS:
            digits = sum(map(str.isdigit, text)) - text.removeprefix("-").startswith("0.")
            if digits > _MAX_DIGITS:
                raise ValueError(f"a number has {digits} digits, more than {_MAX_DIGITS}")
        return parse(text)

    return parse_number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _exact_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or decimal.Decimal(repr(value)) != decimal.Decimal(text):
        raise ValueError(f"a double does not hold {text} exactly ({STRICT} is on)")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object has two members of the same name: {', '.join(name for name, _ in pairs)} ({STRICT} is on)")
    return found


_DECODER = json.JSONDecoder(parse_int=_limited(int), parse_float=_limited(float), parse_constant=_refuse_constant)
_STRICT_DECODER = json.JSONDecoder(
    parse_int=_limited(int), parse_float=_limited(_exact_float), parse_constant=_refuse_constant, object_pairs_hook=_distinct
)


def _parse_object(text: str, record: ConnectRecord, strict: bool) -> dict[str, Any]:
    """Parses a JSON object. As for Jackson, the last of two members with the same name counts, numbers are doubles, and text
    after the object is ignored, unless conversion is strict."""
    start = len(text) - len(text.lstrip(_SPACE))
    value: Any = None
    try:
        if start < len(text):
            value, end = (_STRICT_DECODER if strict else _DECODER).raw_decode(text, start)
            if strict and text[end:].strip(_SPACE):
                raise ValueError(f"there is text after it ({STRICT} is on)")
            if isinstance(value, dict):
                _check_depth(value)
    except (ValueError, RecursionError) as e:
        reason = f": {e}" if strict else ""
        raise DataError(f"record.value is not valid json for record.value: {_place(record)}{reason}") from e
    if not isinstance(value, dict):
        raise DataError(f"Expected json object for record.value after parsing: {_place(record)}")
    return value


def _check_depth(value: dict[str, Any]) -> None:
    level: list[Any] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            raise ValueError(f"objects and arrays are nested more than {_MAX_DEPTH} levels deep")
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]


def _kind(value: Any) -> str:
    """The kind of node that it is for Jackson."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "int" if -(1 << 31) <= value < 1 << 31 else "long" if -(1 << 63) <= value < 1 << 63 else "big"
    if isinstance(value, float):
        return "double"
    return "null" if value is None else "array" if isinstance(value, list) else "object"


def _schema_of(value: Any) -> Schema | None:
    """The schema of a member; None if it is left out: null, an empty object, an empty array."""
    kind = _kind(value)
    if kind == "array":
        return _array_schema(value)
    if kind == "object":
        return _MAP if value else None
    return _SCALARS.get(kind)


def _array_schema(values: list[Any]) -> Schema | None:
    if not values:
        return None
    kinds = {_kind(value) for value in values}
    kind = kinds.pop()
    if kinds or kind == "null":
        return _TEXTS
    if kind == "object":
        return _MAPS
    if kind != "array":
        return _LISTS[kind]
    nested = {_array_schema(value) for value in values}
    element = _TEXTS if len(nested) > 1 else nested.pop()
    return None if element is None else Schema(Type.ARRAY, value_schema=element, optional=True)


def _convert(value: Any, schema: Schema) -> Any:
    if schema.type is Type.ARRAY:
        element = schema.value_schema
        assert element is not None
        return [_convert(member, element) for member in value]
    if schema.type is Type.MAP:
        return _text_map(value)
    if schema.type is Type.STRING:
        return _text(value)
    return decimal.Decimal(value) if schema.type is Type.BYTES else value


def _text_map(value: dict[str, Any]) -> dict[str, str]:
    return {name: _text(member) for name, member in value.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _write(value)


_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or "\\u" + format(ord(found[0]), "04X")


def _quote(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _write(value: Any) -> str:
    """Writes JSON as Jackson does."""
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, float):
        return double_text(value) if math.isfinite(value) else f'"{double_text(value)}"'
    if isinstance(value, list):
        return f"[{','.join(map(_write, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_quote(name)}:{_write(member)}' for name, member in value.items())}}}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
