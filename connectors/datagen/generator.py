"""Compiles an annotated Avro schema into a generator of rows.

The schema is interpreted once: what generates a row is a tree of closures. They depend only on the random generator and the
number of the record.
"""

from __future__ import annotations

import re
import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from connect.data.logical import DECIMAL
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.errors import SchemaError
from connectors.datagen.annotations import (
    DEFAULT_LENGTHS,
    ITERATION,
    KEYS,
    LENGTH,
    OPTIONS,
    PREFIX,
    PROPERTY,
    RANGE,
    REGEX,
    SUFFIX,
    Annotations,
    annotations_of,
)
from connectors.datagen.numbers import (
    ValueGenerator,
    boolean_generator,
    check_range,
    float_generator,
    integer_generator,
    iterated_integer,
    random_integer,
)
from connectors.datagen.options import (
    FROM_STORED,
    MAX_DIGITS,
    decimal_of,
    option_generator,
    scale_of,
    scaled_down,
    union_branches,
    union_struct,
)
from connectors.datagen.regex_text import text_sampler
from connectors.registry.avro.config import DEFAULT_PRECISION, AvroConfig
from connectors.registry.avro.to_connect import connect_schema
from connectors.registry.avro.types import AvroType, parse_avro

RowFunction = Callable[[Random, int], list[Any]]
_LETTERS_AND_DIGITS = string.ascii_letters + string.digits
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(frozen=True, slots=True)
class RowGenerator:
    """The schema of a kind of record, and the function that generates the values of record n."""

    schema: Schema
    row: RowFunction


@lru_cache(maxsize=64)
def compile_generator(text: str) -> RowGenerator:
    """Compiles a schema, which may contain comments, as in Avro's Java library. Raises SchemaError."""
    avro = parse_avro(_COMMENT.sub(lambda found: found[1] or " ", text))
    if avro.kind != "record":
        raise SchemaError(f"The Avro schema is of type {avro.kind}, expected a record")
    schema = connect_schema(avro, AvroConfig())
    if schema is None:
        raise SchemaError(f"The Avro schema {avro.name} stands for values without a schema, expected a record")
    return RowGenerator(schema, _row_function(avro, schema))


def _row_function(avro: AvroType, schema: Schema) -> RowFunction:
    path = avro.name or "record"
    annotations = annotations_of(avro, path)
    if OPTIONS in annotations:
        choose = option_generator(avro, schema, annotations)

        def chosen(random: Random, number: int) -> list[Any]:
            values: list[Any] = choose(random, number).values
            return values

        return chosen
    return _members(avro, schema, path)


def _members(avro: AvroType, schema: Schema, path: str) -> RowFunction:
    members = [
        _value_generator(field.type, own.schema, f"{path}.{field.name}", field.props.get(PROPERTY))
        for field, own in zip(avro.fields, schema.fields or (), strict=True)
    ]
    return lambda random, number: [generate(random, number) for generate in members]


def _value_generator(avro: AvroType, schema: Schema, path: str, of_field: object = None) -> ValueGenerator:
    if avro.kind == "union":
        return _union(avro, schema, path, of_field)
    annotations = annotations_of(avro, path, of_field)
    if OPTIONS in annotations:
        return option_generator(avro, schema, annotations)
    if schema.name == DECIMAL:
        return _decimal(avro, schema, annotations)
    match avro.kind:
        case "int" | "long":
            return _converted(schema, integer_generator(schema, annotations))
        case "float" | "double":
            return float_generator(schema, annotations)
        case "boolean":
            return boolean_generator(annotations)
        case "string":
            return _string(avro, annotations)
        case "bytes":
            return _bytes(annotations)
        case "fixed":
            size = avro.size
            return lambda random, number: random.randbytes(size)
        case "enum":
            return _enum(avro, path)
        case "record":
            row = _members(avro, schema, path)
            return lambda random, number: Struct(schema, row(random, number))
        case "array":
            return _array(avro, schema, annotations)
        case "map":
            return _map(avro, schema, annotations)
    raise SchemaError(f"{path}: values of type {avro.kind} cannot be generated")


def _converted(schema: Schema, generate: ValueGenerator) -> ValueGenerator:
    convert = FROM_STORED.get(schema.name or "")
    return generate if convert is None else lambda random, number: convert(generate(random, number))


def _union(avro: AvroType, schema: Schema, path: str, of_field: object) -> ValueGenerator:
    if of_field is not None and sum(branch.kind != "null" for branch in avro.branches) != 1:
        raise SchemaError(f"{path}: {PROPERTY} applies to no union of several types: move it into the types")
    if not avro.branches:
        raise SchemaError(f"{path}: the union has no types")
    generators: list[ValueGenerator] = []
    for branch in union_branches(avro, schema):
        if branch is None:
            generators.append(lambda random, number: None)
            continue
        generate = _value_generator(branch.avro, branch.schema, path, of_field)
        generators.append(generate if branch.index is None else _member(schema, branch.index, generate))
    if len(generators) == 1:
        return generators[0]
    count = len(generators)
    return lambda random, number: generators[int(random.random() * count)](random, number)


