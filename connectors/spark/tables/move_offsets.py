"""Moves the offsets of a stopped sink in all of its tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect.errors import BadRequestError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import SparkSinkConfig
from connectors.spark.errors import explain
from connectors.spark.tables.open_table import open_table
from connectors.spark.tables.own_tables import find_own_tables
from connectors.spark.tables.staging import Staging


def move_offsets(
    config: SparkSinkConfig, lease: session.Lease | None, offsets: Mapping[TopicPartition, int | None], *, reset: bool = False
) -> None:
    """Changes the offsets in every table below the location that has records of these partitions from the connector, whatever
    their topics were routed to. ``reset``: also those of their topics' other partitions, which a recreated topic may lack, are
    deleted.

    Raises BadRequestError, before anything has changed, when an append table would get records twice.
    """
    staging = Staging(config.location, config.connector, config.spark.s3) if config.location else None
    found, topics = [], {tp.topic for tp in offsets}
    named = _named_tables(config, offsets)
    names = {*find_own_tables(config, lease, named), *(named if config.catalog else ())}  # a catalog may be unable to list them
    for name in sorted(names):
        table = open_table(config, name, lease, staging, lambda topic: None)
        try:
            ends = table.stored_ends()
        except Exception as e:
            raise explain(e, f"table {name} at {table.path}") from e
        asked = {**offsets, **dict.fromkeys(tp for tp in ends if tp.topic in topics)} if reset else offsets
        moved = {tp: end for tp, end in asked.items() if tp in ends}
        if config.of_table(name).repeats_rows and config.of_table(name).replay != "repeat":
            _refuse_replay(name, ends, moved)
        if moved or (not ends and (config.names_need_record or name in named)):
            found.append((name, table, moved))
    for name, table, moved in found:
        try:
            table.move_offsets(moved)
        except Exception as e:
            raise explain(e, f"table {name} at {table.path}") from e


def _named_tables(config: SparkSinkConfig, offsets: Collection[TopicPartition]) -> set[str]:
    """The tables that the configuration names for these topics. They may have records without saying whose."""
    if config.names_need_record:
        return set()
    if config.routes is not None:
        return set(config.routes.tables)
    names = {config.table_name(tp.topic, None, None, None) for tp in offsets}
    return names | {changelog for name in names if (changelog := config.changelog_of(name)) is not None}


def _refuse_replay(name: str, ends: Mapping[TopicPartition, int], moved: Mapping[TopicPartition, int | None]) -> None:
    for tp, end in moved.items():
        if (end or 0) < ends[tp]:
            raise BadRequestError(
                f"table {name} has the records of {tp} up to offset {ends[tp]}; reading them again would append them a second "
                "time. To do so, set append.replay=repeat"
            )
