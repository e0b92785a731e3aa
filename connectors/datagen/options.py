"""Converts the values that a schema lists (``options``) from JSON to values of Connect."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from connect.data.logical import DATE, DECIMAL, SCALE_PARAMETER, TIME, TIMESTAMP, date_of, instant_of, millis_to_time
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_value
from connect.errors import DataError, SchemaError
from connect.java.sized_numbers import round_to_float32
from connect.suggestions import did_you_mean
from connectors.datagen.annotations import OPTIONS, Annotations
from connectors.datagen.numbers import ValueGenerator
from connectors.registry.avro.types import MISSING, AvroType

MAX_DIGITS = 1000
"""Maximum precision and scale of decimals."""
FROM_STORED: dict[str, Callable[[int], Any]] = {DATE: date_of, TIME: millis_to_time, TIMESTAMP: instant_of}


@dataclass(frozen=True, slots=True)
class UnionBranch:
    """A branch of a union: its schema, and its position in the struct that represents the union; None without a struct."""

    avro: AvroType
    schema: Schema
    index: int | None


def union_branches(avro: AvroType, schema: Schema) -> list[UnionBranch | None]:
    """Returns the branches of a union; None for null. A union of one type besides null has that type's schema, any other is a
    struct with one field per type, of which one is set."""
    others = [branch for branch in avro.branches if branch.kind != "null"]
    is_simple = len(others) == 1 and len(avro.branches) <= 2
    branches: list[UnionBranch | None] = []
    index = 0
    for branch in avro.branches:
        if branch.kind == "null":
            branches.append(None)
            continue
        branches.append(
            UnionBranch(branch, schema, None) if is_simple else UnionBranch(branch, (schema.fields or ())[index].schema, index)
        )
        index += 1
    return branches


def option_generator(avro: AvroType, schema: Schema, annotations: Annotations) -> ValueGenerator:
    """Returns the generator of the schema's options. Raises SchemaError if there are none or one does not fit."""
    options = _listed(avro, annotations)
    if not options:
        raise annotations.error("options are empty, expected at least one")
    values = [convert_option(avro, schema, option, f"{annotations.path}: option {i}") for i, option in enumerate(options, 1)]
    count = len(values)
    if any(isinstance(value, Struct | list | dict) for value in values):
        # Every record has its own containers, because a transformation may change them in place.
        return lambda random, number: _copy(values[int(random.random() * count)])
    return lambda random, number: values[int(random.random() * count)]


def _listed(avro: AvroType, annotations: Annotations) -> list[Any]:
    options = annotations.values[OPTIONS]
    if isinstance(options, list):
        return options
    if not isinstance(options, dict):
        raise annotations.error(f"options is {options!r}, expected a list, or an object with file and encoding")
    source = annotations.inside(OPTIONS, "file", "encoding")
    path, encoding = source.text("file"), source.text("encoding")
    if encoding != "json":
        raise source.error(f"encoding is {encoding!r}, expected json")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        raise source.error(f"cannot read {path!r}: {e}") from e
    found = _json_values(text, path, source)
    # The original reads a sequence of values; a list of them is more usual.
    return found[0] if len(found) == 1 and isinstance(found[0], list) and avro.kind != "array" else found


def _json_values(text: str, path: str, source: Annotations) -> list[Any]:
    decoder = json.JSONDecoder()
    values, at = [], len(text) - len(text.lstrip())
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError as e:
            raise source.error(f"{path!r} is no JSON: {e}") from e
        values.append(value)
        at = len(text) - len(text[at:].lstrip())
    return values


def _copy(value: Any) -> Any:
    if isinstance(value, Struct):
        return Struct(value.schema, [_copy(member) for member in value.values])
    if isinstance(value, list):
        return [_copy(element) for element in value]
    if isinstance(value, dict):
        return {key: _copy(element) for key, element in value.items()}
    return value


def convert_option(avro: AvroType, schema: Schema, value: Any, path: str) -> Any:
    """Converts a JSON value. Raises SchemaError that names its path if it does not fit the schema."""
    try:
        converted = _convert(avro, schema, value, path)
        validate_value(schema, converted)
    except SchemaError:
        raise
    except DataError as e:
        raise SchemaError(f"{path} is {_short(value)}, expected {avro.name or avro.kind}: {e.message}") from e
    return converted


