"""An Iceberg table as its metadata describes it, with what IcebergTables.java has Iceberg's library check in a commit.

Rules: MergingSnapshotProducer with BaseRowDelta, BaseOverwriteFiles, and BaseRewriteFiles of Iceberg 1.11, format version 3. A
commit is validated against the newest metadata; whatever a task reads is as old as its last refresh.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from connectors.spark.config import TableConfig
from connectors.spark.tables import effects
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.library import IcebergName
from connectors.spark.tables.iceberg.offsets import COMMIT, effect_of
from connectors.spark.tables.iceberg.table_format import IcebergTableFormat
from connectors.spark.tables.iceberg.types import new_schema
from connectors.spark.tables.iceberg.view import IcebergView
from connectors.spark.tables.key_property import key_properties
from connectors.spark.tables.table_format import FileTableSettings
from tests.support.lake import vectors
from tests.support.lake.calls import COMMITS, READS, WRITES, Calls
from tests.support.lake.lakes import CONNECTOR, IDENTITY, MERGING, PATH, Belief, Effect, Lake, Values, Version, parse_ends
from tests.support.lake.store import StoreClient

Entry = dict[str, Any]
Files = dict[str, Entry]
"""Data files by path, with their deletion vectors in ``deletes``."""
MAIN = "main"
_OFFSETS = "sluice.offsets."
_FIELD_ID = b"PARQUET:field_id"


@dataclass(slots=True)
class Snapshot(Version):
    """A snapshot with its files and what it changed."""

    sequence: int = 0
    summary: dict[str, str] = field(default_factory=dict)
    files: Files = field(default_factory=dict)
    added: list[Entry] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    deletes: list[Entry] = field(default_factory=list)
    undeleted: list[str] = field(default_factory=list)

    @property
    def has_offsets(self) -> bool:
        return any(name.startswith(_OFFSETS) for name in self.summary)


@dataclass(frozen=True, slots=True)
class Metadata:
    """A metadata file, which never changes."""

    schema: Mapping[str, Any]
    snapshots: Mapping[int, Snapshot] = field(default_factory=dict)
    refs: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    sequence: int = 0
    next_row: int = 0

    def head(self, branch: str = MAIN) -> Snapshot | None:
        found = self.refs.get(branch)
        return None if found is None else self.snapshots[found]

    def ancestors(self, branch: str = MAIN) -> list[Snapshot]:
        """The branch's snapshots, the newest one first, as far as they have not expired."""
        found, at = [], self.refs.get(branch)
        while at is not None and at in self.snapshots:
            found.append(self.snapshots[at])
            at = found[-1].parent
        return found


@dataclass(frozen=True, slots=True)
class Change:
    """What a snapshot does to the files of another."""

    kind: str
    added: Sequence[Entry] = ()
    removed: Sequence[str] = ()
    vectors: Sequence[Entry] = ()
    old_vectors: Sequence[Entry] = ()


