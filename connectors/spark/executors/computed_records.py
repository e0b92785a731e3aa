"""Decodes the records of one offset range that Spark SQL has transformed, and runs row by row those that it has left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from connect.record import SinkRecord
from connect.sink import FailedRead, RangeDecoder, RangeReader, TransformingReader
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import OFFSET_ID, SEQUENCE, ChangeBatch
from connectors.spark.decode.column_decoder import ColumnRecords
from connectors.spark.decode.tolerant_decoding import decode_records_tolerantly
from connectors.spark.decode.topic_decoder import DECODE_ERRORS
from connectors.spark.delivery.topic_decoders import TopicDecoders
from connectors.spark.executors.sql_chain import Prefixes, SqlChain, find_prefixes
from connectors.spark.executors.sql_rows import ComputedRows
from connectors.spark.transforms.projection import DatumColumn

_SMALL_GROUP = 1_000
"""Records that run row by row together, if one of them cannot be decoded as a column."""
_BY_ROW = 2_000


@dataclass(frozen=True, slots=True)
class ComputedBatch:
    """Rows after the SQL up to the offset ``end``, which were ``records`` with ``size_bytes`` of values: the SQL has dropped some
    of them."""

    rows: ComputedRows
    end: int
    records: int
    size_bytes: int


@dataclass(slots=True)
class DecodedRecords:
    """``topics`` has by topic the changes, in order of their first record, and the records that cannot be decoded. ``by_row`` is
    the number of records that SQL did not transform, and ``prefixes`` are those of the last of them."""

    topics: dict[str, tuple[list[ChangeBatch], list[BadRecord]]]
    failures: Sequence[FailedRead] = ()
    by_row: int = 0
    prefixes: Prefixes | None = None
    ends_range: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """Records of one topic with the same columns of keys and values, which are None if all are null."""

    topic: str
    key: DatumColumn | None
    value: DatumColumn | None
    rows: pa.Table


class ComputedDecoder:
    """Decodes the rows of one range. ``first`` is the range's first offset: the sequence of a change is its distance to it."""

    def __init__(self, reader: RangeReader, chain: SqlChain, decoders: TopicDecoders, first: int) -> None:
        assert isinstance(reader, TransformingReader)
        self._reader = reader
        self._chain = chain
        self._decoders = decoders
        self._first = first
        self._by_row: RangeDecoder | None = None

    def decode(self, computed: ComputedRows) -> DecodedRecords:
        """Decodes records, in order of their offsets."""
        origin = computed.partition.topic
        found = DecodedRecords({})
        left_mask = computed.run_by_row()
        left = [computed.rows.filter(left_mask)]
        for group in _groups(self._chain, computed.rows.filter(pc.invert(left_mask))):
            changes, failed = self._decode_group(origin, computed.partition.partition, group)
            found.topics.setdefault(group.topic, ([], []))[0].extend(changes)
            left += failed
        whole = pa.concat_tables(left)
        if whole.num_rows:
            self._run_by_row(computed, whole.sort_by("offset"), found)
        for changes, _ in found.topics.values():
            changes[:] = sorted(map(self._in_sequence, changes), key=_first_sequence)
        return found

    def _decode_group(self, origin: str, partition: int, group: _Group) -> tuple[list[ChangeBatch], list[pa.Table]]:
        """The changes, and records that cannot be decoded as columns, or only some of them."""
        decoder = self._decoders.get(origin, group.topic)
        try:
            return [decoder.decode_columns(_column_records(partition, group))], []
        except DECODE_ERRORS:
            if group.rows.num_rows <= _SMALL_GROUP:
                return [], [group.rows]
        changes: list[ChangeBatch] = []
        failed: list[pa.Table] = []
        for start in range(0, group.rows.num_rows, _SMALL_GROUP):
            part = self._decode_group(origin, partition, replace(group, rows=group.rows.slice(start, _SMALL_GROUP)))
            changes += part[0]
            failed += part[1]
        return changes, failed

    def _run_by_row(self, computed: ComputedRows, rows: pa.Table, found: DecodedRecords) -> None:
        if self._by_row is None:
            self._by_row = self._reader.decoder()
        found.by_row = rows.num_rows
        # As many together as a reader converts and transforms.
        starts = [*range(0, rows.num_rows, _BY_ROW), rows.num_rows]
        for start, end in pairwise(starts):
            raw = computed.raw_batch(rows.slice(start, end - start))
            found.prefixes = find_prefixes(raw.keys, raw.values) or found.prefixes
            batch = self._by_row.decode(raw)
            found.failures = [*found.failures, *batch.failures]
            by_topic: dict[str, list[SinkRecord]] = {}
            for record in batch.records or ():
                by_topic.setdefault(record.topic, []).append(record)
            for topic, records in by_topic.items():
                decoder = self._decoders.get(computed.partition.topic, topic)
                changes, bad_records = decode_records_tolerantly(decoder, records, 0)
                of_topic = found.topics.setdefault(topic, ([], []))
                of_topic[0].extend(changes)
                of_topic[1].extend(bad_records)
            if batch.ends_range:
                found.ends_range = True
                return

    def _in_sequence(self, changes: ChangeBatch) -> ChangeBatch:
        sequences = pc.subtract(changes.meta[OFFSET_ID], self._first)
        return replace(changes, meta=changes.meta.set_column(changes.meta.column_names.index(SEQUENCE), SEQUENCE, sequences))

    def close(self) -> None:
        """Closes the converters and transformations."""
        if self._by_row is not None:
            self._by_row.close()


def _first_sequence(changes: ChangeBatch) -> int:
    return int(changes.meta[SEQUENCE][0].as_py())


def _groups(chain: SqlChain, rows: pa.Table) -> Iterator[_Group]:
    """Groups records by topic and columns, and those without a value apart."""
    # The same column may have several schemas: a chain can change only the schema.
    by_columns: dict[tuple[str | None, DatumColumn | None, DatumColumn | None], list[int]] = {}
    for number in pc.unique(rows["outcome"]).to_pylist():
        outcome = chain.projection.outcomes[number]
        key, value = (None if c is None or c.schema is None else c for c in (outcome.key, outcome.value))
        by_columns.setdefault((outcome.topic, key, value), []).append(number)
    for (topic, key, value), numbers in by_columns.items():
        chosen = _select(rows, pc.is_in(rows["outcome"], pa.array(numbers, rows["outcome"].type)))
        topics: Mapping[str, pa.Table] = {topic: chosen} if topic is not None else _by_topic(chosen)
        for name, of_topic in topics.items():
            if value is None:
                yield _Group(name, key, None, of_topic)
                continue
            is_null = pc.is_null(of_topic[value.name])
            yield from (
                _Group(name, key, one, part)
                for one, part in ((value, _select(of_topic, pc.invert(is_null))), (None, _select(of_topic, is_null)))
                if part.num_rows
            )


def _select(rows: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    return rows if pc.all(mask).as_py() else rows.filter(mask)


def _by_topic(rows: pa.Table) -> dict[str, pa.Table]:
    return {name: _select(rows, pc.equal(rows["topic"], name)) for name in pc.unique(rows["topic"]).to_pylist()}


def _column_records(partition: int, group: _Group) -> ColumnRecords:
    key, value = group.key, group.value
    return ColumnRecords(
        partition,
        _array(group.rows["offset"]),
        None if key is None else key.schema,
        None if key is None else _array(group.rows[key.name]),
        None if value is None else value.schema,
        None if value is None else _array(group.rows[value.name]),
    )


def _array(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece of its own: conversions expect arrays that begin at their first value."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
