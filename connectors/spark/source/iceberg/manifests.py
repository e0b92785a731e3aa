"""Reads the manifests of a snapshot: which data files and delete files it has, and which it added and removed.

Format: "Manifests" and "Manifest Lists" of Iceberg's specification. Avro is decoded by PyIceberg; only the fields that are needed
are, because the bounds of columns make up most of a manifest.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import OptionReader, Reader, StructReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.typedef import Record
from pyiceberg.types import StructType

from connect.errors import ConnectError
from connectors.spark.source.errors import UnsupportedTableError
from connectors.spark.source.iceberg.metadata import Snapshot
from connectors.spark.tables.files.live_files import reading
from connectors.spark.tables.iceberg.file_format import IcebergFormat
from connectors.spark.tables.staging import path_in_file_system

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
PARQUET, PUFFIN = "PARQUET", "PUFFIN"
_EXISTING, _ADDED, _DELETED = 0, 1, 2
_MANIFEST = {500: "path", 502: "spec", 515: "sequence", 503: "snapshot", 517: "content"}
_ENTRY = {0: "status", 3: "sequence", 2: "file"}
_FILE = {
    134: "content",
    100: "path",
    101: "format",
    102: "partition",
    103: "rows",
    135: "equality_ids",
    143: "of",
    144: "offset",
    145: "length",
}
_DELETE_FILE = {**_FILE, 125: "lower", 128: "upper"}
FILE_PATH_ID = 2147483546
"""The ID of the column ``file_path`` in files of position deletes."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A data file or a delete file of the table."""

    path: str
    content: int
    format: str
    rows: int
    sequence: int
    """The data sequence number: which deletes apply depends on it."""
    spec: int
    partition: tuple[Any, ...]
    of: str | None = None
    """The only data file of a delete file; None if it may have several."""
    offset: int = 0
    length: int = 0
    """Where a deletion vector is in its file."""
    equality_ids: tuple[int, ...] = ()

    @property
    def is_data(self) -> bool:
        return self.content == DATA

    @property
    def is_vector(self) -> bool:
        return self.format == PUFFIN

    @property
    def key(self) -> tuple[str, int]:
        """What identifies it: a Puffin file has several vectors."""
        return self.path, self.offset


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """What a snapshot adds and removes, in the order of its manifests."""

    added: Sequence[FileEntry]
    removed: Sequence[FileEntry]


@dataclass(frozen=True, slots=True)
class ManifestReader:
    """Reads the manifests of one table. Raises UnreadableFile if one is missing or damaged."""

    files: fs.FileSystem
    name: str
    """Of the table, in messages."""

    def changes(self, snapshot: Snapshot) -> SnapshotFiles:
        """The files that a snapshot adds and removes; moved entries are neither."""
        added, removed = [], []
        for manifest in self._manifests(snapshot):
            if manifest["snapshot"] != snapshot.id:
                continue
            # A manifest that a snapshot writes has only changes of its own, and entries of older ones as existing.
            for status, entry in self._entries(manifest):
                if status == _ADDED:
                    added.append(entry)
                elif status == _DELETED:
                    removed.append(entry)
        return SnapshotFiles(added, removed)

    def live(self, snapshot: Snapshot) -> Iterator[FileEntry]:
        """All files of a snapshot, delete files first."""
        manifests = self._manifests(snapshot)
        for content in (1, 0):
            for manifest in manifests:
                if (manifest.get("content") or 0) == content:
                    yield from (entry for status, entry in self._entries(manifest) if status != _DELETED)

    def has_deletes(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot has manifests of delete files, or removed the last of their files."""
        return any(manifest.get("content") for manifest in self._manifests(snapshot))

    def _manifests(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        if not snapshot.manifest_list:
            raise UnsupportedTableError(
                f"snapshot {snapshot} of table {self.name} has no manifest list, as tables of very old writers have. Set "
                "source.start to a later version, or expire the snapshot with Spark (CALL <catalog>.system.expire_snapshots)"
            )
        return list(self._read(snapshot.manifest_list, _MANIFEST))

    def _entries(self, manifest: dict[str, Any]) -> Iterator[tuple[int, FileEntry]]:
        names = _DELETE_FILE if manifest.get("content") else _FILE
        for row in self._read(manifest["path"], _ENTRY, names):
            file = row["file"]
            sequence = row.get("sequence")
            of = file.get("of") or _only_path(file)
            entry = FileEntry(
                path=file["path"],
                content=file.get("content") or DATA,
                format=str(file["format"]).upper(),
                rows=file["rows"],
                # An added file has the number of its manifest, which its writer did not know yet.
                sequence=(manifest.get("sequence") or 0) if sequence is None else sequence,
                spec=manifest["spec"],
                partition=file["partition"],
                of=of,
                offset=file.get("offset") or 0,
                length=file.get("length") or 0,
                equality_ids=tuple(file.get("equality_ids") or ()),
            )
            yield row["status"], entry

    def _read(self, location: str, names: Mapping[int, str], inner: Mapping[int, str] | None = None) -> Iterator[dict[str, Any]]:
        path = path_in_file_system(location)
        with reading(path, IcebergFormat.restore_hint), self.files.open_input_file(path) as stream:
            content = bytes(stream.read())
        try:
            with AvroFile[Any](_Content(content)) as avro:
                avro.reader, labels = _chosen(avro.schema.as_struct(), names, inner or {})
                for record in avro:
                    yield _named(record, labels)
        except (ValueError, TypeError, KeyError, EOFError, pa.ArrowException) as e:
            raise ConnectError(
                f"the manifest {location} of table {self.name} cannot be read: {e}. Restore the file from a backup"
            ) from e


def _only_path(file: dict[str, Any]) -> str | None:
    """The data file of a file of position deletes whose bounds have only one."""
    lower = (file.get("lower") or {}).get(FILE_PATH_ID)
    upper = (file.get("upper") or {}).get(FILE_PATH_ID)
    return lower.decode() if lower is not None and lower == upper else None


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a file as PyIceberg opens one."""

    content: bytes

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.content)


_Labels = Sequence[tuple[str, Any]]
"""Of each member of a record: its name, and the labels of its own members if they are read by name too."""


def _chosen(struct: StructType, names: Mapping[int, str], inner: Mapping[int, str]) -> tuple[StructReader, _Labels]:
    """Reads these members of a struct and skips the others. ``inner``: members of a data file."""
    readers: list[tuple[int | None, Reader]] = []
    labels: list[tuple[str, Any]] = []
    fields = []
    for field in struct.fields:
        name, within = names.get(field.field_id), None
        if name == "file":
            reader, within = _chosen(field.field_type, inner, {})
        else:
            reader = construct_reader(field.field_type)
        readers.append((None if name is None else len(labels), reader if field.required else OptionReader(reader)))
        if name is not None:
            fields.append(field)
            labels.append((name, within))
    return StructReader(tuple(readers), Record, StructType(*fields)), labels


def _named(record: Any, labels: _Labels) -> dict[str, Any]:
    found = {}
    for place, (name, within) in enumerate(labels):
        value = record[place]
        if within is not None:
            value = _named(value, within)
        elif name == "partition":
            # As a text, because NaN does not equal itself.
            value = tuple("NaN" if value[i] != value[i] else value[i] for i in range(len(value)))
        found[name] = value
    return found
