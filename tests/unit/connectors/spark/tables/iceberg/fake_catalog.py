"""An Iceberg table in memory: snapshots with summaries and files, commits with the checks of IcebergTables.java, rollback."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import WantedLayout
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.files.compaction import CompactionSettings
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.expiry import Retention
from connectors.spark.tables.iceberg.library import IcebergName
from connectors.spark.tables.iceberg.offsets import PREFIX
from connectors.spark.tables.iceberg.table_format import IcebergTableFormat
from connectors.spark.tables.iceberg.view import IcebergView
from connectors.spark.tables.table import OffsetCommit
from connectors.spark.tables.table_format import FileTableSettings

TP = TopicPartition("topic", 0)


class FakeCatalog:
    """One table with a column ``id``. Only appends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "metadata").mkdir(parents=True)
        self.snapshots: list[dict[str, Any]] = []
        """The newest one last."""
        self.properties: dict[str, str] = {}
        self.lose_answer = False
        """Whether the next commit raises an error although it is in the table."""
        self.expire_before_changes = 0
        """How many of the oldest snapshots, and their files, somebody removes before the changes of a snapshot are read next."""
        self.fail_read = False
        """Whether reading the metadata fails."""
        self.now_s = 0.0
        self._last_id = 0

    def commit(self, summary: dict[str, Any], added: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        self._last_id += 1
        parent = self.snapshots[-1]["id"] if self.snapshots else None
        self.snapshots.append(
            {"id": self._last_id, "parent": parent, "summary": summary, "added": list(added), "ms": self.now_s * 1000}
        )
        return self.snapshots[-1]

    def roll_back(self, snapshots: int) -> None:
        del self.snapshots[-snapshots:]

    @property
    def rows(self) -> int:
        return sum(int(entry["rows"]) for snapshot in self.snapshots for entry in snapshot["added"])

    def offset(self) -> int | None:
        """The end of the partition in the newest offsets."""
        for snapshot in reversed(self.snapshots):
            for name, text in snapshot["summary"].items():
                if name.startswith(PREFIX):
                    return next(iter(json.loads(text).values()), None)
        return None

    def overwrite(self) -> None:
        """What Spark's overwritePartitions, or a dynamic INSERT OVERWRITE, of all rows commits."""
        files = {"added-data-files": "1", "total-data-files": "1"}
        self.commit({"operation": "overwrite", "replace-partitions": "true", **files})

    def open(self, connector: str = "c", *, expire_interval_s: float = 0) -> FileTable[IcebergView, IcebergChange]:
        """The table as a new task opens it."""
        merging = CompactionSettings(min_files=0)
        settings = FileTableSettings(connector, False, False, 1000, WantedLayout(), merging, expire_interval_s, 0)

        def no_session() -> Any:
            raise AssertionError("the fake needs no Spark")

        form = IcebergTableFormat(IcebergName("cat", ("db",), "t"), settings, no_session, {}, now=lambda: self.now_s)
        fake: Any = form
        fake._library = SimpleNamespace(load=lambda name, branch: FakeHandle(self))
        fake._handle = FakeHandle(self)
        return FileTable(form, settings, lambda topic: TopicIdentity("cluster", "topic-id"))


class FakeHandle:
    """What IcebergTables.java does with the table, for one task."""

    uuid = "u"

    def __init__(self, catalog: FakeCatalog) -> None:
        self._catalog = catalog

    def read(self) -> dict[str, Any]:
        if self._catalog.fail_read:
            raise OSError("no answer")
        fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
        state: dict[str, Any] = {
            "uuid": "u",
            "location": str(self._catalog.folder),
            "format": 3,
            "schema": {"type": "struct", "schema-id": 0, "fields": fields},
            "spec": {"spec-id": 0, "fields": []},
            "data": str(self._catalog.folder / "data" / "x"),
            "properties": dict(self._catalog.properties),
        }
        if self._catalog.snapshots:
            newest = self._catalog.snapshots[-1]["id"]
            state |= {"snapshot": newest, "sequence": newest}
        return state

    def history(self, since: int) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        is_known = any(snapshot["id"] == since for snapshot in self._catalog.snapshots)
        for snapshot in reversed(self._catalog.snapshots):
            if is_known and snapshot["id"] == since:
                return {"snapshots": found, "end": "since"}
            found.append({"id": snapshot["id"], "operation": "append", "summary": snapshot["summary"]})
            if not is_known and _has_offsets(snapshot):
                return {"snapshots": found, "end": "offsets"}
        return {"snapshots": found, "end": "root"}

    def files(self, snapshot: int) -> list[dict[str, Any]]:
        return []

    def changes(self, snapshot: int) -> dict[str, Any]:
        del self._catalog.snapshots[: self._catalog.expire_before_changes]
        self._catalog.expire_before_changes = 0
        if all(kept["id"] != snapshot for kept in self._catalog.snapshots):
            raise OSError("the manifest does not exist")
        return {"added": [], "removed": [], "deletes": [], "undeleted": []}

    def count_snapshots(self, before_ms: int) -> tuple[int, int, int]:
        times = [snapshot["ms"] for snapshot in self._catalog.snapshots]
        old = [ms for ms in times[:-1] if ms < before_ms]
        return len(times), len(old), min(old, default=before_ms)

    def expire_snapshots(self) -> None:
        retention = Retention.read(self._catalog.properties)
        first = self._catalog.now_s * 1000 - retention.max_age_ms
        kept = self._catalog.snapshots[-retention.min_count :]
        self._catalog.snapshots[:] = [s for s in self._catalog.snapshots if s["ms"] >= first or s in kept]

    def remove_property(self, name: str) -> None:
        del self._catalog.properties[name]

    def set_property(self, name: str, value: str) -> None:
        self._catalog.properties[name] = value

    def commit(self, request: dict[str, Any]) -> dict[str, Any]:
        asked = json.loads(json.dumps(request))
        self._validate(asked["base"], asked["expected"])
        done = self._catalog.commit(asked["summary"], asked["add"])
        if self._catalog.lose_answer:
            self._catalog.lose_answer = False
            raise OSError("no answer")
        return {"snapshot": done["id"], "parent": done["parent"], "sequence": done["id"], "summary": done["summary"]}

    def _validate(self, base: int, expected: int) -> None:
        """UnmovedOffsets."""
        for snapshot in reversed(self._catalog.snapshots):
            if snapshot["id"] in (base, expected):
                return
            if _has_offsets(snapshot) or "replace-partitions" in snapshot["summary"]:
                break
        else:
            if not expected:
                return
        raise CommitConflict("another task has committed offsets")


def _has_offsets(snapshot: dict[str, Any]) -> bool:
    return any(name.startswith(PREFIX) for name in snapshot["summary"])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def offsets(first: int, end: int) -> OffsetCommit:
    return OffsetCommit({TP: (first, end)}, {TP: end}, {TP: first} if first else {})
