"""Segments: records as they would be in Kafka, in Arrow's file format.

Keys and values are the bytes of the worker's converters. Those of JSON with schemas are stored without their schemas
(:mod:`connect.spool.schemas`), and the texts that rows of a snapshot share, such as the source block, once per segment. What a
worker would write to Kafka is restored to the byte. Readers map the file into memory.

For a query that reads tables, keys and values can be Arrow columns instead of bytes (:mod:`connect.spool.record_columns`). A
segment has one column of structs for each topic and type of them; it is null in other rows, and ``key`` and ``value`` are null
where it is not.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect import crash_points
from connect.errors import DataError, RetriableError
from connect.spool.index import SpoolEntry, segment_path
from connect.spool.schemas import SchemaTexts, join_schemas, split_schemas

MAX_BYTES = 1 << 30
"""The keys or values of a segment are one Arrow array, which holds two gigabytes."""

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())]))
FRAME = pa.struct([("before", pa.binary()), ("after", pa.binary())])
"""The same texts around many values, which rows do not repeat."""
_STORED = pa.schema(
    [
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("key_schema", pa.int32()),
        ("value", pa.binary()),
        ("value_schema", pa.int32()),
        ("value_frame", pa.dictionary(pa.int32(), FRAME)),
        ("timestamp", pa.int64()),
        ("headers", pa.dictionary(pa.int32(), HEADERS)),
    ]
)
RECORD_COLUMNS = tuple(_STORED.names)
"""The columns of a segment without those of values in columns."""
_COLUMN = "records_"
_TOPIC = b"topic"


class RecordRun(Protocol):
    """Consecutive records of one topic, as columns (``worker.kafka.record_producer.ProducerRun``). None is a column of nulls."""

    @property
    def topic(self) -> str: ...
    @property
    def keys(self) -> Sequence[bytes | None]: ...
    @property
    def values(self) -> Sequence[bytes | None]: ...
    @property
    def partitions(self) -> Sequence[int] | None: ...
    @property
    def timestamps(self) -> Sequence[int] | None:
        """In ms since 1970; 0 means the time of writing."""

    @property
    def headers(self) -> Sequence[list[tuple[str, bytes | None]] | None] | None: ...
    @property
    def key_prefix(self) -> bytes | None:
        """If set, keys are payloads that stand between this text and ``}`` in Kafka."""

    @property
    def value_prefix(self) -> bytes | None:
        """The same for values."""

    @property
    def value_frame(self) -> tuple[bytes, bytes] | None:
        """If set, values lack these texts at their start and end, too. A value that is None has none."""

    @property
    def columns(self) -> pa.StructArray | None:
        """If set, keys and values in columns; ``keys`` and ``values`` are None."""


def build_segment(runs: Sequence[tuple[RecordRun, int]], schemas: SchemaTexts) -> pa.Table:
    """Builds a segment of runs and the time when each was written, in ms since 1970. There must be a record."""
    topics: dict[str, int] = {}
    codes = [topics.setdefault(run.topic, len(topics)) for run, _ in runs]
    counts = [len(run.values) for run, _ in runs]
    topic = pa.DictionaryArray.from_arrays(pa.array(np.repeat(codes, counts), pa.int32()), pa.array(list(topics), pa.string()))
    rows = len(topic)
    in_columns = np.repeat([run.columns is not None for run, _ in runs], counts)
    keys, key_schemas = _payloads(
        _bytes(run.keys for run, _ in runs), [run.key_prefix for run, _ in runs], counts, schemas, in_columns
    )
    values, value_schemas = _payloads(
        _bytes(run.values for run, _ in runs), [run.value_prefix for run, _ in runs], counts, schemas, in_columns
    )
    segment = pa.table(
        [
            topic,
            _partitions(runs, rows),
            keys,
            key_schemas,
            values,
            value_schemas,
            _frames([run.value_frame for run, _ in runs], counts),
            _timestamps(runs, rows),
            _headers(runs),
        ],
        schema=_STORED,
    )
    for name, column in _record_columns([run for run, _ in runs]):
        segment = segment.append_column(name, column)
    return segment


def _record_columns(runs: Sequence[RecordRun]) -> Iterator[tuple[pa.Field, pa.Array]]:
    """The keys and values that are in columns, by topic and type."""
    found = dict.fromkeys((run.topic, run.columns.type) for run in runs if run.columns is not None)
    for number, (topic, type_) in enumerate(found):
        chunks = [
            rows
            if (rows := run.columns) is not None and (run.topic, rows.type) == (topic, type_)
            else pa.nulls(len(run.values), type_)
            for run in runs
        ]
        yield pa.field(f"{_COLUMN}{number}", type_, metadata={_TOPIC: topic}), pa.concat_arrays(chunks)


def columns_of_topic(segment: pa.Schema, topic: str) -> list[str]:
    """Returns the names of a segment's columns with keys and values of a topic, each null in all other rows."""
    return [f.name for f in segment if f.name.startswith(_COLUMN) and f.metadata[_TOPIC] == topic.encode()]


def count_values(segment: pa.Table) -> int:
    """Returns the number of records with a value."""
    columns = [pc.struct_field(segment[f.name], "value") for f in segment.schema if f.name.startswith(_COLUMN)]
    return sum(len(one) - one.null_count for one in (segment["value"], *columns))


def _bytes(columns: Iterable[Sequence[bytes | None]]) -> pa.Array:
    return pa.array(list(chain.from_iterable(columns)), pa.binary())


