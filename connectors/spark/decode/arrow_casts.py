"""Casts encoded values to table values, one Arrow array at a time, without loss (promise 8).

Every function raises DataError or an Arrow error (a ValueError) for a value that does not fit, without naming its location: the
caller knows the field and finds the record.
"""

from __future__ import annotations

import binascii
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.data.logical import MILLIS_PER_DAY
from connect.errors import DataError
from connectors.spark.config_keys import UNAVAILABLE

_UTC = pa.timestamp("us", "UTC")
_NTZ = pa.timestamp("us")
WIDEST_DECIMAL = 76
"""The digits of a decimal in 256 bits. In 128 bits, Arrow does not always notice that a number has no room for the digits of a
larger scale, and takes it for another number."""
_PAD = 64
_BASE64 = np.full(256, 255, np.uint8)
"""The number of each digit of base64; _PAD for padding, and more for any other character."""
_BASE64[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", np.uint8)] = np.arange(65)
_SECONDS_PER_HOUR = 3600
_HOURS_PER_DAY = 24


def as_array(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def check_overflow(array: pa.Array) -> pa.Array:
    """Raises DataError if a number was beyond the range of the type and became infinite."""
    if pc.any(pc.is_inf(array)).as_py():
        raise DataError("a number is beyond the range of a 32-bit float")
    return array


def date_of_days(array: pa.Array) -> pa.Array:
    return array.cast(pa.date32())


def instant_of_millis(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("ms", "UTC")).cast(_UTC)


def wall_clock_of_millis(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("ms")).cast(_NTZ)


def wall_clock_of_micros(array: pa.Array) -> pa.Array:
    return array.cast(_NTZ)


def instant_of_text(array: pa.Array) -> pa.Array:
    return pc.cast(array, _UTC)


def spell_out_unavailable(array: pa.Array) -> pa.Array:
    """Lists of instants as text, in which ``[placeholder]`` became the bytes of it as microseconds since 1970: an array of
    instants can hold those, and arrays of other numbers have the same form."""
    if not pc.any(pc.equal(array.values, UNAVAILABLE)).as_py():
        return array
    spelt = pa.array(list(UNAVAILABLE.encode()), pa.int64()).cast(_UTC).cast(pa.string()).to_pylist()
    return pa.array([spelt if texts == [UNAVAILABLE] else texts for texts in array.to_pylist()], array.type)


def wall_clock_of_text(array: pa.Array) -> pa.Array:
    return pc.cast(array, _NTZ)


def date_of_text(array: pa.Array) -> pa.Array:
    return pc.cast(array, pa.date32())


def time_of_day_of_millis(array: pa.Array) -> pa.Array:
    """Like :func:`time_of_millis`, for Connect's Time, which ends with 24:00."""
    bounds = pc.min_max(array)
    for millis in (bounds["min"].as_py(), bounds["max"].as_py()):
        if millis is not None and not 0 <= millis <= MILLIS_PER_DAY:
            raise DataError(f"a time of day {millis} is not between 0 and {MILLIS_PER_DAY}")
    return time_of_millis(array)


def time_of_millis(array: pa.Array) -> pa.Array:
    return time_of_micros(pc.multiply_checked(array.cast(pa.int64()), 1000))


def time_of_micros(array: pa.Array) -> pa.Array:
    return _time_text(array, _SECONDS_PER_HOUR * 1_000_000, pa.time64("us"))


def time_of_nanos(array: pa.Array) -> pa.Array:
    return _time_text(array, _SECONDS_PER_HOUR * 1_000_000_000, pa.time64("ns"))


def _time_text(array: pa.Array, hour: int, type_: pa.DataType) -> pa.Array:
    """The text of times, which may be negative or longer than a day, as those of MySQL are: ``-838:59:59.000000``."""
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or (low >= 0 and high < _HOURS_PER_DAY * hour):
        return array.cast(type_).cast(pa.string())
    amounts = pc.abs_checked(array)
    hours = pc.divide(amounts, hour)
    rest = pc.subtract(amounts, pc.multiply(hours, hour)).cast(type_).cast(pa.string())
    sign = pc.if_else(pc.less(array, 0), "-", "")
    digits = pc.utf8_lpad(hours.cast(pa.string()), 2, "0")
    return pc.binary_join_element_wise(sign, digits, pc.utf8_slice_codeunits(rest, 2), "")


def binary_of_base64(array: pa.Array) -> pa.Array:
    """The bytes of base64 texts."""
    decode = binascii.a2b_base64
    texts = array.to_pylist()
    try:
        found = pa.array([None if v is None else decode(v, strict_mode=True) for v in texts], pa.binary())
    except binascii.Error as e:
        raise DataError(f"bytes are not in base64: {e}") from e
    # The codec lets padding pass that pads nothing.
    groups = pc.divide(pc.add(pc.binary_length(found), 2), 3)
    if pc.any(pc.not_equal(pc.multiply(groups, 4), pc.binary_length(array))).as_py():
        raise DataError("bytes are not in base64: padding behind a full group")
    return found


def decimals_of_base64(array: pa.Array, scale: int, type_: pa.DataType) -> pa.Array:
    """The decimals of base64 texts of unscaled big-endian bytes."""
    if scale >= 0 and (short := _short_decimals(array, type_)) is not None:
        return short
    decode = binascii.a2b_base64
    try:
        unscaled = [None if v is None else _unscaled(decode(v, strict_mode=True)) for v in array.to_pylist()]
    except binascii.Error as e:
        raise DataError(f"a Decimal is not in base64: {e}") from e
    return _decimals(unscaled, scale, type_)


def _short_decimals(array: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """The decimals of texts of up to eight characters, without a Python object for each; None if there are others, which
    may be wrong."""
    count = len(array)
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
    unscaled = np.zeros(count, np.int64)
    found = array.null_count
    for length in (4, 8):
        at = np.flatnonzero(lengths == length)
        found += len(at)
        if len(at):
            texts = array.take(pa.array(at))
            digits = _BASE64[np.frombuffer(texts.buffers()[2], np.uint8, length * len(at)).reshape(-1, length)]
            padding = (digits == _PAD).sum(axis=1)
            # Padding stands at the end only, for one or two characters.
            if (digits > _PAD).any() or (digits[:, :-2] == _PAD).any() or (digits[:, -2] == _PAD)[padding == 1].any():
                return None
            shifts = np.arange(6 * (length - 1), -1, -6)
            numbers = ((digits & (_PAD - 1)).astype(np.int64) << shifts).sum(axis=1)
            unused = 64 - 6 * length
            # The sign is the highest bit of the first byte; the bits of padding are not part of the number.
            unscaled[at] = (numbers << unused) >> (unused + 8 * padding)
    if found != count:
        return None
    data = np.stack([unscaled, unscaled >> 63], axis=1)
    valid = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(type_, count, [valid, pa.py_buffer(data)])


def decimals_of_bytes(array: pa.Array, scale: int, type_: pa.DataType) -> pa.Array:
    """The decimals of unscaled big-endian bytes."""
    return _decimals([None if v is None else _unscaled(v) for v in array.to_pylist()], scale, type_)


def _unscaled(data: bytes) -> int:
    if not data:
        raise DataError("a Decimal without bytes")
    return int.from_bytes(data, "big", signed=True)


def _decimals(unscaled: list[int | None], scale: int, type_: pa.DataType) -> pa.Array:
    if scale < 0:
        factor = 10**-scale
        unscaled = [None if v is None else v * factor for v in unscaled]
    # Arrow's own way from Decimal objects takes five times as long as its memory form written directly.
    zero = bytes(16)
    try:
        data = b"".join([zero if v is None else v.to_bytes(16, "little", signed=True) for v in unscaled])
    except OverflowError as e:
        raise DataError("a Decimal has more than 38 digits") from e
    valid = pa.array([v is not None for v in unscaled], pa.bool_())
    array = pa.Array.from_buffers(type_, len(unscaled), [valid.buffers()[1], pa.py_buffer(data)])
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as e:
        raise DataError("a Decimal has more than 38 digits") from e
    return array


def text_of_variable_decimals(array: pa.Array) -> pa.Array:
    """All digits of ``{scale, value}`` structs whose value is base64."""
    return pa.array(
        [
            None if v is None else decimal_text(binascii.a2b_base64(v["value"], strict_mode=True), v["scale"])
            for v in array.to_pylist()
        ],
        pa.string(),
    )


def decimal_text(unscaled: bytes, scale: int) -> str:
    """The decimal in plain digits, without an exponent."""
    number = _unscaled(unscaled)
    digits = tuple(map(int, str(abs(number))))
    return f"{decimal.Decimal((1 if number < 0 else 0, digits, -scale)):f}"


def find_differences(values: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    """Mask of the rows in which both columns have a value, and not the same one; all NaN are one value."""
    differs = pc.fill_null(pc.not_equal(values, others), False)
    if pa.types.is_floating(others.type):
        differs = pc.and_not(differs, pc.fill_null(pc.and_(pc.is_nan(values), pc.is_nan(others)), False))
    return differs
