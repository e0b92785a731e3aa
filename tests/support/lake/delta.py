"""A Delta table as its log describes it, with Delta's transactions: what conflicts, and what RESTORE keeps.

Rules: ConflictChecker of Delta with the isolation level WriteSerializable, "Action Reconciliation" and "Deletion Vectors" of its
protocol, RestoreTableCommand. The sink reads the log's files with its own code; this module keeps its own account of them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pyarrow as pa

from connectors.spark.config import TableConfig
from connectors.spark.plan.evolution import spark_json_field
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.delta import maintenance, table_format
from connectors.spark.tables.delta.change import DeltaChange
from connectors.spark.tables.delta.table_format import DeltaTableFormat
from connectors.spark.tables.delta.view import DeltaView
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.key_property import key_properties
from connectors.spark.tables.table_format import FileTableSettings
from tests.support.lake import vectors
from tests.support.lake.calls import COMMITS, READS, Calls
from tests.support.lake.lakes import CONNECTOR, FOLDER, IDENTITY, MERGING, PATH, Belief, Effect, Lake, Values, Version, parse_ends
from tests.support.lake.store import StoreClient

Action = dict[str, Any]
_FEATURES = ["appendOnly", "deletionVectors", "invariants"]
_PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": _FEATURES}


@dataclass(slots=True)
class DeltaVersion(Version):
    """A version with what its commit did, and the state of the table after it."""

    actions: list[Action] = field(default_factory=list)
    info: Action = field(default_factory=dict)
    active: dict[tuple[str, str], Action] = field(default_factory=dict)
    """Files by their path and deletion vector, as readers reconcile them."""
    transactions: dict[str, int] = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)

    def of(self, kind: str) -> list[Action]:
        """The commit's actions of a kind."""
        return [action[kind] for action in self.actions if kind in action]


