"""Reads one offset range for Spark SQL, in an executor: records in the columns that compiled chains read."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connect.errors import ConnectError, RetriableError
from connect.record import RawBatch
from connect.sink import TransformingReader
from connectors.spark.executors.job import RangeJob
from connectors.spark.executors.sql_chain import SqlChain, input_types
from connectors.spark.executors.sql_rows import (
    FORM,
    READ,
    UNREAD,
    ChunkEnd,
    RangeStart,
    ReadFailure,
    control_row,
    raw_columns,
)
from connectors.spark.transforms.stored_json import Mask
from connectors.spark.zip_finders import forget_zip_finders

_CHUNK_RECORDS = 50_000
_CHUNK_BYTES = 32 << 20
_ROWS = 10_000
"""Of a batch for Spark."""
_BATCH_BYTES = 8 << 20


def read_input(job_data: bytes, topic: str, number: int) -> Iterator[pa.RecordBatch]:
    """Yields the range with this number of the pickled job. An error that may pass is raised, so that Spark repeats the task;
    another ConnectError is the last row."""
    forget_zip_finders()
    job: RangeJob = pickle.loads(job_data)
    chain = job.chains[topic]
    types = input_types(chain)
    yield control_row(RangeStart(number), types)
    try:
        yield from _read(job, chain, types, number)
    except RetriableError:
        raise
    except ConnectError as e:
        yield control_row(ReadFailure(e.message), types)


def _read(job: RangeJob, chain: SqlChain, types: pa.Schema, number: int) -> Iterator[pa.RecordBatch]:
    assert isinstance(job.reader, TransformingReader)
    builder = _InputBuilder(chain, types)
    records = size_bytes = 0
    waiting: list[RawBatch] = []
    waiting_bytes = 0
    end = None
    for batch in job.reader.undecoded().read(job.ranges[number]):
        raw, end = batch.raw, batch.end
        size = sum(len(value) for value in raw.values if value is not None)
        waiting.append(raw)
        waiting_bytes += size
        records += len(raw)
        size_bytes += size
        is_full = records >= _CHUNK_RECORDS or size_bytes >= _CHUNK_BYTES
        if is_full or waiting_bytes >= _BATCH_BYTES or sum(map(len, waiting)) >= _ROWS:
            yield from builder.build(waiting)
            waiting, waiting_bytes = [], 0
        if is_full:
            yield control_row(ChunkEnd(end, records, size_bytes), types)
            records = size_bytes = 0
            end = None
    if end is not None:
        yield from builder.build(waiting)
        yield control_row(ChunkEnd(end, records, size_bytes), types)


class _InputBuilder:
    """Builds batches of rows from raw ones."""

    def __init__(self, chain: SqlChain, types: pa.Schema) -> None:
        self._types = types
        self._keys, self._values = chain.readers()

    def build(self, batches: Sequence[RawBatch]) -> Iterator[pa.RecordBatch]:
        """One batch; none without records."""
        raw = _join(batches)
        if raw is not None:
            yield self._build(raw)

    def _build(self, raw: RawBatch) -> pa.RecordBatch:
        size = len(raw)
        payloads: list[tuple[int, bytes | None, bytes]] = []
        of_key = self._keys.payload if self._keys is not None else _no_payload
        of_value = self._values.payload
        headers = raw.headers or [None] * size
        for at, key, value, listed in zip(count(), raw.keys, raw.values, headers, strict=False):
            # Header converters may fail, or find the old key of a row.
            if value is None or listed:
                continue
            cut, cut_key = of_value(value), None if key is None else of_key(key)
            if cut is not None and (key is None or cut_key is not None):
                payloads.append((at, cut_key, cut))
        places = np.array([at for at, _, _ in payloads], np.int64)
        values = self._values.read([cut for _, _, cut in payloads])
        is_read = values.is_read
        keys, keys_read = self._read_keys([cut for _, cut, _ in payloads])
        is_read = is_read & keys_read
        raw_keys, raw_values = list(raw.keys), list(raw.values)
        for (at, cut_key, cut), is_in_columns in zip(payloads, is_read.tolist(), strict=True):
            if is_in_columns:
                raw_keys[at], raw_values[at] = cut_key, cut
        forms = np.full(size, UNREAD, np.int8)
        forms[places[is_read]] = READ
        columns = raw_columns(raw, raw_keys, raw_values)
        columns[FORM] = pa.array(forms)
        # Records with headers run row by row.
        columns["headers"] = pa.array([[]] * size, pa.list_(pa.string()))
        columns["key"] = _spread(keys, places, is_read, size)
        columns["value"] = _spread(values.array, places, is_read, size)
        return pa.record_batch([columns[field.name] for field in self._types], schema=self._types)

    def _read_keys(self, payloads: Sequence[bytes | None]) -> tuple[pa.Array, Mask]:
        """Keys in stored types, and which are read: a missing key is."""
        reader = self._keys
        if reader is None:
            return pa.nulls(len(payloads), pa.bool_()), np.ones(len(payloads), np.bool_)
        places = np.array([at for at, payload in enumerate(payloads) if payload is not None], np.int64)
        found = reader.read([payload for payload in payloads if payload is not None])
        is_read = np.ones(len(payloads), np.bool_)
        is_read[places] = found.is_read
        return _spread(found.array, places, found.is_read, len(payloads)), is_read


def _spread(array: pa.Array, places: npt.NDArray[np.int64], chosen: Mask, size: int) -> pa.Array:
    """An array of this size with the chosen values at their places, and nulls elsewhere."""
    if len(array) == size and chosen.all():
        return array
    indices = np.full(size, -1, np.int64)
    indices[places[chosen]] = np.flatnonzero(chosen)
    return array.take(pa.array(indices, mask=indices < 0))


def _no_payload(message: bytes) -> None:
    return None


def _join(batches: Sequence[RawBatch]) -> RawBatch | None:
    """The records in one batch; None if there are none."""
    rows = [batch for batch in batches if len(batch)]
    if len(rows) < 2:
        return rows[0] if rows else None
    first = rows[0]
    headers = None
    if any(batch.headers is not None for batch in rows):
        headers = [listed for batch in rows for listed in batch.headers or [None] * len(batch)]
    types = [kind for batch in rows for kind in batch.timestamp_types or []]
    return RawBatch(
        first.topic,
        first.partition,
        [offset for batch in rows for offset in batch.offsets],
        [key for batch in rows for key in batch.keys],
        [value for batch in rows for value in batch.values],
        [time for batch in rows for time in batch.timestamps],
        headers,
        types or None,
    )
