"""Where a task's new partitions begin: where their tables end (promise 6)."""

from __future__ import annotations

import logging
from collections.abc import Collection

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import Offsets, SinkTaskContext
from connectors.spark.delivery.sink_tables import SinkTables

log = logging.getLogger(__name__)


def find_start_offsets(
    tables: SinkTables, context: SinkTaskContext, partitions: Collection[TopicPartition], *, knows_all_tables: bool
) -> Offsets:
    """Reads the tables of partitions, and returns where reading starts; without an offset, it starts at the consumer group's.
    Blocks. Raises ConnectError if records are missing between a table and its topic.

    Unless the task ``knows_all_tables``, there are no offsets: a table that does not exist yet may need records that another one
    has. The group's offset is never ahead of any table, and each table skips what it has.
    """
    # Before the tables are read, and the ends after: meanwhile, another task may write records to them.
    log_starts = context.beginning_offsets(partitions)
    by_table: dict[str, list[TopicPartition]] = {}
    for tp in sorted(partitions):
        for table in tables.of_topic(tp.topic):
            by_table.setdefault(table, []).append(tp)
    found = tables.load(by_table)
    log_ends = context.end_offsets(partitions)
    behind = []
    for table, ends in found.items():
        for tp in by_table[table]:
            if tp in ends:
                _check_topic_not_recreated(tp, ends[tp], log_ends.get(tp), table)
                if ends[tp] < log_starts.get(tp, 0):
                    behind.append((tp, ends[tp], table))
    # Promise 2: the group's offset is ahead of no table. What lies between had no rows for a table whose end is older.
    group = context.group_offsets({tp for tp, _, _ in behind})
    for tp, end, table in behind:
        _check_no_gap(tp, max(end, group.get(tp, end)), log_starts[tp], table)
        log.warning(
            "Table %s holds %s up to offset %d, and the topic begins at %d. The records between had no rows for the table, "
            "because the consumer group's offset is %d, unless the table was rolled back or restored since: then their rows "
            "are lost",
            table,
            tp,
            end,
            log_starts[tp],
            group[tp],
        )
    starts = {}
    for tp in partitions if knows_all_tables else ():
        of_tables = [found[table].get(tp) for table in tables.of_topic(tp.topic)]
        known = [end for end in of_tables if end is not None]
        if known and len(known) == len(of_tables):
            starts[tp] = max(min(known), log_starts.get(tp, 0))
    return starts


def _check_topic_not_recreated(tp: TopicPartition, end: int, log_end: int | None, table: str) -> None:
    if log_end is not None and end > log_end:
        raise ConnectError(
            f"table {table} holds {tp} up to offset {end}, but the topic ends at {log_end}: the topic was "
            "deleted and recreated. Stop the connector and reset its offsets over REST (DELETE /connectors/<name>/offsets) "
            "to read the new topic"
        )


def _check_no_gap(tp: TopicPartition, end: int, log_start: int, table: str) -> None:
    if end < log_start:
        raise ConnectError(
            f"table {table} holds {tp} up to offset {end}, but the topic begins at {log_start}: retention deleted "
            f"{log_start - end} records that were not written. To continue without them, stop the connector and set its offset "
            f"of the partition to {log_start} over REST (PATCH /connectors/<name>/offsets), then resume it"
        )
