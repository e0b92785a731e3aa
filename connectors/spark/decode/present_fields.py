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


def fields_of_lines(lines: Sequence[bytes], rows: pa.Table, row_of: RowOf) -> pa.Array:
    """By record, the fields of its row. ``rows`` are the decoded rows: only those that have a null are parsed again."""
    complete = fields_text(rows.column_names)
    has_null = np.zeros(rows.num_rows, bool)
    for column in rows.columns:
        if column.null_count:
            has_null |= column.is_null().to_numpy()
    texts = np.full(rows.num_rows, complete, object)
    for at in np.flatnonzero(has_null).tolist():
        texts[at] = _text_of(row_of(json.loads(lines[at])))
    return pa.array(texts, pa.string())


def _text_of(row: Any) -> str:
    return fields_text(row) if isinstance(row, dict) else "[]"


def rows_with(fields: pa.ChunkedArray, names: Collection[str]) -> dict[str, np.ndarray[Any, np.dtype[np.bool_]]]:
    """By name, a mask of the records that have the field."""
    codes = fields.combine_chunks().dictionary_encode()
    sets = [fields_of(text) for text in codes.dictionary.to_pylist()]
    numbers = codes.indices.to_numpy(zero_copy_only=False)
    if not len(numbers):
        return {name: np.zeros(0, bool) for name in names}
    return {name: np.array([name in found for found in sets], bool)[numbers] for name in names}
