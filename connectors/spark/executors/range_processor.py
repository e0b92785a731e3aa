"""Reads, decodes, and writes one offset range in an executor, with the code of the worker."""

from __future__ import annotations

import contextlib
import pickle
import socket
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConnectError, DataError, RetriableError
from connect.record import RawBatch
from connect.sink import FailedRead, OffsetRange, RangeBatch, RawRecord
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import OLD_KEY, ChangeBatch
from connectors.spark.decode.change_batch import POSITION as SOURCE_POSITION
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.tolerant_decoding import DecodedTopic, decode_raw_tolerantly, decode_renamed
from connectors.spark.delivery.errant_records import record_at
from connectors.spark.delivery.table_router import TableRouter
from connectors.spark.delivery.topic_decoders import TopicDecoders
from connectors.spark.executors.job import (
    FILE,
    POSITION,
    ROW,
    NeededColumns,
    PartResult,
    RangeFailure,
    RangeJob,
    StagedPart,
    TablePart,
    UnknownTable,
    WrittenPart,
    key_names,
    pack_table,
)
from connectors.spark.plan import projection
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.rows import PreparedRows, RowPreparation
from connectors.spark.tables.executor_files import Entry, FileTarget, NewFile, WriteTarget
from connectors.spark.tables.planned_rows import latest_rows, must_evolve, rows_to_append, split_bad_records
from connectors.spark.zip_finders import forget_zip_finders

_DECODE_RECORDS = 50_000
_DECODE_BYTES = 32 << 20
_FEW_RECORDS = 5_000
_PART_RECORDS = 250_000
_PART_BYTES = 64 << 20
"""Of a part, undecoded: its rows are in memory together, and become a file."""


