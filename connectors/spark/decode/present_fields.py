"""Which fields the row of a record has: a field that is missing differs from one that is null.

With schemas, the columns of a batch tell. Without schemas, records of different shapes are decoded into one table, in which both
are null; then each record has a text with the names of its fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

RowOf = Callable[[Any], Any]
"""The row of a record that is parsed JSON."""


def fields_text(names: Iterable[str]) -> str:
    """The text for a set of fields."""
    return json.dumps(sorted(names), ensure_ascii=False)


@lru_cache(maxsize=4096)
def fields_of(text: str) -> frozenset[str]:
    """The fields of a text."""
    return frozenset(json.loads(text))


def fields_of_nodes(nodes: Sequence[Any], row_of: RowOf) -> pa.Array:
    """By record, the fields of its row; the records are parsed JSON."""
    return pa.array([_text_of(row_of(node)) for node in nodes], pa.string())


def fields_of_lines(lines: Sequence[bytes], row_of: RowOf) -> pa.Array:
    """By record, the fields of its row; the records are lines of JSON. Their columns do not tell: a field that has never had a
    value has none."""
    return fields_of_nodes(list(map(_parsed, lines)), row_of)


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:
        return json.loads(line)  # with NaN, or a number that orjson does not read


def _text_of(row: Any) -> str:
    return _text_of_names(tuple(row)) if isinstance(row, dict) else "[]"


@lru_cache(maxsize=4096)
def _text_of_names(names: tuple[str, ...]) -> str:
    return fields_text(names)


def rows_with(fields: pa.ChunkedArray, names: Collection[str]) -> dict[str, np.ndarray[Any, np.dtype[np.bool_]]]:
    """By name, a mask of the records that have the field."""
    codes = fields.combine_chunks().dictionary_encode()
    sets = [fields_of(text) for text in codes.dictionary.to_pylist()]
    numbers = codes.indices.to_numpy(zero_copy_only=False)
    if not len(numbers):
        return {name: np.zeros(0, bool) for name in names}
    return {name: np.array([name in found for found in sets], bool)[numbers] for name in names}
