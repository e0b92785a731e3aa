"""Commits the results of a job to one table, in the order of their offsets. Among the files of one upsert, the rows of later
files replace those of earlier ones."""

from __future__ import annotations

import itertools
import socket
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConnectError, DataError, RetriableError
from connect.record import TopicPartition
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import PARTITION_ID, TOPIC_ID, ChangeBatch
from connectors.spark.decode.change_batch import POSITION as SOURCE_POSITION
from connectors.spark.errors import explain
from connectors.spark.executors.job import (
    FILE,
    POSITION,
    ROW,
    NeededColumns,
    PartResult,
    StagedPart,
    TablePart,
    WrittenPart,
    key_names,
    unpack_table,
)
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.plan.evolution import Columns, merge_columns
from connectors.spark.plan.key_equality import last_rows, number_keys
from connectors.spark.plan.rows import PreparedRows
from connectors.spark.tables.executor_files import ExecutorFile, ExecutorFiles, WriteTarget, WrittenRows
from connectors.spark.tables.offset_ranges import OffsetRanges, include_range
from connectors.spark.tables.writer import TableWriter


class TableCommits:
    """The parts of one table: files together as far as possible; changes that the driver has to apply, in between. Used by one
    thread."""

    def __init__(self, table: str, target: WriteTarget, parts: Sequence[tuple[PartResult, TablePart]]) -> None:
        """``parts`` are those with records of the table, in order."""
        self.table = table
        self.parts = len(parts)
        self.may_be_committed = False
        """Whether a commit has been tried, so that files must not be deleted."""
        self._target = target
        self._ends = dict(target.ends)
        self._groups = deque(list(group) for _, group in itertools.groupby(parts, lambda part: type(part[1])))
        self._good: list[ChangeBatch] | None = None
        """The changes of the first group without its bad records."""

    @property
    def is_done(self) -> bool:
        return not self._groups

    def commit(
        self, writer: TableWriter, sequences: Mapping[tuple[TopicPartition, int], int], partitions: Collection[TopicPartition]
    ) -> list[BadRecord]:
        """Commits all parts, or up to the first changes that do not fit the table. Returns these: the next call leaves them out,
        and continues with the others of their part.

        ``sequences`` has by part what is added to the sequence of its changes. Raises RetriableError if the table has changed
        meanwhile, or a file was deleted; a later job writes what is missing. Raises ConnectError for files that only the host of
        their executor has.
        """
        while self._groups:
            group = self._groups[0]
            ranges: OffsetRanges = {}
            for result, _ in group:
                include_range(ranges, result.partition, (result.first, result.end))
            staged = [(result, part) for result, part in group if isinstance(part, StagedPart)]
            if staged:
                if self._good is None:
                    unpacked = (part.unpack(sequences[result.partition, result.first]) for result, part in staged)
                    self._good = list(itertools.chain.from_iterable(unpacked))
                try:
                    writer.commit(self._good, partitions, ranges)
                except DataError:
                    self._good, bad_records = writer.split_bad_records(self._good, partitions)
                    if not bad_records:
                        raise
                    return bad_records
                self._good = None
            else:
                self._commit_files(writer, group, ranges, partitions)
            self._ends |= {tp: end for tp, (_, end) in ranges.items()}
            self._groups.popleft()
        return []

    def _commit_files(
        self,
        writer: TableWriter,
        group: Sequence[tuple[PartResult, TablePart]],
        ranges: OffsetRanges,
        partitions: Collection[TopicPartition],
    ) -> None:
        parts = [(result, part) for result, part in group if isinstance(part, WrittenPart)]
        rows = join_parts(parts)
        self._check_files(rows.files, {path: result.host for result, part in parts for path, _, _ in part.files})
        before, self.may_be_committed = self.may_be_committed, True
        if not writer.commit_files(rows, ranges, self._ends, partitions):
            self.may_be_committed = before
            raise RetriableError(f"table {self.table} has changed since Spark's executors wrote files for it")

    def _check_files(self, files: ExecutorFiles, hosts: Mapping[str, str]) -> None:
        """Raises ConnectError if the worker does not find files that executors wrote. ``hosts`` has the host of each."""
        target = self._target.files
        paths = [file.path for file in files.remaining()]
        if target is None or not paths:
            return
        try:
            missing = target.find_missing(paths)
        except OSError as e:
            raise explain(e, f"table {self.table}: looking for the files of Spark's executors") from e
        if not missing:
            return
        path, host = missing[0], hosts[missing[0]]
        seen = {socket.gethostname(), *(hosts[other] for other in paths if other not in missing)}
        what = f"table {self.table}: data file {path}, which the executor on host {host or 'unknown'} wrote,"
        if host in seen:
            raise RetriableError(
                f"{what} was deleted before it was committed, so its rows are written again. Run VACUUM and remove_orphan_files "
                "only with a retention that is longer than a commit takes"
            )
        raise ConnectError(
            f"{what} is not found by the worker on host {socket.gethostname()}, so nothing of it is committed: the table must be "
            "in storage that is the same on every host of the cluster and on the worker, such as S3, HDFS, or a mounted share. "
            "If it is, the file was deleted: restart the task, which writes its rows again"
        )