class DeltaLake(Lake):
    """A Delta table in the store."""

    format = "delta"

    restores_memory = False

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self.table_id = str(uuid.uuid4())
        self.put([{"metaData": self._metadata()}, {"protocol": _PROTOCOL}], {"operation": "CREATE TABLE"}, effect=list)

    # -- for the sink

    def open(self, settings: TableConfig, calls: Calls) -> FileTable[DeltaView, DeltaChange]:
        client = StoreClient(self.store, calls)
        of_table = FileTableSettings(
            CONNECTOR, settings.upserts, False, 1000, settings.layout, MERGING, 0, settings.deleted_retention_ms
        )
        session: Any = _Session()

        def transactions(*_: object) -> Any:
            return _Transactions(self, calls)

        with (
            mock.patch.object(table_format, "open_location", return_value=(client, FOLDER)),
            mock.patch.object(table_format, "DeltaTransactions", transactions),
            mock.patch.object(maintenance, "DeltaTransactions", transactions),
        ):
            search: Any = None
            return FileTable(DeltaTableFormat(session, PATH, "t", of_table, search), of_table, lambda topic: IDENTITY)

    def belief(self, table: Any) -> Belief | None:
        view = table.view
        return None if view is None else Belief(view.version, view.files, parse_ends(view.ends))

    # -- the log

    @property
    def newest(self) -> DeltaVersion:
        found = self.versions[-1]
        assert isinstance(found, DeltaVersion)
        return found

    def place(self, path: str) -> str:
        return f"{FOLDER}/{path}"

    def put(self, actions: Iterable[Action], info: Action, effect: Effect | None = None) -> DeltaVersion:
        """Writes the next version, whatever the others did."""
        number = len(self.versions)
        info = {"timestamp": 1_700_000_000_000 + number, "readVersion": number - 1, **info}
        written: list[Action] = json.loads(json.dumps([{"commitInfo": info}, *actions]))
        before = self.newest if self.versions else DeltaVersion(-1, None, "", {}, {})
        version = DeltaVersion(
            number, before.id if number else None, str(info["operation"]), {}, {}, effect, actions=written, info=info
        )
        self._reconcile(version, before)
        self.store.objects[f"{FOLDER}/_delta_log/{number:020d}.json"] = "\n".join(map(json.dumps, written)).encode()
        self.versions.append(version)
        return version

    def _reconcile(self, version: DeltaVersion, before: DeltaVersion) -> None:
        """What the actions make of the state before."""
        version.active, version.transactions, version.metadata = dict(before.active), dict(before.transactions), before.metadata
        for remove in version.of("remove"):
            if version.active.pop((remove["path"], _vector_of(remove)), None) is None:
                version.problems.append(f"it removes {remove['path']} with a vector that is not the file's")
        for add in version.of("add"):
            version.active[add["path"], _vector_of(add)] = add
        version.transactions |= {txn["appId"]: txn["version"] for txn in version.of("txn")}
        version.metadata = next(iter(version.of("metaData")), version.metadata)
        version.ends = parse_ends(version.transactions)
        for path, _ in version.active:
            if sum(other == path for other, _ in version.active) > 1:
                version.problems.append(f"the file {path} is in it with two vectors")
        version.deleted = {add["path"]: self._deleted_of(add) for add in version.active.values()}

    def _deleted_of(self, add: Action) -> frozenset[int]:
        if (vector := add.get("deletionVector")) is None:
            return frozenset()
        content = self.store.objects.get(self.place(vectors.delta_file(vector)))
        return frozenset() if content is None else vectors.decode(content[int(vector["offset"]) :])

    def needed(self, version: Version) -> set[str]:
        assert isinstance(version, DeltaVersion)
        names = {add["path"] for add in version.active.values()}
        names |= {vectors.delta_file(a["deletionVector"]) for a in version.active.values() if "deletionVector" in a}
        return {self.place(name) for name in names}

    def commit(
        self, read_version: int, actions: list[Action], user_metadata: str, application_ids: set[str], *, reads_table: bool
    ) -> int:
        """Delta's commit: checks the versions since the one that was read. Raises CommitConflict."""
        kinds = {kind for action in actions for kind in action}
        removed = {action["remove"]["path"] for action in actions if "remove" in action}
        for other in self.versions[read_version + 1 :]:
            assert isinstance(other, DeltaVersion)
            if other.of("protocol"):
                raise CommitConflict("DELTA_PROTOCOL_CHANGED")
            if other.of("metaData"):
                raise CommitConflict("DELTA_METADATA_CHANGED")
            is_blind = other.info.get("isBlindAppend") and "metaData" not in kinds
            if reads_table and ((other.of("add") and not is_blind) or other.of("remove")):
                raise CommitConflict("DELTA_CONCURRENT_APPEND")
            if not removed.isdisjoint(remove["path"] for remove in other.of("remove")):
                raise CommitConflict("DELTA_CONCURRENT_DELETE_DELETE")
            if not application_ids.isdisjoint(txn["appId"] for txn in other.of("txn")):
                raise CommitConflict("DELTA_CONCURRENT_TRANSACTION")
        info = {
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "readVersion": read_version,
            "isBlindAppend": not reads_table and kinds <= {"add", "txn"},
            "userMetadata": user_metadata,
        }
        return self.put(actions, info, list if self.is_operated else None).id

    # -- the foreign writer

    def change(
        self,
        operation: str,
        effect: Effect | None,
        *,
        rows: Sequence[Values] = (),
        removed: Sequence[str] = (),
        deleted: Mapping[str, frozenset[int]] | None = None,
        rearranges: bool = False,
    ) -> None:
        by_path = {add["path"]: add for add in self.newest.active.values()}
        actions: list[Action] = [{"remove": _remove(by_path[path], rearranges)} for path in (*removed, *(deleted or {}))]
        for path, numbers in (deleted or {}).items():
            blob, name = vectors.encode(numbers), f"deletion_vector_{uuid.uuid4()}.bin"
            self.store.objects[self.place(name)] = b"\x01" + blob
            vector = {"storageType": "p", "pathOrInlineDv": f"{PATH}/{name}", "offset": 1}
            vector |= {"sizeInBytes": len(blob) - 8, "cardinality": len(numbers)}
            actions.append({"add": {**by_path[path], "deletionVector": vector}})
        if rows:
            path, size = self._write(rows)
            entry = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": not rearranges}
            actions.append({"add": {**entry, "stats": json.dumps({"numRecords": len(rows)})}})
        names = {"append": "WRITE", "rewrite": "OPTIMIZE"}
        info = {"operation": names.get(operation, operation.upper()), "isBlindAppend": operation == "append"}
        self.put(actions, info | {"operationParameters": {"mode": "Append"} if operation == "append" else {}}, effect)

    def go_back(self, versions: int) -> None:
        """RESTORE brings files and metadata back, and keeps the transaction identifiers."""
        target = self.versions[max(0, self.newest.id - versions)]
        assert isinstance(target, DeltaVersion)
        if not self.needed(target) <= self.store.objects.keys():
            return  # it refuses a version whose files are gone
        before = self.newest.active
        actions = [{"remove": _remove(add, False)} for key, add in before.items() if key not in target.active]
        actions += [{"add": add} for key, add in target.active.items() if key not in before]
        restored = self.put([{"metaData": target.metadata}, *actions], {"operation": "RESTORE"}, list)
        restored.restored = target.id
        self.is_moved = True

    def clean(self) -> None:
        """VACUUM."""
        self.delete_unneeded([self.newest])

    def add_column(self) -> None:
        self.columns[f"note{len(self.columns)}"] = pa.string()
        self.put([{"metaData": self._metadata()}], {"operation": "ADD COLUMNS"}, list)

    def _metadata(self) -> Action:
        schema = {"type": "struct", "fields": [spark_json_field(name, type_) for name, type_ in self.columns.items()]}
        return {
            "id": self.table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": [],
            "configuration": {"delta.enableDeletionVectors": "true", **key_properties(self.keys)},
            "createdTime": 0,
        }


