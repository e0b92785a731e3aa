"""Finds numbers in JSON text that a floating-point column would change, at a small fraction of the cost of parsing.

Every decimal number of up to 15 digits (6 for a 32-bit float) keeps its digits as a double. Longer runs of digits are found by
looking at every eighth (fourth) byte of the text; only those that follow the name of a floating-point column are compared with
the text of their double.
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.number_text import Number, exact_double, exact_float

PADDING = 32
"""The text must begin and end with this many blanks, so that words can be read around every number."""
_WIDTH = 24
_TINY = 1e-290
"""Smaller doubles may have lost digits of a short number, which then has an exponent."""
_WINDOW = 1 << 20
"""Size of text to look at together: its temporary arrays stay in the processor's caches."""
_ENDS = np.isin(np.arange(256), np.frombuffer(b",]} \t\r\n", np.uint8))
_BLANKS = np.isin(np.arange(256), np.frombuffer(b" \t\r\n", np.uint8))
_LISTED = np.isin(np.arange(256), np.frombuffer(b"[,", np.uint8))
_EXPONENT_STARTS = np.isin(np.arange(256), np.frombuffer(b"+-0123456789", np.uint8))
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?=[,\]}\s])")
_MULTIPLIER = np.uint64(0x0102040810204080)
_BYTE, _LAST = np.uint64(8), np.uint64(56)
# Number of digits directly before a position, from one bit per byte of the word that ends there.
_DIGITS_BEFORE = np.array([next((n for n in range(8) if not mask >> (7 - n) & 1), 8) for mask in range(256)], np.int64)

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Exact = Callable[[Number], float | None]


@dataclass(slots=True)
class _Width:
    """The floating-point columns of one width: names of fields, and whether there are lists."""

    stride: int
    names: set[str] = field(default_factory=set)
    has_lists: bool = False

    def __bool__(self) -> bool:
        return bool(self.names) or self.has_lists


@lru_cache(maxsize=256)
def _widths(types: pa.Schema) -> tuple[_Width, _Width]:
    doubles, floats = _Width(8), _Width(4)

    def visit(name: str, type_: pa.DataType, listed: bool) -> None:
        if pa.types.is_struct(type_):
            for member in type_:
                visit(member.name, member.type, False)
        elif pa.types.is_list(type_):
            visit(name, type_.value_type, True)
        elif pa.types.is_float64(type_) or pa.types.is_float32(type_):
            width = doubles if pa.types.is_float64(type_) else floats
            width.has_lists = width.has_lists or listed
            if not listed:
                width.names.add(name)

    for member in types:
        visit(member.name, member.type, False)
    return doubles, floats


def changes_number(data: bytes, table: pa.Table) -> bool:
    """Whether a floating-point column of the table, parsed from this text, might have changed a number.

    Also true for a few texts of unusual form; whoever reads value by value decides.
    """
    doubles, floats = _widths(table.schema)
    if doubles and _changes_long_number(data, doubles, exact_double):
        return True
    if floats and (_changes_long_number(data, floats, exact_float) or _changes_exponent(data, exact_float, negative=False)):
        return True
    if not doubles:
        return False
    # A number beyond the range without an exponent is a long one.
    found = [column for top in table.columns for column in _doubles(top)]
    if any(pc.any(pc.is_inf(column)).as_py() for column in found):
        return _changes_exponent(data, exact_double, negative=False)
    is_tiny = any(pc.any(pc.less(pc.abs(column), _TINY)).as_py() for column in found)
    return is_tiny and _changes_exponent(data, exact_double, negative=True)


def _doubles(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    type_ = column.type
    if pa.types.is_struct(type_):
        for at in range(type_.num_fields):
            yield from _doubles(pc.struct_field(column, [at]))
    elif pa.types.is_list(type_):
        yield from _doubles(pc.list_flatten(column))
    elif pa.types.is_float64(type_):
        yield column


def _is_numeric(text: Bytes) -> npt.NDArray[np.bool_]:
    """Which bytes are digits, points, or slashes."""
    return (text - np.uint8(46)) < np.uint8(12)


def _words(data: bytes) -> npt.NDArray[np.uint64]:
    """The eight bytes at every position."""
    return np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))


def _changes_long_number(data: bytes, width: _Width, exact: Exact) -> bool:
    # Names may be written with escapes.
    any_name = any(map(_is_escaped, width.names)) or (b"\\" in data and b"\\u00" in data)
    for begin in range(0, len(data), _WINDOW):
        starts = _named(data, _run_starts(data, begin, width.stride), width, any_name)
        if len(starts):
            unusual = _without_shortest(data, starts, exact is exact_float)
            if any(_changes_number_at(data, at, exact) for at in unusual):
                return True
    return False