class RangeProcessor:
    """Processes one range. Used once."""

    def __init__(self, job: RangeJob, offset_range: OffsetRange) -> None:
        self._job = job
        self._range = offset_range
        self._router = TableRouter(job.config)
        self._router.learn(job.knowledge)
        self._decoders = TopicDecoders(job.config, *job.reader.converters(), self._known_columns)
        self._decoders.learn(job.contents)
        self._sequence = 0
        self._written: list[tuple[FileTarget, list[str]]] = []
        self._checked: set[str] = set()
        self._part = _Part(offset_range.first)

    def _known_columns(self, topic: str) -> tuple[str, Columns] | None:
        tables = self._router.current_tables_of(topic)
        name = next(iter(tables)) if len(tables) == 1 else None
        target = None if name is None else self._job.targets.get(name)
        return None if name is None or target is None or target.columns is None else (name, target.columns)

    def run(self) -> Iterator[PartResult]:
        """Reads the range and yields the parts in order. When it fails or is closed early, it deletes the files that it wrote."""
        is_done = False
        try:
            end = self._range.first
            for batch in self._job.reader.read(self._range):
                self._add(batch)
                end = batch.end
                if self._part.records >= _PART_RECORDS or self._part.size_bytes >= _PART_BYTES:
                    yield self._finish(end)
            if self._part.first < end:
                yield self._finish(end)
            is_done = True
        finally:
            if not is_done:
                for target, paths in self._written:
                    with contextlib.suppress(Exception):
                        target.delete(paths)

    # -- reading

    def _add(self, batch: RangeBatch) -> None:
        part = self._part
        size = sum(len(value) for value in batch.raw.values if value is not None)
        part.records += len(batch.raw)
        part.size_bytes += size
        part.failed_reads += batch.failures
        if len(batch.raw):
            part.raw.append(batch.raw)
        if batch.records is None:
            part.undecoded.append(batch.raw)
            part.undecoded_bytes += size
            if sum(map(len, part.undecoded)) >= _DECODE_RECORDS or part.undecoded_bytes >= _DECODE_BYTES:
                self._decode()
            return
        for found in decode_renamed(self._decoders.get, batch.records, self._sequence):
            self._route(found)
        self._sequence += len(batch.records)

    def _decode(self) -> None:
        part, topic = self._part, self._range.partition.topic
        raw = RawBuffer(topic)
        for batch in part.undecoded:
            raw.add(batch)
        part.undecoded, part.undecoded_bytes = [], 0
        if len(raw):
            found = decode_raw_tolerantly(self._decoders.get(topic, topic), raw, self._sequence)
            self._sequence += len(raw)
            self._route(DecodedTopic(topic, *found))

    def _route(self, decoded: DecodedTopic) -> None:
        routed, unnamed = self._router.route(decoded.topic, decoded.changes)
        self._part.bad_records += [*decoded.bad_records, *unnamed]
        # Types inferred from them are dropped too.
        self._decoders.drop({bad.topic_partition.topic for bad in unnamed})
        for table, changes in routed:
            self._part.changes.setdefault(table, []).append(changes)

    # -- writing

    def _finish(self, end: int) -> PartResult:
        self._decode()
        part, router = self._part, self._router
        tables: dict[str, TablePart] = {}
        for table, changes in sorted(part.changes.items()):
            found = self._write(table, changes)
            if found is not None:
                tables[table] = found
        bad_records = {bad.offset: (bad.offset, bad.reason.message, part.find_record(bad)) for bad in part.bad_records}
        result = PartResult(
            self._range.partition,
            part.first,
            end,
            tables,
            list(bad_records.values()),
            part.failed_reads,
            part.records,
            part.size_bytes,
            router.knowledge(),
            self._decoders.contents(),
            router.ignored_tombstones,
            router.unrouted,
            socket.gethostname(),
        )
        router.ignored_tombstones = router.unrouted = 0
        self._part = _Part(end)
        return result

    def _write(self, table: str, changes: Sequence[ChangeBatch]) -> TablePart | None:
        target = self._job.targets.get(table)
        if target is None:
            return UnknownTable()
        # Promise 6: what the table contains is not written again.
        ends = dict(target.ends)
        new = [kept for one in changes if (kept := one.after_offsets(ends)).num_rows]
        if not new:
            return None
        settings = self._job.config.of_table(table)
        rows = RowPreparation(table, settings)
        prepared = self._prepare(rows, target, new)
        if prepared is None:
            return None
        if must_evolve(target.columns, prepared, rows, settings):
            has_defaults = settings.schema.uses_defaults and prepared.defaults
            if has_defaults or (len(self._job.ranges) == 1 and self._part.records <= _FEW_RECORDS):
                return StagedPart.pack(new)  # the driver changes the table and applies them, without another job
            return NeededColumns(prepared.incoming, prepared.columns, prepared.keys)
        written = None
        if target.files is not None and not prepared.dropped:  # the driver counts and reports what a contract drops
            if table not in self._checked:
                target.files.check()
                self._checked.add(table)
            written = self._write_files(prepared, settings, target.files)
        return StagedPart.pack(new) if written is None else written

    def _prepare(self, rows: RowPreparation, target: WriteTarget, changes: list[ChangeBatch]) -> PreparedRows | None:
        """Prepares the changes, and takes bad records out of the list."""
        columns, limits, feeds = target.columns, target.limits, target.feeds
        try:
            return rows.prepare(columns, changes, target.keys, limits=limits, feeds=feeds)
        except DataError:
            good, bad_records = split_bad_records(rows, columns, limits, target.keys, changes, feeds)
            if not bad_records:
                raise
            self._part.bad_records += bad_records
            changes[:] = good
        return rows.prepare(columns, changes, target.keys, limits=limits, feeds=feeds) if changes else None

    def _write_files(self, prepared: PreparedRows, settings: TableConfig, files: FileTarget) -> WrittenPart | None:
        """None for changes that the driver has to apply."""
        if not settings.upserts:
            rows = rows_to_append(prepared, settings)
            return WrittenPart(rows.schema, _described(self._write_rows(rows, files)))
        if any(OLD_KEY in one.meta.column_names for one in prepared.changes):
            return None  # the values of the old row may be in another range, or in the table
        rows, latest = latest_rows(projection.concat_batches(prepared.changes), prepared, settings)
        has_deleted = bool(pc.any(latest.deleted).as_py())
        if latest.keep or latest.truncate is not None or (settings.soft_deletes and has_deleted):
            return None
        kept = pc.invert(latest.deleted)
        new = self._write_rows(rows.filter(kept) if has_deleted else rows, files)
        keys = list(prepared.keys)
        names = key_names(len(keys))
        changed = latest.rows.select(keys).rename_columns(names)
        parts = [_numbered(file.rows.select(keys).rename_columns(names), number) for number, file in enumerate(new)]
        whole = pa.concat_tables([*parts, _numbered(changed.filter(latest.deleted), -1)])
        position = latest.meta[SOURCE_POSITION]
        if position.null_count < len(position):
            # The rows may have been divided among partitions.
            whole = whole.join(changed.append_column(POSITION, position), names, join_type="inner", use_threads=False)
        return WrittenPart(rows.schema, _described(new), prepared.keys, pack_table(whole), latest.unavailable)

    def _write_rows(self, rows: pa.Table, files: FileTarget) -> list[NewFile]:
        new = files.write(rows) if rows.num_rows else []
        self._written.append((files, [file.path for file in new]))
        return new


def read_results(job_data: bytes, number: int) -> Iterator[bytes]:
    """Yields, pickled, the parts of a range of the pickled job as they are finished. An error that may pass is raised, so that
    Spark repeats the task; another ConnectError is the last result."""
    forget_zip_finders()
    job: RangeJob = pickle.loads(job_data)
    try:
        for part in RangeProcessor(job, job.ranges[number]).run():
            yield pickle.dumps(part)
    except RetriableError:
        raise
    except ConnectError as e:
        yield pickle.dumps(RangeFailure(e.message, socket.gethostname()))


class _Part:
    """What was read of a part."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.records = self.size_bytes = self.undecoded_bytes = 0
        self.raw: list[RawBatch] = []
        self.undecoded: list[RawBatch] = []
        self.changes: dict[str, list[ChangeBatch]] = {}
        self.bad_records: list[BadRecord] = []
        self.failed_reads: list[FailedRead] = []

    def find_record(self, bad: BadRecord) -> RawRecord:
        for batch in self.raw:
            if batch.offsets[0] <= bad.offset <= batch.offsets[-1]:
                return record_at(batch, bad.offset)
        raise KeyError(bad.offset)


def _described(files: Sequence[NewFile]) -> list[tuple[str, Entry, int]]:
    return [(file.path, file.entry, file.rows.num_rows) for file in files]


def _numbered(keys: pa.Table, file: int) -> pa.Table:
    numbers = pa.repeat(pa.scalar(file, pa.int32()), keys.num_rows)
    return keys.append_column(FILE, numbers).append_column(ROW, pa.array(range(keys.num_rows), pa.int32()))