class _Transactions:
    """Stands in for DeltaTransactions."""

    def __init__(self, lake: DeltaLake, calls: Calls) -> None:
        self._lake = lake
        self._calls = calls

    def begin(self) -> _Transaction:
        with self._calls.call("start a transaction", READS):
            return _Transaction(self._lake, self._calls)

    def table_exists(self) -> bool:
        return self.begin().version >= 0


class _Transaction:
    """Stands in for DeltaTransaction."""

    def __init__(self, lake: DeltaLake, calls: Calls) -> None:
        self._lake = lake
        self._calls = calls
        self._snapshot = lake.newest
        self.version = self._snapshot.id

    def metadata(self) -> Action:
        return self._snapshot.metadata

    def table_id(self) -> str:
        return str(self._snapshot.metadata["id"])

    def protocol(self) -> Mapping[str, Any]:
        return _PROTOCOL

    def domains(self) -> list[Mapping[str, Any]]:
        return []

    def application_versions(self) -> dict[str, int]:
        with self._calls.call("read the transaction identifiers", READS):
            return dict(self._snapshot.transactions)

    def files(self) -> list[Action]:
        with self._calls.call("read the list of files", READS):
            return list(self._snapshot.active.values())

    def write_checkpoint(self) -> None:
        return

    def commit(
        self,
        actions: Iterable[Action],
        document: TableCommit,
        *,
        application_ids: Collection[str] = (),
        reads_table: bool = False,
    ) -> int:
        metadata, read = document.to_json(), set(application_ids)
        try:
            with self._calls.call("commit to Delta", COMMITS):
                return self._lake.commit(self.version, list(actions), metadata, read, reads_table=reads_table)
        except CommitConflict:
            # As DeltaTransaction does, which looks for the commit by its ID.
            for version in self._lake.versions[self.version + 1 :]:
                assert isinstance(version, DeltaVersion)
                if version.info.get("userMetadata") == metadata:
                    return version.id
            raise


class _Settings:
    def get(self, name: str, default: str | None = None) -> str | None:
        return default


class _Session:
    """Stands in for the session."""

    def __init__(self) -> None:
        self.conf = _Settings()


def _vector_of(action: Action) -> str:
    """What tells a file's vectors apart; empty without one."""
    vector = action.get("deletionVector")
    return "" if vector is None else f"{vector['pathOrInlineDv']}@{vector.get('offset')}"


def _remove(add: Action, rearranges: bool) -> Action:
    kept = {name: add[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in add}
    return kept | {"deletionTimestamp": 1, "dataChange": not rearranges, "extendedFileMetadata": True}