def _convert(avro: AvroType, schema: Schema, value: Any, path: str) -> Any:
    if schema.name == DECIMAL:
        return _decimal(schema, value, path)
    match avro.kind:
        case "union":
            return _convert_union(avro, schema, value, path)
        case "record" if isinstance(value, dict):
            return Struct(schema, _members(avro, schema, value, path))
        case "array" if isinstance(value, list) and avro.items and schema.value_schema:
            items, element = avro.items, schema.value_schema
            return [convert_option(items, element, one, f"{path}[{i}]") for i, one in enumerate(value)]
        case "map" if isinstance(value, dict) and avro.items and schema.value_schema:
            items, element = avro.items, schema.value_schema
            return {key: convert_option(items, element, one, f"{path}.{key}") for key, one in value.items()}
        case "float" | "double" if isinstance(value, int | float) and not isinstance(value, bool):
            return round_to_float32(float(value)) if schema.type is Type.FLOAT32 else float(value)
        case "int" | "long" if isinstance(value, int) and not isinstance(value, bool) and schema.name in FROM_STORED:
            return FROM_STORED[schema.name](value)
        case "bytes" if isinstance(value, str):
            return value.encode()
        case "fixed" if isinstance(value, str):
            data = value.encode()
            if len(data) != avro.size:
                raise SchemaError(f"{path} is {_short(value)} of {len(data)} bytes, expected {avro.size}")
            return data
        case "enum" if value not in avro.symbols:
            raise SchemaError(f"{path} is {_short(value)}, expected one of {', '.join(avro.symbols)}")
    return value


def _convert_union(avro: AvroType, schema: Schema, value: Any, path: str) -> Any:
    branches = union_branches(avro, schema)
    if value is None and None in branches:
        return None
    for branch in branches:
        if branch is None:
            continue
        try:
            converted = convert_option(branch.avro, branch.schema, value, path)
        except SchemaError:
            continue
        return converted if branch.index is None else union_struct(schema, branch.index, converted)
    kinds = ", ".join(branch.name or branch.kind for branch in avro.branches)
    raise SchemaError(f"{path} is {_short(value)}, expected one of {kinds}")


def union_struct(schema: Schema, index: int, value: Any) -> Struct:
    """Returns the struct of a union with one member set."""
    struct = Struct(schema)
    struct.values[index] = value
    return struct


def _members(avro: AvroType, schema: Schema, value: dict[str, Any], path: str) -> list[Any]:
    names = [field.name for field in avro.fields]
    for name in value:
        if name not in names:
            hint = did_you_mean(name, names, "; ")
            raise SchemaError(f"{path} has the unknown field {name}, expected {', '.join(names)}{hint}")
    members: list[Any] = []
    for field, own in zip(avro.fields, schema.fields or (), strict=True):
        if field.name in value:
            members.append(convert_option(field.type, own.schema, value[field.name], f"{path}.{field.name}"))
        elif field.default is MISSING:
            raise SchemaError(f"{path} has no field {field.name}, which has no default: add it")
        else:
            members.append(own.schema.default)
    return members


def scale_of(schema: Schema, path: str) -> int:
    """Returns the scale of a decimal schema."""
    scale = int((schema.parameters or {}).get(SCALE_PARAMETER, "0"))
    if abs(scale) > MAX_DIGITS:
        raise SchemaError(f"{path}: scale is {scale}, expected at most {MAX_DIGITS}")
    return scale


def _decimal(schema: Schema, value: Any, path: str) -> Decimal:
    scale = scale_of(schema, path)
    try:
        number = Decimal(value if isinstance(value, str) else repr(value))
        unscaled = scaled_down(number, scale)
    except (ArithmeticError, ValueError) as e:
        raise SchemaError(f"{path} is {_short(value)}, expected a decimal number") from e
    if decimal_of(unscaled, scale) != number:
        raise SchemaError(f"{path} is {_short(value)}, expected at most {scale} digits after the point")
    return decimal_of(unscaled, scale)


def scaled_down(number: Decimal, scale: int) -> int:
    """Returns the largest unscaled value that is not greater than the number."""
    numerator, denominator = number.as_integer_ratio()
    unit: int = 10 ** abs(scale)
    return numerator * unit // denominator if scale >= 0 else numerator // (denominator * unit)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Returns the decimal with exactly that scale, whatever the precision of the context."""
    return Decimal(f"{unscaled}E{-scale}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
