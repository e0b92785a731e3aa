"""Casts values to VARIANT, one Arrow array at a time: the text of JSON documents, and values of any other type."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from connect.errors import DataError
from connectors.spark.decode.exact_values import parse_text, show
from connectors.spark.decode.variant import (
    JSON_NULL,
    Date,
    Float,
    Timestamp,
    decode_variant,
    encode_variant,
    encode_variants,
    is_variant,
)
from connectors.spark.variant_columns import VariantColumns


def node_of_text(text: str, placeholder: str) -> Any:
    """The node of a JSON document, or the placeholder itself. Raises DataError."""
    return text if text == placeholder else parse_text(text)


def variants_of_json(array: pa.Array, placeholder: str) -> pa.Array:
    """The VARIANTs of JSON documents. The document ``null`` is a value, and no text is null."""
    nodes = [None if text is None else _or_json_null(node_of_text(text, placeholder)) for text in array.to_pylist()]
    return encode_variants(nodes)


def variants_of_values(array: pa.Array) -> pa.Array:
    """The VARIANTs of values of any type. Raises DataError for a map whose keys are not text."""
    return encode_variants(nodes_of_values(array))


def _or_json_null(node: Any) -> Any:
    return JSON_NULL if node is None else node


def nodes_of_values(array: pa.Array) -> list[Any]:
    """The values of any type as nodes for :func:`encode_variant`; None for null."""
    t, type_ = pa.types, array.type
    if is_variant(type_):
        return [None if v is None else decode_variant(v["metadata"], v["value"]) for v in array.to_pylist()]
    if t.is_struct(type_):
        names = [field.name for field in type_]
        if len(set(names)) < len(names):
            raise DataError(f"a struct has two fields of one name: {', '.join(names)}")
        members = [nodes_of_values(member) for member in array.flatten()]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*members, strict=True)]
        return _or_null(array, rows or [{} for _ in range(len(array))])
    if t.is_map(type_):
        if not t.is_string(type_.key_type):
            raise DataError(f"a VARIANT cannot hold a map with keys of type {type_.key_type}, only with text")
        keys, items = array.keys.to_pylist(), nodes_of_values(array.items)
        return _or_null(array, _slices(array, lambda a, b: dict(zip(keys[a:b], items[a:b], strict=True))))
    if t.is_list(type_):
        items = nodes_of_values(array.values)
        return _or_null(array, _slices(array, lambda a, b: items[a:b]))
    if t.is_date32(type_):
        return [None if days is None else Date(days) for days in array.cast(pa.int32()).to_pylist()]
    if t.is_timestamp(type_):
        is_instant = type_.tz is not None
        return [None if us is None else Timestamp(us, is_instant) for us in array.cast(pa.int64()).to_pylist()]
    if t.is_float32(type_):
        return [None if value is None else Float(value) for value in array.to_pylist()]
    found: list[Any] = array.to_pylist()
    return found


def _slices(array: pa.Array, slice_: Callable[[int, int], Any]) -> list[Any]:
    """By row: what a list or map has between its offsets."""
    offsets = array.offsets.to_pylist()
    return [slice_(a, b) for a, b in itertools.pairwise(offsets)]


def _or_null(array: pa.Array, rows: list[Any]) -> list[Any]:
    if not array.null_count:
        return rows
    return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


def read_variant(variants: VariantColumns) -> Callable[[Any], Any]:
    """Reads parsed JSON without a schema as a VARIANT's fields; null is null."""

    def read(node: Any) -> dict[str, bytes] | None:
        if node is None:
            return None
        if isinstance(node, str) and variants.parses_text:
            try:
                node = node_of_text(node, variants.placeholder)
            except DataError as e:
                raise DataError(f"{show(node)} is {e.message}, and variant.text=json") from e
        return encode_variant(node)._asdict()

    return read
