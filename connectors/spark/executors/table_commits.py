"""Commits the results of a job to one table, in the order of their offsets."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.executors.latest_rows import join_parts
from connectors.spark.executors.results import NeededColumns, PartResult, StagedPart, TablePart, WrittenPart
from connectors.spark.plan.evolution import Columns, merge_columns
from connectors.spark.plan.rows import PreparedRows
from connectors.spark.tables.executor_files import WriteTarget
from connectors.spark.tables.offset_ranges import OffsetRanges, include_range
from connectors.spark.tables.writer import TableWriter


@dataclass(slots=True)
class TableCommits:
    """The parts of one table. Used by one thread."""

    table: str
    target: WriteTarget
    parts: Sequence[tuple[PartResult, TablePart]]
    """With records of the table, in order."""
    may_be_committed: bool = False
    """Whether a commit has been tried, so that files must not be deleted."""

    def commit(
        self, writer: TableWriter, sequences: Mapping[tuple[TopicPartition, int], int], partitions: Collection[TopicPartition]
    ) -> None:
        """Commits all parts: files together as far as possible; changes that the driver has to apply, in between.

        ``sequences`` has by part what is added to the sequence of its changes. Raises RetriableError if the table has changed
        meanwhile; a later job writes what is missing.
        """
        ends = dict(self.target.ends)
        groups = [(kind, list(group)) for kind, group in itertools.groupby(self.parts, lambda part: type(part[1]))]
        for kind, group in groups:
            ranges: OffsetRanges = {}
            for result, _ in group:
                include_range(ranges, result.partition, (result.first, result.end))
            if kind is StagedPart:
                changes = [
                    batch
                    for result, part in group
                    if isinstance(part, StagedPart)
                    for batch in part.unpack(sequences[result.partition, result.first])
                ]
                writer.commit(changes, partitions, ranges)
            else:
                rows = join_parts([(result, part) for result, part in group if isinstance(part, WrittenPart)])
                before, self.may_be_committed = self.may_be_committed, True
                if not writer.commit_files(rows, ranges, ends, partitions):
                    self.may_be_committed = before
                    raise RetriableError(f"table {self.table} has changed since Spark's executors wrote files for it")
            ends |= {tp: end for tp, (_, end) in ranges.items()}


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
