"""Hashes Arrow columns without a Python object per value: equal to those of the values' forms (:mod:`sluice.verify.canonical`).

Values that have another form than others of their type, such as NaN and times far away, are hashed by their forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.verify.canonical import INFINITE_DAYS, Form
from sluice.verify.row_hashes import Hashes, hash_forms, hash_integers, hash_nulls, hash_texts

_Bools = np.ndarray[Any, np.dtype[np.bool_]]
Forms = Callable[[Sequence[int]], Sequence[Form]]
"""Returns the forms of some values of a column, by their places."""

_MOST_US = ((1 << 63) - 1) // 1000
_DIGITS = b"-.0123456789"
_TRUE, _FALSE = hash_forms(["true", "false"])


def hash_array(array: pa.Array, kind: str, forms: Forms) -> Hashes:
    """Returns the hash of each value, where ``kind`` is that of the column's forms."""
    is_null: _Bools | None = None
    if array.null_count:
        is_null = np.asarray(pc.is_null(array))
    found = _hash(array, kind)
    if found is None:
        return hash_forms(forms(range(len(array))))
    hashes, irregular = found
    if irregular is not None:
        if is_null is not None:
            irregular = irregular & ~is_null
        if len(places := np.flatnonzero(irregular)):
            hashes[places] = hash_forms(forms(places.tolist()))
    if is_null is not None:
        hash_nulls(hashes, is_null)
    return hashes


def _hash(array: pa.Array, kind: str) -> tuple[Hashes, _Bools | None] | None:
    """The hashes of all values that are not null, and which of them are wrong; None if the type has no fast way for the kind."""
    type_, is_ = array.type, pa.types
    match kind:
        case "integer" if is_.is_signed_integer(type_):
            return hash_integers(_numbers(array.cast(pa.int64()), np.int64)), None
        case "date" if is_.is_date32(type_):
            days = _numbers(array.view(pa.int32()), np.int32).astype(np.int64)
            return hash_integers(days), np.isin(days, list(INFINITE_DAYS))
        case "time" if is_.is_time64(type_) and type_.unit == "us":
            return hash_integers(_numbers(array.view(pa.int64()), np.int64) * 1000), None
        case "timestamp" if is_.is_timestamp(type_) and type_.unit == "us":
            micros = _numbers(array.view(pa.int64()), np.int64)
            return hash_integers(micros * 1000), (micros > _MOST_US) | (micros < -_MOST_US)
        case "double" | "float" if is_.is_float32(type_) or is_.is_float64(type_):
            return _hash_floats(array, is_single=kind == "float")
        case "boolean" if is_.is_boolean(type_):
            return np.where(np.asarray(array.fill_null(False)), _TRUE, _FALSE), None
        case "text" if _is_text(type_):
            return hash_texts(_objects(array)), None
        case "bytes" if is_.is_binary(type_) or is_.is_large_binary(type_) or is_.is_fixed_size_binary(type_):
            return hash_texts([None if value is None else value.hex() for value in _objects(array)]), None
        case "decimal" if is_.is_decimal(type_):
            return _hash_digits(array.cast(pa.string()))
        case "decimal" if _is_text(type_):
            return _hash_digits(array)
    return None


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _numbers(array: pa.Array, type_: Any) -> Any:
    """The values of an array of numbers; those of nulls are any."""
    return np.frombuffer(array.buffers()[1], type_, len(array), array.offset * np.dtype(type_).itemsize)


def _objects(array: pa.Array) -> list[Any]:
    found: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return found


def _hash_floats(array: pa.Array, *, is_single: bool) -> tuple[Hashes, _Bools]:
    numbers = _numbers(array, np.float32 if pa.types.is_float32(array.type) else np.float64).astype(np.float64)
    if is_single:
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = numbers.astype(np.float32).astype(np.float64)
    # Zeros have a sign, which not every sink keeps.
    return hash_integers(numbers.view(np.int64)), ~np.isfinite(numbers) | (numbers == 0)


def _hash_digits(texts: pa.Array) -> tuple[Hashes, _Bools | None]:
    """Decimals in plain digits. Zeros at the end of a fraction do not count."""
    irregular = None
    start, end = _text_bounds(texts)
    if texts.buffers()[2] is not None and bytes(texts.buffers()[2][start:end]).translate(None, _DIGITS):
        irregular = ~np.asarray(pc.match_substring_regex(texts, r"^-?[0-9]+(\.[0-9]+)?$").fill_null(False))
    shortened = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    stripped = pc.if_else(pc.match_substring(texts, "."), shortened, texts)
    values = _objects(stripped)
    if "-0" in values:
        negative = np.asarray(pc.equal(stripped, "-0").fill_null(False))
        irregular = negative if irregular is None else irregular | negative
    return hash_texts(values), irregular


def _text_bounds(texts: pa.Array) -> tuple[int, int]:
    type_ = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets = np.frombuffer(texts.buffers()[1], type_, len(texts) + 1, texts.offset * np.dtype(type_).itemsize)
    return int(offsets[0]), int(offsets[-1])
