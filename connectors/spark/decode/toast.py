"""Finds placeholders of unavailable values (TOAST) in Arrow columns.

A converter and the column's type change the forms of :mod:`connect.change_events.toast` once more; all results are found here,
on whole columns.
"""

from __future__ import annotations

import base64
import decimal
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.change_events import toast
from connectors.spark.config_keys import UNAVAILABLE
from connectors.spark.decode import arrow_casts
from connectors.spark.decode.variant import encode_variant, is_variant


@dataclass(frozen=True, slots=True)
class _Forms:
    """``texts`` and ``element_texts`` are single values, alone and in an array; the others are arrays of the word's bytes."""

    texts: pa.Array
    element_texts: pa.Array
    text_lists: tuple[pa.Array, ...]
    numbers: pa.Array


@lru_cache(maxsize=64)
def _forms(word: str) -> _Forms:
    data = word.encode()
    numbers = pa.array(toast.number_form(word), pa.int64())
    # A Decimal in JSON without schemas is the base64 of its unscaled bytes: of one byte, or two above 127.
    decimals = [base64.b64encode(n.to_bytes(1 if n < 128 else 2, "big")).decode() for n in data]
    times = [arrow_casts.time_of_millis(numbers), arrow_casts.time_of_micros(numbers), arrow_casts.time_of_nanos(numbers)]
    return _Forms(
        pa.array(dict.fromkeys(toast.text_forms(word)), pa.string()),
        pa.array(dict.fromkeys(toast.element_text_forms(word)), pa.string()),
        (*times, pa.array(decimals, pa.string())),
        numbers,
    )


def placeholders(column: pa.ChunkedArray, word: str = UNAVAILABLE) -> pa.ChunkedArray | None:
    """Where the column holds the placeholder, true or false for each row; None when nowhere."""
    mask = _mask(column, word, _forms(word).texts)
    if mask is None:
        return None
    mask = pc.fill_null(mask, False)
    return mask if pc.any(mask).as_py() else None


def _mask(column: pa.ChunkedArray, word: str, texts: pa.Array) -> pa.ChunkedArray | None:
    type_ = column.type
    if pa.types.is_string(type_):
        return pc.is_in(column, texts)
    if is_variant(type_):
        return pc.equal(pc.struct_field(column, "value"), encode_variant(word).value)
    if pa.types.is_binary(type_):
        return pc.equal(column, word.encode())
    if pa.types.is_map(type_) and pa.types.is_string(type_.key_type) and pa.types.is_string(type_.item_type):
        return pc.equal(pc.map_lookup(column, pa.scalar(word), "first"), word)
    if pa.types.is_struct(type_) and (at := type_.get_field_index(word)) >= 0 and pa.types.is_string(type_.field(at).type):
        # What becomes of a map in JSON without a schema.
        return pc.equal(pc.struct_field(column, [at]), word)
    if pa.types.is_list(type_):
        return _list_mask(column, word)
    return None


def _list_mask(column: pa.ChunkedArray, word: str) -> pa.ChunkedArray | None:
    lengths = pc.list_value_length(column)
    hits = [_of_one_element(column, lengths, word), *_of_numbers(column, lengths, word)]
    found = [rows for rows in hits if rows is not None and len(rows)]
    if not found:
        return None
    return pa.chunked_array([pc.is_in(pa.array(range(len(column)), pa.uint64()), pa.concat_arrays(found))])


def _of_one_element(column: pa.ChunkedArray, lengths: pa.ChunkedArray, word: str) -> pa.Array | None:
    """Rows whose only element is the placeholder."""
    rows = _rows_of_length(lengths, 1)
    if not len(rows):
        return None
    mask = _mask(pc.list_element(column.take(rows), 0), word, _forms(word).element_texts)
    return None if mask is None else rows.filter(pc.fill_null(mask, False).combine_chunks())


def _of_numbers(column: pa.ChunkedArray, lengths: pa.ChunkedArray, word: str) -> list[pa.Array]:
    """Rows whose elements are the word's bytes, one by one."""
    forms = _forms(word)
    rows = _rows_of_length(lengths, len(forms.numbers))
    if not len(rows):
        return []
    lists, type_ = column.take(rows), column.type.value_type
    return [rows.take(_rows_equal(lists, wanted)) for wanted in _number_forms(lists, type_, forms)]


def _number_forms(lists: pa.ChunkedArray, type_: pa.DataType, forms: _Forms) -> list[pa.Array]:
    numbers = forms.numbers
    if pa.types.is_string(type_):
        return list(forms.text_lists)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return _fitting(numbers.to_pylist(), type_)
    if pa.types.is_date(type_):
        return [arrow_casts.date_of_days(numbers.cast(pa.int32()))]
    if pa.types.is_timestamp(type_):
        return [
            stamps.cast(type_)
            for stamps in (arrow_casts.wall_clock_of_millis(numbers), arrow_casts.wall_clock_of_micros(numbers))
        ]
    if pa.types.is_decimal(type_):
        # The bytes are unscaled digits: which scale the source had can only be told from the first of them.
        first = decimal.Decimal(numbers[0].as_py())
        seen = [value for value in pc.unique(pc.list_element(lists, 0)).to_pylist() if value]
        powers = {value.adjusted() - first.adjusted() for value in seen}
        digits = numbers.to_pylist()
        return [f for power in sorted(powers) for f in _fitting([decimal.Decimal(f"{d}E{power}") for d in digits], type_)]
    return []


def _fitting(numbers: list[Any], type_: pa.DataType) -> list[pa.Array]:
    try:
        return [pa.array(numbers, type_)]
    except pa.ArrowInvalid:
        return []  # the type cannot hold the bytes, so no row has them


def _rows_of_length(lengths: pa.ChunkedArray, length: int) -> pa.Array:
    return pc.indices_nonzero(pc.fill_null(pc.equal(lengths, length), False))


def _rows_equal(lists: pa.ChunkedArray, wanted: pa.Array) -> pa.Array:
    """Which of the lists, as long as ``wanted``, are equal to it: by one element after the other, while any are left."""
    rows = pa.array(range(len(lists)), pa.uint64())
    for at, value in enumerate(wanted):
        here = pc.equal(pc.list_element(lists, at), value)
        left = pc.indices_nonzero(pc.fill_null(here, False))
        rows, lists = rows.take(left), lists.take(left) if len(left) < len(lists) else lists
        if not len(rows):
            break
    return rows
