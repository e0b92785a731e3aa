"""Pairs the deleted and inserted rows of a version by key: a row that was replaced becomes one update.

Memory is bounded by ``max_rows`` deleted rows, whatever the size of the version: a version that deletes more is read in several
passes, each for those keys whose number falls into one bucket. Within a bucket come the deletes, in the order of their rows, and
then the inserts and updates, in the order of theirs. So the last event of a key is that of the row that exists. The order depends
on the rows, their order, the key columns, and ``max_rows``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.source.table_feed import CREATE_CODE, UPDATE_CODE, FeedChanges, deleted
from connectors.spark.tables.files.file_columns import FileColumns
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.key_encoding import encode_keys
from connectors.spark.tables.files.key_index import EncodedKeys, Ints64, Mask
from connectors.spark.tables.files.live_files import LiveFiles

_MIX = np.uint64(0x9E3779B97F4A7C15)
_NO_ROW = -1


class RowSource(Protocol):
    """Rows that can be read again, with the same result."""

    def count(self) -> int:
        """The number of rows, or more."""
        ...

    def read(self, columns: Mapping[str, pa.DataType] | None = None) -> Iterator[pa.Table]:
        """Yields the rows in order; only some columns if they are given."""
        ...


@dataclass(frozen=True, slots=True)
class FileRowSets:
    """Rows of several files, in order (:class:`RowSource`)."""

    files: LiveFiles
    sets: Sequence[FileRows]
    choose: Callable[[Mapping[str, pa.DataType] | None], FileColumns]
    """How some columns are read, or all."""
    batch_rows: int

    def count(self) -> int:
        return sum(one.count(self.files) for one in self.sets)

    def read(self, columns: Mapping[str, pa.DataType] | None = None) -> Iterator[pa.Table]:
        wanted = self.choose(columns)
        for one in self.sets:
            yield from one.read(self.files, wanted, self.batch_rows)


def pair_rows(
    deletes: RowSource, inserts: RowSource, keys: Mapping[str, pa.DataType], max_rows: int, batch_rows: int
) -> Iterator[FeedChanges | None]:
    """Yields the changes of a version, and None in between to return to the caller often. Rows whose key has a null are not
    paired. A pair of equal rows is no change."""
    buckets = max(1, -(-deletes.count() // max_rows))
    names = list(keys)
    for bucket in range(buckets):
        parts = []
        for rows in deletes.read():
            parts.append(rows.filter(pa.array(_in_bucket(rows, names, bucket, buckets))) if buckets > 1 else rows)
            yield None
        before = pa.concat_tables(parts).combine_chunks() if parts else None
        index = _KeyPlaces(before, names)
        remaining = np.ones(len(index), bool)
        finder = index.finder()
        if before is not None and before.num_rows:
            for rows in inserts.read(keys):
                found = finder.find(rows if buckets == 1 else _bucket_rows(rows, names, bucket, buckets))
                remaining[found[found != _NO_ROW]] = False
                yield None
            gone = before.filter(pa.array(remaining))
            for start in range(0, gone.num_rows, batch_rows):
                yield deleted(gone.slice(start, batch_rows))
        finder = index.finder()
        for rows in inserts.read():
            if buckets > 1:
                rows = _bucket_rows(rows, names, bucket, buckets)
            yield _replacements(before, rows, finder.find(rows)) if rows.num_rows else None


def _bucket_rows(rows: pa.Table, keys: Sequence[str], bucket: int, buckets: int) -> pa.Table:
    return rows.filter(pa.array(_in_bucket(rows, keys, bucket, buckets)))


def _in_bucket(rows: pa.Table, keys: Sequence[str], bucket: int, buckets: int) -> Mask:
    encoded, _ = encode_keys([rows[name] for name in keys])
    mixed = (encoded.high ^ (encoded.high >> np.uint64(32))) * _MIX
    mask: Mask = (mixed >> np.uint64(33)) % np.uint64(buckets) == np.uint64(bucket)
    return mask


class _KeyPlaces:
    """Where the rows of keys are."""

    def __init__(self, rows: pa.Table | None, names: Sequence[str]) -> None:
        self._names = names
        self._count = 0 if rows is None else rows.num_rows
        self._places: dict[Any, int] = {}
        self._repeated: dict[Any, list[int]] = {}
        if rows is None or not rows.num_rows:
            return
        numbers, valid = _key_numbers(rows, names)
        places = self._places
        for place, number in enumerate(numbers):
            if not valid[place]:
                continue
            if number in places:
                self._repeated.setdefault(number, [places[number]]).append(place)
            else:
                places[number] = place

    def __len__(self) -> int:
        return self._count

    def finder(self) -> _KeyFinder:
        return _KeyFinder(self._names, dict(self._places), {key: deque(found) for key, found in self._repeated.items()})


class _KeyFinder:
    """Finds each row once: the second search for a key finds its second row."""

    def __init__(self, names: Sequence[str], places: dict[Any, int], repeated: dict[Any, deque[int]]) -> None:
        self._names = names
        self._places = places
        self._repeated = repeated

    def find(self, rows: pa.Table) -> Ints64:
        """The place of each row's key, or -1."""
        if not self._places or not rows.num_rows:
            return np.full(rows.num_rows, _NO_ROW, np.int64)
        numbers, valid = _key_numbers(rows, self._names)
        pop, repeated = self._places.pop, self._repeated
        if repeated:
            found = [self._next(number) for number in numbers]
        else:
            found = [pop(number, _NO_ROW) for number in numbers]
        return np.where(valid, np.array(found, np.int64), _NO_ROW)

    def _next(self, number: Any) -> int:
        places = self._repeated.get(number)
        if places is None:
            return self._places.pop(number, _NO_ROW)
        return places.popleft() if places else _NO_ROW


