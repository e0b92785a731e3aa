"""Shredded VARIANTs: Parquet files may have parts of them as columns of their own types.

Format: ``VariantShredding.md`` of Apache Parquet. A shredded group has a ``typed_value`` beside ``value``; fields of objects and
elements of arrays are such groups again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from connect.errors import SchemaError
from connectors.spark.decode.variant import Variant, decode_variant, encode_variant, variant_array
from connectors.spark.decode.variant_casts import nodes_of_values

_METADATA, _VALUE, _TYPED_VALUE = "metadata", "value", "typed_value"


class _Absent:
    """What a group has without a value: in an object, a field that it lacks."""


_ABSENT = _Absent()


def is_shredded(type_: pa.DataType) -> bool:
    """Whether a file's column of this type, which is VARIANT in the table, is shredded."""
    return bool(pa.types.is_struct(type_)) and {_METADATA, _TYPED_VALUE} <= {f.name for f in type_} <= {
        _METADATA,
        _VALUE,
        _TYPED_VALUE,
    }


def assemble_variants(array: pa.Array) -> pa.Array:
    """The VARIANTs of a shredded column; those that are not shredded keep their bytes.

    Raises SchemaError for parts of a type that is not supported, and DataError for such values.
    """
    parts = _parts(array)
    metadata, values = parts[_METADATA].to_pylist(), _bytes(parts, len(array))
    is_typed = parts[_TYPED_VALUE].is_valid().to_pylist()
    shredded = [names if typed else None for names, typed in zip(metadata, is_typed, strict=True)]
    found: list[Variant | None] = []
    for at, node in enumerate(_nodes(array, shredded)):
        names, value = metadata[at], values[at]
        if names is None:
            found.append(None)
        elif value is not None and not is_typed[at]:
            found.append(Variant(names, value))
        else:
            found.append(encode_variant(None if node is _ABSENT else node))
    return variant_array(found)


def _parts(group: pa.Array) -> dict[str, pa.Array]:
    """The fields of a group; those of a null group are null."""
    return dict(zip([member.name for member in group.type], group.flatten(), strict=True))


def _bytes(parts: Mapping[str, pa.Array], count: int) -> list[bytes | None]:
    return parts[_VALUE].to_pylist() if _VALUE in parts else [None] * count


def _nodes(group: pa.Array, metadata: Sequence[bytes | None]) -> list[Any]:
    """The values of a group as nodes, with the names in this metadata; those without metadata are not needed."""
    parts = _parts(group)
    found: list[Any] = [
        _ABSENT if value is None or names is None else decode_variant(names, value)
        for names, value in zip(metadata, _bytes(parts, len(group)), strict=True)
    ]
    typed = parts.get(_TYPED_VALUE)
    if typed is None:
        return found
    for at, (valid, node) in enumerate(zip(typed.is_valid().to_pylist(), _typed_nodes(typed, metadata), strict=True)):
        if valid:
            # The other fields of a partially shredded object are in its value.
            found[at] = {**node, **found[at]} if isinstance(node, dict) and isinstance(found[at], dict) else node
    return found


def _typed_nodes(typed: pa.Array, metadata: Sequence[bytes | None]) -> list[Any]:
    t, type_ = pa.types, typed.type
    if t.is_struct(type_):
        members = [_nodes(member, metadata) for member in typed.flatten()]
        names = [member.name for member in type_]
        return [
            {name: node for name, node in zip(names, row, strict=True) if node is not _ABSENT}
            for row in zip(*members, strict=True)
        ]
    if t.is_list(type_):
        offsets = typed.offsets.to_pylist()
        of_elements: list[bytes | None] = [None] * len(typed.values)
        for of_row, (start, end) in zip(metadata, itertools.pairwise(offsets), strict=True):
            of_elements[start:end] = [of_row] * (end - start)
        elements = [None if node is _ABSENT else node for node in _nodes(typed.values, of_elements)]
        return [elements[start:end] for start, end in itertools.pairwise(offsets)]
    if not _is_supported(type_):
        raise SchemaError(
            f"a data file has a shredded VARIANT with parts of type {type_}, which are not supported; rewrite the data files "
            "with Spark without shredding, then restart the task"
        )
    return nodes_of_values(typed)


def _is_supported(type_: pa.DataType) -> bool:
    t = pa.types
    if t.is_timestamp(type_):
        return bool(type_.unit == "us")
    is_number = t.is_integer(type_) or t.is_float32(type_) or t.is_float64(type_) or t.is_decimal(type_)
    return bool(is_number or t.is_boolean(type_) or t.is_string(type_) or t.is_binary(type_) or t.is_date32(type_))