def divide_by_table(
    parts: Sequence[PartResult], targets: Mapping[str, WriteTarget], tables_of: Callable[[str], Collection[str]]
) -> list[TableCommits]:
    """The commits of all tables that have records in these parts, which are in order, or that must pass errant records.
    ``tables_of`` returns the tables of a topic."""
    by_table: dict[str, list[tuple[PartResult, TablePart]]] = {}
    passed: dict[tuple[str, TopicPartition], PartResult] = {}
    for part in parts:
        for table, of_table in part.tables.items():
            by_table.setdefault(table, []).append((part, of_table))
            passed.pop((table, part.partition), None)
        if part.bad_records or part.failed_reads:
            # Promise 7: they are reported. A table that has no later records must pass them, or they are read again.
            others = set(tables_of(part.partition.topic)) & targets.keys() - part.tables.keys()
            passed |= {(table, part.partition): part for table in others}
    for (table, _), part in passed.items():
        by_table.setdefault(table, []).append((part, StagedPart([])))
    return [TableCommits(table, targets[table], found) for table, found in sorted(by_table.items())]


def needed_columns(parts: Sequence[TablePart]) -> PreparedRows | None:
    """What a table must get so that it can hold the rows of these parts, as far as they fit together: in order, a part whose
    types contradict those of earlier ones is left out, and its records are judged once the table has the columns. None if it
    needs nothing."""
    found: PreparedRows | None = None
    for part in parts:
        if not isinstance(part, NeededColumns):
            continue
        if found is None:
            found = PreparedRows([], part.incoming, part.columns, part.keys)
            continue
        try:
            incoming = _merge(found.incoming, part.incoming)
            found = PreparedRows([], incoming, _merge(found.columns, part.columns), found.keys or part.keys)
        except ConnectError:
            continue
    return found


def _merge(first: Columns, second: Columns) -> Columns:
    return merge_columns([first, second], ())


@dataclass(frozen=True, slots=True)
class _NumberedPart:
    keys: pa.Table
    """Keys, files (numbered over all parts), rows, topic, partition, position."""
    files: Sequence[ExecutorFile]


def join_parts(parts: Sequence[tuple[PartResult, WrittenPart]]) -> WrittenRows:
    """The rows of parts of one table together. In the order of the parts, the last change of a key wins."""
    schema = pa.unify_schemas([written.schema for _, written in parts])
    count = sum(rows for _, written in parts for _, _, rows in written.files)
    if all(written.latest is None for _, written in parts):
        files = [ExecutorFile(path, entry, rows) for _, written in parts for path, entry, rows in written.files]
        return WrittenRows(ExecutorFiles(schema, files), count)
    keys = next(written.keys for _, written in parts if written.keys)
    names = key_names(len(keys))
    numbered: list[_NumberedPart] = []
    for result, written in parts:
        numbered.append(_number(result, written, keys, sum(len(part.files) for part in numbered)))
    whole = pa.concat_tables([part.keys for part in numbered], promote_options="permissive")
    latest, superseded = _find_latest(whole, names)
    found = [file for part in numbered for file in part.files]
    files = [
        ExecutorFile(file.path, file.entry, file.rows, file.keys, superseded[number]) if number in superseded else file
        for number, file in enumerate(found)
    ]
    changes = DeduplicatedChanges(
        latest.select(names).rename_columns(list(keys)),
        latest.select([TOPIC_ID, PARTITION_ID, SOURCE_POSITION]),
        pc.less(latest[FILE], 0),
        {},
        None,
        sum(written.unavailable for _, written in parts),
    )
    return WrittenRows(ExecutorFiles(schema, files), count - sum(map(len, superseded.values())), keys, changes)


def _number(result: PartResult, written: WrittenPart, keys: Sequence[str], first: int) -> _NumberedPart:
    assert written.latest is not None
    names = key_names(len(keys))
    table = unpack_table(written.latest).sort_by([(FILE, "ascending"), (ROW, "ascending")])
    in_file = table[FILE].to_numpy()
    files = []
    for number, (path, entry, rows) in enumerate(written.files):
        start = int(np.searchsorted(in_file, number))
        files.append(ExecutorFile(path, entry, rows, table.slice(start, rows).select(names).rename_columns(list(keys))))
    moved = np.where(in_file < 0, -1, in_file + first).astype(np.int32)
    count = table.num_rows
    position = table[POSITION] if POSITION in table.column_names else pa.nulls(count, pa.string())
    place = {
        FILE: pa.array(moved),
        ROW: table[ROW],
        TOPIC_ID: pa.repeat(pa.scalar(result.partition.topic), count),
        PARTITION_ID: pa.repeat(pa.scalar(result.partition.partition, pa.int32()), count),
        SOURCE_POSITION: position,
    }
    columns = {name: table[name] for name in names}
    return _NumberedPart(pa.table([*columns.values(), *place.values()], names=[*columns, *place]), files)


def _find_latest(whole: pa.Table, names: list[str]) -> tuple[pa.Table, dict[int, np.ndarray]]:
    """The last row of each key, and by file the other rows, sorted."""
    last = np.sort(last_rows(number_keys([whole[name] for name in names], whole.num_rows)))
    if len(last) == whole.num_rows:
        return whole, {}
    others = np.setdiff1d(np.arange(whole.num_rows), last, assume_unique=True)
    files, rows = whole[FILE].to_numpy()[others], whole[ROW].to_numpy()[others].astype(np.int64)
    superseded = {int(number): np.sort(rows[files == number]) for number in np.unique(files) if number >= 0}
    return whole.take(pa.array(last)), superseded