def _key_numbers(rows: pa.Table, names: Sequence[str]) -> tuple[Sequence[Any], Mask]:
    encoded, valid = encode_keys([rows[name] for name in names])
    return _as_objects(encoded, valid), valid


def _as_objects(encoded: EncodedKeys, valid: Mask) -> Sequence[Any]:
    high = encoded.high.tolist()
    numbers: list[Any] = high if encoded.low is None else list(zip(high, encoded.low.tolist(), strict=True))
    if not valid.all():  # the numbers of nulls are those of other values
        numbers = [number if ok else None for number, ok in zip(numbers, valid.tolist(), strict=True)]
    return numbers


def _replacements(before: pa.Table | None, rows: pa.Table, places: Ints64) -> FeedChanges | None:
    """Updates of the rows at these places, and inserts of those without one."""
    is_new = places == _NO_ROW
    if before is None or is_new.all():
        return FeedChanges(np.full(rows.num_rows, CREATE_CODE, np.uint8), None, rows)
    old = before.take(pa.array(places, mask=is_new))
    changed = is_new | ~rows_equal(old, rows)
    operations = np.where(is_new, CREATE_CODE, UPDATE_CODE).astype(np.uint8)
    if changed.all():
        return FeedChanges(operations, old, rows)
    if not changed.any():
        return None
    kept = pa.array(changed)
    return FeedChanges(operations[changed], old.filter(kept), rows.filter(kept))


def rows_equal(left: pa.Table, right: pa.Table) -> Mask:
    """Which rows of two tables with the same columns are equal. Also in nested values, nulls are equal to each other, so are
    equal NaNs, 0.0 differs from -0.0, and maps have an order."""
    equal = np.ones(left.num_rows, bool)
    for name in left.column_names:
        equal &= _values_equal(as_array(left[name]), as_array(right[name]))
    return equal


def _values_equal(left: pa.Array, right: pa.Array) -> Mask:
    # Not as Python's values: those end with the year 9999, and 0.0 equals -0.0 there.
    type_ = left.type
    if not pa.types.is_nested(type_):
        return _leaves_equal(left, right)
    valid = _mask(pc.and_(left.is_valid(), right.is_valid()))
    equal = _mask(pc.and_(left.is_null(), right.is_null()))
    if pa.types.is_struct(type_):
        members = valid
        for place in range(type_.num_fields):
            members = members & _values_equal(left.field(place), right.field(place))
        return equal | members
    places = np.flatnonzero(valid & (np.diff(left.offsets) == np.diff(right.offsets)))
    rows = pa.array(places, pa.int64())
    (parts, offsets), (others, _) = _elements(left.take(rows)), _elements(right.take(rows))
    same = np.ones(offsets[-1], bool)
    for part, other in zip(parts, others, strict=True):
        same &= _values_equal(part, other)
    differences = np.concatenate(([0], np.cumsum(~same)))[offsets]
    equal[places[differences[1:] == differences[:-1]]] = True
    return equal


def _elements(lists: pa.Array) -> tuple[Sequence[pa.Array], Ints64]:
    """The elements of all lists without nulls, of maps keys and items, and where those of each list begin and end."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    first, count = offsets[0], offsets[-1] - offsets[0]
    parts = (lists.keys, lists.items) if pa.types.is_map(lists.type) else (lists.values,)
    return [part.slice(first, count) for part in parts], offsets - first


def _leaves_equal(left: pa.Array, right: pa.Array) -> Mask:
    if pa.types.is_floating(left.type):
        bits = pa.int32() if pa.types.is_float32(left.type) else pa.int64()
        left, right = left.view(bits), right.view(bits)
    same = pc.fill_null(pc.equal(left, right), False)
    if left.null_count or right.null_count:
        same = pc.or_(same, pc.and_(left.is_null(), right.is_null()))
    return _mask(same)


def _mask(array: pa.Array) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask
