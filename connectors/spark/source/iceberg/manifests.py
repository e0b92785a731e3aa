"""Reads the manifests of a snapshot: which data files and delete files it has, and which it added and removed.

Format: "Manifests" and "Manifest Lists" of Iceberg's specification. Avro is decoded by PyIceberg; only the fields that are needed
are, because the bounds of columns make up most of a manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from pyarrow import fs
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import OptionReader, Reader, StructReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.typedef import Record
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from connect.errors import ConnectError
from connectors.spark.source.errors import UnsupportedTableError
from connectors.spark.source.iceberg.metadata import Json, Snapshot, divides_rows
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
_LIST, _OF_DATA, _OF_DELETES = "manifest list", "data files", "delete files"
_NAMES: Mapping[str, tuple[Mapping[int, str], Mapping[int, str]]] = {
    _LIST: (_MANIFEST, {}),
    _OF_DATA: (_ENTRY, _FILE),
    _OF_DELETES: (_ENTRY, _DELETE_FILE),
}
"""By the content of an Avro file: the fields that are read of a record, and of the data file in it."""
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
    is_global: bool = False
    """Whether it is a file of equality deletes for the whole table, because its partition spec divides nothing."""

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
    specs: Mapping[int, Json]
    """The partition specs of the table."""

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
        return list(self._read(snapshot.manifest_list, _LIST))

    def _entries(self, manifest: dict[str, Any]) -> Iterator[tuple[int, FileEntry]]:
        divides = divides_rows(self.specs.get(manifest["spec"], {}))
        for row in self._read(manifest["path"], _OF_DELETES if manifest.get("content") else _OF_DATA):
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
                is_global=file.get("content") == EQUALITY_DELETES and not divides,
            )
            yield row["status"], entry

    def _read(self, location: str, content: str) -> Iterator[dict[str, Any]]:
        path = path_in_file_system(location)
        with reading(path, IcebergFormat.restore_hint), self.files.open_input_file(path) as stream:
            data = bytes(stream.read())
        try:
            yield from _records(data, content)
        except (ValueError, TypeError, KeyError, EOFError) as e:
            raise ConnectError(
                f"the manifest {location} of table {self.name} cannot be read: {e}. Restore the file from a backup"
            ) from e


def _only_path(file: dict[str, Any]) -> str | None:
    """The data file of a file of position deletes whose bounds have only one."""
    lower = (file.get("lower") or {}).get(FILE_PATH_ID)
    upper = (file.get("upper") or {}).get(FILE_PATH_ID)
    return lower.decode() if lower is not None and lower == upper else None


_Labels = Sequence[tuple[str, Any]]
"""Of each member of a record: its name, and the labels of its own members if they are read by name too."""


def _records(data: bytes, content: str) -> Iterator[dict[str, Any]]:
    """The records of an Avro file, as far as they are needed for its content."""
    decoder = new_decoder(data)
    header = _header_reader().read(decoder)
    codec = header.compression_codec()
    reader, labels = _compiled(header.meta["avro.schema"], content)
    while decoder.tell() < len(data):
        count = decoder.read_int()
        block = decoder.read_bytes()
        if decoder.read(SYNC_SIZE) != header.sync:
            raise ValueError("the end of a block is not where it should be")
        inner = new_decoder(block if codec is None else codec.decompress(block))
        for _ in range(count):
            yield _named(reader.read(inner), labels)


@cache
def _header_reader() -> Reader:
    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})


@lru_cache(maxsize=64)
def _compiled(schema: str, content: str) -> tuple[StructReader, _Labels]:
    """How records of a schema are read. Building that takes much longer than reading the manifest of a small commit."""
    struct = AvroSchemaConversion().avro_to_iceberg(json.loads(schema)).as_struct()
    return _chosen(struct, *_NAMES[content])


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