class IcebergLake(Lake):
    """An Iceberg table in the store, with its metadata in a catalog."""

    format = "iceberg"

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        self.uuid = str(uuid.uuid4())
        self.metadata = Metadata(new_schema(self.columns), properties=key_properties(self.keys))
        self._empty = Snapshot(0, None, "create", {}, {}, list)
        self.versions.append(self._empty)

    # -- for the sink

    def open(self, settings: TableConfig, calls: Calls) -> FileTable[IcebergView, IcebergChange]:
        client = StoreClient(self.store, calls)
        name = IcebergName("cat", ("db",), "t")
        of_table = FileTableSettings(
            CONNECTOR, settings.upserts, False, 1000, settings.layout, MERGING, 0, settings.deleted_retention_ms
        )

        def no_session() -> Any:
            raise AssertionError("the fake needs no Spark")

        form = IcebergTableFormat(name, of_table, no_session, {})
        fake: Any = form
        fake._library = _Library(self, calls)
        fake._open_files = lambda state: client
        return FileTable(form, of_table, lambda topic: IDENTITY)

    def belief(self, table: Any) -> Belief | None:
        view = table.view
        return None if view is None else Belief(view.version, view.files, parse_ends(view.ends))

    # -- reading

    @property
    def newest(self) -> Snapshot:
        return self.metadata.head() or self._empty

    def place(self, path: str) -> str:
        return path.removeprefix("s3://")

    def needed(self, version: Version) -> set[str]:
        assert isinstance(version, Snapshot)
        deletes = {vector["path"] for entry in version.files.values() for vector in entry["deletes"]}
        return {self.place(path) for path in {*version.files, *deletes}}

    # -- commits

    def commit(
        self,
        change: Change,
        summary: Mapping[str, str],
        *,
        validate: Callable[[Metadata], None] = lambda metadata: None,
        effect: Effect | None = None,
        branch: str = MAIN,
    ) -> Snapshot:
        """Adds a snapshot to a branch. Raises CommitConflict when the newest metadata does not allow it."""
        metadata = self.metadata
        validate(metadata)
        parent = metadata.head(branch) or (None if branch == MAIN else metadata.head())
        files = dict(parent.files) if parent is not None else {}
        sequence, next_row = metadata.sequence + 1, metadata.next_row
        snapshot = Snapshot(
            1000 + len(self.versions), None if parent is None else parent.id, change.kind, {}, {}, effect, sequence=sequence
        )
        snapshot.undeleted = [str(vector["of"]) for vector in change.old_vectors]
        for vector in change.old_vectors:
            _drop_vector(files, vector)
        for path in change.removed:
            if files.pop(path, None) is None:
                raise CommitConflict(f"missing required files to delete: {path}")
            snapshot.removed.append(path)
        for entry in change.added:
            whole = {**entry, "deletes": [], "first_row": next_row, "sequence": sequence}
            next_row += int(entry["rows"])
            files[entry["path"]] = whole
            snapshot.added.append({name: value for name, value in whole.items() if name != "deletes"})
        for vector in change.vectors:
            if (marked := files.get(vector["of"])) is None:
                snapshot.problems.append(f"a vector is for {vector['of']}, which is not in the table")
                continue
            files[vector["of"]] = {**marked, "deletes": [*marked["deletes"], dict(vector)]}
            snapshot.deletes.append(dict(vector))
            if len(marked["deletes"]):
                snapshot.problems.append(f"{vector['of']} has two vectors")
        snapshot.files = files
        snapshot.deleted = {path: self._deleted_of(entry) for path, entry in files.items()}
        total = {"total-data-files": str(len(files)), "added-data-files": str(len(change.added)), "total-files-size": "1"}
        snapshot.summary = {**total, **summary}
        found = next((s for s in (snapshot, *metadata.ancestors(branch)) if s.has_offsets), None)
        stored = json.loads(found.summary.get(_OFFSETS + CONNECTOR, "{}")) if found is not None else {}
        snapshot.ends = parse_ends(stored)
        self.versions.append(snapshot)
        self.metadata = replace(
            metadata,
            snapshots={**metadata.snapshots, snapshot.id: snapshot},
            refs={**metadata.refs, branch: snapshot.id},
            sequence=sequence,
            next_row=next_row,
        )
        return snapshot

    def _deleted_of(self, entry: Entry) -> frozenset[int]:
        rows = frozenset[int]()
        for vector in entry["deletes"]:
            content = self.store.objects.get(self.place(vector["path"]), b"")
            rows |= vectors.decode(content[vector["offset"] : vector["offset"] + vector["length"]]) if content else frozenset()
        return rows

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
        kinds = {"append": "append", "rewrite": "replace", "delete": "delete"}
        files, new, old = self.newest.files, [], []
        for path, numbers in (deleted or {}).items():
            blob, place = vectors.encode(numbers), f"{PATH}/data/{uuid.uuid4()}.puffin"
            self.store.objects[self.place(place)] = blob
            old += files[path]["deletes"]
            new.append(
                {
                    "path": place,
                    "content": "POSITION_DELETES",
                    "format": "PUFFIN",
                    "size": len(blob),
                    "rows": len(numbers),
                    "spec": 0,
                    "partition": [],
                    "of": path,
                    "offset": 0,
                    "length": len(blob),
                }
            )
        old += [vector for path in removed for vector in files[path]["deletes"]]
        added = [self._new_entry(rows)] if rows else []
        self.commit(Change(kinds.get(operation, "overwrite"), added, removed, new, old), {}, effect=effect)

    def _new_entry(self, rows: Sequence[Values]) -> Entry:
        path, size = self._write(rows, f"{PATH}/data/{uuid.uuid4()}.parquet")
        return {"path": path, "format": "PARQUET", "size": size, "rows": len(rows), "spec": 0, "partition": []}

    def _file_schema(self, rows: Sequence[Values]) -> pa.Schema:
        ids = {member["name"]: member["id"] for member in self.metadata.schema["fields"]}
        types = self.columns.items()
        return pa.schema([pa.field(name, type_, metadata={_FIELD_ID: str(ids[name]).encode()}) for name, type_ in types])

    def go_back(self, versions: int) -> None:
        """The branch points to an ancestor again; what came after it is no ancestor any more."""
        known = self.metadata.ancestors()
        if len(known) > 1:
            target = known[min(versions, len(known) - 1)]
            self.metadata = replace(self.metadata, refs={**self.metadata.refs, MAIN: target.id})
            self.is_moved = True

    def clean(self) -> None:
        """The newest snapshot with offsets stays, and what came after it, and other branches: table properties keep 100."""
        ancestors = self.metadata.ancestors()
        count = next((at for at, snapshot in enumerate(ancestors) if snapshot.has_offsets), 0) + 1
        self._keep({snapshot.id for snapshot in ancestors[:count]})

    def expire(self) -> None:
        """Only the snapshots that branches point to stay."""
        self._keep(set())
        self.is_moved = self.is_moved or not any(snapshot.has_offsets for snapshot in self.metadata.ancestors())

    def _keep(self, numbers: set[int]) -> None:
        metadata = self.metadata
        kept = {number: metadata.snapshots[number] for number in {*metadata.refs.values(), *numbers}}
        self.metadata = replace(metadata, snapshots=kept)
        self.delete_unneeded(kept.values())

    def add_column(self) -> None:
        schema = self.metadata.schema
        name, number = f"note{len(self.columns)}", max(member["id"] for member in schema["fields"]) + 1
        self.columns[name] = pa.string()
        fields = [*schema["fields"], {"id": number, "name": name, "required": False, "type": "string"}]
        self.metadata = replace(self.metadata, schema={**schema, "schema-id": schema["schema-id"] + 1, "fields": fields})

    def commit_elsewhere(self) -> None:
        """Appends a row to another branch."""
        values, row = self.foreign_row(99)
        self.commit(Change("append", [self._new_entry([values])]), {}, effect=lambda rows: [*rows, row], branch="other")


