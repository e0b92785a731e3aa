"""A job for Spark's executors: everything that they need to know. Travels as task data, because it has secrets (promise 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect.sink import OffsetRange, RangeReader
from connectors.spark.config import SparkSinkConfig
from connectors.spark.delivery.table_router import RouterKnowledge
from connectors.spark.executors.sql_chain import SqlChain
from connectors.spark.tables.executor_files import WriteTarget


@dataclass(frozen=True, slots=True)
class RangeJob:
    """Reads ranges and writes their rows for tables as ``targets`` describe them."""

    config: SparkSinkConfig = field(repr=False)
    reader: RangeReader = field(repr=False)
    ranges: Sequence[OffsetRange]
    targets: Mapping[str, WriteTarget] = field(repr=False)
    knowledge: RouterKnowledge
    wants_prefixes: bool = False
    """Whether executors return the schemas of the records, so that SQL may transform later ones."""
    chains: Mapping[str, SqlChain] = field(default_factory=dict, repr=False)
    """By topic, for those whose records Spark SQL transforms."""

    def numbers(self) -> tuple[list[int], dict[str, list[int]]]:
        """The numbers of the ranges that run row by row, and by topic of the others."""
        by_row: list[int] = []
        in_sql: dict[str, list[int]] = {}
        for number, one in enumerate(self.ranges):
            topic = one.partition.topic
            (in_sql.setdefault(topic, []) if topic in self.chains else by_row).append(number)
        return by_row, in_sql
