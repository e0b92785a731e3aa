"""Where a task's new partitions begin: where their tables end (promise 6). Whether its partitions can be read from there, then
and while it runs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import Offsets, SinkTaskContext, TopicIdentity
from connectors.spark.delivery.sink_tables import SinkTables
from connectors.spark.tables.application_ids import require_same_topic

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
                _check_topic_not_recreated(_held(table, tp, ends[tp]), ends[tp], log_ends.get(tp))
                if ends[tp] < log_starts.get(tp, 0):
                    behind.append((tp, ends[tp], table))
    # Promise 2: the group's offset is ahead of no table. What lies between had no rows for a table whose end is older.
    group = context.group_offsets({tp for tp, _, _ in behind})
    for tp, end, table in behind:
        end_or_group = max(end, group.get(tp, end))
        _check_no_gap(_held(table, tp, end_or_group), end_or_group, log_starts[tp])
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
    _warn_of_missing_tables(tables, context, by_table, log_starts)
    starts = {}
    for tp in partitions if knows_all_tables else ():
        of_tables = [found[table].get(tp) for table in tables.of_topic(tp.topic)]
        known = [end for end in of_tables if end is not None]
        if known and len(known) == len(of_tables):
            starts[tp] = max(min(known), log_starts.get(tp, 0))
    return starts


def _warn_of_missing_tables(
    tables: SinkTables, context: SinkTaskContext, by_table: Mapping[str, Collection[TopicPartition]], log_starts: Offsets
) -> None:
    """A table that was removed while the task was stopped is created again, without what the group has read. That is no error: a
    topic may have had no rows so far."""
    missing = {table: by_table[table] for table in by_table if tables.queue(table).columns is None}
    group = context.group_offsets({tp for of_table in missing.values() for tp in of_table}) if missing else {}
    for table, of_table in missing.items():
        if read := [f"{tp} from offset {group[tp]}" for tp in of_table if group.get(tp, 0) > log_starts.get(tp, 0)]:
            log.warning(
                "Table %s does not exist, and the consumer group has read its topics: it will have %s. To write the records "
                "before, too, stop the connector and delete its offsets over REST (DELETE /connectors/<name>/offsets)",
                table,
                ", ".join(read),
            )


def check_positions(context: SinkTaskContext, topics: Mapping[str, TopicIdentity], positions: Offsets) -> None:
    """Raises ConnectError unless partitions can be read on from these positions: ``topics`` are still the same, and have what
    comes next. Blocks."""
    present = context.topic_identities({tp.topic for tp in positions})
    check_topics(topics, present, positions)
    log_starts, log_ends = context.beginning_offsets(positions), context.end_offsets(positions)
    for tp, position in positions.items():
        _check_topic_not_recreated(_read(tp, position), position, log_ends.get(tp))
        _check_no_gap(_read(tp, position), position, log_starts.get(tp, 0))


def check_topics(topics: Mapping[str, TopicIdentity], present: Mapping[str, TopicIdentity], positions: Offsets) -> None:
    """Raises OtherTopicError if a topic that was read up to these positions was recreated since. One that does not exist now says
    nothing: nothing is read from it."""
    for tp, position in positions.items():
        if tp.topic in topics and tp.topic in present and topics[tp.topic] != present[tp.topic]:
            require_same_topic(_read(tp, position), tp.topic, topics[tp.topic], present[tp.topic])


def _held(table: str, tp: TopicPartition, end: int) -> str:
    return f"table {table} holds {tp} up to offset {end}"


def _read(tp: TopicPartition, position: int) -> str:
    return f"the connector has read {tp} up to offset {position}"


def _check_topic_not_recreated(claim: str, end: int, log_end: int | None) -> None:
    """``claim`` says who has the records up to ``end``."""
    if log_end is not None and end > log_end:
        raise ConnectError(
            f"{claim}, but the topic ends at {log_end}: the topic was deleted and recreated, or its offset was set too far. Stop "
            "the connector, and over REST (/connectors/<name>/offsets) reset its offsets (DELETE) to read the new topic, or set "
            "the right one (PATCH)"
        )


def _check_no_gap(claim: str, end: int, log_start: int) -> None:
    if end < log_start:
        raise ConnectError(
            f"{claim}, but the topic begins at {log_start}: retention deleted "
            f"{log_start - end} records that were not written. To continue without them, stop the connector and set its offset "
            f"of the partition to {log_start} over REST (PATCH /connectors/<name>/offsets), then resume it"
        )