def _member(schema: Schema, index: int, generate: ValueGenerator) -> ValueGenerator:
    return lambda random, number: union_struct(schema, index, generate(random, number))


def _decimal(avro: AvroType, schema: Schema, annotations: Annotations) -> ValueGenerator:
    scale = scale_of(schema, annotations.path)
    precision = int(avro.props.get("precision", DEFAULT_PRECISION))
    if not 1 <= precision <= MAX_DIGITS:
        raise annotations.error(f"precision is {precision}, expected 1 to {MAX_DIGITS}")
    largest = 10**precision - 1
    if avro.kind == "fixed":
        largest = min(largest, (1 << max(0, 8 * avro.size - 1)) - 1)
    low, high = -largest, largest + 1
    if RANGE in annotations:
        bounds = annotations.inside(RANGE, "min", "max")
        minimum, maximum = bounds.decimal("min"), bounds.decimal("max")
        # The smallest unscaled value that is not below the bound.
        if minimum is not None:
            low = max(low, -scaled_down(-minimum, scale))
        if maximum is not None:
            high = min(high, -scaled_down(-maximum, scale))
        check_range(bounds, decimal_of(low, scale), decimal_of(high, scale))
    generate = random_integer(low, high)
    return lambda random, number: decimal_of(generate(random, number), scale)


def _string(avro: AvroType, annotations: Annotations) -> ValueGenerator:
    if ITERATION not in annotations:
        if avro.props.get("logicalType") == "uuid" and not annotations.values:
            return lambda random, number: str(uuid.UUID(int=random.getrandbits(128), version=4))
        return _text(annotations)
    prefix, suffix = annotations.text(PREFIX), annotations.text(SUFFIX)
    generate = iterated_integer(annotations, *INT_RANGES[Type.INT32])
    return lambda random, number: f"{prefix}{generate(random, number)}{suffix}"


def _text(annotations: Annotations) -> ValueGenerator:
    """Returns the generator of random texts by length or regex. Beside a regex, a length without a maximum has none."""
    prefix, suffix = annotations.text(PREFIX), annotations.text(SUFFIX)
    lengths = annotations.lengths()
    if REGEX not in annotations:
        length = _length(lengths or DEFAULT_LENGTHS)
        return lambda random, number: prefix + "".join(random.choices(_LETTERS_AND_DIGITS, k=length(random))) + suffix
    pattern = annotations.text(REGEX)
    try:
        if lengths is None:
            sample = text_sampler(pattern)
        else:
            length_of = annotations.values[LENGTH]
            has_maximum = not isinstance(length_of, dict) or "max" in length_of
            sample = text_sampler(pattern, lengths[0], lengths[-1] if has_maximum else None)
    except SchemaError as e:
        raise annotations.error(e.message) from e
    if prefix or suffix:
        return lambda random, number: prefix + sample(random) + suffix
    return lambda random, number: sample(random)


def _length(lengths: range) -> Callable[[Random], int]:
    low, count = lengths.start, len(lengths)
    return (lambda random: low) if count == 1 else lambda random: low + int(random.random() * count)


def _bytes(annotations: Annotations) -> ValueGenerator:
    length = _length(annotations.lengths() or DEFAULT_LENGTHS)
    return lambda random, number: random.randbytes(length(random))


def _enum(avro: AvroType, path: str) -> ValueGenerator:
    symbols = avro.symbols
    if not symbols:
        raise SchemaError(f"{path}: the enum {avro.name} has no symbols")
    count = len(symbols)
    return lambda random, number: symbols[int(random.random() * count)]


def _array(avro: AvroType, schema: Schema, annotations: Annotations) -> ValueGenerator:
    if avro.items is None or schema.value_schema is None or schema.type is not Type.ARRAY:
        raise annotations.error("arrays of map entries are not supported, expected an Avro map")
    generate = _value_generator(avro.items, schema.value_schema, f"{annotations.path}[]")
    length = _length(annotations.lengths() or DEFAULT_LENGTHS)
    return lambda random, number: [generate(random, number) for _ in range(length(random))]


def _map(avro: AvroType, schema: Schema, annotations: Annotations) -> ValueGenerator:
    if avro.items is None or schema.value_schema is None:
        raise annotations.error("the map has no values")
    keys = annotations.inside(KEYS).check("map key") if KEYS in annotations else Annotations(annotations.path, {})
    key = option_generator(AvroType("string"), Schema.STRING, keys) if OPTIONS in keys else _text(keys)
    generate = _value_generator(avro.items, schema.value_schema, f"{annotations.path}{{}}")
    length = _length(annotations.lengths() or DEFAULT_LENGTHS)
    return lambda random, number: {key(random, number): generate(random, number) for _ in range(length(random))}
