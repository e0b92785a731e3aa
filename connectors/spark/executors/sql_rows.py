"""The rows between the process that reads records, Spark SQL, and the process that writes them.

Beside the columns that compiled chains read, each row has its record as it is in Kafka: for records that run row by row, and for
the reports of errant ones. A row of another form begins a range or ends a chunk of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.record import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, RawBatch, TopicPartition
from connect.sink import RawRecord
from connectors.spark.transforms.projection import BY_ROW

FORM = "form"
READ, UNREAD, CONTROL = 0, 1, 2
"""Forms: a record in columns, whose raw key and value are payloads; a record that only the converter reads; a control row."""
RAW_KEY, RAW_VALUE, RAW_HEADERS, TIMESTAMP_TYPE = "raw_key", "raw_value", "raw_headers", "timestamp_type"
_TYPES = (NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME)
_HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
_CARRIED = (
    pa.field(FORM, pa.int8()),
    pa.field(TIMESTAMP_TYPE, pa.int8()),
    pa.field(RAW_KEY, pa.binary()),
    pa.field(RAW_VALUE, pa.binary()),
    pa.field(RAW_HEADERS, _HEADERS),
)
INPUT = (
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.int64()),
    pa.field("headers", pa.list_(pa.string())),
    *_CARRIED,
)
"""The columns of all records; those of keys and values depend on their schemas."""


def carried_columns() -> tuple[str, ...]:
    """The columns that pass through the SQL unchanged, beside offset and timestamp."""
    return tuple(field.name for field in _CARRIED)


@dataclass(frozen=True, slots=True)
class RangeStart:
    """The rows that follow are of the job's range with this number."""

    number: int


@dataclass(frozen=True, slots=True)
class ChunkEnd:
    """All records below the offset ``end`` have been read: ``records`` with ``size_bytes`` of values since the last chunk."""

    end: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """Reading the range has failed for good."""

    message: str


Control = RangeStart | ChunkEnd | ReadFailure


def control_row(control: Control, types: pa.Schema) -> pa.RecordBatch:
    """A batch of one row for the reader's next step."""
    columns = [pa.nulls(1, field.type) for field in types]
    columns[types.get_field_index(FORM)] = pa.array([CONTROL], pa.int8())
    columns[types.get_field_index(RAW_VALUE)] = pa.array([pickle.dumps(control)], pa.binary())
    return pa.record_batch(columns, schema=types)


def split_at_controls(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch | Control]:
    """The rows and the control rows of a batch, in order."""
    start = 0
    for at in np.flatnonzero(batch.column(FORM).to_numpy() == CONTROL).tolist():
        if at > start:
            yield batch.slice(start, at - start)
        yield pickle.loads(batch.column(RAW_VALUE)[at].as_py())
        start = at + 1
    if start < batch.num_rows:
        yield batch.slice(start)


def raw_columns(raw: RawBatch, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> dict[str, pa.Array]:
    """The columns of INPUT without FORM and ``headers``, with these raw keys and values."""
    count = len(raw)
    types = raw.timestamp_types or [NO_TIMESTAMP_TYPE] * count
    known = [time if kind != NO_TIMESTAMP_TYPE else None for time, kind in zip(raw.timestamps, types, strict=True)]
    headers: pa.Array = pa.nulls(count, _HEADERS)
    if raw.headers is not None:
        headers = pa.array([None if h is None else [{"name": n, "value": v} for n, v in h] for h in raw.headers], _HEADERS)
    return {
        "topic": pa.repeat(pa.scalar(raw.topic), count),
        "partition": pa.repeat(pa.scalar(raw.partition, pa.int32()), count),
        "offset": pa.array(raw.offsets, pa.int64()),
        "timestamp": pa.array(known, pa.int64()),
        TIMESTAMP_TYPE: pa.array([_TYPES.index(kind) for kind in types], pa.int8()),
        RAW_KEY: pa.array(keys, pa.binary()),
        RAW_VALUE: pa.array(values, pa.binary()),
        RAW_HEADERS: headers,
    }


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """Records of one partition after the SQL, in order of their offsets. ``prefixes`` are the bytes before payloads of keys and
    values."""

    partition: TopicPartition
    rows: pa.Table
    prefixes: tuple[bytes, bytes]

    def run_by_row(self) -> pa.Array:
        """Mask of the records that SQL has left."""
        return pc.equal(self.rows["outcome"], BY_ROW)

    def raw_batch(self, chosen: pa.Table) -> RawBatch:
        """Some of the records as they are in Kafka."""
        is_read = [form == READ for form in chosen[FORM].to_pylist()]
        of_keys, of_values = self.prefixes
        listed = chosen[RAW_HEADERS].to_pylist()
        headers = [None if one is None else [(h["name"], h["value"]) for h in one] for one in listed]
        return RawBatch(
            *self.partition,
            chosen["offset"].to_pylist(),
            _messages(of_keys, chosen[RAW_KEY].to_pylist(), is_read),
            _messages(of_values, chosen[RAW_VALUE].to_pylist(), is_read),
            [-1 if time is None else time for time in chosen["timestamp"].to_pylist()],
            headers if any(headers) else None,
            [_TYPES[kind] for kind in chosen[TIMESTAMP_TYPE].to_pylist()],
        )

    def find_record(self, offset: int) -> RawRecord | None:
        """The record at an offset as it is in Kafka; None if it is not one of these."""
        at = pc.index(self.rows["offset"], offset).as_py()
        if at < 0:
            return None
        raw = self.raw_batch(self.rows.slice(at, 1))
        headers = (raw.headers[0] if raw.headers is not None else None) or ()
        timestamp = raw.timestamps[0] if raw.timestamps[0] >= 0 else None
        return RawRecord(*self.partition, offset, raw.keys[0], raw.values[0], timestamp, headers)


def _messages(prefix: bytes, texts: Sequence[bytes | None], are_payloads: Sequence[bool]) -> list[bytes | None]:
    return [
        prefix + text + b"}" if is_payload and text is not None else text
        for text, is_payload in zip(texts, are_payloads, strict=True)
    ]
