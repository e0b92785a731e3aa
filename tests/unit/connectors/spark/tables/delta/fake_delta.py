"""A Delta table without Spark: a log on disk, and a fake of Delta's transaction with the conflict rules that the sink needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyarrow import fs

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import WantedLayout
from connectors.spark.tables.delta.change import DeltaChange
from connectors.spark.tables.delta.log import Action, DeltaLog
from connectors.spark.tables.delta.table_format import DeltaTableFormat
from connectors.spark.tables.delta.transaction import DeltaTransaction
from connectors.spark.tables.delta.view import DeltaView
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.files.compaction import CompactionSettings
from connectors.spark.tables.table import OffsetCommit
from connectors.spark.tables.table_format import FileTableSettings

TP = TopicPartition("topic", 0)
SCHEMA: dict[str, Any] = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


class Thrown(Exception):
    """What py4j raises for an exception of Java."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.java_exception = SimpleNamespace(getClass=lambda: SimpleNamespace(getName=lambda: name))


CONFLICT = "io.delta.exceptions.ConcurrentTransactionException"


@dataclass
class FakeDelta:
    """One table with a column ``id``."""

    folder: Path
    created_ms: int = 0
    lost_answers: list[Exception] = field(default_factory=list)
    """What the next commits raise although they are in the log."""

    def __post_init__(self) -> None:
        (self.folder / "_delta_log").mkdir(parents=True)
        metadata: dict[str, Any] = {
            "id": "table-id",
            "schemaString": json.dumps(SCHEMA),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": self.created_ms,
        }
        self.commit([{"metaData": metadata}, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}])

    @property
    def version(self) -> int:
        return len(list((self.folder / "_delta_log").glob("*.json"))) - 1

    def commit(self, actions: list[Action], **info: Any) -> int:
        version = self.version + 1
        lines = [{"commitInfo": {"operation": "WRITE", **info}}, *actions]
        path = self.folder / "_delta_log" / f"{version:020d}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        return version

    def add_column(self) -> int:
        """ALTER TABLE ADD COLUMN, by another writer."""
        return self.alter_schema([*SCHEMA["fields"], {"name": "more", "type": "long", "nullable": True, "metadata": {}}])

    def alter_schema(self, fields: list[Action]) -> int:
        """Columns that another writer sets."""
        return self._alter(schemaString=json.dumps({**SCHEMA, "fields": fields}))

    def alter(self, properties: Mapping[str, str]) -> int:
        """Properties that another writer sets."""
        return self._alter(configuration=dict(properties))

    def _alter(self, **metadata: Any) -> int:
        return self.commit([{"metaData": {**list(self.actions("metaData"))[-1], **metadata}}])

    def actions(self, kind: str, since: int = -1) -> Iterator[Action]:
        for version in range(since + 1, self.version + 1):
            for line in (self.folder / "_delta_log" / f"{version:020d}.json").read_text().splitlines():
                action = json.loads(line)
                if kind in action:
                    yield action[kind]

    def transactions(self) -> dict[str, int]:
        return {action["appId"]: action["version"] for action in self.actions("txn")}

    def files(self) -> list[Action]:
        live = {action["path"]: action for action in self.actions("add")}
        for action in self.actions("remove"):
            live.pop(action["path"], None)
        return list(live.values())

    def missing_files(self) -> list[str]:
        return [action["path"] for action in self.files() if not (self.folder / action["path"]).exists()]

    def rows(self) -> int:
        return sum(json.loads(action["stats"])["numRecords"] for action in self.files())

    def begin(self) -> DeltaTransaction:
        java: Any = _JavaTransaction(self)
        classes: Any = SimpleNamespace(
            collections=SimpleNamespace(
                asJava=lambda listed: listed, asScala=lambda listed: SimpleNamespace(toSeq=lambda: listed)
            ),
            list=_JavaList,
            action_from_json=json.loads,
            option=lambda value: value,
            append="Append",
            write=lambda mode, partitions, predicate, metadata, *more: metadata,
        )
        log = DeltaLog(fs.LocalFileSystem(), str(self.folder))
        return DeltaTransaction(classes, None, java, log)

    def open(self, connector: str = "c", *, min_files: int = 0) -> FileTable[DeltaView, DeltaChange]:
        """The table as a new task opens it, to append to it."""
        merging = CompactionSettings(min_files=min_files)
        settings = FileTableSettings(connector, False, False, 1000, WantedLayout(), merging, 0, 0)
        session: Any = SimpleNamespace(_jvm=None, _jsparkSession=None)
        search: Any = None
        form = DeltaTableFormat(session, str(self.folder), "t", settings, search)
        transactions: Any = SimpleNamespace(begin=self.begin)
        form._transactions = transactions
        return FileTable(form, settings, lambda topic: TopicIdentity("cluster", "topic-id"))


class _JavaList(list[Any]):
    add = list.append


class _JavaTransaction:
    def __init__(self, table: FakeDelta) -> None:
        self._table = table
        self._version = table.version
        self._read: list[str] = []

    def readVersion(self) -> int:
        return self._version

    def metadata(self) -> Any:
        found = list(self._table.actions("metaData"))[-1]
        return SimpleNamespace(json=lambda: json.dumps({"metaData": found}), id=lambda: found["id"])

    def protocol(self) -> Any:
        found = list(self._table.actions("protocol"))[-1]
        return SimpleNamespace(json=lambda: json.dumps({"protocol": found}))

    def snapshot(self) -> Any:
        listed = [SimpleNamespace(appId=lambda i=i: i, version=lambda v=v: v) for i, v in self._table.transactions().items()]
        files = SimpleNamespace(toJSON=lambda: SimpleNamespace(collectAsList=lambda: list(map(json.dumps, self._table.files()))))
        return SimpleNamespace(
            checksumOpt=lambda: SimpleNamespace(isDefined=lambda: False),
            setTransactions=lambda: listed,
            domainMetadata=list,
            allFiles=lambda: files,
        )

    def readTxn(self) -> Any:
        return SimpleNamespace(addOne=self._read.append)

    def readWholeTable(self) -> None: ...

    def commit(self, actions: list[Mapping[str, Any]], user_metadata: str) -> int:
        removed = {action["remove"]["path"] for action in actions if "remove" in action}
        others_removed = {action["path"] for action in self._table.actions("remove", self._version)}
        moved = {action["appId"] for action in self._table.actions("txn", self._version)}
        if moved.intersection(self._read) or removed & others_removed:
            raise Thrown(CONFLICT)
        version = self._table.commit([dict(action) for action in actions], userMetadata=user_metadata)
        if self._table.lost_answers:
            raise self._table.lost_answers.pop(0)
        return version


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def offsets(first: int, end: int) -> OffsetCommit:
    return OffsetCommit({TP: (first, end)}, {TP: end}, {TP: first} if first else {})