class _Library:
    """Stands in for IcebergLibrary."""

    def __init__(self, lake: IcebergLake, calls: Calls) -> None:
        self._lake = lake
        self._calls = calls

    def load(self, name: IcebergName, branch: str = MAIN) -> _Handle:
        with self._calls.call("load the table", READS):
            return _Handle(self._lake, self._calls)


class _Handle:
    """Stands in for IcebergHandle. ``metadata`` is that of the last refresh."""

    def __init__(self, lake: IcebergLake, calls: Calls) -> None:
        self._lake = lake
        self._calls = calls
        self.metadata = lake.metadata
        self.uuid = lake.uuid

    def read(self) -> Entry:
        with self._calls.call("read the metadata", READS):
            metadata = self.metadata = self._lake.metadata
        state: Entry = {
            "uuid": self.uuid,
            "location": PATH,
            "format": 3,
            "schema": metadata.schema,
            "spec": {"spec-id": 0, "fields": []},
            "data": f"{PATH}/data/x",
            "properties": dict(metadata.properties),
        }
        head = metadata.head()
        return state if head is None else state | {"snapshot": head.id, "sequence": head.sequence}

    def history(self, since: int) -> Entry:
        ancestors = self.metadata.ancestors()
        passes = since != 0 and any(snapshot.id == since for snapshot in ancestors)
        found: list[Entry] = []
        for snapshot in ancestors:
            if passes and snapshot.id == since:
                return {"snapshots": found, "end": "since"}
            found.append({"id": snapshot.id, "operation": snapshot.operation, "summary": snapshot.summary})
            if not passes and snapshot.has_offsets:
                return {"snapshots": found, "end": "offsets"}
        return {"snapshots": found, "end": "lost" if ancestors and ancestors[-1].parent is not None else "root"}

    def files(self, snapshot: int) -> list[Entry]:
        with self._calls.call("read the list of files", READS):
            return [dict(entry) for entry in self.metadata.snapshots[snapshot].files.values()]

    def changes(self, snapshot: int) -> Entry:
        with self._calls.call("read what a snapshot changed", READS):
            found = self.metadata.snapshots[snapshot]
            return {"added": found.added, "removed": found.removed, "deletes": found.deletes, "undeleted": found.undeleted}

    def remove_property(self, name: str) -> None:
        with self._calls.call("remove a property", WRITES):
            properties = {key: value for key, value in self._lake.metadata.properties.items() if key != name}
            self._lake.metadata = self.metadata = replace(self._lake.metadata, properties=properties)

    def set_property(self, name: str, value: str) -> None:
        with self._calls.call("set a property", WRITES):
            properties = {**self._lake.metadata.properties, name: value}
            self._lake.metadata = self.metadata = replace(self._lake.metadata, properties=properties)

    def commit(self, request: Mapping[str, Any]) -> Entry:
        asked = json.loads(json.dumps(request))
        try:
            with self._calls.call("commit to Iceberg", COMMITS):
                done = self._commit(asked)
        except CommitConflict:
            # As IcebergTables.java does, which looks for the commit by its ID.
            own = asked["summary"].get(COMMIT)
            snapshots = [one for one in self._lake.versions if isinstance(one, Snapshot)]
            found = next((one for one in snapshots if own and one.summary.get(COMMIT) == own), None)
            if found is None:
                raise
            done = found
        self.metadata = self._lake.metadata
        return {"snapshot": done.id, "parent": done.parent, "sequence": done.sequence, "summary": done.summary}

    def _commit(self, asked: Entry) -> Snapshot:
        added, removed = asked["add"], [entry["path"] for entry in asked["remove"]]
        kinds = {"rewrite": "replace", "delta": _operation_of_delta(asked)}
        kind = str(kinds.get(asked["kind"], asked["kind"]))
        change = Change(kind, added, removed, asked["add_vectors"], asked["remove_vectors"])
        effect: Effect | None = list if self._lake.is_operated else None
        return self._lake.commit(change, asked["summary"], validate=lambda metadata: _validate(metadata, asked), effect=effect)


