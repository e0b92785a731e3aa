"""Tables in memory with versions, and a source whose topics tests deliver in any order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from connect.converters.json.converter import JsonConverter
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.testing import ManualClock
from connect.testing.harness import SinkContext
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import parse_config
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.delivery.commit_threads import CommitThreads
from connectors.spark.delivery.errant_records import SparkErrantRecords
from connectors.spark.delivery.table_delivery import TableDelivery
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables import move_offsets
from connectors.spark.tables.offset_ranges import OffsetRanges, find_offset_ranges
from connectors.spark.tables.table import TableState
from connectors.spark.tables.writer import TableProgress
from connectors.spark.transactions.marker_table import StoredRounds
from connectors.spark.transactions.rounds import TransactionRounds
from tests.support.waiting import WAIT_S

Rows = dict[int, dict[str, Any]]
MARKER = "_sluice_transactions"


class Crash(BaseException):
    """A simulated crash of the process."""


class VersionedTable:
    """A table that outlives its writers. ``versions`` has the rows of each version, by key."""

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key = key
        self.progress = TableProgress()
        self.group_member: str | None = None
        self.versions: list[Rows] = []
        self.ends: dict[TopicPartition, int] = {}
        self.before: Callable[[str], None] = lambda name: None
        self.after: Callable[[str], None] = lambda name: None
        """Called around each commit; may raise."""
        self._lock = threading.Lock()

    @property
    def rows(self) -> Rows:
        return self.versions[-1] if self.versions else {}

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> TableState:
        return TableState(self.columns(), dict(self.ends), len(self.versions) or None)

    def state(self, partitions: Collection[TopicPartition], max_age_s: float) -> TableState:
        return self.committed_offsets(partitions)

    def columns(self) -> Columns | None:
        return {self.key: pa.int64()} if self.versions else None

    def commit(
        self, batches: Sequence[ChangeBatch], partitions: Collection[TopicPartition], excluded: OffsetRanges | None = None
    ) -> None:
        with self._lock:
            self.before(self.name)
            new = [kept for batch in batches if (kept := batch.after_offsets(self.ends)).num_rows]
            if not new and not excluded:
                return
            rows = dict(self.rows)
            for _, id_, op, row in sorted(change for batch in new for change in self._changes(batch)):
                if op in ("d", "tombstone"):
                    rows.pop(id_, None)
                else:
                    rows[id_] = row
            self.versions.append(rows)
            self.ends |= {tp: end for tp, (_, end) in find_offset_ranges(new, excluded or {}, self.ends).items()}
            self.after(self.name)

    def _changes(self, batch: ChangeBatch) -> list[tuple[int, int, str, dict[str, Any]]]:
        """Sequence, key, operation, and row of each change."""
        images = batch.image.to_pylist()
        keys = batch.keys.to_pylist() if batch.keys is not None else images
        ids = [(key or image)[self.key] for key, image in zip(keys, images, strict=True)]
        return list(zip(batch.meta["sequence"].to_pylist(), ids, batch.meta["op"].to_pylist(), images, strict=True))

    path = "memory"

    def stored_ends(self) -> dict[TopicPartition, int]:
        return dict(self.ends)

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        for tp, end in offsets.items():
            del self.ends[tp]
            if end:
                self.ends[tp] = end

    def compact(self) -> None:
        """Another version with the same rows."""
        if self.versions:
            self.versions.append(self.rows)

    def split_bad_records(
        self, batches: Sequence[ChangeBatch], partitions: Collection[TopicPartition]
    ) -> tuple[list[ChangeBatch], list[BadRecord]]:
        raise AssertionError("no record is bad")


class Lake:
    """The tables, the topics, and the rounds of one task that may crash."""

    def __init__(self, folder: Path, tables: Sequence[str], partitions: int, **config: str) -> None:
        self.tables = {name: VersionedTable(name, "id") for name in tables} | {MARKER: VersionedTable(MARKER, "round")}
        self.names = tuple(tables)
        self.logs: dict[TopicPartition, list[tuple[bytes | None, bytes | None, int]]] = {
            TopicPartition(f"shop.public.{name}", number): [] for name in tables for number in range(partitions)
        }
        self.ends = TopicPartition("shop.transaction", 0)
        self.logs[self.ends] = []
        self.clock = ManualClock()
        self.group: dict[TopicPartition, int] = {}
        self.position: dict[TopicPartition, int] = {}
        self.config = {
            "name": "lake",
            "topics.regex": "shop.*",
            "table.location": str(folder),
            "table.name.format": "${topic}",
            "write.mode": "upsert",
            "key.columns": "id",
            "commit.scope": "transaction",
            "commit.interval.ms": "0",
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        self.decodes = False
        """Whether the worker decodes the records."""
        self.rounds: TransactionRounds | None = None
        self._threads: CommitThreads[Any] | None = None

    def now_ms(self) -> int:
        return int(self.clock.monotonic() * 1000) + 1_000_000

    def start(self) -> None:
        """A new task, after a crash or at first."""
        key, value = JsonConverter(), JsonConverter()
        for converter, is_key in ((key, True), (value, False)):
            converter.configure({"schemas.enable": "false"}, is_key)
        config = parse_config(self.config)
        context = SinkContext(self.config, key, value, raw_allowed=True)
        context.assigned = set(self.logs)
        context.ends = {tp: len(log) for tp, log in self.logs.items()}
        self.context = context
        self._threads = CommitThreads("test", 4)
        errant = SparkErrantRecords(None, tolerant=False)
        delivery = TableDelivery(config, context, errant, self._open, self._threads, self.clock.monotonic)
        self.rounds = TransactionRounds(
            config, context, delivery, lambda: self._open(MARKER), self._read_rounds, self.clock.monotonic, self.now_ms
        )
        data = self.rounds.data_partitions(self.logs)
        delivery.add_partitions(data)
        delivery.load_tables({tp.topic: [tp] for tp in sorted(data)})
        seeks = self.rounds.open(list(self.logs))
        for tp, offset in seeks.items():
            delivery.offsets.seek(tp, offset)
        self.position = {tp: seeks.get(tp, self.group.get(tp, 0)) for tp in self.logs}

    def _open(self, name: str) -> Any:
        return self.tables[name.rpartition(".")[2]]

    def _read_rounds(self) -> StoredRounds:
        rows = self.tables[MARKER].rows
        newest = rows[max(rows)] if rows else {"lsn": None}
        return StoredRounds({number: self.now_ms() for number in sorted(rows)}, newest["lsn"])

    def deliver(self, tp: TopicPartition, count: int) -> None:
        """Delivers the next records of a partition."""
        assert self.rounds is not None
        first = self.position[tp]
        log = self.logs[tp][first : first + count]
        self.context.ends = {other: len(records) for other, records in self.logs.items()}
        offsets = list(range(first, first + len(log)))
        kept = [(o, r) for o, r in zip(offsets, log, strict=True) if r[2] >= 0]  # others are filtered
        keys, values, times = [r[0] for _, r in kept], [r[1] for _, r in kept], [r[2] for _, r in kept]
        self.position[tp] = first + len(log)
        if self.decodes:
            self.rounds.put([self._decode(tp, *one) for one in kept])
        else:
            self.rounds.put_raw([RawBatch(tp.topic, tp.partition, [o for o, _ in kept], keys, values, times)])
        self.group |= self.rounds.offsets(dict(self.position))

    def _decode(self, tp: TopicPartition, offset: int, record: tuple[bytes | None, bytes | None, int]) -> SinkRecord:
        key = self.context.key_converter.to_connect_data(tp.topic, record[0])
        value = self.context.value_converter.to_connect_data(tp.topic, record[1])
        return SinkRecord(
            tp.topic, tp.partition, key.schema, key.value, value.schema, value.value, offset, timestamp=record[2]
        )  # fmt: skip

    def deliver_all(self) -> None:
        for tp in self.logs:
            while self.position[tp] < len(self.logs[tp]):
                self.deliver(tp, 50)
        assert self.rounds is not None
        self.rounds.put_raw([])
        self.rounds.flush()

    def stop(self) -> None:
        """The task ends, as in a crash."""
        if self._threads is not None:
            self._threads.close(WAIT_S)

    def move_back(self, partitions: Collection[TopicPartition], count: int) -> None:
        """Ends the task, and moves the offsets of these partitions back over REST."""
        self.stop()
        offsets = {tp: max(0, self.group.get(tp, 0) - count) for tp in partitions}
        names = [*(f"shop.public.{name}" for name in self.names), MARKER]
        with (
            mock.patch.object(move_offsets, "find_tables", return_value=names),
            mock.patch.object(move_offsets, "open_table", lambda config, name, *others: self._open(name)),
        ):
            move_offsets.move_offsets(parse_config(self.config), None, offsets)
        self.group |= offsets

    def points(self) -> list[tuple[str, dict[str, dict[int, Any]]]]:
        """By round: the newest transaction, and the values of the versions that it names."""
        found = []
        for _, row in sorted(self.tables[MARKER].rows.items()):
            versions = {name.rpartition(".")[2]: version for name, version in row["tables"]}
            rows = {name: self.tables[name].versions[versions[name] - 1] if name in versions else {} for name in self.names}
            found.append((row["transaction_id"], {n: {i: one["v"] for i, one in r.items()} for n, r in rows.items()}))
        return found


class Source:
    """Commits transactions to a lake's topics in Debezium's form, and remembers the rows after each."""

    def __init__(self, lake: Lake, partitions: int, *, has_positions: bool = True) -> None:
        """Without positions, identifiers are those of MySQL."""
        self._lake = lake
        self._has_positions = has_positions
        self._partitions = partitions
        self._rows: dict[str, dict[int, int]] = {name: {} for name in lake.names}
        self.history: dict[str, dict[str, dict[int, int]]] = {}
        self._sent: list[tuple[TopicPartition, bytes | None, bytes | None]] = []
        self._lsn, self._xid, self._values = 1_000, 500, 0

    def snapshot(self, table: str, id_: int) -> None:
        self._values += 1
        self._rows[table][id_] = self._values
        self._event(table, id_, "r", self._values, None, "true")

    def commit(self, changes: Sequence[tuple[str, int, bool]], filtered: Collection[int] = ()) -> str:
        """Sets or deletes (False) rows ``(table, id, sets)``. Events with these numbers never reach the task."""
        self._xid += 1
        self._lake.clock.advance(0.001)
        counts: dict[str, int] = {}
        for order, (table, id_, sets) in enumerate(changes, 1):
            self._lsn += 8
            number = counts[f"public.{table}"] = counts.get(f"public.{table}", 0) + 1
            block = {"id": self._identifier(), "total_order": order, "data_collection_order": number}
            is_filtered = order in filtered
            self._values += 1
            if not is_filtered:
                self._rows[table] = {**self._rows[table], id_: self._values} if sets else _without(self._rows[table], id_)
            self._event(table, id_, "u" if sets else "d", self._values, block, "false", is_filtered=is_filtered)
        self._lsn += 8
        name = self._identifier()
        collections = [{"data_collection": n, "event_count": c} for n, c in counts.items()]
        value = {"status": "END", "id": name, "event_count": len(changes), "data_collections": collections, "ts_ms": 1}
        self._send(self._lake.ends, None, json.dumps(value).encode())
        self.history[name] = {table: dict(rows) for table, rows in self._rows.items()}
        return name

    def _identifier(self) -> str:
        return f"{self._xid}:{self._lsn}" if self._has_positions else f"file=binlog.000001,pos={self._xid}"

    def repeat(self, count: int) -> None:
        """Sends the last records again, as after a crash before their offsets were stored."""
        for tp, key, value in self._sent[-count:]:
            self._lake.logs[tp].append((key, value, self._lake.now_ms()))

    def _event(
        self, table: str, id_: int, op: str, v: int, block: Any, snapshot: str, *, is_filtered: bool = False
    ) -> None:  # fmt: skip
        source = {"ts_ms": 1, "db": "shop", "schema": "public", "table": table, "snapshot": snapshot}
        row = {"id": id_, "v": v}
        value = {"before": row if op == "d" else None, "after": None if op == "d" else row, "source": source}
        tp = TopicPartition(f"shop.public.{table}", id_ % self._partitions)
        key = json.dumps({"id": id_}).encode()
        self._send(tp, key, json.dumps({**value, "transaction": block, "op": op}).encode(), is_filtered=is_filtered)
        if op == "d" and not is_filtered:
            self._send(tp, key, None)

    def _send(self, tp: TopicPartition, key: bytes | None, value: bytes | None, *, is_filtered: bool = False) -> None:
        self._lake.logs[tp].append((key, value, -1 if is_filtered else self._lake.now_ms()))
        if not is_filtered:
            self._sent.append((tp, key, value))


def _without(rows: dict[int, int], id_: int) -> dict[int, int]:
    return {key: value for key, value in rows.items() if key != id_}