def _run_starts(data: bytes, begin: int, stride: int) -> Positions:
    """Where runs of digits begin that are at least two strides long and found in the window."""
    every = np.frombuffer(data, np.uint64 if stride == 8 else np.uint32, len(data) // stride)
    first = begin // stride
    hit = _is_numeric(every[first : first + _WINDOW // stride + 1].astype(np.uint8))
    at = (np.flatnonzero(hit[:-1] & hit[1:]) + first) * stride
    numeric = _is_numeric(_words(data)[at - 8].view(np.uint8)).view(np.uint64)
    before = _DIGITS_BEFORE[(numeric * _MULTIPLIER >> _LAST).astype(np.uint8)]
    is_first = before < stride  # otherwise the run was found a stride earlier
    starts: Positions = at[is_first] - before[is_first]
    return starts


def _named(data: bytes, starts: Positions, width: _Width, any_name: bool) -> Positions:
    """Those of the runs that are numbers of floating-point columns, or may be."""
    word = _words(data)[starts - 8]
    known = 8
    before = (word >> _LAST).astype(np.uint8)
    is_negative = before == ord("-")
    for skipped in (is_negative, _BLANKS[before]):
        if skipped.any():
            word = np.where(skipped, word << _BYTE, word)
            known -= 1
    if known < 8:
        before = (word >> _LAST).astype(np.uint8)
    found = _BLANKS[before]
    if width.has_lists:
        found |= _LISTED[before]
    if any_name:
        found |= before == ord(":")
    for name in width.names:
        suffix = f'"{name}":'.encode()[-known:]
        found |= word >> np.uint64(8 * (8 - len(suffix))) == np.uint64(int.from_bytes(suffix, "little"))
    named: Positions = starts[found] - is_negative[found]
    return named


def _is_escaped(name: str) -> bool:
    return not name.isascii() or json.dumps(name) != f'"{name}"'


def _without_shortest(data: bytes, starts: Positions, is_float: bool) -> list[int]:
    """Those of the numbers that are not the usual, shortest text of their value, with a decimal point."""
    words = _words(data)
    text = np.empty((len(starts), 3), np.uint64)
    begin = starts + (np.frombuffer(data, np.uint8)[starts] == ord("-"))
    for column in range(3):
        text[:, column] = words[begin + 8 * column]
    chars = text.view(np.uint8)
    ends = _is_numeric(chars).argmin(axis=1)
    rows = np.arange(len(chars))
    usual = _ENDS[chars[rows, ends]]
    unusual: list[int] = starts[~usual].tolist()
    if unusual:
        starts, chars, ends = starts[usual], chars[usual], ends[usual]
        rows = rows[: len(chars)]
    if not len(chars):
        return unusual
    chars[rows, ends] = ord(",")
    joined = b"[" + chars[np.arange(_WIDTH) <= ends[:, None]].tobytes()[:-1] + b"]"
    try:
        values = orjson.loads(joined)
    except ValueError:
        return [*unusual, *starts.tolist()]
    written = orjson.dumps(values)
    if not is_float and written == joined and joined.count(b".") == len(chars):
        return unusual
    given = joined[1:-1].decode().split(",")
    if is_float:
        shortest = pa.array(np.array(values, np.float32)).cast(pa.string()).to_pylist()
    else:
        shortest = written[1:-1].decode().split(",")
    pairs = zip(starts.tolist(), given, shortest, strict=True)
    return [*unusual, *(at for at, a, b in pairs if a != b or "." not in a)]


def _changes_exponent(data: bytes, exact: Exact, *, negative: bool) -> bool:
    """Whether a number with an exponent, or with a negative one, changes."""
    text = np.frombuffer(data, np.uint8)
    for begin in range(PADDING, len(data) - PADDING, _WINDOW):
        window = text[begin : min(begin + _WINDOW, len(data) - PADDING)]
        if negative:  # a sign is rarer than the letter
            at = np.flatnonzero(window == ord("-")) + (begin - 1)
        else:
            at = np.flatnonzero((window | np.uint8(32)) == ord("e")) + begin
        at = at[((text[at] | np.uint8(32)) == ord("e")) & _is_numeric(text[at - 1]) & _EXPONENT_STARTS[text[at + 1]]]
        if any(_changes_number_at(data, start, exact) for start in _number_starts(data, at)):
            return True
    return False


def _number_starts(data: bytes, exponents: Positions) -> Iterator[int]:
    for at in exponents.tolist():
        start = at
        while data[start - 1] in b"0123456789.":
            start -= 1
        start -= data[start - 1] == ord("-")
        if data[start - 1] in b":[, \t\r\n":
            yield start


def _changes_number_at(data: bytes, start: int, exact: Exact) -> bool:
    found = _NUMBER.match(data, start)
    if found is None:
        return False  # not a number but part of a string
    try:
        return exact(decimal.Decimal(found.group().decode())) is None
    except decimal.InvalidOperation:  # the exponent is too large
        return True
