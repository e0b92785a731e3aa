"""The table of transactions: a row per round, with the versions of all tables at that consistent point."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import ICEBERG, TRANSACTION_KEY
from connectors.spark.decode.change_batch import DELETE, ChangeBatch, make_meta
from connectors.spark.errors import explain
from connectors.spark.tables.iceberg.library import IcebergName
from connectors.spark.tables.offset_ranges import OffsetRanges
from connectors.spark.tables.writer import TableWriter
from connectors.spark.transactions.order import ConsistentPoint

_INSTANT = pa.timestamp("us", tz="UTC")
COLUMNS = pa.schema(
    [
        (TRANSACTION_KEY, pa.int64()),
        ("transaction_id", pa.string()),
        ("lsn", pa.int64()),
        ("source_time", _INSTANT),
        ("committed_at", _INSTANT),
        ("transactions", pa.int64()),
        ("tables", pa.map_(pa.string(), pa.int64())),
    ]
)
_MAX_DELETED = 1_000
"""Expired rows that one commit deletes."""


@dataclass(frozen=True, slots=True)
class StoredRounds:
    """What the table has: the times of its rounds (ms since 1970), and of the newest one the LSN and the tables."""

    committed_ms: Mapping[int, int]
    newest_lsn: int | None = None
    tables: tuple[str, ...] = ()


def read_rounds(config: SparkSinkConfig, lease: session.Lease) -> StoredRounds:
    """Reads the table, which exists, with Spark. Raises ConnectError."""
    assert config.transactions is not None
    name = config.transactions.table
    spark = lease.session()
    try:
        if config.catalog:
            iceberg = IcebergName.parse(config.catalog, name)
            frame = spark.table(".".join(f"`{part}`" for part in (iceberg.catalog, *iceberg.namespace, iceberg.name)))
        else:
            kind = "iceberg" if config.table_format == ICEBERG else "delta"
            frame = spark.read.format(kind).load(f"{config.location}/{name}")
        rows = frame.select(TRANSACTION_KEY, "lsn", "committed_at", "tables").toArrow().to_pylist()
    except Exception as e:
        raise explain(e, f"table {name} cannot be read") from e
    if not rows:
        return StoredRounds({})
    newest = max(rows, key=lambda row: row[TRANSACTION_KEY])
    times = {int(row[TRANSACTION_KEY]): int(row["committed_at"].timestamp() * 1000) for row in rows}
    return StoredRounds(dict(sorted(times.items())), newest["lsn"], tuple(sorted(dict(newest["tables"] or ()))))


class TransactionsTable:
    """Writes the table. Its commits have the offsets of the points, so a task continues from the newest one (promise 6), and two
    tasks cannot both write it. Used on the task's thread, except the writer's maintenance."""

    def __init__(self, writer: TableWriter, end_partition: TopicPartition, retention_ms: int) -> None:
        """``end_partition`` has the END events of transactions."""
        self.writer = writer
        self._end_partition = end_partition
        self._retention_ms = retention_ms
        self._rounds: dict[int, int] = {}
        self.round = 0
        """The newest round; 0 without any. May be read by any thread."""

    def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """The offsets of the newest point; None if the table does not exist."""
        state = self.writer.committed_offsets(partitions)
        return None if state.columns is None else state.ends

    def set_stored(self, rounds: Mapping[int, int]) -> None:
        """The table has these rounds."""
        self._rounds = dict(rounds)
        self.round = max(rounds, default=0)

    def write(
        self, point: ConsistentPoint, tables: Mapping[str, int], partitions: Collection[TopicPartition], now_ms: int
    ) -> None:  # fmt: skip
        """Adds a round, and deletes expired ones. Durable on return. Raises RetriableError and ConnectError."""
        last = point.last
        assert last is not None
        number = self.round + 1
        expired = [old for old, at in self._rounds.items() if at < now_ms - self._retention_ms][:_MAX_DELETED]
        row = {
            TRANSACTION_KEY: number,
            "transaction_id": last.id,
            "lsn": last.lsn,
            "source_time": None if last.source_ms is None else _instant(last.source_ms),
            "committed_at": _instant(now_ms),
            "transactions": point.transactions,
            "tables": sorted(tables.items()),
        }
        batch = _batch(self._end_partition, last.offset, expired, row)
        ranges: OffsetRanges = {tp: (end, end) for tp, end in point.ends.items() if end > 0}
        self.writer.commit([batch], partitions, ranges)
        state = self.writer.state(partitions, float("inf"))
        if any(state.ends.get(tp, 0) != end for tp, (_, end) in ranges.items()):
            raise ConnectError(
                f"table {self.writer.name} does not have the offsets of round {number}: another task of the connector wrote it. "
                "Restart the task after the other one has stopped"
            )
        for old in expired:
            del self._rounds[old]
        self._rounds[number] = now_ms
        self.round = number


def _instant(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=ms)


def _batch(partition: TopicPartition, offset: int, deleted: list[int], row: Mapping[str, Any]) -> ChangeBatch:
    rows = [*({TRANSACTION_KEY: number} for number in deleted), row]
    count = len(rows)
    meta = make_meta(
        pa.array(range(count), pa.int64()),
        pa.array([DELETE] * len(deleted) + ["c"], pa.string()),
        pa.nulls(count, pa.int64()),
        pa.array([partition.partition] * count, pa.int32()),
        pa.array([offset] * count, pa.int64()),
    )
    keys = pa.table({TRANSACTION_KEY: pa.array([one[TRANSACTION_KEY] for one in rows], pa.int64())})
    return ChangeBatch(partition.topic, meta, pa.Table.from_pylist(rows, COLUMNS), keys)
