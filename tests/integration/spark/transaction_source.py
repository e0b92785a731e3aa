"""A source with transaction metadata, as Debezium writes it: commits go to topics, and the rows of each commit are remembered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Rows = dict[str, dict[int, int]]
"""By table: the value of each row."""


class TransactionSource:
    """Tables ``(id, v)``; ``topics`` has a topic per table (named like the table) and the transaction topic."""

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

    def commit(self, changes: Sequence[tuple[str, int, int | None]], *, counted: dict[str, int] | None = None) -> str:
        """A transaction: sets rows ``(table, id, v)``, or deletes them (None). ``counted``: of other tables. Returns its id."""
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
            if v is None:
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
