"""A job for Spark's executors: everything that they need to know. Travels as task data, because it has secrets (promise 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect.sink import OffsetRange, RangeReader
from connectors.spark.config import SparkSinkConfig
from connectors.spark.delivery.table_router import RouterKnowledge
from connectors.spark.tables.executor_files import WriteTarget


@dataclass(frozen=True, slots=True)
class RangeJob:
    """Reads ranges and writes their rows for tables as ``targets`` describe them."""

    config: SparkSinkConfig = field(repr=False)
    reader: RangeReader = field(repr=False)
    ranges: Sequence[OffsetRange]
    targets: Mapping[str, WriteTarget] = field(repr=False)
    knowledge: RouterKnowledge
