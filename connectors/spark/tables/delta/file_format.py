"""Data files as Delta's log describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from connectors.spark.tables.delta import deletion_vectors
from connectors.spark.tables.delta.log import Action
from connectors.spark.tables.files.file_columns import FileColumns
from connectors.spark.tables.files.live_files import Entry, LiveFile, Vector, reading
from connectors.spark.tables.files.row_bitmaps import Rows


class DeltaFormat:
    """The files of the table at ``folder``. Entries are ``add`` and ``remove`` actions; their paths are URL-encoded, relative to
    the table or absolute."""

    restore_hint = "(RESTORE TABLE); if VACUUM ran without retention, no version may have it any more"

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def path(self, entry: Entry) -> str:
        return str(entry["path"])

    def vector(self, entry: Entry) -> Vector | None:
        found: Vector | None = entry.get("deletionVector")
        return found

    def describe(self, number: int, entry: Entry) -> LiveFile:
        values: Mapping[str, str | None] = entry.get("partitionValues") or {}
        return LiveFile(
            number,
            {k: v for k, v in entry.items() if k not in ("deletionVector", "dataChange")},
            str(entry["path"]),
            int(entry["size"]),
            _row_count(entry),
            created=int(entry.get("modificationTime", 0)),
            values=values,
            partition=frozenset(values.items()),
            is_clustered=entry.get("clusteringProvider") is not None,
        )

    def location(self, path: str) -> str:
        return self._locate(unquote(path))

    def read_vector(self, files: fs.FileSystem, vector: Vector, read: dict[str, bytes]) -> Rows:
        place = deletion_vectors.vector_location(vector)
        if place is None:
            return deletion_vectors.inline_vector(vector)
        path = self._locate(place[0])
        with reading(path, self.restore_hint):
            if path not in read:
                with files.open_input_file(path) as file:
                    read[path] = bytes(file.read())
            return deletion_vectors.read_vector(read[path], vector)

    def columns(self, types: Mapping[str, pa.DataType]) -> FileColumns:
        return FileColumns.by_name(types)

    def _locate(self, path: str) -> str:
        if "://" in path:
            return path.split("://", 1)[1]
        if path.startswith("file:"):
            return path.removeprefix("file:")
        return path if path.startswith("/") else f"{self._folder}/{path}"


def _row_count(entry: Entry) -> int:
    """The number of rows in the file from its statistics; -1 when they do not say."""
    stats = entry.get("stats")
    return int(json.loads(stats).get("numRecords", -1)) if stats else -1


def add_action(file: LiveFile, vector: Vector | None, *, data_change: bool = True) -> Action:
    """The action that puts a file into the table with a deletion vector."""
    action = {**file.entry, "dataChange": data_change}
    if vector is not None:
        action["deletionVector"] = vector
        action["stats"] = _with_loose_bounds(file.entry.get("stats"), file.rows)
    return action


def remove_action(file: LiveFile, timestamp_ms: int, *, data_change: bool = True) -> Action:
    """The action that removes a file with its present deletion vector."""
    action = {
        "path": file.path,
        "deletionTimestamp": timestamp_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": file.values,
        "size": file.size_bytes,
    }
    if file.vector is not None:
        action["deletionVector"] = file.vector
    return action


def _with_loose_bounds(stats: str | None, rows: int) -> str:
    """Statistics that remain valid when rows are deleted: bounds that need not be reached."""
    document = json.loads(stats) if stats else {"numRecords": rows}
    document["tightBounds"] = False
    return json.dumps(document, separators=(",", ":"))
