"""A source with transaction metadata, as Debezium writes it, and the consistent points that a sink wrote for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from connectors.spark import session
from connectors.spark.config import parse_config
from sluice.demo.delta_table import DeltaTableReader
from tests.support.waiting import Deadline

TABLES = ("accounts", "savings")

Rows = dict[str, dict[int, int]]
"""By table: the value of each row."""
Spoil = Callable[[bytes | None, bytes], tuple[bytes | None, bytes]]
"""Turns the key and the value of an event into those of an errant record."""


class TransactionSource:
    """Tables ``(id, v)``. Commits go to ``topics``, one per table, and to the transaction topic; their rows are remembered."""

    def __init__(self, topics: dict[str, Any], transactions: Any, partitions: int = 1) -> None:
        self.topics, self.transactions = topics, transactions
        self.rows: Rows = {name: {} for name in topics}
        self.history: dict[str, Rows] = {}
        """By transaction: the rows after its commit."""
        self._partitions = partitions
        self._lsn = 1_000
        self._xid = 500

    def snapshot(self, table: str, id_: int, v: int) -> None:
        """A row that was there before."""
        self.rows[table][id_] = v
        self._add(table, id_, "r", {"id": id_, "v": v}, None, snapshot="true")

    def commit(
        self,
        changes: Sequence[tuple[str, int, int | None]],
        *,
        counted: dict[str, int] | None = None,
        spoil: Mapping[int, Spoil] | None = None,
    ) -> str:
        """A transaction: sets rows ``(table, id, v)``, or deletes them (None). ``counted``: of other tables. ``spoil``: by the
        number of the change (from 1), which does not count. Returns its id."""
        self._xid += 1
        counts = dict(counted or {})
        self._mark("BEGIN", None)
        for order, (table, id_, v) in enumerate(changes, 1):
            self._lsn += 8
            counts[f"public.{table}"] = number = counts.get(f"public.{table}", 0) + 1
            block = {"id": f"{self._xid}:{self._lsn}", "total_order": order, "data_collection_order": number}
            before = {"id": id_, "v": self.rows[table].get(id_)} if v is None else None
            op = "d" if v is None else "u" if id_ in self.rows[table] else "c"
            self._add(table, id_, op, None if v is None else {"id": id_, "v": v}, block, before=before)
            if spoil and order in spoil:
                log = self.topics[table].logs[id_ % self._partitions]
                log[-1] = spoil[order](*log[-1])
            elif v is None:
                self.rows[table].pop(id_, None)
                self.topics[table].add(json.dumps({"id": id_}).encode(), None, id_ % self._partitions)
            else:
                self.rows[table][id_] = v
        return self._mark("END", counts)

    def _mark(self, status: str, counts: dict[str, int] | None) -> str:
        self._lsn += 8
        name = f"{self._xid}:{self._lsn}"
        listed = None if counts is None else [{"data_collection": n, "event_count": c} for n, c in counts.items()]
        total = None if counts is None else sum(counts.values())
        value = {"status": status, "id": name, "event_count": total, "data_collections": listed, "ts_ms": self._lsn}
        self.transactions.add(json.dumps({"id": name}).encode(), json.dumps(value).encode())
        if status == "END":
            self.history[name] = {table: dict(rows) for table, rows in self.rows.items()}
        return name

    def _add(
        self, table: str, id_: int, op: str, after: Any, block: Any, *, before: Any = None, snapshot: str = "false"
    ) -> None:  # fmt: skip
        source = {"ts_ms": 1, "db": "shop", "schema": "public", "table": table, "snapshot": snapshot, "lsn": self._lsn}
        value = {"before": before, "after": after, "source": source, "transaction": block, "op": op}
        self.topics[table].add(json.dumps({"id": id_}).encode(), json.dumps(value).encode(), id_ % self._partitions)


def create_source(topic: Any, partitions: int = 1) -> TransactionSource:
    topics = {name: topic(f"shop.public.{name}", schemas=False) for name in TABLES}
    for one in topics.values():
        for partition in range(partitions):
            one.logs.setdefault(partition, [])
    return TransactionSource(topics, topic("shop.transaction", schemas=False), partitions)


def all_topics(source: TransactionSource) -> list[Any]:
    return [*source.topics.values(), source.transactions]


def transaction_settings(props: Mapping[str, str]) -> dict[str, str]:
    """The settings of a sink that reads these topics in rounds."""
    return {
        **{name: value for name, value in props.items() if name != "topics"},
        "topics.regex": "shop.*",
        "table.name.format": "${table}",
        "write.mode": "upsert",
        "commit.scope": "transaction",
    }


def read_versions(settings: Mapping[str, str]) -> list[tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]]:
    """The rows of the table of transactions in order, each with the rows of the versions that it names, by table."""
    if "table.catalog" in settings:
        lease = session.lease(parse_config(settings).spark)
        try:
            return _read_versions(partial(_read_iceberg, lease.session(), settings["table.catalog"]))
        finally:
            lease.release()
    location = settings["table.location"]
    return _read_versions(lambda table, version: DeltaTableReader(f"{location}/{table}", version).read().to_pylist())


def _read_versions(
    read: Callable[[str, int | None], list[dict[str, Any]]],
) -> list[tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]]:
    rows = sorted(read("_sluice_transactions", None), key=lambda row: row["round"])
    return [(row, {table: read(table, version) for table, version in dict(row["tables"]).items()}) for row in rows]


def _read_iceberg(spark: Any, catalog: str, table: str, version: int | None) -> list[dict[str, Any]]:
    at = "" if version is None else f" VERSION AS OF {version}"
    return [row.asDict() for row in spark.sql(f"SELECT * FROM {catalog}.{table}{at}").collect()]


def read_points(settings: Mapping[str, str]) -> list[tuple[dict[str, Any], Rows]]:
    """The same for upsert tables, with the value of each row."""
    return [
        (row, {table: {one["id"]: one["v"] for one in versions.get(table, [])} for table in TABLES})
        for row, versions in read_versions(settings)
    ]


def commit(task_run: Any) -> None:
    """Commits all transactions. A round may have to be repeated on a slow machine: tables are created one after the other."""
    deadline = Deadline("the last transaction", task_run.task.progress)
    task_run.commit()
    while task_run.task.progress()["transactions"]["waiting"]:
        deadline.check()
        task_run.commit()