def _drop_vector(files: Files, vector: Entry) -> None:
    path = vector["of"]
    before = files[path]["deletes"] if path in files else []
    kept = [v for v in before if (v["path"], v["offset"]) != (vector["path"], vector["offset"])]
    if len(kept) == len(before):
        raise CommitConflict(f"missing required files to delete: {vector['path']}")
    files[path] = {**files[path], "deletes": kept}


def _operation_of_delta(asked: Entry) -> str:
    if asked["add_vectors"] and not asked["add"]:
        return "delete"
    return "overwrite" if asked["add_vectors"] or asked["remove"] else "append"


def _validate(metadata: Metadata, asked: Entry) -> None:
    """What IcebergTables.java asks for. Raises CommitConflict."""
    ancestors = metadata.ancestors()
    _check_offsets(ancestors, int(asked["base"]), int(asked["expected"]))
    if metadata.schema["schema-id"] != asked["schema"]:
        raise CommitConflict("somebody has changed the columns")
    kind, base = asked["kind"], int(asked["base"])
    if kind == "append":
        return
    since: list[Snapshot] = []
    for snapshot in ancestors:
        if snapshot.id == base:
            break
        since.append(snapshot)
    else:
        if base:
            raise CommitConflict(f"cannot determine the history since snapshot {base}")
    removed = {entry["path"] for entry in asked["remove"]}
    if kind in ("delta", "overwrite") and any(s.added for s in since if s.operation in ("append", "overwrite")):
        raise CommitConflict("found conflicting files that can contain records matching true")
    if kind == "delta" and any(s.deletes for s in since if s.operation in ("overwrite", "delete")):
        raise CommitConflict("found new conflicting delete files")
    if any(vector["of"] in removed for s in since for vector in s.deletes if s.operation in ("overwrite", "delete")):
        raise CommitConflict("cannot commit, found new delete for replaced data file")
    marked = {vector["of"] for vector in asked["add_vectors"]} - {entry["path"] for entry in asked["add"]}
    gone = {path for s in since if s.operation in ("overwrite", "replace", "delete") for path in s.removed}
    if kind == "delta" and not marked.isdisjoint(gone):
        raise CommitConflict("cannot commit, missing data files")


def _check_offsets(ancestors: Sequence[Snapshot], base: int, expected: int) -> None:
    """UnmovedOffsets."""
    for snapshot in ancestors:
        if snapshot.id in (base, expected):
            return
        replaces = effect_of({"operation": snapshot.operation, "summary": snapshot.summary}) & effects.Effect.MOVES_HISTORY
        if replaces or snapshot.has_offsets:
            break
    else:
        if not expected:
            return
    raise CommitConflict("another task has committed offsets")
