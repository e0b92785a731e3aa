"""Writes small Iceberg tables, snapshot by snapshot, and knows their rows at every version.

PyIceberg writes neither delete files nor format version 3, so the manifests are written here, with its schemas and its Avro.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, data_file_with_partition, manifest_entry_schema_with_data_file
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StructType

from connectors.spark.tables.files.file_columns import FIELD_ID
from connectors.spark.tables.iceberg.puffin import encode_puffin
from connectors.spark.tables.iceberg.types import file_schema
from tests.support.write_at_once import write_at_once

Row = dict[str, Any]
Matches = Callable[[Row], bool]
EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITIONS, EQUALITY = 0, 1, 2
FIRST_ID = 10**15
"""IDs of snapshots are far higher than versions."""
ID_AND_TEXT = (
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "v", "required": False, "type": "string"},
)


@dataclass(frozen=True)
class File:
    """An entry of a manifest."""

    path: str
    content: int
    rows: int
    sequence: int
    format: str = "PARQUET"
    of: str | None = None
    offset: int | None = None
    length: int | None = None
    equality_ids: tuple[int, ...] = ()
    partition: tuple[Any, ...] = ()
    spec: int = 0


@dataclass(frozen=True)
class Manifest:
    path: str
    content: int
    snapshot: int
    sequence: int
    entries: tuple[tuple[int, File], ...]

    @property
    def live(self) -> list[File]:
        return [file for status, file in self.entries if status != DELETED]


@dataclass
class State:
    """The table at a snapshot."""

    manifests: list[Manifest] = field(default_factory=list)
    files: dict[str, list[Row]] = field(default_factory=dict)
    deleted: dict[str, set[int]] = field(default_factory=dict)

    def copy(self) -> State:
        return State(list(self.manifests), dict(self.files), {path: set(rows) for path, rows in self.deleted.items()})

    def live(self, path: str) -> list[Row]:
        return [row for i, row in enumerate(self.files[path]) if i not in self.deleted[path]]

    def rows(self) -> list[Row]:
        return [row for path in self.files for row in self.live(path)]


class IcebergWriter:
    """A table in a directory with the columns ``fields`` (in Iceberg's JSON). Every method that changes rows commits a snapshot.

    Rows are deleted by deletion vectors, which need format version 3, or files of position deletes.
    """

    def __init__(
        self,
        folder: Path,
        fields: Sequence[Row] = ID_AND_TEXT,
        *,
        version: int = 3,
        spec: Sequence[Row] = (),
        table_id: str = "00000000-0000-0000-0000-000000000001",
        group_rows: int = 3,
    ) -> None:
        """``spec``: identity fields of the partition spec; ``type`` is that of PyIceberg, by default of integers."""
        self.folder = folder
        self.schemas = [self._schema(0, fields)]
        self.spec = list(spec)
        self._spec_id = 0
        self.properties: dict[str, str] = {}
        self.state = State()
        self.snapshots: list[dict[str, Any]] = []
        self.states: dict[int, State] = {0: State()}
        """By version."""
        self._format = version
        self._id = table_id
        self._group_rows = group_rows
        self._numbers = itertools.count(1)
        self._sequence = 0
        self._current: int | None = None
        self._metadata_version = 0
        (folder / "metadata").mkdir(parents=True)
        (folder / "data").mkdir()
        self.write_metadata()

    @property
    def version(self) -> int:
        """The version of the newest snapshot."""
        return self._sequence

    @property
    def current_id(self) -> int:
        assert self._current is not None
        return self._current

    def rows_at(self, version: int) -> list[Row]:
        return self.states[version].rows()

    def rows(self) -> list[Row]:
        return self.state.rows()

    # --- snapshots

    def insert(self, *parts: Sequence[Row]) -> IcebergWriter:
        return self.commit("append", added=[self.data(rows) for rows in parts])

    def delete(self, matches: Matches) -> IcebergWriter:
        """Deletes rows by vectors or positions, and files whose rows are all deleted."""
        return self.commit("delete", *self._deletes(matches))

    def update(self, matches: Matches, change: Callable[[Row], Row]) -> IcebergWriter:
        """Replaces rows: delete files, and a new data file."""
        found = [change(row) for row in self.rows() if matches(row)]
        added, removed = self._deletes(matches)
        return self.commit("overwrite", [*added, *([self.data(found)] if found else [])], removed)

    def rewrite(self, matches: Matches, change: Callable[[Row], Row | None]) -> IcebergWriter:
        """Changes or deletes rows by writing new files (copy-on-write)."""
        added: list[File] = []
        removed: list[File] = []
        for path in list(self.state.files):
            rows = self.state.live(path)
            if not any(map(matches, rows)):
                continue
            kept = [new for row in rows if (new := change(row) if matches(row) else row) is not None]
            removed += self._remove(path)
            if kept:
                added.append(self.data(kept))
        return self.commit("overwrite", added, removed)

    def optimize(self) -> IcebergWriter:
        """Rewrites all files into one, without a change of rows."""
        rows = self.rows()
        removed = [file for path in list(self.state.files) for file in self._remove(path)]
        return self.commit("replace", [self.data(rows)] if rows else [], removed)

    def delete_equal(self, names: Sequence[str], values: Sequence[Row], insert: Sequence[Row] = ()) -> IcebergWriter:
        """Deletes all rows that have these values, and inserts rows in the same snapshot, as Flink does."""
        by_name = {f["name"]: f["id"] for f in self._fields}
        path = self._write([{n: row.get(n) for n in names} for row in values], names)
        delete = File(path, EQUALITY, len(values), self._sequence + 1, equality_ids=tuple(by_name[n] for n in names))
        if self._spec_id:
            delete = replace(delete, partition=(None,) * len(self.spec), spec=self._spec_id)
        wanted = {tuple(row.get(n) for n in names) for row in values}
        for file, rows in self.state.files.items():
            self.state.deleted[file] |= {i for i, row in enumerate(rows) if tuple(row.get(n) for n in names) in wanted}
        return self.commit("overwrite", [delete, *([self.data(insert)] if insert else [])])

    def commit(self, operation: str, added: Iterable[File] = (), removed: Iterable[File] = ()) -> IcebergWriter:
        """Commits a snapshot. ``added`` and ``removed`` are in the state already."""
        number = self._sequence + 1
        snapshot = FIRST_ID + number * 1009 % 997
        gone = {(file.path, file.offset) for file in removed}
        kept: list[Manifest] = []
        for manifest in self.state.manifests:
            if any((file.path, file.offset) in gone for file in manifest.live):
                entries = [(DELETED if (f.path, f.offset) in gone else EXISTING, f) for f in manifest.live]
                kept.append(self._manifest(manifest.content, snapshot, number, entries))
            elif manifest.live:
                kept.append(manifest)
        for content in (0, 1):
            entries = [(ADDED, file) for file in added if (file.content != DATA) == bool(content)]
            if entries:  # of one partition spec
                kept.insert(0, self._manifest(content, snapshot, number, entries))
        self.state.manifests = kept
        self._sequence = number
        self.snapshots.append(
            {
                "snapshot-id": snapshot,
                **({} if self._current is None else {"parent-snapshot-id": self._current}),
                "sequence-number": number,
                "timestamp-ms": 1_700_000_000_000 + number,
                "summary": {"operation": operation},
                "manifest-list": self._manifest_list(snapshot),
                "schema-id": len(self.schemas) - 1,
                **({"first-row-id": 0, "added-rows": 0} if self._format == 3 else {}),
            }
        )
        self._current = snapshot
        self.states[number] = self.state.copy()
        self.write_metadata()
        return self

    # --- the table

    def evolve(self, *fields: Row) -> IcebergWriter:
        """Replaces the columns, without a snapshot. Rows follow the IDs of fields."""
        old = {f["id"]: f for f in self._fields}
        self.schemas.append(self._schema(len(self.schemas), fields))
        for path, rows in self.state.files.items():
            self.state.files[path] = [
                {f["name"]: row.get(old[f["id"]]["name"]) if f["id"] in old else f.get("initial-default") for f in fields}
                for row in rows
            ]
        self.write_metadata()
        return self

    def drop_partition_fields(self) -> IcebergWriter:
        """Leaves void transforms in a new partition spec, as tables of version 1 do."""
        self._spec_id = 1
        self.write_metadata()
        return self

    def roll_back(self, version: int) -> IcebergWriter:
        """Makes an older snapshot the current one."""
        self._current = self._at(version)["snapshot-id"]
        self.state = self.states[version].copy()
        self.write_metadata()
        return self

    def expire(self, before: int) -> IcebergWriter:
        """Removes snapshots before a version, and files that no other one needs."""
        gone = [one for one in self.snapshots if one["sequence-number"] < before]
        self.snapshots = [one for one in self.snapshots if one not in gone]
        needed = {m.path for one in self.snapshots for m in self.states[one["sequence-number"]].manifests}
        live = {f.path for one in self.snapshots for m in self.states[one["sequence-number"]].manifests for f in m.live}
        for one in gone:
            Path(one["manifest-list"]).unlink()
            for manifest in self.states[one["sequence-number"]].manifests:
                for file in manifest.live:
                    if file.path not in live:
                        Path(file.path).unlink(missing_ok=True)
                if manifest.path not in needed:
                    Path(manifest.path).unlink(missing_ok=True)
        self.write_metadata()
        return self

    def write_metadata(self) -> None:
        current = {} if self._current is None else {"main": {"snapshot-id": self._current, "type": "branch"}}
        fields = self._fields
        specs = [
            [{**{k: v for k, v in one.items() if k != "type"}, "transform": transform} for one in self.spec]
            for transform in ("identity", "void")
        ]
        node = {
            "format-version": self._format,
            "table-uuid": self._id,
            "location": str(self.folder),
            "last-sequence-number": self._sequence,
            "last-updated-ms": 1_700_000_000_000,
            "last-column-id": max(f["id"] for f in fields),
            "schemas": self.schemas,
            "current-schema-id": len(self.schemas) - 1,
            "partition-specs": [{"spec-id": number, "fields": specs[number]} for number in range(self._spec_id + 1)],
            "default-spec-id": self._spec_id,
            "last-partition-id": 999 + len(self.spec),
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": self.properties,
            "current-snapshot-id": self._current,
            "snapshots": self.snapshots,
            "refs": current,
            **({"next-row-id": 0} if self._format == 3 else {}),
        }
        self._metadata_version += 1
        write_at_once(self.metadata_file(), json.dumps(node))
        write_at_once(self.folder / "metadata" / "version-hint.text", str(self._metadata_version))

    def metadata_file(self) -> Path:
        return self.folder / "metadata" / f"v{self._metadata_version}.metadata.json"

    @property
    def _fields(self) -> list[Row]:
        fields: list[Row] = self.schemas[-1]["fields"]
        return fields

    def _schema(self, number: int, fields: Sequence[Row]) -> dict[str, Any]:
        return {"type": "struct", "schema-id": number, "fields": list(fields)}

    def _at(self, version: int) -> dict[str, Any]:
        return next(one for one in self.snapshots if one["sequence-number"] == version)

    # --- files

    def data(self, rows: Sequence[Row], names: Sequence[str] | None = None) -> File:
        """A data file with these rows, in one partition. ``names``: the columns that are in the file."""
        complete = [{f["name"]: row.get(f["name"]) for f in self._fields} for row in rows]
        path = self._write(complete, names or [f["name"] for f in self._fields])
        self.state.files[path], self.state.deleted[path] = complete, set()
        partition = tuple(None if self._spec_id else complete[0][one["name"]] for one in self.spec)
        return File(path, DATA, len(rows), self._sequence + 1, partition=partition, spec=self._spec_id)

    def deletes_of(self, path: str) -> list[File]:
        """The delete files that belong to a data file alone."""
        return [file for m in self.state.manifests if m.content for file in m.live if file.of == path]

    def positions(self, places: Sequence[tuple[str, int]], of: str | None = None, partition: tuple[Any, ...] = ()) -> File:
        """A file of position deletes."""
        path = self._path("parquet")
        schema = pa.schema(
            [
                pa.field("file_path", pa.string(), False, {FIELD_ID: b"2147483546"}),
                pa.field("pos", pa.int64(), False, {FIELD_ID: b"2147483545"}),
            ]
        )
        pq.write_table(pa.table([[p for p, _ in places], [n for _, n in places]], schema=schema), path)
        return File(path, POSITIONS, len(places), self._sequence + 1, of=of, partition=partition)

    def _deletes(self, matches: Matches) -> tuple[list[File], list[File]]:
        added: list[File] = []
        removed: list[File] = []
        vectors = []
        for path, rows in list(self.state.files.items()):
            gone = {i for i, row in enumerate(rows) if matches(row)} - self.state.deleted[path]
            if not gone:
                continue
            if len(self.state.deleted[path] | gone) == len(rows):
                removed += self._remove(path)
                continue
            self.state.deleted[path] |= gone
            if self._format == 3:
                removed += [file for file in self.deletes_of(path) if file.format == "PUFFIN"]
                vectors.append((path, np.array(sorted(self.state.deleted[path]), np.int64)))
            else:
                partition = self._entry(path).partition
                added.append(self.positions([(path, i) for i in sorted(gone)], partition=partition))
        if vectors:
            content, places = encode_puffin(vectors)
            puffin = self._path("puffin")
            Path(puffin).write_bytes(content)
            for (path, gone_rows), (offset, length) in zip(vectors, places, strict=True):
                delete = File(puffin, POSITIONS, len(gone_rows), self._sequence + 1, "PUFFIN", path, offset, length)
                added.append(replace(delete, partition=self._entry(path).partition))
        return added, removed

    def _entry(self, path: str) -> File:
        return next(file for m in self.state.manifests for file in m.live if file.path == path)

    def _remove(self, path: str) -> list[File]:
        found = [self._entry(path), *self.deletes_of(path)]
        del self.state.files[path], self.state.deleted[path]
        return found

    def _path(self, ending: str) -> str:
        return str(self.folder / "data" / f"{next(self._numbers):05d}.{ending}")

    def _write(self, rows: Sequence[Row], names: Sequence[str]) -> str:
        path = self._path("parquet")
        schema = file_schema(self.schemas[-1], list(names))
        table = pa.table([pa.array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)
        pq.write_table(table, path, row_group_size=self._group_rows)
        return path

    # --- manifests

    def _manifest(self, content: int, snapshot: int, sequence: int, entries: Sequence[tuple[int, File]]) -> Manifest:
        path = str(self.folder / "metadata" / f"{next(self._numbers):05d}-m.avro")
        types = [
            NestedField(1000 + i, one["name"], one.get("type", LongType()), required=False) for i, one in enumerate(self.spec)
        ]
        file_type = data_file_with_partition(StructType(*types), 3)
        schema = manifest_entry_schema_with_data_file(3, file_type)
        records = []
        for status, file in entries:
            values = {
                "content": file.content, "file_path": file.path, "file_format": file.format, "partition": Record(*file.partition),
                "record_count": file.rows, "file_size_in_bytes": Path(file.path).stat().st_size,
                "equality_ids": list(file.equality_ids) or None, "referenced_data_file": file.of,
                "content_offset": file.offset, "content_size_in_bytes": file.length,
            }  # fmt: skip
            data_file = Record(*(values.get(f.name) for f in file_type.fields))
            own = None if status == ADDED else file.sequence
            entry = {"status": status, "snapshot_id": snapshot, "sequence_number": own, "data_file": data_file}
            entry["file_sequence_number"] = own
            records.append(Record(*(entry[f.name] for f in schema.fields)))
        self._avro(path, schema, "manifest_entry", records)
        return Manifest(path, content, snapshot, sequence, tuple(entries))

    def _manifest_list(self, snapshot: int) -> str:
        path = str(self.folder / "metadata" / f"snap-{snapshot}.avro")
        schema = MANIFEST_LIST_FILE_SCHEMAS[3]
        records = []
        for one in self.state.manifests:
            values = {
                "manifest_path": one.path, "manifest_length": Path(one.path).stat().st_size,
                "partition_spec_id": one.entries[0][1].spec,
                "content": one.content, "sequence_number": one.sequence, "min_sequence_number": 0,
                "added_snapshot_id": one.snapshot,
            }  # fmt: skip
            records.append(Record(*(values.get(f.name, 0 if f.required else None) for f in schema.fields)))
        self._avro(path, schema, "manifest_file", records)
        return path

    def _avro(self, path: str, schema: Any, name: str, records: Sequence[Record]) -> None:
        with AvroOutputFile(PyArrowFileIO().new_output(path), schema, name, None, {"format-version": "3"}) as file:
            file.write_block(records)