def _payloads(
    values: pa.Array,
    prefixes: Sequence[bytes | None],
    counts: Sequence[int],
    schemas: SchemaTexts,
    in_columns: np.ndarray,
) -> tuple[pa.Array, pa.Array]:
    """Returns payloads and the IDs of their schemas; a run without a prefix has whole messages. Payloads that are in columns are
    null here."""
    if not any(prefixes):
        return split_schemas(values, schemas)
    numbers = [-1 if prefix is None else schemas.number(prefix) for prefix in prefixes]
    ids = np.repeat(np.array(numbers, np.int32), counts)
    whole = ids < 0
    if whole.any():
        cut, found = split_schemas(values.filter(pa.array(whole)), schemas)
        values = pc.replace_with_mask(values, pa.array(whole), cut)
        ids[whole] = found.fill_null(-1).to_numpy(zero_copy_only=False)
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    return values, pa.array(ids, mask=(ids < 0) | (is_null & ~in_columns))


def _frames(frames: Sequence[tuple[bytes, bytes] | None], counts: Sequence[int]) -> pa.DictionaryArray:
    known: dict[tuple[bytes, bytes], int] = {}
    codes = [-1 if frame is None else known.setdefault(frame, len(known)) for frame in frames]
    indices = np.repeat(np.array(codes, np.int32), counts)
    texts = pa.array([dict(zip(("before", "after"), frame, strict=True)) for frame in known], FRAME)
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), texts)


def _partitions(runs: Sequence[tuple[RecordRun, int]], rows: int) -> pa.Array:
    if all(run.partitions is None for run, _ in runs):
        return pa.nulls(rows, pa.int32())
    found = chain.from_iterable(
        repeat(None, len(run.values)) if run.partitions is None else (None if p < 0 else p for p in run.partitions)
        for run, _ in runs
    )
    return pa.array(list(found), pa.int32())


def _timestamps(runs: Sequence[tuple[RecordRun, int]], rows: int) -> pa.Array:
    found = chain.from_iterable(
        repeat(now, len(run.values)) if run.timestamps is None else (at or now for at in run.timestamps) for run, now in runs
    )
    return pa.array(list(found), pa.int64())


def _headers(runs: Sequence[tuple[RecordRun, int]]) -> pa.DictionaryArray:
    """Headers by identity: records of a source often share them."""
    codes: list[int] = []
    listed: dict[int, list[tuple[str, bytes | None]]] = {}
    numbers: dict[int, int] = {id(None): -1}
    for run, _ in runs:
        if run.headers is None:
            codes += [-1] * len(run.values)
            continue
        ids = list(map(id, run.headers))
        for identity, named in zip(ids, run.headers, strict=True):
            if named is not None and identity not in listed:
                numbers[identity] = len(listed)
                listed[identity] = named
        codes += map(numbers.__getitem__, ids)
    indices = np.array(codes, np.int32)
    texts = [[{"key": key, "value": value} for key, value in named] for named in listed.values()]
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), pa.array(texts, HEADERS))


def topics_of(segment: pa.Table) -> dict[str, list[int]]:
    """Returns the IDs of the schemas of values by topic."""
    found: dict[str, list[int]] = {}
    pairs = segment.select(["topic", "value_schema"]).group_by(["topic", "value_schema"], use_threads=False).aggregate([])
    for topic, number in zip(pairs["topic"].to_pylist(), pairs["value_schema"].to_pylist(), strict=True):
        found.setdefault(topic, []).extend([] if number is None else [number])
    return found


def write_segment(path: Path, segment: pa.Table) -> tuple[int, int]:
    """Writes a segment durably, except for its name. Returns its size and CRC-32. Raises OSError."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, segment.schema) as writer:
        writer.write_table(segment)
    data = sink.getvalue()
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        crash_points.point("spool.written")
        os.fsync(file.fileno())
    return data.size, zlib.crc32(data)


def read_segment(directory: Path, entry: SpoolEntry) -> pa.Table:
    """Reads a segment. Raises DataError if it is damaged, and RetriableError if this process does not find it."""
    path = segment_path(directory, entry.segment)
    try:
        with pa.memory_map(str(path)) as file:
            data = file.read_buffer()
    except FileNotFoundError as e:
        raise RetriableError(
            f"the spool's segment {path} does not exist on host {os.uname().nodename}. If executors run on other hosts, "
            "spool.location must be a directory that they all reach. If the file was deleted, delete the whole spool to read the "
            "source again"
        ) from e
    if data.size != entry.size_bytes or zlib.crc32(data) != entry.crc:
        raise DataError(f"the spool's segment {path} is damaged. Restore it, or delete the whole spool to read the source again")
    return pa.ipc.open_file(data).read_all()


def restore_bytes(rows: pa.Table, column: str, schemas: Mapping[str, str]) -> pa.Array:
    """Returns the keys or values of rows as they would be in Kafka. Raises DataError if rows are in columns."""
    if any(rows[f.name].null_count < rows.num_rows for f in rows.schema if f.name.startswith(_COLUMN)):
        raise DataError(
            "a query that reads a table has filled the spool, which therefore has rows instead of records. Read it with the "
            "option table, or delete the spool to read the source again as records"
        )
    payloads = _one(rows[column])
    if column == "value":
        payloads = join_frames(payloads, _one(rows["value_frame"]))
    return join_schemas(payloads, _one(rows[f"{column}_schema"]), schemas)


def restore_headers(rows: pa.Table) -> pa.Array:
    """Returns the headers of rows, a list for each."""
    headers = _one(rows["headers"])
    return headers.dictionary.take(headers.indices)


def join_frames(values: pa.Array, frames: pa.DictionaryArray) -> pa.Array:
    """Returns payloads with the texts that their rows share."""
    if frames.null_count == len(frames):
        return values
    before, after = (pc.fill_null(texts.take(frames.indices), b"") for texts in frames.dictionary.flatten())
    return pc.binary_join_element_wise(before, values, after, b"")


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
