"""Sends signals to a running source of MariaDB, and follows what its snapshots emit."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from connect.record import SourceRecord
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.support.waiting import Deadline


class SignaledSource:
    """A source with a signal table."""

    def __init__(self, source: MariaDbRunningSource) -> None:
        self.source = source
        self.database = source.database
        self.execute("CREATE TABLE signals (id VARCHAR(80) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))")

    @property
    def task(self) -> Any:
        """The task that runs now."""
        return self.source.task

    @property
    def stored(self) -> dict[str, Any]:
        """The stored offset."""
        assert self.source.offsets.stored is not None
        return self.source.offsets.stored

    def start(self, **changes: str) -> None:
        """Starts to stream from now on; keyword names have ``_`` for ``.``."""
        self.source.begin(**{"signal_data_collection": f"{self.database}.signals", **changes})

    def restart(self) -> None:
        """The worker dies, and another one continues from the stored offset."""
        self.source.kill()
        self.source.start()
        self.source.until("streaming")

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Runs SQL in a session of its own."""
        with self.source.server.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(sql, tuple(values) or None)
            return list(cursor.fetchall())

    def rows_of(self, table: str = "t") -> list[tuple[Any, ...]]:
        return sorted(self.execute(f"SELECT * FROM {table}"))

    def signal(self, type_: str, data: dict[str, Any] | None = None) -> None:
        """Inserts a signal into the signal table."""
        self.signal_at_once((type_, data or {}))

    def signal_at_once(self, *signals: tuple[str, dict[str, Any]]) -> None:
        """Inserts signals into the signal table in one transaction."""
        values = [value for type_, data in signals for value in (f"{type_}-{time.monotonic_ns()}", type_, json.dumps(data))]
        self.execute(f"INSERT INTO signals VALUES {', '.join(['(%s, %s, %s)'] * len(signals))}", values)

    def request(self, *tables: str, **data: Any) -> None:
        """Asks for a snapshot of tables, regular expressions without the database, by the signal table."""
        self.signal("execute-snapshot", self.request_data(*tables, **data))

    def request_data(self, *tables: str, **data: Any) -> dict[str, Any]:
        return {"data-collections": [f"{self.database}.{table}" for table in tables], **data}

    def poll(self) -> list[SourceRecord]:
        return self.source.poll()

    def until_read(self, replayed: ReplayedTopic | None = None, *, started: bool = False) -> list[SourceRecord]:
        """Polls until no incremental snapshot runs, and stores offsets on the way. ``started``: one runs, or has just ended."""
        found: list[SourceRecord] = []
        deadline = Deadline("the end of the snapshot", lambda: self.task.progress())
        while not started or "incremental_snapshot" in self.task.progress():
            deadline.check()
            records = self.poll()
            found += records
            if replayed is not None:
                replayed.apply(records)
            started = started or "incremental_snapshot" in self.task.progress() or any(map(is_read, records))
            if records:
                self.source.store(records[-1])
        return found


class ReplayedTopic:
    """What a consumer of a topic has: rows by key."""

    def __init__(self, table: str = "t") -> None:
        self.table = table
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.operations: list[str] = []

    def apply(self, records: Sequence[SourceRecord]) -> None:
        for record in records:
            if record.topic.rpartition(".")[2] != self.table:
                continue
            if record.value is None:
                self.rows.pop(tuple(record.key.values), None)
                continue
            event = record.value.as_dict()
            self.operations.append(event["op"])
            if event["op"] == "t":
                self.rows.clear()
            elif event["op"] == "d":
                self.rows.pop(tuple(record.key.values), None)
            else:
                self.rows[tuple(record.key.values)] = event["after"]

    def listed(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in self.rows.values())


def is_read(record: SourceRecord) -> bool:
    """Whether a record is a row of a snapshot."""
    schema = record.value_schema
    return record.value is not None and schema is not None and "op" in schema.field_names and record.value["op"] == "r"
