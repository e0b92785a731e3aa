"""Moves the offsets of a stopped sink in all of its tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect.errors import BadRequestError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import SparkSinkConfig
from connectors.spark.errors import explain
from connectors.spark.tables.find_tables import find_tables
from connectors.spark.tables.open_table import open_table
from connectors.spark.tables.staging import Staging


def move_offsets(config: SparkSinkConfig, lease: session.Lease | None, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Changes the offsets in every table below the location that has records of these partitions, whatever their topics were
    routed to. Raises BadRequestError, before anything has changed, when an append table would get records twice."""
    staging = Staging(config.location, config.connector, config.spark.s3) if config.location else None
    found = []
    for name in sorted({*find_tables(config, lease), *_named_tables(config, offsets)}):
        table = open_table(config, name, lease, staging, lambda topic: None)
        try:
            ends = table.stored_ends()
        except Exception as e:
            raise explain(e, f"table {name} at {table.path}") from e
        moved = {tp: end for tp, end in offsets.items() if tp in ends}
        if config.of_table(name).repeats_rows and config.of_table(name).replay != "repeat":
            _refuse_replay(name, ends, moved)
        if moved or (not ends and _may_have_records(config, name, offsets)):
            found.append((name, table, moved))
    for name, table, moved in found:
        try:
            table.move_offsets(moved)
        except Exception as e:
            raise explain(e, f"table {name} at {table.path}") from e


def _named_tables(config: SparkSinkConfig, offsets: Collection[TopicPartition]) -> set[str]:
    """The tables of these topics in a catalog, which may be unable to list them."""
    return _tables_of(config, offsets) if config.catalog and not config.names_need_record else set()


def _tables_of(config: SparkSinkConfig, offsets: Collection[TopicPartition]) -> set[str]:
    if config.routes is not None:
        return set(config.routes.tables)
    names = {config.table_name(tp.topic, None, None, None) for tp in offsets}
    return names | {changelog for name in names if (changelog := config.changelog_of(name)) is not None}


def _may_have_records(config: SparkSinkConfig, name: str, offsets: Collection[TopicPartition]) -> bool:
    """Whether records of these partitions may be in a table that does not say whose records it has."""
    return config.names_need_record or name in _tables_of(config, offsets)


def _refuse_replay(name: str, ends: Mapping[TopicPartition, int], moved: Mapping[TopicPartition, int | None]) -> None:
    for tp, end in moved.items():
        if (end or 0) < ends[tp]:
            raise BadRequestError(
                f"table {name} has the records of {tp} up to offset {ends[tp]}; reading them again would append them a second "
                "time. To do so, set append.replay=repeat"
            )
