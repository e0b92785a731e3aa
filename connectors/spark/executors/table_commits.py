"""Commits the results of a job to one table, in the order of their offsets."""

from __future__ import annotations

import itertools
import socket
from collections import deque
from collections.abc import Collection, Mapping, Sequence

from connect.errors import ConnectError, DataError, RetriableError
from connect.record import TopicPartition
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.errors import explain
from connectors.spark.executors.latest_rows import join_parts
from connectors.spark.executors.results import NeededColumns, PartResult, StagedPart, TablePart, WrittenPart
from connectors.spark.plan.evolution import Columns, merge_columns
from connectors.spark.plan.rows import PreparedRows
from connectors.spark.tables.executor_files import ExecutorFiles, WriteTarget
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


def divide_by_table(parts: Sequence[PartResult], targets: Mapping[str, WriteTarget]) -> list[TableCommits]:
    """The commits of all tables that have records in these parts, which are in order."""
    by_table: dict[str, list[tuple[PartResult, TablePart]]] = {}
    for part in parts:
        for table, of_table in part.tables.items():
            by_table.setdefault(table, []).append((part, of_table))
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
